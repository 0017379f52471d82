//! Servers of revision 2026-07-28: no handshake, no session, every request for itself.

mod beginning;
mod headers;
mod kept_here;
mod lists;
mod raw_lines;
mod rounds;

use std::sync::Arc;

use evergate_runtime::{
    Catalog, Handlers, Hub, HubBuilder, Outcome, Protocol, ServerHandle, Settings,
};
use evergate_testkit::{Counters, Eras, Fault, HttpServer, ListKind, MemoryServer, Server};
use serde_json::{Value, json};

use crate::support::*;

fn started(builder: HubBuilder) -> (Hub, ServerHandle) {
    let hub = builder.start().unwrap();
    let s = hub.server("s").unwrap();
    (hub, s)
}

fn modern() -> Server {
    let server = Server::new();
    server.set_eras(Eras::Modern);
    server
}

/// The same server over every transport that has this revision.
async fn everywhere(server: &Server) -> (HttpServer, Vec<Settings>) {
    let http = HttpServer::start(server.clone()).await;
    let settings = vec![Settings::http(http.url()), memory(server)];
    (http, settings)
}

fn memory(server: &Server) -> Settings {
    Settings::memory(connector(&MemoryServer::new(server.clone())))
}

#[tokio::test]
async fn a_server_without_a_handshake_is_found_out_listed_and_called() {
    let server = modern();
    let (_http, all) = everywhere(&server).await;
    for settings in all {
        let (hub, s) = started(Hub::builder().server("s", settings));
        hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
        let result = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
        assert_eq!(text(&result), "hi");
        assert_eq!(s.status().protocol.unwrap().as_str(), "2026-07-28");
        assert_eq!(server.counters().handshakes, 0);
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn a_server_of_both_kinds_is_taken_for_the_newer_and_for_the_older_if_told_so() {
    let server = Server::new();
    server.set_eras(Eras::Both);
    let (_http, all) = everywhere(&server).await;
    for settings in all {
        for (protocol, date) in [
            (Protocol::Auto, "2026-07-28"),
            (Protocol::Legacy, "2025-11-25"),
            (Protocol::Modern, "2026-07-28"),
        ] {
            let settings = settings.clone().protocol(protocol);
            let (hub, s) = started(Hub::builder().server("s", settings));
            connected(&s).await;
            assert_eq!(s.status().protocol.unwrap().as_str(), date, "{protocol:?}");
            hub.shutdown(SECOND).await;
        }
    }
}

#[tokio::test]
async fn once_known_an_old_server_is_not_asked_again_whether_it_is_a_new_one() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = started(Hub::builder().server("s", Settings::http(http.url())));
    connected(&s).await;
    s.restart();
    server.wait_for(|counters| counters.handshakes == 2).await;
    connected(&s).await;
    assert_eq!(server.counters().requests.get("server/discover"), Some(&1));
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn what_a_server_asks_in_rounds_is_answered_like_what_others_ask_in_between() {
    let server = modern();
    let (_http, all) = everywhere(&server).await;
    for settings in all {
        let handlers = Handlers::new()
            .on_elicitation(|_| async { Ok(json!({ "action": "accept" }).into()) })
            .on_sampling(|_| async { Ok(json!({ "role": "assistant" }).into()) })
            .on_roots(|_| async { Ok(json!({ "roots": [] }).into()) });
        let (hub, s) = started(Hub::builder().server("s", settings).handlers(handlers));
        for (tool, answer) in [
            ("elicit", json!({ "action": "accept" })),
            ("sample", json!({ "role": "assistant" })),
            ("roots", json!({ "roots": [] })),
        ] {
            let result = s.call_tool(tool, json!({ "call_id": tool })).await.unwrap();
            let said: Value = serde_json::from_str(&text(&result)).unwrap();
            assert_eq!(said["result"], answer, "{tool}");
        }
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_the_call() {
    let server = modern();
    let (hub, s) = started(Hub::builder().server("s", memory(&server)));
    let error = s.call_tool("elicit", json!({})).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Answered);
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn changes_are_heard_of_and_what_happened_while_nobody_listened_is_found_out() {
    let server = modern();
    let http = HttpServer::start(server.clone()).await;
    let (hub, _) = started(Hub::builder().server("s", Settings::http(http.url())));
    let listened = |counters: &Counters| {
        counters.requests.get("subscriptions/listen").copied().unwrap_or_default()
    };
    server.wait_for(|counters| listened(counters) == 1).await;
    let mut catalog = hub.watch_catalog();
    catalog.wait_for(|catalog| catalog.server("s").is_some()).await.unwrap();
    let has = |name: &'static str| {
        move |catalog: &Arc<Catalog>| {
            catalog.server("s").is_some_and(|server| server.tool(name).is_some())
        }
    };
    let tool = |name: &str| server.tool(name, Value::Null, |_| json!({ "content": [] }));
    tool("new");
    server.notify_list_changed(ListKind::Tools);
    catalog.wait_for(has("new")).await.unwrap();
    server.cut_listening();
    tool("newer");
    catalog.wait_for(has("newer")).await.unwrap();
    assert_eq!(listened(&server.counters()), 2);
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn subscribed_resources_are_heard_of() {
    for over_http in [true, false] {
        let server = modern();
        let (_http, mut all) = everywhere(&server).await;
        let settings = all.swap_remove(usize::from(!over_http));
        let (hub, s) = started(Hub::builder().server("s", settings));
        connected(&s).await;
        let mut news = hub.notifications();
        s.subscribe("test://a").await.unwrap();
        server
            .wait_for(|counters| counters.subscriptions.iter().any(|uri| uri == "test://a"))
            .await;
        server.update_resource("test://a");
        let heard = loop {
            let heard = news.recv().await.unwrap();
            if heard.method == "notifications/resources/updated" {
                break heard;
            }
        };
        let params: Value = heard.params.unwrap().parse().unwrap();
        assert_eq!(params["uri"], "test://a");
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_sent_again_and_one_that_may_be_is() {
    let server = modern();
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = started(Hub::builder().server("s", Settings::http(http.url())));
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    server.inject(Fault::ExecuteThenCut).on_tool("bump").times(1);
    let error = s.call_tool("bump", json!({ "call_id": "a" })).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("a")), (Outcome::Unknown, 1));
    server.inject(Fault::ExecuteThenCut).on_tool("again").times(1);
    s.call_tool("again", json!({ "call_id": "b" })).await.unwrap();
    assert_eq!(server.executions("b"), 2);
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn a_server_may_come_back_as_another() {
    let server = Server::new();
    let (hub, s) = started(Hub::builder().server("s", memory(&server)));
    connected(&s).await;
    assert_eq!(s.status().protocol.unwrap().as_str(), "2025-11-25");
    for (eras, date) in [(Eras::Modern, "2026-07-28"), (Eras::Legacy, "2025-11-25")] {
        server.set_eras(eras);
        let before = s.status().generation;
        s.restart();
        let status = s.wait_until(30 * SECOND, |status| {
            status.state == evergate_runtime::StateKind::Connected && status.generation != before
        });
        assert_eq!(status.await.unwrap().protocol.unwrap().as_str(), date);
    }
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_not_taken_up_again_and_results_have_no_type() {
    let server = modern();
    server.set_answer_style(evergate_testkit::AnswerStyle::Sse);
    let http = HttpServer::start(server.clone()).await;
    let (hub, s) = started(Hub::builder().server("s", Settings::http(http.url())));
    let result = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    assert!(!result.as_str().contains("resultType"), "{}", result.as_str());
    server.inject(Fault::ExecuteThenCut).on_tool("bump").times(1);
    let error = s.call_tool("bump", json!({ "call_id": "a" })).await.unwrap_err();
    assert_eq!((error.outcome, server.executions("a")), (Outcome::Unknown, 1));
    assert_eq!(server.counters().requests.get("GET"), None);
    hub.shutdown(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_never_answered_ends_with_the_call_s_time_and_with_its_cancellation() {
    let server = modern();
    let handlers = Handlers::new().on_elicitation(|_| std::future::pending());
    let (hub, s) = started(Hub::builder().server("s", memory(&server)).handlers(handlers));
    let error = s.call_tool("elicit", json!({})).deadline(5 * SECOND).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
    let cancel = tokio_util::sync::CancellationToken::new();
    let call = s.call_tool("elicit", json!({})).cancel(cancel.clone());
    let (error, ()) = tokio::join!(call.into_future(), async {
        tokio::time::sleep(SECOND).await;
        cancel.cancel();
    });
    assert!(matches!(error.unwrap_err().source, evergate_runtime::CallFailure::Cancelled));
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn whoever_speaks_for_itself_hears_what_the_server_says() {
    let server = modern();
    let (_http, all) = everywhere(&server).await;
    for settings in all {
        let (hub, s) = started(Hub::builder().server("s", settings));
        s.set_log_level("error").await.unwrap();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "theirs",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            "io.modelcontextprotocol/clientInfo": { "name": "them", "version": "1" },
        });
        let params = json!({ "name": "elicit", "arguments": {}, "_meta": meta });
        let asked = s.call_tool_with("elicit", params.clone().into()).verbatim().await.unwrap();
        let asked: Value = asked.parse().unwrap();
        assert_eq!(asked["resultType"], "input_required");
        assert_eq!(asked["inputRequests"]["answer"]["method"], "elicitation/create");
        let mut again = params;
        again["inputResponses"] = json!({ "answer": { "action": "decline" } });
        again["requestState"] = asked["requestState"].clone();
        let result = s.call_tool_with("elicit", again.into()).verbatim().await.unwrap();
        assert!(text(&result).contains("decline"), "{}", result.as_str());
        assert!(result.as_str().contains("resultType"), "{}", result.as_str());
        let got: Value =
            serde_json::from_str(server.received("tools/call").last().unwrap()).unwrap();
        let mut said = meta;
        said["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        assert_eq!(got["_meta"], said);
        assert!(s.protocol().unwrap().is_modern());
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn an_old_server_does_not_hear_what_only_newer_ones_know() {
    let server = Server::new();
    let (hub, s) = started(Hub::builder().server("s", memory(&server)));
    let meta = json!({
        "x": 1.5,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {},
        "io.modelcontextprotocol/logLevel": "info",
    });
    let params = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": meta });
    let result = s.call_tool_with("echo", params.into()).verbatim().await.unwrap();
    assert_eq!(text(&result), "hi");
    let got: Value = serde_json::from_str(&server.received("tools/call")[0]).unwrap();
    assert_eq!(got["_meta"], json!({ "x": 1.5 }));
    assert!(!s.protocol().unwrap().is_modern());
    hub.shutdown(SECOND).await;
}
