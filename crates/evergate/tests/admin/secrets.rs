//! What is secret is shown nowhere.

use evergate_testkit::{HttpServer, Server};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};

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

/// A server on a raw socket that answers with an error in which it repeats the whole head of the request. At `/strict`
/// that is all it does, at any other path it shakes hands first.
async fn parrot() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(repeat(stream));
        }
    });
    format!("http://{address}")
}

async fn repeat(stream: tokio::net::TcpStream) {
    let mut stream = BufStream::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while stream.read_line(&mut head).await.unwrap_or(0) > 2 {
            let line = head.lines().last().unwrap().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        if head.is_empty() || stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        let error = json!({ "error": { "code": -32000, "message": head } });
        let mut answer = match asked["method"].as_str() {
            Some("initialize") if !head.starts_with("POST /strict") => json!({ "result": {
                "protocolVersion": crate::support::NEWEST, "capabilities": { "tools": {} },
                "serverInfo": { "name": "parrot", "version": "1" },
            } }),
            Some("tools/list") => json!({ "result": {
                "tools": [{ "name": "tell", "inputSchema": { "type": "object" } }],
            } }),
            _ => error,
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = asked["id"].clone();
        let answer = if asked["id"].is_null() { String::new() } else { answer.to_string() };
        let status = match (answer.is_empty(), head.starts_with("POST")) {
            (_, false) => "405 Not Allowed",
            (true, _) => "202 Accepted",
            _ => "200 OK",
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if stream.write_all(format!("{head}{answer}").as_bytes()).await.is_err()
            || stream.flush().await.is_err()
        {
            return;
        }
    }
}

/// A child that does the same with all it knows.
const PARROT: &str = r#"while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"$PLAINLY $MY_TOKEN $*\"}}"
done"#;

#[tokio::test]
async fn what_a_server_repeats_in_its_errors_is_not_written_down() {
    let [env, header, query, _, argument, _, _, token, _] = SECRETS;
    let (parrot, plainly) = (parrot().await, "planted-plain-0010");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), token).unwrap();
    let strict = json!({
        "url": format!("{parrot}/strict?key={query}"), "bearer_token_file": file.path(),
        "headers": { "X-Custom": header },
    });
    let config = json!({
        "mcpServers": {
            "strict": strict,
            "calls": {
                "url": format!("{parrot}/?key={query}"), "bearer_token_file": file.path(),
                "headers": { "X-Custom": header },
            },
            "child": {
                "command": "sh", "args": ["-c", PARROT, "sh", "--api-key", argument],
                "env": { "MY_TOKEN": env, "PLAINLY": plainly },
            },
        },
        "gateway": { "audit": { "file": "audit.log" } },
    });
    let gateway = gateway(&config).env("RUST_LOG", "trace").start();
    let ask = async |path: &str| -> Value { api(&gateway, path).get(&[]).await.json() };
    for name in ["strict", "child"] {
        let path = format!("servers/{name}");
        until("it was refused", async || !ask(&path).await["last_error"].is_null()).await;
        let error = ask(&path).await["last_error"].to_string();
        assert!(error.contains("<secret>"), "{error}");
    }
    let client = gateway.connect().await;
    // What the client gets is the server's own answer.
    let answer = client.call("calls__tell", json!({})).await;
    let told = answer["error"]["message"].as_str().unwrap();
    for secret in [header, query, token] {
        assert!(told.contains(secret), "{told}");
    }
    let call = ask("calls?limit=1").await["calls"][0].clone();
    assert!(call["error"].as_str().unwrap().contains("<secret>"), "{call}");
    let mut shown = vec![gateway.stderr(), call.to_string()];
    for path in ["servers", "servers/strict", "servers/child", "servers/calls", "calls"] {
        shown.push(ask(path).await.to_string());
    }
    shown.push(gateway.health().await.to_string());
    let audit = gateway.folder.path().join("audit.log");
    until("it is written", async || std::fs::read_to_string(&audit).unwrap().contains("calls"))
        .await;
    shown.push(std::fs::read_to_string(&audit).unwrap());
    for text in &shown {
        for secret in SECRETS.into_iter().chain([plainly]) {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
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
