//! A tool call whose params somebody else wrote: passed on as they are, and still a call of that tool.

use evergate_runtime::{CallFailure, HttpKind, Outcome, RawJson, Replay, Settings};
use evergate_testkit::{Fault, HttpServer, Server};
use serde_json::Value;

use crate::raw_http::RawHttp;
use crate::support::*;

const PARAMS: &str = r#"{"_meta":{"progressToken":"theirs","x/y":1.0},"arguments":{"n":9223372036854775808},"task":{"ttl":1e3},"name":"t"}"#;

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text.to_owned()).unwrap()
}

#[tokio::test]
async fn params_arrive_byte_for_byte_but_for_our_progress_token() {
    let peer = RawHttp::start(|_, _| None).await;
    let (_hub, s) = hub(Settings::http(&peer.url).http_kind(HttpKind::Streamable));
    s.call_tool_with("t", raw(PARAMS)).await.unwrap();
    s.call_tool_with("t", raw(PARAMS)).on_progress(drop).await.unwrap();
    let calls = peer.asked("tools/call");
    assert!(calls[0].body.ends_with(&format!("\"params\":{PARAMS}}}")), "{}", calls[0].body);
    let sent: Value = serde_json::from_str(&calls[1].body).unwrap();
    let ours = PARAMS.replace("\"theirs\"", &sent["id"].to_string());
    assert!(calls[1].body.ends_with(&format!("\"params\":{ours}}}")), "{}", calls[1].body);
}

#[tokio::test]
async fn the_rules_for_its_tool_hold() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let settings = fast(Settings::http(http.url())).replay_tool("again", Replay::Never);
    let (hub, s) = hub(settings);
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    for (tool, times) in [("read", 2), ("again", 1), ("bump", 1)] {
        server.inject(Fault::ExecuteThenCut).on("tools/call");
        let params = raw(&format!(r#"{{"name":"{tool}","arguments":{{"call_id":"{tool}"}}}}"#));
        let result = s.call_tool_with(tool, params).await;
        assert_eq!(result.is_ok(), times == 2, "{tool}");
        assert_eq!(server.executions(tool), times, "{tool}");
        connected(&s).await;
    }
}

#[tokio::test(start_paused = true)]
async fn params_that_are_no_object_cannot_carry_a_token() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let error = s.call_tool_with("echo", raw("[1]")).on_progress(drop).await.unwrap_err();
    assert!(matches!(error.source, CallFailure::InvalidParams), "{error}");
    assert_eq!(error.outcome, Outcome::NotSent);
}
