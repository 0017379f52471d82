//! nginx as a plain reverse proxy: the price of one more HTTP exchange, without a thought about MCP.
//!
//! Connections to the server are kept and bytes are passed on as they come, as its documentation advises for APIs
//! and event streams. One worker for each core is what it recommends (`auto`).

use anyhow::Context as _;
use rustix::process::geteuid;

use super::adapter::{Adapter, Choice, Naming, Plan, Site, all_are, only_one};
use super::installed::says;
use super::{Address, Places, Port, Program, Transport, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "nginx",
    understands_mcp: false,
    docs: &[
        Choice {
            setting: "worker_processes auto",
            why: "one worker for each core",
            url: "https://nginx.org/en/docs/ngx_core_module.html#worker_processes",
        },
        Choice {
            setting: "keepalive 512, proxy_http_version 1.1, proxy_set_header Connection \"\"",
            why: "connections to the server are kept and used again",
            url: "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive",
        },
        Choice {
            setting: "keepalive_requests 1000000000",
            why: "no connection is closed for having served many requests",
            url: "https://nginx.org/en/docs/http/ngx_http_core_module.html#keepalive_requests",
        },
        Choice {
            setting: "proxy_buffering off, proxy_request_buffering off",
            why: "event streams arrive event by event, and nothing is written to disk",
            url: "https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering",
        },
        Choice {
            setting: "proxy_read_timeout 1d",
            why: "a listening stream may be silent for long",
            url: "https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_read_timeout",
        },
        Choice {
            setting: "access_log off",
            why: "no line is written for each call",
            url: "https://nginx.org/en/docs/http/ngx_http_log_module.html#access_log",
        },
    ],
    supports,
    installed,
    plan,
};

/// What any reverse proxy can stand in front of.
pub(super) fn supports(upstreams: &[Upstream]) -> Result<(), &'static str> {
    only_one(upstreams)?;
    all_are(upstreams, &[Transport::Http, Transport::Sse], "HTTP servers only")
}

fn installed(_places: &Places) -> Result<String, String> {
    says("nginx", "-v").ok_or_else(|| "no nginx: ./scripts/install-products nginx".to_owned())
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let port = Port::free()?;
    let (server, address) = through(&upstream.at, &port)?;
    let config = site.folder.join("nginx.conf");
    let folder = site.folder.display().to_string();
    std::fs::write(&config, config_text(&folder, &port, &server, geteuid().is_root()))
        .context("cannot write its configuration")?;
    let mut program = Program::new("nginx");
    program.arg("-e").arg("stderr").arg("-p").arg(folder).arg("-c").arg(config.display());
    let mut plan = Plan::one(program, port, "", Naming::Plain);
    plan.address = address;
    Ok(plan)
}

/// The host and port behind, and the same URL with ours in their place.
pub(super) fn through(at: &Address, port: &Port) -> anyhow::Result<(String, Address)> {
    let moved = |url: &str| -> anyhow::Result<(String, String)> {
        let mut url = url::Url::parse(url).context("the server has no proper URL")?;
        let server = url.authority().to_owned();
        url.set_port(Some(port.number())).ok().context("the server's URL takes no port")?;
        Ok((server, url.into()))
    };
    match at {
        Address::Http(url) => moved(url).map(|(server, url)| (server, Address::Http(url))),
        Address::Sse(url) => moved(url).map(|(server, url)| (server, Address::Sse(url))),
        Address::Stdio(_) => anyhow::bail!("HTTP servers only"),
    }
}

fn config_text(folder: &str, port: &Port, server: &str, root: bool) -> String {
    // Started by root, its workers are somebody who may not enter the folder of this run.
    let user = if root { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{
    worker_connections 16384;
}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    upstream server {{
        server {server};
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 0;
        location / {{
            proxy_pass http://server;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 1d;
            proxy_send_timeout 1d;
        }}
    }}
}}
"
    )
}
