//! Secrets are in nothing that is written down, whatever is switched on.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::kit::{at_with, child_with, quick, web};
use crate::receiver::Receiver;
use crate::support::gateway;

/// Each in another place.
const SECRETS: [&str; 12] = [
    "sesame-key-0123456789",
    "sesame-header-of-server",
    "sesame-env-of-child",
    "sesame-in-url-query",
    "sesame-bearer-of-file",
    "sesame-otlp-header",
    "sesame-otlp-path",
    "sesame-argument",
    "sesame-result",
    "sesame-client-header",
    "sesame-uri-query",
    "sesame-uri-password",
];

#[tokio::test]
async fn planted_secrets_are_in_no_span_no_log_and_no_audit_line() {
    let [
        key,
        header,
        env,
        query,
        bearer,
        otlp_header,
        otlp_path,
        argument,
        result,
        of_client,
        uri_query,
        uri_password,
    ] = SECRETS;
    let (http, receiver) = (web().await, Receiver::start().await);
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, bearer).unwrap();
    let url = format!("{}?key={query}", http.url());
    // Nobody is there.
    let nowhere = format!("http://127.0.0.1:9/mcp?key={query}");
    let config = json!({
        "gateway": {
            "drain": "0s",
            "auth": { "keys": [{ "name": "ada", "key": key, "scopes": ["mcp", "admin"] }] },
            "otlp": {
                "endpoint": format!("{}/{otlp_path}", receiver.url),
                "headers": { "api-key": otlp_header },
            },
            "audit": { "file": "audit.log" },
        },
        "mcpServers": {
            "web": at_with(&http, json!({
                "url": url, "headers": { "X-Api-Key": header }, "bearer_token_file": token,
                "headers_from_client": ["x-user"],
            })),
            "gone": { "url": nowhere, "hold": "200ms", "lifecycle": quick() },
            "child": child_with(&[], json!({ "env": { "TOKEN": env } })),
        },
    });
    let mut gateway =
        gateway(&config).env("RUST_LOG", "trace").env("OTEL_BSP_SCHEDULE_DELAY", "20").start();
    let client = gateway
        .http()
        .header("authorization", &format!("Bearer {key}"))
        .header("x-user", of_client)
        .initialize()
        .await;
    client.tool_names().await;
    client.call("web__echo", json!({ "text": argument })).await;
    client.call("child__echo", json!({ "text": argument })).await;
    client
        .call("web__raw", json!({ "json": json!({ "content": [], "x": result }).to_string() }))
        .await;
    client.call("web__rpc_error", json!({ "text": argument })).await;
    client.call("web__fail", json!({ "text": argument })).await;
    client.call("gone__echo", json!({ "text": argument })).await;
    let uri = format!("test://user:{uri_password}@host/path?token={uri_query}#x");
    let web = crate::support::Http::new(&gateway.at("/mcp/web"))
        .header("authorization", &format!("Bearer {key}"))
        .initialize()
        .await;
    web.request("resources/read", json!({ "uri": uri })).await;
    // A session that is lost, and a server that is.
    http.server().forget_sessions();
    client.call("web__bump", json!({ "text": argument })).await;
    http.kill().await;
    let _ = tokio::time::timeout(
        Duration::from_millis(300),
        client.call("web__bump", json!({ "text": argument })),
    )
    .await;
    gateway.signal(Signal::TERM);
    gateway.ended().await;
    let audit = std::fs::read_to_string(gateway.folder.path().join("audit.log")).unwrap();
    assert!(audit.lines().count() > 6, "{audit}");
    let (spans, log) = (receiver.everything(), gateway.stderr());
    assert!(spans.contains("tools/call echo") && spans.contains("handshake"));
    assert!(log.contains("TRACE") && log.contains("DEBUG"), "{log}");
    for secret in SECRETS {
        assert!(!spans.contains(secret), "{secret} is in a span");
        assert!(!audit.contains(secret), "{secret} is in the audit log: {audit}");
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
    // Whole session ids are none of anybody's business either.
    for session in [&client.id, &web.id] {
        assert!(!audit.contains(session.as_str()) && !log.contains(session.as_str()));
        assert!(!spans.contains(session.as_str()));
    }
}
