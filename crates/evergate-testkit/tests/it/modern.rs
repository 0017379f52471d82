//! Revision 2026-07-28 over HTTP and lines: what is refused, and who hears of what.

use evergate_testkit::{AnswerStyle, Eras, HttpServer, ListKind, MemoryServer, Server};
use serde_json::{Value, json};

use crate::raw_http::{BOTH, Client, End, encode, read};
use crate::raw_lines::Lines;

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

async fn start(eras: Eras) -> (Server, HttpServer) {
    let server = Server::new();
    server.set_eras(eras);
    (server.clone(), HttpServer::start(server).await)
}

#[tokio::test]
async fn requests_are_refused_with_the_first_thing_that_is_wrong() {
    let (server, http) = start(Eras::Both).await;
    server.set_tools(vec![json!({ "name": "echo", "inputSchema": { "properties": {
        "text": { "type": "string", "x-mcp-header": "Text" },
        "n": { "type": "integer", "x-mcp-header": "N" },
    } } })]);
    let client = Client::new(&http);
    let list = ("tools/list", json!({ "_meta": meta() }));
    let arguments = json!({ "text": "é", "n": 42 });
    let call = ("tools/call", json!({ "_meta": meta(), "name": "echo", "arguments": arguments }));
    let unclaimed = ("tools/list", json!({}));
    let mut future = list.clone();
    future.1["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999".into();
    let mut loud = list.clone();
    loud.1["_meta"]["io.modelcontextprotocol/logLevel"] = "loud".into();
    let (listing, calling) = (("mcp-method", "tools/list"), ("mcp-method", "tools/call"));
    let (name, text) = (("mcp-name", "echo"), ("mcp-param-text", "=?base64?w6k=?="));
    let n = ("mcp-param-n", "42");
    for (request, headers, expected) in [
        (&list, vec![VERSION, listing], (200, 0)),
        (&list, vec![VERSION, ("MCP-Method", "  tools/list ")], (200, 0)),
        (&unclaimed, vec![VERSION, listing], (400, -32602)),
        (&loud, vec![VERSION, listing], (400, -32602)),
        (&list, vec![("mcp-protocol-version", "2025-11-25"), listing], (400, -32020)),
        (&future, vec![VERSION, listing], (400, -32020)),
        (&future, vec![("mcp-protocol-version", "v999"), listing], (400, -32022)),
        (&list, vec![listing], (400, -32020)),
        (&list, vec![VERSION], (400, -32020)),
        (&list, vec![VERSION, calling], (400, -32020)),
        (&list, vec![VERSION, ("mcp-method", "TOOLS/LIST")], (400, -32020)),
        (&call, vec![VERSION, calling, name, text, n], (200, 0)),
        (&call, vec![VERSION, calling, text, n], (400, -32020)),
        (&call, vec![VERSION, calling, name, name, text, n], (400, -32020)),
        (&call, vec![VERSION, calling, name, text], (400, -32020)),
        (&call, vec![VERSION, calling, name, text, ("mcp-param-n", "43")], (400, -32020)),
        (
            &call,
            vec![VERSION, calling, name, n, ("mcp-param-text", "=?base64?w6k?=")],
            (400, -32020),
        ),
    ] {
        let mut all = vec![("accept", BOTH)];
        all.extend(&headers);
        let body = encode(request.0, &request.1);
        let response = read(client.send("POST", "/mcp", &all, &body).await.unwrap()).await;
        let code = response.json()["error"]["code"].as_i64().unwrap_or_default();
        assert_eq!((response.status, code), expected, "{body} {headers:?}: {}", response.body);
        assert_eq!(response.json()["id"], 1);
    }
    assert_eq!(server.counters().calls, 1);
}

#[tokio::test]
async fn there_is_nothing_to_get_or_delete_and_nothing_to_notify() {
    for (eras, old) in [(Eras::Both, 400), (Eras::Modern, 405)] {
        let (_server, http) = start(eras).await;
        let client = Client::new(&http);
        for verb in ["GET", "DELETE"] {
            let modern = [("accept", BOTH), VERSION];
            let response = read(client.send(verb, "/mcp", &modern, "").await.unwrap()).await;
            assert_eq!((response.status, &*response.headers["allow"]), (405, "POST"));
            let legacy = [("accept", BOTH)];
            let response = read(client.send(verb, "/mcp", &legacy, "").await.unwrap()).await;
            assert_eq!(response.status, old, "{eras:?} {verb}");
        }
        let cancelled = json!({ "requestId": 1, "_meta": meta() });
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
        let response = client.post("/mcp", &cancelled.to_string()).await;
        assert_eq!((response.status, &*response.body), (202, ""));
    }
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_and_is_forgotten_when_it_goes() {
    let (server, http) = start(Eras::Both).await;
    let client = Client::new(&http);
    let filter = json!({ "promptsListChanged": true, "toolsListChanged": false, "resourceSubscriptions": ["test://a"] });
    let body = encode("subscriptions/listen", &json!({ "_meta": meta(), "notifications": filter }));
    let headers = [("accept", BOTH), VERSION, ("mcp-method", "subscriptions/listen")];
    let stream = client.send("POST", "/mcp", &headers, &body).await.unwrap();
    server.wait_for(|counters| counters.listening == 1).await;
    server.notify_list_changed(ListKind::Tools);
    server.notify_list_changed(ListKind::Prompts);
    server.update_resource("test://b");
    server.update_resource("test://a");
    let response = read(stream).await;
    assert_eq!(response.end, End::Silence);
    assert_eq!(response.event_id(), None, "nothing could be resumed");
    let heard: Vec<Value> =
        response.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let methods: Vec<_> = heard.iter().map(|event| event["method"].as_str().unwrap()).collect();
    assert_eq!(
        methods,
        [
            "notifications/subscriptions/acknowledged",
            "notifications/prompts/list_changed",
            "notifications/resources/updated"
        ]
    );
    let honoured = json!({ "promptsListChanged": true, "resourceSubscriptions": ["test://a"] });
    assert_eq!(heard[0]["params"]["notifications"], honoured);
    for event in heard {
        assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    }
    // Reading dropped the connection.
    server.wait_for(|counters| counters.listening == 0 && counters.sessions_open == 0).await;
}

#[tokio::test]
async fn hanging_up_cancels() {
    for style in [AnswerStyle::Json, AnswerStyle::Sse] {
        let (server, http) = start(Eras::Both).await;
        server.set_answer_style(style);
        let client = Client::new(&http);
        let params = json!({ "_meta": meta(), "name": "hold", "arguments": {} });
        let body = encode("tools/call", &params);
        let headers =
            [("accept", BOTH), VERSION, ("mcp-method", "tools/call"), ("mcp-name", "hold")];
        let stream = client.send("POST", "/mcp", &headers, &body).await.unwrap();
        server.wait_for(|counters| counters.calls == 1).await;
        drop(stream);
        server.wait_for(|counters| counters.abandoned == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_listen_on_one_line_until_one_is_cancelled() {
    let server = Server::new();
    server.set_eras(Eras::Modern);
    let memory = MemoryServer::new(server.clone());
    let (reader, writer) = tokio::io::split(memory.connect().unwrap());
    let mut client = Lines::new(reader, writer);
    for (id, wanted) in [(7, "toolsListChanged"), (8, "promptsListChanged")] {
        let params = json!({ "_meta": meta(), "notifications": { wanted: true } });
        let acknowledged = client.request(id, "subscriptions/listen", params).await;
        assert_eq!(acknowledged["params"]["notifications"], json!({ wanted: true }));
    }
    let subscription = |message: Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    server.notify_list_changed(ListKind::Prompts);
    assert_eq!(subscription(client.message().await), 8);
    let params = json!({ "requestId": 8 });
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    server.wait_for(|counters| counters.cancelled.len() == 1).await;
    server.notify_list_changed(ListKind::Prompts);
    server.notify_list_changed(ListKind::Tools);
    assert_eq!(subscription(client.message().await), 7);
}
