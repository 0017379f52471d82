//! Gateways that want keys.

use std::path::Path;

use serde_json::{Value, json};

use crate::shell::{child, on, run, run_in, serving, serving_with};
use crate::support::Http;

const ADMIN: &str = "admin-0123456789abcdef";
const CLIENT: &str = "client-0123456789abcdef";

fn keys() -> Value {
    json!({ "auth": { "keys": [
        { "name": "ops", "key": ADMIN, "scopes": ["admin"] },
        { "name": "agents", "key": CLIENT },
    ] } })
}

#[tokio::test]
async fn whoever_may_read_the_state_directory_needs_no_key() {
    let gateway = serving_with(json!({ "docs": child(&[]) }), keys(), &["docs"]).await;
    assert_eq!(on(&gateway, &["status"]).code, 0);
    assert_eq!(on(&gateway, &["restart", "docs"]).code, 0);
}

#[tokio::test]
async fn others_need_one_with_the_right_scope_and_it_is_never_shown() {
    let gateway = serving_with(json!({ "docs": child(&[]) }), keys(), &["docs"]).await;
    let home = Path::new("/nonexistent");
    let status = ["status", "--url", &gateway.url];
    let none = run(&status);
    assert_eq!(none.code, 77, "{}", none.err);
    assert!(none.err.contains("wants a key") && none.err.contains("EVERGATE_KEY"), "{}", none.err);
    let wrong = run_in(home, &status, &[("EVERGATE_KEY", "wrong-0123456789abcdef")]);
    assert_eq!(wrong.code, 77, "{}", wrong.err);
    assert!(wrong.err.contains("does not know the key"), "{}", wrong.err);
    let client = run_in(home, &status, &[("EVERGATE_KEY", CLIENT)]);
    assert_eq!(client.code, 77, "{}", client.err);
    assert!(client.err.contains("scope admin"), "{}", client.err);
    assert_eq!(run_in(home, &status, &[("EVERGATE_KEY", ADMIN)]).code, 0);
    let given = run(&["status", "--url", &gateway.url, "--key", ADMIN]);
    assert_eq!(given.code, 0, "{}", given.err);
    for said in [none, wrong, client, given] {
        let shown = format!("{}{}", said.out, said.err);
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
    }
    assert!(!gateway.stderr().contains("0123456789abcdef"), "{}", gateway.stderr());
}

#[tokio::test]
async fn the_local_key_opens_no_server_and_demands_nothing_of_others() {
    let open = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    assert_eq!(Http::new(&open.at("/health")).get(&[]).await.status, 200);
    assert_eq!(run(&["status", "--url", &open.url]).code, 0);
    let closed = serving_with(json!({ "docs": child(&[]) }), keys(), &["docs"]).await;
    let file = closed.state_dir().join(format!("control-{}.json", closed.pid()));
    let text = std::fs::read_to_string(file).unwrap();
    let control: Value = serde_json::from_str(&text).unwrap();
    let local = control["key"].as_str().unwrap();
    let refused = closed.http().header("x-api-key", local).post(&[], "{}").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(!closed.stderr().contains(local));
}

#[tokio::test]
async fn a_gateway_that_goes_by_another_name_is_found_all_the_same() {
    let mut section = keys();
    section["allowed_hosts"] = json!(["gate.example"]);
    let config = json!({ "mcpServers": { "docs": child(&[]) }, "gateway": section });
    let gateway = crate::support::gateway(&config).listen("0.0.0.0:0").start();
    crate::shell::reaches(&gateway, "docs", "connected").await;
    let stranger = run(&["status", "--url", &gateway.url, "--key", ADMIN]);
    assert_eq!(stranger.code, 77, "{}", stranger.out);
    assert!(stranger.err.contains("allowed_hosts"), "{}", stranger.err);
}
