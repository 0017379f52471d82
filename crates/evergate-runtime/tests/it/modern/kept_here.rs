//! What servers of this revision have no methods for any more.

use evergate_runtime::{CallFailure, Outcome};
use evergate_testkit::Fault;
use serde_json::json;

use super::{memory, modern, started};
use crate::support::{PATIENCE, SECOND, connected};

#[tokio::test(start_paused = true)]
async fn a_ping_asks_whether_somebody_is_there() {
    let server = modern();
    let (hub, s) = started(evergate_runtime::Hub::builder().server("s", memory(&server)));
    connected(&s).await;
    let before = server.counters().requests["server/discover"];
    let result = s.request("ping", None).await.unwrap();
    assert_eq!(result.as_str(), "{}");
    assert_eq!(server.counters().requests["server/discover"], before + 1);
    server.inject(Fault::HangBeforeHeaders).on("server/discover").forever();
    for failures in [1, 2] {
        let error = s.request("ping", None).deadline(SECOND).await.unwrap_err();
        assert!(matches!(error.source, CallFailure::TimedOut { .. }), "{error}");
        // What is answered here meanwhile says nothing about the server's health.
        s.set_log_level("info").await.unwrap();
        let counted = s.wait_until(PATIENCE, |status| status.rpc_failures == failures).await;
        assert!(counted.is_ok(), "{:?}", s.status());
    }
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn what_is_not_offered_or_does_not_exist_is_refused() {
    let server = modern();
    server.set_capabilities(json!({ "tools": {}, "resources": {} }));
    let (hub, s) = started(evergate_runtime::Hub::builder().server("s", memory(&server)));
    connected(&s).await;
    let code = |failure: &CallFailure| match failure {
        CallFailure::Rpc(error) => error.code,
        other => panic!("{other}"),
    };
    let error = s.set_log_level("loud").await.unwrap_err();
    assert_eq!((code(&error.source), error.outcome), (-32602, Outcome::NotSent));
    assert_eq!(code(&s.set_log_level("info").await.unwrap_err().source), -32601);
    assert!(s.subscribe("test://a").await.is_err());
    // Nothing of it goes along with other requests.
    s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    assert!(!server.received("tools/call")[0].contains("logLevel"));
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn what_is_said_in_the_words_of_earlier_revisions_is_kept() {
    let server = modern();
    let (hub, s) = started(evergate_runtime::Hub::builder().server("s", memory(&server)));
    connected(&s).await;
    let level = |level: &str| Some(json!({ "level": level }).into());
    s.request("logging/setLevel", level("error")).await.unwrap();
    s.request("logging/setLevel", level("loud")).await.unwrap_err();
    s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    assert!(
        server.received("tools/call")[0].contains(r#""io.modelcontextprotocol/logLevel":"error""#)
    );
    s.request("resources/subscribe", Some(json!({ "uri": "test://a" }).into())).await.unwrap();
    server.wait_for(|counters| counters.subscriptions.iter().any(|uri| uri == "test://a")).await;
    hub.shutdown(SECOND).await;
}
