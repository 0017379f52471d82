//! Plain JSON-RPC over HTTP.

use evergate_testkit::{AnswerStyle, Fault, HttpServer, Server};
use serde_json::json;

use crate::raw_http::{BOTH, Client, End, Response, encode, read};

async fn post(client: &Client, accept: &str, body: &str) -> Response {
    read(client.send("POST", "/rpc", &[("accept", accept)], body).await.expect("server is up"))
        .await
}

#[tokio::test]
async fn is_json_without_sessions_unless_asked() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    http.answer_with(AnswerStyle::Sse);
    let mut client = Client::new(&http);
    let (initialize, ping) = (encode("initialize", &json!({})), encode("ping", &json!({})));
    assert_eq!(post(&client, BOTH, &ping).await.status, 406);
    let response = post(&client, "application/json", &initialize).await;
    assert!(!response.headers.contains_key("mcp-session-id"));
    let response = post(&client, "application/json", &ping).await;
    assert_eq!(response.headers["content-type"], "application/json");
    assert_eq!(response.json()["result"], json!({}));
    let sampled = encode("tools/call", &json!({ "name": "sample" }));
    assert!(post(&client, "*/*", &sampled).await.json()["error"].is_object());
    assert_eq!(read(client.open("/rpc", &[]).await).await.status, 405);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(&client, "*/*", note).await.status, 204);

    server.set_rpc_sessions(true);
    assert_eq!(post(&client, "application/json", &ping).await.status, 404);
    let response = post(&client, "application/json", &initialize).await;
    client.session = Some(response.headers["mcp-session-id"].clone());
    assert_eq!(post(&client, "application/json", &ping).await.status, 200);
}

#[tokio::test]
async fn faults_stay_json() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let client = Client::new(&http);
    let bump = encode("tools/call", &json!({ "name": "bump" }));
    for (fault, end) in [
        (Fault::CutMidStream { event_id: true }, End::Cut),
        (Fault::HangMidStream, End::Silence),
        (Fault::DuplicateAnswer, End::Complete),
        (Fault::SseRetry(1), End::Complete),
    ] {
        server.inject(fault.clone());
        let response = post(&client, "application/json", &bump).await;
        assert_eq!(response.end, end, "{fault:?}");
    }
    assert_eq!(server.counters().calls, 4);
}
