//! Payloads pass as they are.

use evergate_runtime::{CallFailure, HttpKind, Outcome, RawJson, Settings};
use evergate_testkit::{AnswerStyle, Fault, HttpServer, Server};
use serde_json::json;

use crate::support::*;

const RESULT: &str = r#"{"z":1,"content":[{"type":"new","v":1.0}],"a":9223372036854775808,"_meta":{"k":1e400},"esc":"\u00e9\/"}"#;

#[tokio::test]
async fn unknown_fields_key_order_and_big_integers_survive_every_transport() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_s, _m, memory) = memory();
    let all = [
        memory,
        Settings::http(http.url()),
        Settings::http(http.sse_url()).http_kind(HttpKind::Sse),
        Settings::http(http.rpc_url()).http_kind(HttpKind::Plain),
    ];
    for settings in all {
        for style in [AnswerStyle::Json, AnswerStyle::Sse] {
            server.set_answer_style(style);
            let (hub, s) = hub(settings.clone());
            let result = s.call_tool("raw", json!({ "json": RESULT })).await.unwrap();
            assert_eq!(result.as_str(), RESULT);
            hub.shutdown(SECOND).await;
        }
    }
}

#[tokio::test]
async fn arguments_may_be_spread_over_lines() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let pretty = RawJson::from_text("{\r\n  \"text\":\n  \"one\\ntwo\"\n}").unwrap();
    assert_eq!(text(&s.call_tool("echo", pretty).await.unwrap()), "one\ntwo");
}

#[tokio::test]
async fn an_error_of_the_server_arrives_unchanged_whatever_the_status() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(Settings::http(http.url()));
    connected(&s).await;
    let error = r#"{"message":"no","hint":[1.0],"code":-32099}"#;
    for status in [200, 400, 402, 409, 500, 503] {
        for id in ["\"id\":null,", ""] {
            let body = format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#);
            server.inject(Fault::Status(status, body)).on("tools/call").times(2);
            let failed = s.call_tool("bump", json!({})).await.unwrap_err();
            let CallFailure::Rpc(rpc) = &failed.source else { panic!("{status}: {failed:?}") };
            assert_eq!(rpc.raw.as_str(), error, "{status}");
            assert_eq!((failed.outcome, failed.retryable), (Outcome::Answered, false), "{status}");
            server.clear_faults();
        }
    }
    assert_eq!(s.status().generation.unwrap().get(), 1, "answers are not failures");
    // 401 is an answer too, and parks the server besides.
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
    server.inject(Fault::Status(401, body)).on("tools/call");
    let failed = s.call_tool("bump", json!({})).await.unwrap_err();
    assert!(matches!(&failed.source, CallFailure::Rpc(rpc) if rpc.raw.as_str() == error));
    reach(&s, evergate_runtime::StateKind::PermanentlyFailed).await;
}

#[tokio::test(start_paused = true)]
async fn large_results_fit_up_to_the_limit() {
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    let result = s.call_tool("big", json!({ "bytes": 4 * 1024 * 1024 })).await.unwrap();
    assert!(result.as_bytes().len() > 4 * 1024 * 1024);
}
