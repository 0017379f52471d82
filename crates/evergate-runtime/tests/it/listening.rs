//! The listening stream: an idle server is not a forgotten one.

use evergate_runtime::{Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, ListKind, Server, SessionLoss};
use serde_json::json;

use crate::support::*;

async fn start() -> (Server, HttpServer) {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    (server, http)
}

#[tokio::test]
async fn an_idle_session_that_expires_is_renewed_without_any_call() {
    for shape in [
        SessionLoss::NotFound404,
        SessionLoss::BadRequest400NoValidSession,
        SessionLoss::BadRequest400Opaque,
    ] {
        let (server, http) = start().await;
        let (hub, s) = hub(fast(Settings::http(http.url())));
        connected(&s).await;
        server.wait_for(|c| c.listening == 1).await;
        hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
        server.expire_sessions(shape.clone());
        // What changed while nobody was listening is not lost either.
        server.set_tools(vec![json!({ "name": "new", "inputSchema": {} })]);
        beyond(&s, 1).await;
        hub.watch_catalog().wait_for(|catalog| catalog.version == 2).await.unwrap();
        server.wait_for(|c| c.listening == 1).await;
        assert_eq!((server.counters().handshakes, server.counters().calls), (2, 0), "{shape:?}");
        assert_eq!(s.status().reason.as_str(), "handshake_done");
    }
}

#[tokio::test]
async fn a_server_restarted_while_idle_is_found_again() {
    let (server, http) = start().await;
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    server.wait_for(|c| c.listening == 1).await;
    http.kill().await;
    reach(&s, StateKind::Reconnecting).await;
    http.revive().await;
    beyond(&s, 1).await;
    server.wait_for(|c| c.listening == 1).await;
    assert_eq!(server.counters().calls, 0);
}

#[tokio::test]
async fn list_changed_arrives_on_the_listening_stream() {
    let (server, http) = start().await;
    let (hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    server.wait_for(|c| c.listening == 1).await;
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
    server.set_tools(vec![]);
    server.notify_list_changed(ListKind::Tools);
    hub.watch_catalog().wait_for(|catalog| catalog.version == 2).await.unwrap();
    assert_eq!((s.status().generation.unwrap().get(), server.counters().handshakes), (1, 1));
}

#[tokio::test]
async fn a_stream_that_fails_for_now_is_tried_again() {
    let (server, http) = start().await;
    server.inject(Fault::Status(503, "later".into())).on("GET").times(1);
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.wait_for(|c| c.listening == 1).await;
    assert_eq!(s.status().generation.unwrap().get(), 1);
}

#[tokio::test]
async fn what_changes_before_anybody_listens_is_seen_when_somebody_does() {
    let (server, http) = start().await;
    server.inject(Fault::Status(503, "later".into())).on("GET");
    let (hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
    // Announced to nobody.
    server.set_tools(vec![]);
    server.clear_faults();
    hub.watch_catalog().wait_for(|catalog| catalog.version == 2).await.unwrap();
}

#[tokio::test]
async fn a_clean_end_with_retry_is_honoured() {
    let (server, http) = start().await;
    server.inject(Fault::SseRetry(50)).on("GET").times(1);
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    server.wait_for(|c| c.listening == 1 && c.faults == 1).await;
    assert_eq!(s.status().generation.unwrap().get(), 1);
}
