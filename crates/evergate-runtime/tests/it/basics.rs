//! Each transport carries a call, and the hub closes what it opened.

use evergate_runtime::{HttpKind, Settings};
use evergate_testkit::{HttpServer, Server};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn memory_round_trip() {
    let (_server, _memory, settings) = memory();
    let (hub, s) = hub(settings);
    let result = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    assert_eq!(text(&result), "hi");
    let report = hub.shutdown(SECOND).await;
    assert_eq!((report.interrupted_calls, report.unfinished_tasks), (0, 0));
}

#[tokio::test]
async fn every_http_kind_round_trip() {
    let http = HttpServer::start(Server::new()).await;
    let kinds = [
        (http.url(), HttpKind::Auto, "streamable_http"),
        (http.url(), HttpKind::Streamable, "streamable_http"),
        (http.sse_url(), HttpKind::Auto, "sse"),
        (http.sse_url(), HttpKind::Sse, "sse"),
        (http.rpc_url(), HttpKind::Auto, "plain_http"),
        (http.rpc_url(), HttpKind::Plain, "plain_http"),
    ];
    for (url, kind, transport) in kinds {
        let (hub, s) = hub(Settings::http(url).http_kind(kind));
        let result = s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
        assert_eq!(text(&result), "hi");
        assert_eq!(s.status().transport, Some(transport), "{kind:?}");
        let report = hub.shutdown(SECOND).await;
        assert_eq!(report.unfinished_tasks, 0, "{kind:?}");
    }
}
