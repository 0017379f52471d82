//! What servers ask of us, and what they announce.

use std::sync::{Arc, Mutex};

use evergate_runtime::{Handlers, Hub, RawJson, RpcError, Settings};
use evergate_testkit::{Fault, HttpServer, Server};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::*;

fn handlers() -> Handlers {
    let answer = |value: Value| async move { Ok(RawJson::from(value)) };
    Handlers::new()
        .client_info("tester", "9")
        .on_sampling(move |_| answer(json!({ "role": "assistant", "content": { "type": "text", "text": "sampled" }, "model": "m" })))
        .on_elicitation(move |request| {
            assert_eq!(request.method, "elicitation/create");
            answer(json!({ "action": "accept", "content": {} }))
        })
        .on_roots(move |_| answer(json!({ "roots": [{ "uri": "file:///r" }] })))
}

fn with_handlers(settings: Settings, handlers: Handlers) -> (Hub, evergate_runtime::ServerHandle) {
    let hub = Hub::builder().server("s", settings).handlers(handlers).start().unwrap();
    let s = hub.server("s").unwrap();
    (hub, s)
}

#[tokio::test]
async fn sampling_elicitation_and_roots_reach_the_handlers_on_every_transport() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_server, _memory, in_memory) = memory();
    for settings in [in_memory, Settings::http(http.url()), Settings::http(http.sse_url())] {
        let (hub, s) = with_handlers(settings, handlers());
        for (tool, expected) in
            [("sample", "sampled"), ("elicit", "accept"), ("roots", "file:///r")]
        {
            let result = s.call_tool(tool, json!({})).deadline(5 * SECOND).await.unwrap();
            assert!(result.as_str().contains(expected), "{tool}: {}", result.as_str());
        }
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_handled_is_not_declared_and_refused() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let result = s.call_tool("sample", json!({})).deadline(5 * SECOND).await;
    let shown = format!("{:?}", result.map(|result| result.as_str().to_owned()));
    assert!(shown.contains("-32601"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_at_once_even_while_a_handler_is_busy() {
    let (server, _memory, settings) = memory();
    let busy = Arc::new(Notify::new());
    let released = busy.clone();
    let handlers = Handlers::new().on_sampling(move |_| {
        let busy = busy.clone();
        async move {
            busy.notified().await;
            Err(RpcError::with(-1, "no"))
        }
    });
    let (_hub, s) = with_handlers(settings, handlers);
    connected(&s).await;
    let sampling = server.request_client("sampling/createMessage", json!({}));
    let ping = server.request_client("ping", json!({}));
    assert_eq!(ping.await.unwrap()["result"], json!({}));
    released.notify_one();
    assert_eq!(sampling.await.unwrap()["error"]["code"], -1);
}

#[tokio::test]
async fn a_ping_on_the_listening_stream_is_answered() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.wait_for(|c| c.listening == 1).await;
    assert_eq!(server.request_client("ping", json!({})).await.unwrap()["result"], json!({}));
}

#[tokio::test]
async fn notifications_of_a_call_go_to_its_caller_and_others_to_the_hub() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(Settings::http(http.url()));
    let mut notifications = hub.notifications();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    s.call_tool("log", json!({}))
        .on_notification(move |n| sink.lock().unwrap().push(n.method))
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["notifications/message"]);
    server.wait_for(|c| c.listening == 1).await;
    server.notify("notifications/custom", json!({ "n": 1 }));
    let heard = notifications.recv().await.unwrap();
    assert_eq!((heard.method.as_str(), &*heard.server), ("notifications/custom", "s"));
    assert_eq!(heard.params.unwrap().as_str(), r#"{"n":1}"#);
}

#[tokio::test]
async fn calls_that_share_handlers_are_told_apart() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(Settings::http(http.url()));
    let (shared, own): (Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>) = Default::default();
    let sink = shared.clone();
    let handlers = Handlers::new()
        .on_notification(move |said, call| sink.lock().unwrap().push((call, said.method)));
    let handlers = Arc::new(handlers);
    for number in [7, 8] {
        let call = s.call_tool("log", json!({})).handlers(handlers.clone());
        call.number(number).await.unwrap();
    }
    let sink = own.clone();
    let call = s.call_tool("log", json!({})).handlers(handlers).number(9);
    call.on_notification(move |said| sink.lock().unwrap().push(said.method)).await.unwrap();
    let message = "notifications/message".to_owned();
    assert_eq!(*shared.lock().unwrap(), [(Some(7), message.clone()), (Some(8), message.clone())]);
    assert_eq!(*own.lock().unwrap(), [message], "its own comes first");
}

#[tokio::test]
async fn side_state_is_restored_after_a_new_generation() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = hub(fast(Settings::http(http.url())));
    let mut notifications = hub.notifications();
    s.set_log_level("warning").await.unwrap();
    s.subscribe("test://a").await.unwrap();
    s.subscribe("test://b").await.unwrap();
    s.unsubscribe("test://b").await.unwrap();
    http.kill().await;
    http.revive().await;
    beyond(&s, 1).await;
    server
        .wait_for(|c| c.subscriptions == ["test://a"] && c.log_level.as_deref() == Some("warning"))
        .await;
    // It may have changed while nobody was subscribed, so that is what the subscriber hears.
    let heard = notifications.recv().await.unwrap();
    assert_eq!(heard.method, "notifications/resources/updated");
    assert_eq!(
        (heard.generation.get(), heard.params.unwrap().as_str().to_owned()),
        (2, r#"{"uri":"test://a"}"#.into())
    );
    server.wait_for(|c| c.listening == 1).await;
    server.update_resource("test://a");
    assert_eq!(notifications.recv().await.unwrap().method, "notifications/resources/updated");
}

/// Requests may arrive in another order than they are sent in.
#[tokio::test(start_paused = true)]
async fn what_is_said_while_side_state_is_restored_has_the_last_word() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    s.set_log_level("error").await.unwrap();
    s.subscribe("test://a").await.unwrap();
    for method in ["logging/setLevel", "resources/subscribe"] {
        server.inject(Fault::DelayAnswer(SECOND)).on(method).arm();
    }
    s.restart();
    let came = async |method: &str, times| {
        let came = server.wait_for(|c| c.requests.get(method) == Some(&times));
        tokio::time::timeout(PATIENCE, came).await.expect(method);
    };
    came("logging/setLevel", 2).await;
    s.set_log_level("debug").await.unwrap();
    came("logging/setLevel", 4).await;
    assert!(server.received("logging/setLevel")[3].contains("debug"));
    came("resources/subscribe", 2).await;
    s.unsubscribe("test://a").await.unwrap();
    came("resources/unsubscribe", 2).await;
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_bounded_and_a_refused_one_is_not_kept() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.max_subscriptions(1));
    s.subscribe("test://a").await.unwrap();
    let error = s.subscribe("test://b").await.unwrap_err();
    assert!(error.to_string().contains("1 resources"), "{error}");
    s.subscribe("test://a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_roots_change_is_told() {
    let (server, _memory, settings) = memory();
    let (hub, s) = with_handlers(settings, handlers());
    connected(&s).await;
    hub.roots_changed();
    server.wait_for(|c| c.requests.contains_key("notifications/roots/list_changed")).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_with_the_connection_that_asked() {
    let (server, _memory, settings) = memory();
    let handlers = Handlers::new().on_sampling(|_| std::future::pending());
    let (hub, s) = with_handlers(settings, handlers);
    connected(&s).await;
    let asked = |n: u64| move |c: &evergate_testkit::Counters| c.handshakes >= n;
    for generation in 1..=3 {
        server.wait_for(asked(generation)).await;
        for _ in 0..70 {
            drop(server.request_client("sampling/createMessage", json!({})));
        }
        // However busy the embedder is, a ping is answered.
        assert_eq!(server.request_client("ping", json!({})).await.unwrap()["result"], json!({}));
        s.restart();
        beyond(&s, generation).await;
    }
    assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_subscription_that_fails_leaves_the_first_alone() {
    let (server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    s.subscribe("test://a").await.unwrap();
    memory.kill();
    reach(&s, evergate_runtime::StateKind::Disconnected).await;
    s.subscribe("test://a").await.unwrap_err();
    s.subscribe("test://b").await.unwrap_err();
    memory.revive();
    connected(&s).await;
    server.wait_for(|c| c.subscriptions == ["test://a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_too_much_at_once_is_told_so() {
    let (server, _memory, settings) = memory();
    let handlers = Handlers::new().on_sampling(|_| std::future::pending());
    let (_hub, s) = with_handlers(settings, handlers);
    connected(&s).await;
    let mut asked: Vec<_> =
        (0..70).map(|_| server.request_client("sampling/createMessage", json!({}))).collect();
    for refused in asked.drain(64..) {
        let answer = tokio::time::timeout(PATIENCE, refused).await.expect("an answer").unwrap();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(answer.to_string().contains("too many requests at once"), "{answer}");
    }
    for handled in &mut asked {
        handled.try_recv().unwrap_err();
    }
    assert_eq!(s.status().garbage, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_kept_for_whoever_of_several_is_left() {
    let (server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, evergate_runtime::StateKind::Reconnecting).await;
    let mut waiting = Vec::new();
    for uri in ["test://a", "test://a", "test://b", "test://b"] {
        let (s, held) = (s.clone(), s.status().held);
        waiting.push(tokio::spawn({
            let s = s.clone();
            async move { s.subscribe(uri).await }
        }));
        while s.status().held == held {
            tokio::task::yield_now().await;
        }
    }
    let kept = waiting.remove(1);
    for cancelled in waiting {
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
    }
    memory.revive();
    kept.await.unwrap().unwrap();
    s.restart();
    beyond(&s, s.status().generation.unwrap().get()).await;
    // By the caller, and by each new connection.
    let told = server.wait_for(|c| c.requests.get("resources/subscribe") == Some(&3));
    tokio::time::timeout(PATIENCE, told).await.expect("nobody restored it");
    let told = server.received("resources/subscribe");
    assert!(told.iter().all(|params| params.contains("test://a")), "{told:?}");
}
