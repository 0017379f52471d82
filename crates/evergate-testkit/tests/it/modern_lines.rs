//! Revision 2026-07-28 on lines: what is listened to, and how a connection settles on a revision.

use std::time::Duration;

use evergate_testkit::{Eras, Fault, ListKind, ListenEnd, MemoryServer, Server};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::raw_lines::{Lines, MemoryLines};

fn start(eras: Eras) -> (Server, MemoryLines) {
    let server = Server::new();
    server.set_eras(eras);
    let memory = MemoryServer::new(server.clone());
    let (reader, writer) = tokio::io::split(memory.connect().expect("server is up"));
    (server, Lines::new(reader, writer))
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn listen(uris: &[&str]) -> Value {
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": uris });
    modern(json!({ "notifications": filter }))
}

fn subscription(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

#[tokio::test(start_paused = true)]
async fn each_listen_has_its_own_filter_until_it_is_cancelled() {
    let (server, mut client) = start(Eras::Modern);
    for (id, uri) in [(1, "test://a"), (2, "test://b")] {
        let word = client.request(id, "subscriptions/listen", listen(&[uri])).await;
        assert_eq!(word["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(word["params"]["notifications"]["resourceSubscriptions"], json!([uri]));
        assert_eq!(*subscription(&word), id);
    }
    server.update_resource("test://b");
    assert_eq!(*subscription(&client.message().await), 2);
    server.notify_list_changed(ListKind::Tools);
    assert_eq!(*subscription(&client.message().await), 1);
    assert_eq!(*subscription(&client.message().await), 2);
    // Nobody asked for these.
    server.notify_list_changed(ListKind::Prompts);
    let cancelled = json!({ "requestId": 1 });
    let method = "notifications/cancelled";
    client.send(&json!({ "jsonrpc": "2.0", "method": method, "params": cancelled })).await;
    server.wait_for(|counters| counters.subscriptions == ["test://b"]).await;
    server.update_resource("test://a");
    server.end_listens(ListenEnd::Answered);
    let end = client.message().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(2), &json!("complete")));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_offered_is_not_honoured() {
    let (server, mut client) = start(Eras::Modern);
    server.set_capabilities(json!({ "tools": {}, "resources": {} }));
    let word = client.request(1, "subscriptions/listen", listen(&["test://a"])).await;
    assert_eq!(word["params"]["notifications"], json!({}));
    server.end_listens(ListenEnd::Cancelled);
    assert_eq!(client.message().await["params"], json!({ "requestId": 1 }));
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_with_its_first_kind_of_request_if_told_to() {
    for pins in [true, false] {
        let (server, mut client) = start(Eras::Both);
        server.set_pinning(pins);
        let found = client.request(1, "server/discover", modern(json!({}))).await;
        assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
        let answer = client.initialize().await;
        assert_eq!(answer["error"]["code"] == -32022, pins, "{answer}");

        let (server, mut client) = start(Eras::Both);
        server.set_pinning(pins);
        client.initialize().await;
        let answer = client.request(1, "server/discover", modern(json!({}))).await;
        assert_eq!(answer["error"]["code"] == -32600, pins, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_may_kill_a_server_that_does_not_know_it_or_find_it_slow() {
    let (server, mut client) = start(Eras::Legacy);
    let delay = Duration::from_secs(5);
    server.inject(Fault::DelayAnswer(delay)).on("server/discover");
    client.begin(1, "server/discover", modern(json!({}))).await;
    assert!(timeout(delay / 2, client.message()).await.is_err());
    assert_eq!(client.message().await["error"]["code"], -32000);
    server.inject(Fault::CutBeforeExecute).on("server/discover");
    client.begin(2, "server/discover", modern(json!({}))).await;
    assert!(!matches!(client.line().await, Ok(Some(_))));
}
