//! Servers that limit the rate of calls, and clients whose rate is limited.

use evergate_testkit::Fault;
use serde_json::json;

use crate::kit::{at_with, merged, quick, servers, web};
use crate::support::{Http, gateway};

#[tokio::test]
async fn a_server_that_limits_the_rate_is_left_alone_and_clients_learn_for_how_long() {
    let http = web().await;
    let lifecycle = merged(quick(), json!({ "rate_limit": { "threshold": 2, "pause": "90s" } }));
    let entry = at_with(&http, json!({ "lifecycle": lifecycle }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
    http.server().inject(Fault::RateLimited { retry_after: None }).on_tool("bump").times(2);
    for _ in 0..2 {
        let error = client.call("web__bump", json!({})).await["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["outcome"]),
            (&json!(-31002), &json!("rejected"))
        );
    }
    let error = client.call("web__bump", json!({})).await["error"].clone();
    assert_eq!(error["code"], -31001, "{error}");
    let data = &error["data"];
    assert_eq!((&data["outcome"], &data["retryable"]), (&json!("not_sent"), &json!(true)));
    let seconds = data["retry_after"].as_u64().unwrap();
    assert!((80..=90).contains(&seconds), "{error}");
    assert!(data["hint"].as_str().unwrap().contains("limits the rate"), "{error}");
    assert_eq!(
        http.server().counters().calls,
        1,
        "neither refused call ran, and the last was not sent"
    );
    for path in ["/health", "/api/v1/gateway"] {
        let report = Http::new(&gateway.at(path)).get(&[]).await.json();
        assert_eq!(report["status"], "degraded", "{path}: {report}");
    }
    // What the gateway answers itself is answered all the same.
    assert!(client.tool_names().await.contains(&"web__bump".to_owned()));
}
