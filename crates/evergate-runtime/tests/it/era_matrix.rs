//! Every feature with every kind of server: whoever embeds the runtime must not have to know which one it is.
//!
//! The test of a feature is written once, for a [`Cell`]; the table at the end makes a test of it for each of them.

use std::sync::{Arc, Mutex};

use evergate_runtime::{
    CallFailure, Catalog, Handlers, Hub, Outcome, RawJson, ServerHandle, ServerRequest,
};
use evergate_testkit::{Eras, ListKind, Server};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::support::*;

/// A server of one era behind one transport.
struct Cell {
    eras: Eras,
    over: Over,
    server: Server,
}

/// What was asked of a handler: the method and the params.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

// === impl Cell ===

impl Cell {
    fn new(eras: Eras, over: Over) -> Self {
        let server = Server::new();
        server.set_eras(eras);
        // Whoever has no sessions may name one all the same.
        server.set_stray_session_ids(true);
        Self { eras, over, server }
    }

    /// Connected and listed, and sure to be what the cell says.
    async fn start(&self, handlers: Handlers) -> (Hub, ServerHandle) {
        let (hub, s) = hub_over(self.over, &self.server, handlers);
        hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
        let (status, modern) = (s.status(), self.eras == Eras::Modern);
        let revision = if modern { "2026-07-28" } else { "2025-11-25" };
        let transport = if self.over == Over::Http { "streamable_http" } else { "memory" };
        assert_eq!(status.protocol.unwrap().as_str(), revision);
        assert_eq!(status.transport, Some(transport));
        assert_eq!(self.server.counters().handshakes, u64::from(!modern));
        (hub, s)
    }

    /// Waits until changes are heard of.
    async fn heard(&self) {
        let (eras, over) = (self.eras, self.over);
        let listens = |counters: &evergate_testkit::Counters| match (eras, over) {
            (_, Over::Http) => counters.listening == 1,
            (Eras::Legacy, Over::Lines) => counters.initialized == 1,
            (_, Over::Lines) => counters.requests.contains_key("subscriptions/listen"),
        };
        self.server.wait_for(listens).await;
    }
}

/// Nothing is left under way.
async fn shut_down(hub: Hub) {
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
}

/// Answers one kind of question, and keeps what was asked.
fn answering(
    answer: Value,
) -> (
    Asked,
    impl Fn(ServerRequest) -> std::future::Ready<Result<RawJson, evergate_runtime::RpcError>>,
) {
    let asked = Asked::default();
    let keep = asked.clone();
    let handler = move |request: ServerRequest| {
        let params = request.params.map(|params| params.parse().unwrap()).unwrap_or_default();
        keep.lock().unwrap().push((request.method, params));
        std::future::ready(Ok(answer.clone().into()))
    };
    (asked, handler)
}

/// A tool asks, the handler answers, and the tool says what it was told. Once through the hub's handlers, and once
/// through those of the call, which come first.
async fn question(cell: Cell, tool: &str, method: &str, declared: &str, answer: Value) {
    let register = |handlers: Handlers, handler| match declared {
        "sampling" => handlers.on_sampling(handler),
        "elicitation" => handlers.on_elicitation(handler),
        _ => handlers.on_roots(handler),
    };
    let (by_hub, handler) = answering(answer.clone());
    let (hub, s) = cell.start(register(Handlers::new(), handler)).await;
    let (by_call, handler) = answering(answer.clone());
    let of_call = Arc::new(register(Handlers::new(), handler));
    let told = |result: RawJson| serde_json::from_str::<Value>(&text(&result)).unwrap();

    let result = s.call_tool(tool, json!({ "call_id": "a" })).await.unwrap();
    assert_eq!(told(result)["result"], answer);
    let result = s.call_tool(tool, json!({})).handlers(of_call).await.unwrap();
    assert_eq!(told(result)["result"], answer);

    for asked in [by_hub, by_call] {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].0, method);
        match declared {
            "sampling" => assert_eq!(asked[0].1["maxTokens"], 16),
            "elicitation" => assert_eq!(asked[0].1["message"], "Who are you?"),
            _ => {}
        }
    }
    // The server was told beforehand whom it can ask.
    let (message, at) = if cell.eras == Eras::Modern {
        ("tools/call", "/_meta/io.modelcontextprotocol~1clientCapabilities")
    } else {
        ("initialize", "/capabilities")
    };
    let params: Value = serde_json::from_str(&cell.server.received(message)[0]).unwrap();
    assert!(params.pointer(at).unwrap()[declared].is_object(), "{params}");
    shut_down(hub).await;
}

/// The params of everything of this method that is announced within ten minutes of virtual time.
async fn announced(
    news: &mut Receiver<evergate_runtime::Notification>,
    method: &str,
) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while let Ok(notification) = timeout_at(until, news.recv()).await {
        let notification = notification.unwrap();
        assert_eq!(notification.method, method);
        all.push(notification.params.unwrap().parse().unwrap());
    }
    all
}

// --- the features ---

async fn tools(cell: Cell) {
    cell.server.set_page_size(4);
    let (hub, s) = cell.start(Handlers::new()).await;
    let catalog = hub.catalog();
    let listed = catalog.server("s").unwrap();
    assert_eq!(listed.tools.len(), 15);
    assert!(listed.tool("read").unwrap().harmless && !listed.tool("bump").unwrap().harmless);
    let info: Value = listed.server_info.parse().unwrap();
    assert_eq!(info["name"], "evergate-testkit");

    let result = s.call_tool("echo", json!({ "text": "grüße" })).await.unwrap();
    assert_eq!(text(&result), "grüße");
    let failed: Value = s.call_tool("fail", json!({})).await.unwrap().parse().unwrap();
    assert_eq!(failed["isError"], true);
    assert_eq!(failed.get("resultType"), None);
    for (tool, code) in [("rpc_error", -32050), ("nobody", -32602)] {
        let error = s.call_tool(tool, json!({})).await.unwrap_err();
        assert_eq!((error.outcome, error.retryable), (Outcome::Answered, false));
        let CallFailure::Rpc(error) = error.source else { panic!("{error}") };
        assert_eq!(error.code, code);
    }
    // A large one whole, and one with bytes that a careless reader would change.
    let result = s.call_tool("big", json!({ "bytes": 300_000 })).await.unwrap();
    assert_eq!(text(&result).len(), 300_000);
    let raw = r#"{"structuredContent":{"big":12345678901234567890123,"e":1e400},"content":[]}"#;
    let result = s.call_tool("raw", json!({ "json": raw })).await.unwrap();
    assert_eq!(result.as_str(), raw);
    let says_session = cell.server.counters().last_headers.contains_key("mcp-session-id");
    assert_eq!(says_session, cell.eras == Eras::Legacy && cell.over == Over::Http);
    shut_down(hub).await;
}

async fn prompts(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    let catalog = hub.catalog();
    let prompt: Value = catalog.server("s").unwrap().prompts[0].raw.parse().unwrap();
    assert_eq!(prompt["arguments"][0]["name"], "name");
    let params = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let result: Value =
        s.request("prompts/get", Some(params.into())).await.unwrap().parse().unwrap();
    assert_eq!(result["messages"][0]["content"]["text"], "Hello, Ada!");
    assert_eq!(result.get("resultType"), None);
    let error = s.request("prompts/get", Some(json!({ "name": "nobody" }).into())).await;
    let CallFailure::Rpc(error) = error.unwrap_err().source else { panic!("no answer") };
    assert_eq!(error.code, -32602);
    shut_down(hub).await;
}

async fn resources(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    let catalog = hub.catalog();
    let listed = catalog.server("s").unwrap();
    let keys = |items: &[evergate_runtime::Item]| -> Vec<String> {
        items.iter().map(|item| item.key.clone()).collect()
    };
    assert_eq!(keys(&listed.resources), ["test://a", "test://b"]);
    assert_eq!(keys(&listed.resource_templates), ["test://{name}"]);
    let read =
        async |uri: &str| s.request("resources/read", Some(json!({ "uri": uri }).into())).await;
    for uri in ["test://a", "test://of the template/ä"] {
        let result: Value = read(uri).await.unwrap().parse().unwrap();
        assert_eq!(result["contents"][0]["text"], format!("contents of {uri}"));
    }
    let error = read("other://nowhere").await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Answered);
    let CallFailure::Rpc(error) = error.source else { panic!("{error}") };
    let raw: Value = error.raw.parse().unwrap();
    assert_eq!(raw["data"]["uri"], "other://nowhere");
    shut_down(hub).await;
}

async fn completion(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "greet" },
        "argument": { "name": "name", "value": "al" },
    });
    let result: Value =
        s.request("completion/complete", Some(params.into())).await.unwrap().parse().unwrap();
    assert_eq!(result["completion"]["values"], json!(["alice"]));
    shut_down(hub).await;
}

async fn elicitation(cell: Cell) {
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    question(cell, "elicit", "elicitation/create", "elicitation", answer).await;
}

async fn sampling(cell: Cell) {
    let content = json!({ "type": "text", "text": "hi" });
    let answer = json!({ "role": "assistant", "content": content, "model": "m" });
    question(cell, "sample", "sampling/createMessage", "sampling", answer).await;
}

async fn roots(cell: Cell) {
    let answer = json!({ "roots": [{ "uri": "file:///r", "name": "r" }] });
    question(cell, "roots", "roots/list", "roots", answer).await;
}

async fn logging(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    s.set_log_level("warning").await.unwrap();
    // Once more after a reconnect, of which the embedder need not know.
    for generation in 1..=2 {
        let mut news = hub.notifications();
        for level in ["info", "warning", "alert"] {
            let said = json!({ "level": level, "data": { "from": generation } });
            s.call_tool("log", json!({ "params": said })).await.unwrap();
        }
        let heard = announced(&mut news, "notifications/message").await;
        let levels: Vec<_> = heard.iter().map(|params| &params["level"]).collect();
        assert_eq!(levels, ["warning", "alert"], "generation {generation}");
        assert_eq!(heard[0]["data"]["from"], generation);
        s.restart();
        beyond(&s, generation).await;
        if cell.eras == Eras::Legacy {
            // It is told again in the background.
            let told = generation + 1;
            let times =
                |c: &evergate_testkit::Counters| c.requests.get("logging/setLevel").copied();
            cell.server.wait_for(|c| times(c) == Some(told)).await;
        }
    }
    shut_down(hub).await;
}

async fn progress(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = seen.clone();
    let running = s.call_tool("progress", json!({ "steps": 3, "ms": 400 }));
    // Each sign of life gives it the whole of its time again.
    let running = running.timeout(SECOND / 2).on_progress(move |progress| {
        let raw: Value = progress.raw.parse().unwrap();
        keep.lock().unwrap().push((progress.progress, raw["total"].clone()));
    });
    assert_eq!(text(&running.await.unwrap()), "all steps done");
    assert_eq!(*seen.lock().unwrap(), [(1.0, json!(3)), (2.0, json!(3)), (3.0, json!(3))]);
    shut_down(hub).await;
}

async fn cancellation(cell: Cell) {
    let (hub, s) = cell.start(Handlers::new()).await;
    // By saying so or by hanging up: whichever way the revision has.
    let cancelled = |counters: &evergate_testkit::Counters| {
        counters.cancelled.len() as u64 + counters.abandoned
    };
    // A tool that only waits, and one that has begun to speak.
    let calls = [("hold", json!({})), ("progress", json!({ "steps": 100, "ms": 1000 }))];
    for (number, (tool, arguments)) in calls.into_iter().enumerate() {
        let token = CancellationToken::new();
        let running = s.call_tool(tool, arguments).cancel(token.clone()).on_progress(drop);
        let (result, ()) = tokio::join!(running.into_future(), async {
            cell.server.wait_for(|counters| counters.calls == number as u64 + 1).await;
            tokio::time::sleep(3 * SECOND).await;
            token.cancel();
        });
        let error = result.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown);
        assert!(matches!(error.source, CallFailure::Cancelled));
        cell.server.wait_for(|counters| cancelled(counters) == number as u64 + 1).await;
    }
    // A call whose time runs out is cancelled too, and the connection is none the worse for any of it.
    let late = s.call_tool("hold", json!({})).deadline(SECOND).await.unwrap_err();
    assert!(matches!(late.source, CallFailure::TimedOut { .. }));
    cell.server.wait_for(|counters| cancelled(counters) == 3).await;
    assert_eq!(text(&s.call_tool("echo", json!({ "text": "hi" })).await.unwrap()), "hi");
    assert_eq!(s.status().generation.unwrap().get(), 1);
    shut_down(hub).await;
}

async fn subscriptions(cell: Cell) {
    const UPDATED: &str = "notifications/resources/updated";
    let (hub, s) = cell.start(Handlers::new()).await;
    cell.heard().await;
    let mut news = hub.notifications();
    let a = json!({ "uri": "test://a" });
    s.subscribe("test://a").await.unwrap();
    s.subscribe("test://b").await.unwrap();
    assert_eq!(cell.server.counters().subscriptions, ["test://a", "test://b"]);
    cell.server.update_resource("test://a");
    cell.server.update_resource("test://c");
    assert_eq!(announced(&mut news, UPDATED).await, std::slice::from_ref(&a));

    s.unsubscribe("test://b").await.unwrap();
    cell.server.wait_for(|counters| counters.subscriptions == ["test://a"]).await;
    cell.server.update_resource("test://b");
    cell.server.update_resource("test://a");
    assert_eq!(announced(&mut news, UPDATED).await, std::slice::from_ref(&a));

    let lists = |catalog: &Arc<Catalog>| {
        let listed = catalog.server("s").unwrap();
        (listed.tools.len(), listed.prompts.len(), listed.resources.len())
    };
    cell.server.tool("new", Value::Null, |_| json!({ "content": [] }));
    cell.server.set_prompts(vec![]);
    cell.server.set_resources(vec![]);
    for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
        cell.server.notify_list_changed(kind);
    }
    hub.watch_catalog().wait_for(|catalog| lists(catalog) == (16, 0, 0)).await.unwrap();

    // It may have changed while nobody was connected.
    s.restart();
    beyond(&s, 1).await;
    assert_eq!(announced(&mut news, UPDATED).await, [a]);
    assert_eq!(cell.server.counters().subscriptions, ["test://a"]);
    shut_down(hub).await;
}

// --- the table ---

macro_rules! features {
    ($eras:expr, $over:expr => $($feature:ident),*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $feature() {
            super::$feature(Cell::new($eras, $over)).await;
        })*
    };
}

macro_rules! cells {
    ($($cell:ident: $eras:expr, $over:expr;)*) => {
        $(mod $cell {
            use super::*;

            features! { $eras, $over =>
                tools, prompts, resources, completion, elicitation, sampling, roots, logging, progress, cancellation,
                subscriptions
            }
        })*
    };
}

cells! {
    legacy_http: Eras::Legacy, Over::Http;
    legacy_stdio: Eras::Legacy, Over::Lines;
    modern_http: Eras::Modern, Over::Http;
    modern_stdio: Eras::Modern, Over::Lines;
}
