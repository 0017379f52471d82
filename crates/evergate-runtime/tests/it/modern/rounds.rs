//! Questions in place of results, and what else a result may turn out to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evergate_runtime::{CallFailure, Handlers, Hub, Outcome, Replay, ServerHandle, Settings};
use evergate_testkit::{Fault, HttpServer};
use serde_json::{Value, json};

use super::raw_lines::{RawLines, Said, discovered, initialized};
use super::{modern, started};
use crate::support::*;

const NOW: Duration = Duration::ZERO;

/// A server without a handshake whose tools do as told.
fn with_tools(
    tools: impl Fn(&str, &Value) -> Said + Send + Sync + 'static,
) -> (RawLines, Settings) {
    RawLines::start(NOW, move |message| match message["method"].as_str().unwrap() {
        "server/discover" => discovered(),
        "tools/call" => {
            let params = &message["params"];
            tools(params["name"].as_str().unwrap(), params)
        }
        _ => Said::Nothing,
    })
}

fn question() -> Said {
    question_with("s")
}

fn question_with(state: &str) -> Said {
    Said::Result(json!({
        "resultType": "input_required",
        "inputRequests": { "q": { "method": "elicitation/create", "params": {} } },
        "requestState": state,
    }))
}

fn done() -> Said {
    Said::Result(
        json!({ "resultType": "complete", "content": [{ "type": "text", "text": "done" }] }),
    )
}

/// A hub whose user agrees with everything.
fn agreeing(settings: Settings) -> (Hub, ServerHandle) {
    let handlers =
        Handlers::new().on_elicitation(|_| async { Ok(json!({ "action": "accept" }).into()) });
    started(Hub::builder().server("s", settings).handlers(handlers))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_wants_to_be_asked_again_gets_its_note_and_nothing_else() {
    let (peer, settings) = with_tools(|_, params| match &params["requestState"] {
        Value::Null => Said::Result(json!({ "resultType": "input_required", "requestState": "s" })),
        _ => done(),
    });
    let (_hub, s) = agreeing(settings);
    assert_eq!(text(&s.call_tool("t", json!({ "a": 1 })).await.unwrap()), "done");
    let again = &peer.params("tools/call")[1];
    assert_eq!(again["arguments"], json!({ "a": 1 }));
    assert_eq!((&again["requestState"], again.get("inputResponses")), (&json!("s"), None));
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_as_a_result_is_an_error() {
    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (n.to_string(), json!({ "method": "roots/list" }))).collect();
    for result in [
        json!({ "resultType": "input_required" }),
        json!({ "resultType": "input_required", "inputRequests": {} }),
        json!({ "resultType": "input_required", "inputRequests": many }),
        json!({ "resultType": "input_required", "inputRequests": 1 }),
        json!({ "resultType": "task", "taskId": "1" }),
        json!({ "resultType": "of tomorrow" }),
    ] {
        let said = result.clone();
        let (peer, settings) = with_tools(move |_, _| Said::Result(said.clone()));
        let (_hub, s) = agreeing(settings);
        let error = s.call_tool("t", json!({})).await.unwrap_err();
        assert!(matches!(&error.source, CallFailure::Rpc(_)), "{result} {error}");
        assert_eq!((error.outcome, peer.params("tools/call").len()), (Outcome::Answered, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_a_result_for_whoever_knows_tasks() {
    let task = json!({ "resultType": "task", "taskId": "1" });
    let said = task.clone();
    let (_, settings) = with_tools(move |_, _| Said::Result(said.clone()));
    let (_hub, s) = agreeing(settings);
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": tasks });
    let params = json!({ "name": "t", "_meta": meta });
    let result: Value = s.call_tool_with("t", params.into()).await.unwrap().parse().unwrap();
    assert_eq!(result, task);
    let params = json!({ "name": "t" });
    let result = s.call_tool_with("t", params.into()).verbatim().await.unwrap();
    assert_eq!(result.parse::<Value>().unwrap(), task);
}

#[tokio::test(start_paused = true)]
async fn an_answered_question_does_not_queue_again() {
    let (_, settings) = with_tools(|name, params| match (name, &params["requestState"]) {
        ("ask", Value::Null) => question(),
        ("ask", _) => done(),
        _ => Said::Nothing,
    });
    let told = Arc::new(tokio::sync::Semaphore::new(0));
    let asked = told.clone();
    let handlers = Handlers::new().on_elicitation(move |_| {
        let asked = asked.clone();
        async move {
            asked.acquire().await.unwrap().forget();
            Ok(json!({ "action": "accept" }).into())
        }
    });
    let settings = settings.max_in_flight(1).hold(SECOND);
    let (_hub, s) = started(Hub::builder().server("s", settings).handlers(handlers));
    let asking = tokio::spawn(s.call_tool("ask", json!({})).into_future());
    while s.status().in_flight == 0 {
        tokio::time::sleep(SECOND / 100).await;
    }
    let waiting = tokio::spawn(s.call_tool("never", json!({})).hold(PATIENCE).into_future());
    while s.status().held == 0 {
        tokio::time::sleep(SECOND / 100).await;
    }
    told.add_permits(1);
    assert_eq!(text(&asking.await.unwrap().unwrap()), "done");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn only_the_server_that_asked_hears_the_answer() {
    for comes_back_as_an_old_one in [false, true] {
        let died = Arc::new(AtomicBool::new(false));
        let has_died = died.clone();
        let (peer, settings) = RawLines::start(NOW, move |message| {
            let (old, params) =
                (comes_back_as_an_old_one && has_died.load(Ordering::SeqCst), &message["params"]);
            match message["method"].as_str().unwrap() {
                "server/discover" if old => Said::Error(-32601, Value::Null),
                "server/discover" => discovered(),
                "initialize" => initialized(),
                "tools/call" if params["name"] == "die" => {
                    has_died.store(true, Ordering::SeqCst);
                    Said::End
                }
                "tools/call" if old || params["requestState"] == "s" => done(),
                "tools/call" => question(),
                _ => Said::Nothing,
            }
        });
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        // Whoever is asked first does not answer before the server is gone.
        let handlers = Handlers::new().on_elicitation(move |_| {
            let nth = count.fetch_add(1, Ordering::SeqCst);
            async move {
                if nth == 0 {
                    std::future::pending::<()>().await;
                }
                Ok(json!({ "action": "accept" }).into())
            }
        });
        let (_hub, s) = started(Hub::builder().server("s", settings).handlers(handlers));
        let calling = tokio::spawn(s.call_tool("ask", json!({})).into_future());
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(SECOND / 100).await;
        }
        let _ = s.call_tool("die", json!({})).await;
        assert_eq!(text(&calling.await.unwrap().unwrap()), "done");
        let rounds: Vec<bool> = peer
            .params("tools/call")
            .iter()
            .filter(|params| params["name"] == "ask")
            .map(|params| params.get("inputResponses").is_some())
            .collect();
        let expected: &[bool] =
            if comes_back_as_an_old_one { &[false, false] } else { &[false, false, true] };
        assert_eq!(rounds, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_its_own_note_is_asked_from_the_beginning_but_not_for_ever() {
    for times in [1, usize::MAX] {
        let forgets = AtomicUsize::new(times);
        let (peer, settings) = with_tools(move |_, params| {
            if params["requestState"].is_null() {
                return question();
            }
            let left = forgets.load(Ordering::SeqCst);
            forgets.store(left.saturating_sub(1), Ordering::SeqCst);
            match left {
                0 => done(),
                _ => Said::Error(-32602, json!({ "reason": "invalid_request_state" })),
            }
        });
        let (_hub, s) = agreeing(settings);
        let result = s.call_tool("t", json!({})).await;
        assert_eq!(result.is_ok(), times == 1);
        assert_eq!(peer.params("tools/call").len(), if times == 1 { 4 } else { 6 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_that_is_sent_again_to_another_begins_anew() {
    let deaths = AtomicUsize::new(0);
    let (peer, settings) = with_tools(move |_, params| match &params["requestState"] {
        Value::Null => question(),
        _ if deaths.fetch_add(1, Ordering::SeqCst) == 0 => Said::End,
        _ => done(),
    });
    let (_hub, s) = agreeing(settings);
    let result = s.call_tool("t", json!({})).replay(Replay::Always).await.unwrap();
    assert_eq!(text(&result), "done");
    let rounds: Vec<bool> = peer
        .params("tools/call")
        .iter()
        .map(|params| params.get("inputResponses").is_some())
        .collect();
    assert_eq!(rounds, [false, true, false, true]);
}

#[tokio::test]
async fn a_call_that_is_refused_after_somebody_answered_may_have_run() {
    let server = modern();
    let http = HttpServer::start(server.clone()).await;
    server.inject(Fault::Status(429, String::new())).on_tool("elicit").after(1);
    let (hub, s) = agreeing(Settings::http(http.url()));
    let error = s.call_tool("elicit", json!({})).await.unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false));
    hub.shutdown(SECOND).await;
}

/// Asks twice, and forgets that once.
fn asks_twice_and_forgets() -> impl Fn(&Value) -> Said + Send + Sync + 'static {
    let forgot = AtomicBool::new(false);
    move |params| match params["requestState"].as_str() {
        None => question_with("first"),
        Some("first") => question_with("second"),
        _ if forgot.swap(true, Ordering::SeqCst) => done(),
        _ => Said::Error(-32602, json!({ "reason": "invalid_request_state" })),
    }
}

fn answers(peer: &RawLines, method: &str) -> usize {
    let those = peer.params(method);
    those.iter().filter(|params| params.get("inputResponses").is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn an_answered_round_is_repeated_only_if_the_whole_may_be() {
    for replay in [None, Some(Replay::Always), Some(Replay::Never)] {
        let tool = asks_twice_and_forgets();
        let (peer, settings) = with_tools(move |_, params| tool(params));
        let (_hub, s) = agreeing(settings);
        let mut call = s.call_tool("t", json!({}));
        if let Some(replay) = replay {
            call = call.replay(replay);
        }
        let result = call.await;
        if replay == Some(Replay::Always) {
            assert_eq!(
                (text(&result.unwrap()).as_str(), answers(&peer, "tools/call")),
                ("done", 4)
            );
        } else {
            let error = result.unwrap_err();
            assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false), "{error}");
            assert_eq!((answers(&peer, "tools/call"), peer.params("tools/call").len()), (2, 3));
        }
    }
    // What only looks may be done again in any case.
    let prompt = asks_twice_and_forgets();
    let (peer, settings) =
        RawLines::start(NOW, move |message| match message["method"].as_str().unwrap() {
            "server/discover" => discovered(),
            "prompts/get" => prompt(&message["params"]),
            _ => Said::Nothing,
        });
    let (_hub, s) = agreeing(settings);
    s.request("prompts/get", Some(json!({ "name": "p" }).into())).await.unwrap();
    assert_eq!(answers(&peer, "prompts/get"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_after_an_answered_round_leaves_an_unknown_outcome() {
    let (peer, settings) =
        with_tools(|name, params| match (name, params["requestState"].as_str()) {
            ("die", _) => Said::End,
            (_, None) => question_with("first"),
            (_, Some("first")) => question_with("second"),
            _ => done(),
        });
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let handlers = Handlers::new().on_elicitation(move |_| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        async move {
            if nth == 1 {
                std::future::pending::<()>().await;
            }
            Ok(json!({ "action": "accept" }).into())
        }
    });
    let (_hub, s) = started(Hub::builder().server("s", settings).handlers(handlers));
    let calling = tokio::spawn(s.call_tool("ask", json!({})).into_future());
    while asked.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(SECOND / 100).await;
    }
    let _ = s.call_tool("die", json!({})).await;
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!((error.outcome, error.retryable), (Outcome::Unknown, false), "{error}");
    assert_eq!((asked.load(Ordering::SeqCst), answers(&peer, "tools/call")), (2, 1));
}
