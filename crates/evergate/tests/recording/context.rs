//! Where a call stands in a trace, with nobody here to record it: the client's word is passed on.

use evergate_testkit::{HttpServer, Server};
use serde_json::{Value, json};

use crate::kit::{at, at_sse, at_with, servers, web};
use crate::support::{Session, gateway};

const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";

fn sent(http: &HttpServer, header: &str) -> Option<String> {
    http.server().counters().last_headers.get(header).cloned()
}

fn last_params(http: &HttpServer) -> String {
    http.server().received("tools/call").pop().unwrap()
}

async fn call(client: &Session, params: &str, headers: &[(&str, &str)]) -> Value {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let mut all = client.headers().to_vec();
    all.extend_from_slice(headers);
    let answer = client.http.post(&all, body).await.json();
    assert!(answer["result"].is_object(), "{answer}");
    answer
}

#[tokio::test]
async fn a_context_in_headers_reaches_the_server_in_headers_and_in_meta() {
    let http = web().await;
    for entry in [at(&http), at_sse(&http)] {
        let gateway = gateway(&servers(json!({ "web": entry }))).start();
        let client = gateway.connect().await;
        client.tool_names().await;
        let headers = [
            ("traceparent", THEIRS),
            ("tracestate", "a=b"),
            ("tracestate", "c=d"),
            ("baggage", "user=ada"),
            ("x-other", "not asked for"),
        ];
        call(&client, r#"{"name":"web__bump","n":18446744073709551617}"#, &headers).await;
        assert_eq!(sent(&http, "traceparent").as_deref(), Some(THEIRS));
        assert_eq!(sent(&http, "tracestate").as_deref(), Some("a=b,c=d"));
        assert_eq!(sent(&http, "baggage").as_deref(), Some("user=ada"));
        assert_eq!(sent(&http, "x-other"), None);
        let expected = format!(
            r#"{{"name":"bump","n":18446744073709551617,"_meta":{{"traceparent":"{THEIRS}","tracestate":"a=b,c=d","baggage":"user=ada"}}}}"#
        );
        assert_eq!(last_params(&http), expected);
        // It was that call's, not the client's.
        call(&client, r#"{"name":"web__bump"}"#, &[]).await;
        assert_eq!(sent(&http, "traceparent"), None);
        assert_eq!(last_params(&http), r#"{"name":"bump"}"#);
    }
}

#[tokio::test]
async fn a_context_in_meta_comes_first_and_stays_as_it_is() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let params = format!(
        r#"{{"name" : "web__bump", "_meta" : {{ "vendor/x":[1 , 2],"traceparent" : "{THEIRS}", "tracestate":"k=v"}}}}"#
    );
    call(&client, &params, &[("traceparent", OTHER), ("baggage", "user=ada")]).await;
    assert_eq!(last_params(&http), params.replace("web__", ""));
    assert_eq!(sent(&http, "traceparent").as_deref(), Some(THEIRS));
    assert_eq!(sent(&http, "tracestate").as_deref(), Some("k=v"));
    assert_eq!(sent(&http, "baggage"), None);
}

#[tokio::test]
async fn what_does_not_follow_the_rules_is_ignored() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let long = format!("01{}-{}", &THEIRS[2..], "x".repeat(20_000));
    let headers: [&[(&str, &str)]; 5] = [
        &[("traceparent", "junk")],
        &[("traceparent", &long)],
        &[("traceparent", THEIRS), ("traceparent", OTHER)],
        &[("tracestate", "a=b"), ("baggage", "c=d")],
        &[("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01")],
    ];
    for headers in headers {
        call(&client, r#"{"name":"web__bump"}"#, headers).await;
        assert_eq!(last_params(&http), r#"{"name":"bump"}"#);
        for name in ["traceparent", "tracestate", "baggage"] {
            assert_eq!(sent(&http, name), None);
        }
    }
    for meta in [
        r#"{"traceparent":7}"#.to_owned(),
        r#"{"traceparent":"junk","tracestate":{}}"#.to_owned(),
        format!(r#"{{"traceparent":"{THEIRS}","traceparent":"{OTHER}"}}"#),
        format!(r#"{{"traceparent":"{}"}}"#, "0".repeat(1_000_000)),
    ] {
        // It is the client's to say and the server's to hear.
        call(&client, &format!(r#"{{"name":"web__bump","_meta":{meta}}}"#), &[]).await;
        assert_eq!(sent(&http, "traceparent"), None);
        if meta.len() < 1000 {
            assert_eq!(last_params(&http), format!(r#"{{"name":"bump","_meta":{meta}}}"#));
        }
    }
    // A bad state or baggage does not cost the rest.
    let headers = [("traceparent", THEIRS), ("tracestate", "NO=1"), ("baggage", "no")];
    call(&client, r#"{"name":"web__bump"}"#, &headers).await;
    assert_eq!(sent(&http, "traceparent").as_deref(), Some(THEIRS));
    assert_eq!((sent(&http, "tracestate"), sent(&http, "baggage")), (None, None));
}

#[tokio::test]
async fn a_refusal_of_the_servers_own_credentials_is_not_blamed_on_a_trace() {
    let http = web().await;
    let entry = at_with(&http, json!({ "headers": { "Authorization": "Bearer one" } }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    call(&client, r#"{"name":"web__bump"}"#, &[("traceparent", THEIRS)]).await;
    http.server().set_bearer_token(Some("another"));
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web__bump"}}"#;
    let mut headers = client.headers().to_vec();
    headers.push(("traceparent", THEIRS));
    let answer = client.http.post(&headers, body).await.json();
    assert!(answer["error"].is_object(), "{answer}");
    crate::support::until("the server is parked", async || {
        let status = crate::kit::status(&gateway, "web").await;
        status.to_string().contains("auth_required")
    })
    .await;
}

#[tokio::test]
async fn servers_and_clients_of_the_newest_revision_hear_of_it_too() {
    let http = HttpServer::start(Server::new()).await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    gateway.connect().await.tool_names().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "web__bump"),
        ("traceparent", THEIRS),
    ];
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "web__bump", "arguments": {}, "_meta": meta },
    });
    let answer = gateway.http().post(&headers, body.to_string()).await.json();
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(sent(&http, "traceparent").as_deref(), Some(THEIRS));
    let params: Value = serde_json::from_str(&last_params(&http)).unwrap();
    assert_eq!(params["_meta"]["traceparent"], THEIRS);
}
