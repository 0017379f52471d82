//! `/livez`, `/readyz`, `/health` and `/close`.

use std::time::Duration;

use evergate_testkit::{HttpServer, Server};
use http::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::{one_server, quick_to_recover, still_works, tool_call};
use crate::support::{Gateway, Http, gateway, until};

async fn status(gateway: &Gateway, path: &str) -> StatusCode {
    Http::new(&gateway.at(path)).get(&[]).await.status
}

#[tokio::test]
async fn it_is_ready_when_every_required_server_is_and_alive_all_the_time() {
    let (needed, other) =
        (HttpServer::start(Server::new()).await, HttpServer::start(Server::new()).await);
    needed.kill().await;
    other.kill().await;
    let mut required = quick_to_recover(&needed);
    required["required"] = json!(true);
    let servers = json!({ "needed": required, "other": quick_to_recover(&other) });
    let gateway = gateway(&json!({ "mcpServers": servers })).start();
    assert_eq!(status(&gateway, "/livez").await, StatusCode::OK);
    let waiting = Http::new(&gateway.at("/readyz")).get(&[]).await;
    assert_eq!(waiting.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(waiting.json()["waiting_for"], json!(["needed"]));
    assert_eq!(gateway.health().await["status"], "unhealthy");
    needed.revive().await;
    until("ready", async || status(&gateway, "/readyz").await == StatusCode::OK).await;
    assert_eq!(gateway.health().await["status"], "degraded");
    other.revive().await;
    until("healthy", async || gateway.health().await["status"] == "healthy").await;
    needed.kill().await;
    until("not ready", async || {
        status(&gateway, "/readyz").await == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    assert_eq!(status(&gateway, "/livez").await, StatusCode::OK);
}

#[tokio::test]
async fn what_it_waits_for_is_told_to_those_who_have_a_key() {
    let away = HttpServer::start(Server::new()).await;
    away.kill().await;
    let mut required = quick_to_recover(&away);
    required["required"] = json!(true);
    let gateway = gateway(&json!({
        "mcpServers": { "needed": required },
        "gateway": { "auth": { "keys": [
            { "name": "all", "key": "opens-everything" },
            { "name": "other", "key": "opens-something-else", "servers": ["other"] },
        ] } },
    }));
    let gateway = gateway.start();
    let ready = Http::new(&gateway.at("/readyz"));
    let waiting = async |headers: &[(&str, &str)]| {
        let answer = ready.get(headers).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        answer.json().get("waiting_for").cloned()
    };
    assert_eq!(waiting(&[]).await, None);
    assert_eq!(waiting(&[("x-api-key", "wrong")]).await, None);
    assert_eq!(waiting(&[("x-api-key", "opens-everything")]).await, Some(json!(["needed"])));
    assert_eq!(waiting(&[("x-api-key", "opens-something-else")]).await, Some(json!([])));
}

#[tokio::test]
async fn while_it_drains_new_requests_are_503_and_those_under_way_finish() {
    let (http, mut gateway) = one_server().await;
    let client = gateway.connect().await;
    let call = tool_call(&json!(1), "web__hold", &json!({ "call_id": "h" }));
    let draining = async {
        http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
        gateway.signal(Signal::TERM);
        until("it drains", async || {
            status(&gateway, "/readyz").await == StatusCode::SERVICE_UNAVAILABLE
        })
        .await;
        assert_eq!(status(&gateway, "/livez").await, StatusCode::OK);
        assert_eq!(gateway.health().await["status"], "draining");
        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let refused = client.post(ping).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.header("retry-after").is_some());
        assert_eq!(client.listen().await.status, StatusCode::SERVICE_UNAVAILABLE);
        let close = Http::new(&gateway.at("/close")).post(&[], "").await;
        assert_eq!(close.status, StatusCode::GONE);
        http.server().release_held();
    };
    let calling = client.request_with_id(json!(1), "tools/call", call["params"].clone());
    let (answer, ()) = tokio::join!(calling, draining);
    assert_eq!(answer["result"]["content"][0]["text"], "released");
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn closing_is_asked_for_once_and_with_post() {
    let (http, mut gateway) = one_server().await;
    let client = gateway.connect().await;
    still_works(&client).await;
    let close = Http::new(&gateway.at("/close"));
    let wrong = close.get(&[]).await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong.header("allow"), Some("POST"));
    let call = tool_call(&json!(1), "web__hold", &json!({ "call_id": "h" }));
    let closing = async {
        http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
        let closed = close.post(&[], "").await;
        assert_eq!(closed.status, StatusCode::OK);
        assert_eq!(closed.json(), json!({ "status": "closed", "serversTerminated": 1 }));
        assert_eq!(close.post(&[], "").await.status, StatusCode::GONE);
        http.server().release_held();
    };
    let calling = client.request_with_id(json!(1), "tools/call", call["params"].clone());
    let (answer, ()) = tokio::join!(calling, closing);
    assert_eq!(answer["result"]["content"][0]["text"], "released");
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert_eq!(http.server().counters().sessions_open, 0, "its session was given back");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (http, mut gateway) = one_server().await;
    let client = gateway.connect().await;
    let call = tool_call(&json!(1), "web__hold", &json!({ "call_id": "h" }));
    let mut stream = client.http.post_for_events(&client.headers(), call.to_string()).await;
    http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
    gateway.signal(Signal::TERM);
    until("it drains", async || {
        status(&gateway, "/readyz").await == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    // Sooner it would be the same word twice.
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.signal(Signal::INT);
    assert_eq!(gateway.ended().await.code(), Some(70));
    assert_eq!(stream.message().await, None);
}

#[tokio::test]
async fn two_signals_at_once_are_one() {
    let (http, mut gateway) = one_server().await;
    let client = gateway.connect().await;
    let call = tool_call(&json!(1), "web__hold", &json!({ "call_id": "h" }));
    let ending = async {
        http.server().wait_for(|counters| counters.executions.contains_key("h")).await;
        // As `timeout` does, and a terminal whose programs pass it on.
        gateway.signal(Signal::TERM);
        gateway.signal(Signal::INT);
        until("it drains", async || {
            status(&gateway, "/readyz").await == StatusCode::SERVICE_UNAVAILABLE
        })
        .await;
        gateway.signal(Signal::TERM);
        http.server().release_held();
    };
    let calling = client.request_with_id(json!(1), "tools/call", call["params"].clone());
    let (answer, ()) = tokio::join!(calling, ending);
    assert_eq!(answer["result"]["content"][0]["text"], "released");
    assert_eq!(gateway.ended().await.code(), Some(0));
}
