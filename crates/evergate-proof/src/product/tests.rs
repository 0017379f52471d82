//! What each product says of itself, and what it is told.

use std::collections::BTreeSet;
use std::path::Path;

use super::adapter::{Plan, Site};
use super::*;

fn upstream(name: &str, at: Address) -> Upstream {
    Upstream { name: name.to_owned(), at }
}

fn http(name: &str) -> Upstream {
    upstream(name, Address::Http("http://127.0.0.1:9/mcp".to_owned()))
}

fn sse(name: &str) -> Upstream {
    upstream(name, Address::Sse("http://127.0.0.1:9/sse".to_owned()))
}

fn stdio(name: &str) -> Upstream {
    let mut program = Program::new("/bin/server");
    program.args(["--name", "it's"]).env("COLOUR", "blue");
    upstream(name, Address::Stdio(program))
}

/// Plans without anything being installed or started.
fn plan(product: Product, upstreams: &[Upstream], folder: &Path) -> Plan {
    let places = Places { evergate: "/bin/evergate".into(), peers: "/peers".into() };
    product.supports(upstreams).unwrap();
    (product.adapter().plan)(&Site { upstreams, places: &places, folder, call_timeout: None })
        .unwrap()
}

fn mcp_products() -> impl Iterator<Item = Product> {
    Product::ALL.iter().copied().filter(|product| product.understands_mcp())
}

#[test]
fn every_product_has_a_name_of_its_own_by_which_it_is_found() {
    let names: BTreeSet<&str> = Product::ALL.iter().map(|product| product.name()).collect();
    assert_eq!(names.len(), Product::ALL.len());
    for product in Product::ALL {
        assert_eq!(product.name().parse(), Ok(*product));
    }
    let unknown = "nothing".parse::<Product>().unwrap_err();
    assert!(unknown.starts_with("no product is called nothing; there are direct, evergate, "));
}

#[test]
fn every_setting_of_somebody_else_has_a_page_that_explains_it() {
    for product in Product::ALL {
        let ours = matches!(product, Product::Direct | Product::Evergate);
        assert_eq!(product.docs().is_empty(), ours, "{product}");
        assert!(product.docs().iter().all(|choice| choice.url.starts_with("https://")));
    }
}

#[test]
fn no_product_stands_in_front_of_nothing() {
    for product in Product::ALL {
        assert!(product.supports(&[]).is_err(), "{product}");
    }
}

#[test]
fn what_is_supported_is_what_is_known_to_work() {
    let supported = |upstreams: &[Upstream]| -> Vec<&str> {
        let all = Product::ALL.iter().filter(|product| product.supports(upstreams).is_ok());
        all.map(|product| product.name()).collect()
    };
    let web = [
        "direct",
        "evergate",
        "nginx",
        "haproxy",
        "fastmcp",
        "contextforge",
        "mcp-hub",
        "mcp-proxy-pypi",
        "supergateway",
        "mcp-remote",
    ];
    assert_eq!(supported(&[http("a")]), [&web[..], &["mcp-proxy-crates"]].concat());
    assert_eq!(supported(&[sse("a")]), web);
    let stdio_too = [
        "direct",
        "evergate",
        "fastmcp",
        "contextforge",
        "mcp-hub",
        "mcp-proxy-pypi",
        "mcp-proxy-npm",
        "supergateway",
        "mcp-proxy-crates",
    ];
    assert_eq!(supported(&[stdio("a")]), stdio_too);
    let many = ["evergate", "fastmcp", "contextforge", "mcp-hub"];
    assert_eq!(supported(&[http("a"), sse("b"), stdio("c")]), many);
    assert_eq!(Product::McpProxyNpm.supports(&[http("a")]), Err("stdio servers only"));
    assert_eq!(Product::Nginx.supports(&[stdio("a")]), Err("HTTP servers only"));
    assert_eq!(Product::McpRemote.supports(&[http("a"), http("b")]), Err("one server only"));
}

#[test]
fn tools_are_called_what_each_product_calls_them() {
    let folder = tempfile::tempdir().unwrap();
    let name = |product: Product, upstreams: &[Upstream]| {
        plan(product, upstreams, folder.path()).naming.tool("a", "rpc_error")
    };
    let (one, two) = ([http("a")], [http("a"), http("b")]);
    assert_eq!(name(Product::Direct, &one), "rpc_error");
    assert_eq!(name(Product::Evergate, &one), "a__rpc_error");
    assert_eq!(name(Product::FastMcp, &one), "rpc_error");
    assert_eq!(name(Product::FastMcp, &two), "a_rpc_error");
    assert_eq!(name(Product::ContextForge, &one), "a-rpc-error");
    assert_eq!(name(Product::McpHub, &two), "a__rpc_error");
    assert_eq!(name(Product::McpRemote, &one), "rpc_error");
}

#[test]
fn configurations_name_every_server() {
    let folder = tempfile::tempdir().unwrap();
    let upstreams = [http("web"), sse("old"), stdio("child")];
    let written = |product: Product, file: &str| -> Value {
        plan(product, &upstreams, folder.path());
        let text = std::fs::read(folder.path().join(file)).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["mcpServers"].take()
    };
    let child = json!({
        "command": "/bin/server",
        "args": ["--name", "it's"],
        "env": { "COLOUR": "blue" },
    });
    let (web, old) = ("http://127.0.0.1:9/mcp", "http://127.0.0.1:9/sse");
    assert_eq!(
        written(Product::Evergate, "evergate.json"),
        json!({
            "web": { "type": "http", "url": web },
            "old": { "type": "sse", "url": old },
            "child": child,
        })
    );
    assert_eq!(
        written(Product::FastMcp, "mcp.json"),
        json!({
            "web": { "transport": "http", "url": web },
            "old": { "transport": "sse", "url": old },
            "child": child,
        })
    );
    assert_eq!(
        written(Product::McpHub, "servers.json"),
        json!({ "web": { "url": web }, "old": { "url": old }, "child": child })
    );
}

#[test]
fn reverse_proxies_keep_the_path_and_pass_on_to_the_server() {
    let folder = tempfile::tempdir().unwrap();
    for (product, file, line) in [
        (Product::Nginx, "nginx.conf", "        server 127.0.0.1:9;\n"),
        (Product::Haproxy, "haproxy.cfg", "    server server 127.0.0.1:9\n"),
    ] {
        let plan = plan(product, &[sse("old")], folder.path());
        let port = &plan.services[0].port;
        let Address::Sse(url) = &plan.address else { panic!("{product}: {:?}", plan.address) };
        assert_eq!(*url, format!("http://127.0.0.1:{port}/sse"));
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.contains(line), "{text}");
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    }
}

#[test]
fn a_stdio_server_keeps_its_arguments_and_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    for product in [Product::McpProxyPypi, Product::McpProxyNpm] {
        let plan = plan(product, &[stdio("child")], folder.path());
        let program = &plan.services[0].program;
        assert!(
            program.args.ends_with(&["--", "/bin/server", "--name", "it's"].map(str::to_owned))
        );
        assert!(program.env.contains(&("COLOUR".to_owned(), "blue".to_owned())), "{product}");
    }
    for product in [Product::Supergateway, Product::ContextForge] {
        let plan = plan(product, &[stdio("child")], folder.path());
        let program = &plan.services[0].program;
        let quoted = r"'/bin/server' '--name' 'it'\''s'".to_owned();
        assert!(program.args.contains(&quoted), "{product}: {:?}", program.args);
        assert!(program.env.contains(&("COLOUR".to_owned(), "blue".to_owned())), "{product}");
    }
}

#[test]
fn what_the_client_starts_has_no_process_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    for product in [Product::McpRemote, Product::Supergateway, Product::McpProxyPypi] {
        let plan = plan(product, &[http("web")], folder.path());
        assert!(plan.services.is_empty(), "{product}");
        assert_eq!(plan.address.transport(), Transport::Stdio, "{product}");
    }
}

#[test]
fn a_product_that_is_not_installed_says_how_to_install_it() {
    let nowhere = Places { evergate: "/nowhere".into(), peers: "/nowhere".into() };
    for product in mcp_products().filter(|product| *product != Product::Direct) {
        let missing = product.installed(&nowhere).unwrap_err();
        let told =
            missing.contains("./scripts/install-products") || missing.contains("cargo build");
        assert!(told, "{product}: {missing}");
    }
}
