//! What a server asks because of a call reaches that call's own caller, or nobody.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evergate_runtime::{
    Attribution, CallFailure, Handlers, Hub, RawJson, ServerHandle, ServerRequest, Settings,
};
use evergate_testkit::{HttpServer, Server};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::raw_http::RawHttp;
use crate::support::*;

type Heard = Arc<Mutex<Vec<(String, Attribution)>>>;

/// Answers everything with its own name, and notes what it was asked.
fn named(name: &'static str, heard: &Heard) -> Handlers {
    let heard = heard.clone();
    Handlers::new().on_any(move |request: ServerRequest| {
        heard.lock().unwrap().push((request.method, request.attribution));
        async move { Ok(RawJson::from(json!({ "who": name }))) }
    })
}

/// Never answers; says when it was asked and when its future was dropped.
fn thinking() -> (Arc<Handlers>, Arc<Notify>, Arc<Notify>) {
    struct Tell(Arc<Notify>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (asked, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handlers = Handlers::new().on_any({
        let (asked, dropped) = (asked.clone(), dropped.clone());
        move |_| {
            let tell = Tell(dropped.clone());
            asked.notify_one();
            async move {
                let _tell = tell;
                std::future::pending().await
            }
        }
    });
    (Arc::new(handlers), asked, dropped)
}

fn with_own(settings: Settings, own: Handlers) -> (Hub, ServerHandle) {
    let own = own.declare(json!({ "sampling": {}, "elicitation": {} }));
    let hub = Hub::builder().server("s", settings).handlers(own).start().unwrap();
    let s = hub.server("s").unwrap();
    (hub, s)
}

fn answer_of(result: &RawJson) -> String {
    let response: Value = serde_json::from_str(&text(result)).unwrap();
    response["result"]["who"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn on_its_own_stream_each_of_many_calls_is_asked_for_itself() {
    let http = HttpServer::start(Server::new()).await;
    let own = Heard::default();
    let (_hub, s) = with_own(Settings::http(http.url()), named("hub", &own));
    let (a, b) = (Heard::default(), Heard::default());
    let ask = |name, heard: &Heard| {
        let call = s.call_tool("elicit", json!({})).handlers(Arc::new(named(name, heard)));
        tokio::spawn(call.into_future())
    };
    let calls: Vec<_> =
        (0..20).map(|n| if n % 2 == 0 { ask("a", &a) } else { ask("b", &b) }).collect();
    for (n, call) in calls.into_iter().enumerate() {
        let expected = if n % 2 == 0 { "a" } else { "b" };
        assert_eq!(answer_of(&call.await.unwrap().unwrap()), expected);
    }
    for heard in [a, b] {
        let expected = ("elicitation/create".to_owned(), Attribution::Call);
        assert_eq!(*heard.lock().unwrap(), vec![expected; 10]);
    }
    // A call without handlers is the hub's business, whoever else is in flight.
    let (waiting, ..) = thinking();
    let other = s.call_tool("hold", json!({ "call_id": "h" })).handlers(waiting);
    let _other = tokio::spawn(other.into_future());
    assert_eq!(answer_of(&s.call_tool("sample", json!({})).await.unwrap()), "hub");
    assert_eq!(own.lock().unwrap()[0].1, Attribution::Nobody);
}

#[tokio::test]
async fn on_a_shared_stream_only_the_only_caller_is_asked() {
    let kit = Server::new();
    let http = HttpServer::start(kit.clone()).await;
    let (in_memory, _memory, settings) = memory();
    let rows = [
        (in_memory, settings),
        (kit.clone(), Settings::http(http.sse_url())),
        (kit, Settings::http(http.url())),
    ];
    for (server, settings) in rows {
        let (own, heard) = (Heard::default(), Heard::default());
        let (hub, s) = with_own(settings, named("hub", &own));
        connected(&s).await;
        if s.status().transport == Some("streamable_http") {
            server.wait_for(|c| c.listening == 1).await;
        }
        let before = server.counters().calls;
        let hold = |handlers: &Arc<Handlers>| {
            let call = s.call_tool("hold", json!({})).handlers(handlers.clone());
            tokio::spawn(call.into_future())
        };
        let ask = async || {
            let answer = server.request_client("sampling/createMessage", json!({})).await.unwrap();
            answer["result"]["who"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(ask().await, "hub");
        // Two calls of one caller, and one of nobody.
        let one = Arc::new(named("one", &heard));
        let calls = [hold(&one), hold(&one)];
        let plain = tokio::spawn(s.call_tool("hold", json!({})).into_future());
        server.wait_for(|c| c.calls == before + 3).await;
        assert_eq!(ask().await, "one");
        // Another caller comes: now nobody can tell.
        let other = hold(&Arc::new(named("other", &heard)));
        server.wait_for(|c| c.calls == before + 4).await;
        assert_eq!(ask().await, "hub");
        server.release_held();
        for call in calls.into_iter().chain([plain, other]) {
            call.await.unwrap().unwrap();
        }
        assert_eq!(ask().await, "hub");
        let seen = |heard: &Heard| heard.lock().unwrap().iter().map(|(_, how)| *how).collect();
        let by_hub: Vec<Attribution> = seen(&own);
        let by_caller: Vec<Attribution> = seen(&heard);
        assert_eq!(by_hub, [Attribution::Nobody, Attribution::Ambiguous, Attribution::Nobody]);
        assert_eq!(by_caller, [Attribution::OnlyCaller]);
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_its_call_ends() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let (handlers, asked, dropped) = thinking();
    // The caller gives up.
    let cancel = CancellationToken::new();
    let call = s.call_tool("elicit", json!({})).handlers(handlers.clone()).cancel(cancel.clone());
    let call = tokio::spawn(call.into_future());
    asked.notified().await;
    cancel.cancel();
    dropped.notified().await;
    assert!(matches!(call.await.unwrap().unwrap_err().source, CallFailure::Cancelled));
    // Its time is up.
    let call = s.call_tool("elicit", json!({})).handlers(handlers.clone()).deadline(SECOND);
    assert!(matches!(call.await.unwrap_err().source, CallFailure::TimedOut { .. }));
    asked.notified().await;
    dropped.notified().await;
    // The caller is gone.
    let call =
        tokio::spawn(s.call_tool("elicit", json!({})).handlers(handlers.clone()).into_future());
    asked.notified().await;
    call.abort();
    dropped.notified().await;
    // The server answers without waiting, and is told why it gets nothing.
    let call = s.call_tool("slow", json!({ "ms": 1000 })).handlers(handlers);
    let call = tokio::spawn(call.into_future());
    server.wait_for(|c| c.calls == 4).await;
    let answer = server.request_client("sampling/createMessage", json!({}));
    call.await.unwrap().unwrap();
    dropped.notified().await;
    let answer = answer.await.unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("has ended"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_the_server_withdraws_its_request() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let (handlers, asked, dropped) = thinking();
    let call = s.call_tool("elicit", json!({})).handlers(handlers).timeout(SECOND);
    let call = tokio::spawn(call.into_future());
    asked.notified().await;
    let started = Instant::now();
    // The id is one of the first the server used.
    for id in 0..50 {
        server.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    dropped.notified().await;
    // From then on it is the server's time again.
    assert!(matches!(call.await.unwrap().unwrap_err().source, CallFailure::TimedOut { .. }));
    assert_eq!(started.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_time_a_caller_takes_to_answer_is_not_the_calls() {
    let (server, _memory, settings) = memory();
    let (_hub, s) = hub(settings.timeout(5 * SECOND).max_timeout(200 * SECOND));
    let slow = |delay: Duration| {
        Arc::new(Handlers::new().on_any(move |_| async move {
            tokio::time::sleep(delay).await;
            Ok(RawJson::empty_object())
        }))
    };
    s.call_tool("elicit", json!({})).handlers(slow(100 * SECOND)).await.unwrap();
    // It is the call's again once the answer is given.
    let started = Instant::now();
    let call = s.call_tool("hold", json!({})).handlers(slow(100 * SECOND));
    let call = tokio::spawn(call.into_future());
    server.wait_for(|c| c.calls == 2).await;
    drop(server.request_client("sampling/createMessage", json!({})));
    assert!(matches!(call.await.unwrap().unwrap_err().source, CallFailure::TimedOut { .. }));
    assert_eq!(started.elapsed(), 105 * SECOND);
    // And there is an end to it, whoever thinks.
    for (deadline, end) in [(None, 200), (Some(30), 30)] {
        let started = Instant::now();
        let mut call = s.call_tool("elicit", json!({})).handlers(slow(PATIENCE));
        if let Some(seconds) = deadline {
            call = call.deadline(seconds * SECOND);
        }
        assert!(matches!(call.await.unwrap_err().source, CallFailure::TimedOut { .. }));
        assert_eq!(started.elapsed(), end * SECOND);
    }
}

#[tokio::test]
async fn declared_capabilities_are_declared_as_they_are() {
    let peer = RawHttp::start(|_, _| None).await;
    let declared = json!({ "elicitation": { "form": {}, "url": {} }, "experimental": { "x": 1 } });
    let roots = json!({ "roots": {} });
    for (n, capabilities) in [declared, roots].into_iter().enumerate() {
        let own = Handlers::new().declare(capabilities.clone());
        let hub =
            Hub::builder().server("s", Settings::http(&peer.url)).handlers(own).start().unwrap();
        connected(&hub.server("s").unwrap()).await;
        let hello: Value = serde_json::from_str(&peer.asked("initialize")[n].body).unwrap();
        assert_eq!(hello["params"]["capabilities"], capabilities);
        hub.roots_changed();
        peer.wait_for("notifications/roots/list_changed", n).await;
        hub.shutdown(SECOND).await;
        assert_eq!(peer.asked("notifications/roots/list_changed").len(), n);
    }
}
