//! Every feature for every kind of client with every kind of server.
//!
//! The test of a feature is written once, for a [`Cell`]; the table at the end makes a test of it for each of them.

use evergate_testkit::{Eras, ListKind};
use serde_json::{Value, json};

use crate::caller::{Caller, Era, bare};
use crate::kit::{soon, status, text};
use crate::stateless_client::{LOG_LEVEL, SERVER_INFO};
use crate::support::{Gateway, until};
use crate::upstream::{Over, Upstream};

/// A client of one era, the gateway, and a server of one era.
struct Cell {
    era: Era,
    eras: Eras,
    up: Upstream,
    gateway: Gateway,
    caller: Caller,
}

// === impl Cell ===

impl Cell {
    /// Connected, and sure to be what it says.
    async fn start(era: Era, eras: Eras, over: Over) -> Self {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let status = status(&gateway, "up").await;
        let modern = eras == Eras::Modern;
        assert_eq!(status["protocol"], if modern { "2026-07-28" } else { "2025-11-25" });
        assert_eq!(up.server.counters().handshakes, u64::from(!modern));
        let caller = Caller::connect(&gateway, era).await;
        Self { era, eras, up, gateway, caller }
    }

    /// Asks for a list.
    async fn listed(&self, method: &str, list: &str, key: &str) -> Vec<String> {
        let answer = self.caller.request(method, json!({})).await;
        if self.era == Era::Modern {
            let result = &answer["result"];
            assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{answer}");
        }
        let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
        items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    }
}

/// A tool asks, the client answers, and the tool says what it was told.
async fn question(cell: Cell, tool: &str, method: &str, answer: Value) {
    let tool = format!("up__{tool}");
    let arguments = json!({ "call_id": "a" });
    let (asked, message) = cell.caller.ask(&tool, arguments, answer.clone()).await;
    let told: Value = serde_json::from_str(text(&message)).unwrap();
    assert_eq!(told["result"], answer);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0, method);
    match method {
        "sampling/createMessage" => assert_eq!(asked[0].1["maxTokens"], 16),
        "elicitation/create" => assert_eq!(asked[0].1["message"], "Who are you?"),
        _ => {}
    }
    // A second time, and by two at once.
    let (first, second) = tokio::join!(
        cell.caller.ask(&tool, json!({ "call_id": "b" }), answer.clone()),
        Box::pin(async {
            let other = Caller::connect(&cell.gateway, cell.era).await;
            match cell.up.over {
                Over::Http => other.ask(&tool, json!({ "call_id": "c" }), answer.clone()).await.1,
                // Two clients with questions at once cannot be told apart in one pipe.
                Over::Stdio => Value::Null,
            }
        })
    );
    for message in [first.1, second].into_iter().filter(|message| !message.is_null()) {
        let told: Value = serde_json::from_str(text(&message)).unwrap();
        assert_eq!(told["result"], answer);
    }
    if cell.eras == Eras::Legacy {
        assert_eq!(cell.up.server.executions("a"), 1, "one call, however many requests");
    }
}

// --- the features ---

async fn tools(cell: Cell) {
    let names = cell.listed("tools/list", "tools", "name").await;
    assert_eq!(names.len(), 15);
    assert!(names.contains(&"up__echo".to_owned()));
    let answer = cell.caller.call("up__echo", json!({ "text": "grüße" })).await;
    assert_eq!(text(&answer), "grüße");
    let failed = cell.caller.call("up__fail", json!({})).await;
    assert_eq!(failed["result"]["isError"], true);
    let answer = cell.caller.call("up__rpc_error", json!({})).await;
    let error = json!({ "code": -32050, "message": "scripted error", "data": { "why": "asked to" }, "hint": "extra" });
    assert_eq!(answer["error"], error);
    assert_eq!(cell.caller.call("up__nobody", json!({})).await["error"]["code"], -32602);
    // A large one whole, and one with bytes that a careless reader would change.
    let answer = cell.caller.call("up__big", json!({ "bytes": 300_000 })).await;
    assert_eq!(text(&answer).len(), 300_000);
    let raw =
        r#"{"structuredContent":{"big":12345678901234567,"e":1e2},"content":[],"_meta":{"x":1}}"#;
    let answer = cell.caller.call("up__raw", json!({ "json": raw })).await;
    assert_eq!(bare(&answer), serde_json::from_str::<Value>(raw).unwrap());
    if cell.era == Era::Modern {
        let info = cell.caller.request("server/discover", json!({})).await;
        assert_eq!(info["result"]["_meta"][SERVER_INFO]["name"], "evergate");
        assert_eq!(info["result"]["supportedVersions"], json!(["2026-07-28"]));
    }
}

async fn prompts(cell: Cell) {
    assert_eq!(cell.listed("prompts/list", "prompts", "name").await, ["up__greet"]);
    let params = json!({ "name": "up__greet", "arguments": { "name": "Ada" } });
    let answer = cell.caller.request("prompts/get", params).await;
    assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Hello, Ada!");
    let answer = cell.caller.request("prompts/get", json!({ "name": "up__nobody" })).await;
    assert_eq!(answer["error"]["code"], -32602);
}

async fn resources(cell: Cell) {
    let uris = cell.listed("resources/list", "resources", "uri").await;
    assert_eq!(uris, ["test://a", "test://b"]);
    let templates =
        cell.listed("resources/templates/list", "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, ["test://{name}"]);
    for uri in ["test://a", "test://of-the-template-ä"] {
        let answer = cell.caller.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["result"]["contents"][0]["text"], format!("contents of {uri}"));
        let is_hinted = answer["result"]["ttlMs"].is_u64();
        assert!(is_hinted || cell.era == Era::Legacy, "{answer}");
    }
    let missing = json!({ "uri": "other://nowhere" });
    let answer = cell.caller.request("resources/read", missing.clone()).await;
    // An error of a server's own passes unchanged, but for the code that later revisions do not have.
    let is_old = cell.era == Era::Legacy && cell.eras == Eras::Legacy;
    let code = if is_old { -32002 } else { -32602 };
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(code), &missing));
}

async fn completion(cell: Cell) {
    let argument = json!({ "name": "name", "value": "al" });
    for reference in [
        json!({ "type": "ref/prompt", "name": "up__greet" }),
        json!({ "type": "ref/resource", "uri": "test://{name}" }),
    ] {
        let params = json!({ "ref": reference, "argument": argument });
        let answer = cell.caller.request("completion/complete", params).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["alice"]), "{answer}");
    }
}

async fn elicitation(cell: Cell) {
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    question(cell, "elicit", "elicitation/create", answer).await;
}

async fn sampling(cell: Cell) {
    let content = json!({ "type": "text", "text": "hi" });
    let answer = json!({ "role": "assistant", "content": content, "model": "m" });
    question(cell, "sample", "sampling/createMessage", answer).await;
}

async fn roots(cell: Cell) {
    let answer = json!({ "roots": [{ "uri": "file:///r", "name": "r" }] });
    question(cell, "roots", "roots/list", answer).await;
}

async fn logging(cell: Cell) {
    let said = |level: &str| json!({ "level": level, "data": { "n": 1 } });
    let call = |level: &str| {
        let params = json!({ "name": "up__log", "arguments": { "params": said(level) } });
        match cell.era {
            Era::Legacy => params,
            Era::Modern => {
                let mut params = params;
                params["_meta"] = json!({ LOG_LEVEL: "warning" });
                params
            }
        }
    };
    let mut aside = None;
    if let Caller::Legacy(session) = &cell.caller {
        aside = Some(session.listen().await);
        let answer = cell.caller.request("logging/setLevel", json!({ "level": "warning" })).await;
        assert!(answer.get("result").is_some(), "{answer}");
    }
    let mut heard = Vec::new();
    for level in ["info", "warning", "alert"] {
        let (notes, answer) = match &cell.caller {
            // Without anything to say there is no stream.
            Caller::Legacy(_) if level == "info" => {
                (Vec::new(), cell.caller.request("tools/call", call(level)).await)
            }
            _ => hear(&cell, call(level)).await,
        };
        assert_eq!(text(&answer), "logged");
        heard.extend(notes);
    }
    // With a pipe nothing says which call a message is about; then it is on the stream for everything else.
    if let Some(events) = &mut aside {
        while heard.len() < 2 {
            heard.push(events.message().await.unwrap());
        }
    }
    let levels: Vec<_> = heard.iter().map(|note| &note["params"]["level"]).collect();
    assert_eq!(levels, ["warning", "alert"]);
    assert!(heard.iter().all(|note| note["method"] == "notifications/message"));
    assert_eq!(heard[0]["params"]["data"]["n"], 1);
    // Whoever does not want to hear, does not.
    if let Caller::Modern(client) = &cell.caller {
        let params = json!({ "name": "up__log", "arguments": { "params": said("alert") } });
        assert_eq!(client.request("tools/call", params).await.notes, Vec::<Value>::new());
    }
}

/// The stream of a call, or its answer if it is not a stream.
async fn hear(cell: &Cell, params: Value) -> (Vec<Value>, Value) {
    match (&cell.caller, cell.up.over) {
        (Caller::Legacy(_), Over::Stdio) => {
            (Vec::new(), cell.caller.request("tools/call", params).await)
        }
        _ => cell.caller.hear("tools/call", params).await,
    }
}

async fn progress(cell: Cell) {
    let arguments = json!({ "steps": 3, "ms": 30 });
    for token in [json!("own token"), json!(7)] {
        let mut params = json!({ "name": "up__progress", "arguments": arguments });
        params["_meta"] = json!({ "progressToken": token });
        let (notes, answer) = cell.caller.hear("tools/call", params).await;
        assert_eq!(text(&answer), "all steps done");
        let told: Vec<_> = notes.iter().map(|note| note["params"].clone()).collect();
        let step = |n: u64| json!({ "progressToken": token, "progress": n, "total": 3 });
        assert_eq!(told, [step(1), step(2), step(3)]);
    }
    // Who does not ask for it gets none.
    let answer = cell.caller.call("up__progress", arguments).await;
    assert_eq!(text(&answer), "all steps done");
}

async fn cancellation(cell: Cell) {
    // A tool that only waits, and one that has begun to speak.
    let calls = [("up__hold", json!({})), ("up__progress", json!({ "steps": 1000, "ms": 50 }))];
    for (number, (tool, arguments)) in (1..).zip(calls) {
        let begun = cell.caller.begin(tool, arguments);
        soon("it runs", cell.up.server.wait_for(|now| now.calls == number)).await;
        begun.cancel().await;
        until("the server hears of it", async || cell.up.cancelled() == number).await;
    }
    // The connection is none the worse for it.
    let answer = cell.caller.call("up__echo", json!({ "text": "hi" })).await;
    assert_eq!(text(&answer), "hi");
    assert_eq!(status(&cell.gateway, "up").await["generation"], 1);
    assert_eq!(status(&cell.gateway, "up").await["in_flight"], 0);
}

async fn subscriptions(cell: Cell) {
    const UPDATED: &str = "notifications/resources/updated";
    let server = &cell.up.server;
    let mut following = cell.caller.follow(&["test://a", "test://b"]).await;
    let subscribed = |now: &evergate_testkit::Counters| {
        let mut subscribed = now.subscriptions.clone();
        subscribed.sort();
        subscribed == ["test://a", "test://b"]
    };
    soon("it is told", server.wait_for(subscribed)).await;
    server.update_resource("test://c");
    server.update_resource("test://b");
    server.update_resource("test://a");
    // In this order, and nothing of the first.
    for uri in ["test://b", "test://a"] {
        assert_eq!(following.next_of(UPDATED).await["params"]["uri"], uri);
    }
    server.tool("new", Value::Null, |_| json!({ "content": [] }));
    server.notify_list_changed(ListKind::Tools);
    following.next_of("notifications/tools/list_changed").await;
    assert_eq!(cell.listed("tools/list", "tools", "name").await.len(), 16);
    server.set_prompts(vec![]);
    server.notify_list_changed(ListKind::Prompts);
    following.next_of("notifications/prompts/list_changed").await;
    server.set_resources(vec![]);
    server.notify_list_changed(ListKind::Resources);
    following.next_of("notifications/resources/list_changed").await;
    // It comes back, and everything with it.
    cell.up.crash(&cell.gateway).await;
    soon("it is told again", server.wait_for(subscribed)).await;
    server.update_resource("test://b");
    while following.next_of(UPDATED).await["params"]["uri"] != "test://b" {}
    following.stop().await;
    soon("it is told", server.wait_for(|now| now.subscriptions.is_empty())).await;
}

// --- the table ---

macro_rules! features {
    ($client:expr, $eras:expr, $over:expr => $($feature:ident),*) => {
        $(#[tokio::test]
        async fn $feature() {
            super::$feature(Cell::start($client, $eras, $over).await).await;
        })*
    };
}

macro_rules! cells {
    ($($cell:ident: $client:expr, $eras:expr, $over:expr;)*) => {
        $(mod $cell {
            use super::*;

            features! { $client, $eras, $over =>
                tools, prompts, resources, completion, elicitation, sampling, roots, logging, progress, cancellation,
                subscriptions
            }
        })*
    };
}

cells! {
    legacy_client_of_legacy_http: Era::Legacy, Eras::Legacy, Over::Http;
    legacy_client_of_legacy_stdio: Era::Legacy, Eras::Legacy, Over::Stdio;
    legacy_client_of_modern_http: Era::Legacy, Eras::Modern, Over::Http;
    legacy_client_of_modern_stdio: Era::Legacy, Eras::Modern, Over::Stdio;
    modern_client_of_legacy_http: Era::Modern, Eras::Legacy, Over::Http;
    modern_client_of_legacy_stdio: Era::Modern, Eras::Legacy, Over::Stdio;
    modern_client_of_modern_http: Era::Modern, Eras::Modern, Over::Http;
    modern_client_of_modern_stdio: Era::Modern, Eras::Modern, Over::Stdio;
}
