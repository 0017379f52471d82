//! What is secret is shown nowhere.

use evergate_testkit::{HttpServer, Server};
use http::Method;
use serde_json::{Value, json};

use crate::api::{api, send};
use crate::support::{Gateway, Http, gateway, until};

/// Planted all over; each has its place in its name.
const SECRETS: [&str; 9] = [
    "planted-env-0001",
    "planted-header-0002",
    "planted-query-0003",
    "planted-user-0004",
    "planted-argument-0005",
    "planted-admin-key-0006",
    "planted-session-key-0007",
    "planted-token-file-0008",
    "planted-tool-argument-0009",
];

/// A child that says all it knows on standard error, and ends.
const TELLTALE: &str =
    "echo MY_TOKEN=$MY_TOKEN >&2; echo \"$0 $@\" >&2; echo a >&2; echo b >&2; exit 3";

fn gateway_with_secrets(docs: &HttpServer) -> Gateway {
    let secret = |n: usize| SECRETS[n];
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), secret(7)).unwrap();
    let (_, token) = token.keep().unwrap();
    let nowhere = format!("http://127.0.0.1:9/mcp?key={}", secret(2));
    let config = json!({
        "mcpServers": {
            "docs": { "url": docs.url(), "headers": { "Authorization": format!("Bearer {}", secret(1)) } },
            "tokened": { "url": docs.url(), "bearer_token_file": token },
            "away": { "url": nowhere, "headers": { "X-Custom": secret(1) } },
            "telltale": {
                "command": "sh",
                "args": ["-c", TELLTALE, "sh", "--api-key", secret(4)],
                "env": { "MY_TOKEN": "${PLANTED}" },
            },
        },
        "gateway": {
            "session_key": secret(6),
            "auth": { "keys": [{ "name": "all", "key": secret(5), "scopes": ["mcp", "admin"] }] },
        },
    });
    gateway(&config).env("PLANTED", secret(0)).env("RUST_LOG", "trace").start()
}

fn with_key(http: Http) -> Http {
    http.header("authorization", &format!("Bearer {}", SECRETS[5]))
}

#[tokio::test]
async fn nothing_that_is_secret_is_shown_anywhere() {
    let docs = HttpServer::start(Server::new()).await;
    let gateway = gateway_with_secrets(&docs);
    let ask = async |path: &str| -> Value { with_key(api(&gateway, path)).get(&[]).await.json() };
    until("the child has spoken", async || {
        ask("servers/telltale/logs").await["next"].as_u64().unwrap() > 3
    })
    .await;
    until("the other is away", async || !ask("servers/away").await["last_error"].is_null()).await;
    let client = with_key(Http::new(&gateway.at("/mcp"))).initialize().await;
    for tool in ["docs__echo", "docs__no_such_tool", "tokened__echo"] {
        client.call(tool, json!({ "secret": SECRETS[8] })).await;
    }
    let mut shown = Vec::new();
    let answer = with_key(api(&gateway, "servers/away/call"));
    let down = json!({ "tool": "x", "arguments": { "a": SECRETS[8] }, "timeout_ms": 200 });
    shown.push(send(&answer, Method::POST, &down).await.text());
    let description = ask("openapi.json").await;
    for (path, methods) in description["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path.ends_with("/events") {
            continue;
        }
        for server in ["docs", "tokened", "away", "telltale", "planted-nobody"] {
            let path = path.replace("/api/v1/", "").replace("{server}", server);
            shown.push(with_key(api(&gateway, &path)).get(&[]).await.text());
        }
    }
    for path in ["/health", "/readyz", "/metrics", "/", "/nowhere"] {
        shown.push(with_key(Http::new(&gateway.at(path))).get(&[]).await.text());
        shown.push(Http::new(&gateway.at(path)).get(&[]).await.text());
    }
    let mut events = with_key(api(&gateway, "events?after=0")).listen(&[]).await;
    for _ in 0..4 {
        shown.push(events.message().await.unwrap().to_string());
    }
    drop(events);
    shown.push(gateway.stderr());
    assert!(shown.iter().any(|text| text.contains("MY_TOKEN=<secret>")), "the child said nothing");
    for text in &shown {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(!text.contains(&client.id), "a session id in {text}");
    }
}

#[tokio::test]
async fn a_broken_configuration_does_not_repeat_its_secrets() {
    let docs = HttpServer::start(Server::new()).await;
    let gateway = gateway_with_secrets(&docs);
    let broken = json!({ "mcpServers": { "docs": {
        "url": format!("http://{}:x@[bad", SECRETS[3]),
        "headers": { "A b": SECRETS[1] },
    } } });
    gateway.write_config(&broken);
    until("the reload was refused", async || gateway.stderr().contains("the running one stays"))
        .await;
    for secret in SECRETS {
        assert!(!gateway.stderr().contains(secret), "{secret} in {}", gateway.stderr());
    }
}
