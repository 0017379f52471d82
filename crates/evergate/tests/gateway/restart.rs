//! The gateway restarts, and its clients go on with the sessions they have.

use std::os::unix::fs::PermissionsExt as _;

use http::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{
    anew, at, at_with, child, connect_to, delete, next_of, ping_status, servers, soon, web,
};
use crate::support::{Gateway, gateway, until};

async fn saved(gateway: &Gateway, word: &str) {
    let path = gateway.state_dir().join("sessions.json");
    until("it is on disk", async || {
        std::fs::read_to_string(&path).unwrap_or_default().contains(word)
    })
    .await;
}

#[tokio::test]
async fn a_session_survives_the_gateway() {
    let http = web().await;
    let config = servers(json!({ "web": at(&http), "c": child(&[]) }));
    let mut gateway = gateway(&config).start();
    let (all, one) = (gateway.connect().await, connect_to(&gateway, "web").await);
    let names = all.tool_names().await;
    for (n, signal) in [Signal::TERM, Signal::KILL, Signal::KILL].into_iter().enumerate() {
        gateway = gateway.restart(signal).await;
        let (all, one) = (anew(&all), anew(&one));
        assert_eq!(all.call_text("web__bump", json!({})).await, (2 * n + 1).to_string());
        assert_eq!(one.call_text("bump", json!({})).await, (2 * n + 2).to_string());
        all.call_text("c__pid", json!({})).await;
        assert_eq!(all.tool_names().await, names);
    }
    assert_eq!(http.server().counters().calls, 6);
}

#[tokio::test]
async fn subscriptions_and_log_levels_survive_the_gateway() {
    let http = web().await;
    let mut gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let (quiet, loud) = (gateway.connect().await, gateway.connect().await);
    quiet.tool_names().await;
    loud.request("logging/setLevel", json!({ "level": "debug" })).await;
    quiet.request("logging/setLevel", json!({ "level": "error" })).await;
    quiet.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    saved(&gateway, "test://a").await;
    for signal in [Signal::KILL, Signal::TERM] {
        // The session of the gateway that is gone.
        http.server().forget_sessions();
        gateway = gateway.restart(signal).await;
        let mut to_quiet = anew(&quiet).listen().await;
        let mut to_loud = anew(&loud).listen().await;
        soon("subscribed", http.server().wait_for(|now| now.subscriptions == ["test://a"])).await;
        soon("it listens", http.server().wait_for(|now| now.listening == 1)).await;
        until("the louder level counts", async || {
            let levels = http.server().received("logging/setLevel");
            levels.last().is_some_and(|params| params.contains("debug"))
        })
        .await;
        http.server().notify("notifications/message", json!({ "level": "info", "data": "i" }));
        http.server().notify("notifications/message", json!({ "level": "alert", "data": "a" }));
        http.server().update_resource("test://a");
        assert_eq!(next_of(&mut to_quiet, "notifications/message").await["params"]["data"], "a");
        assert_eq!(next_of(&mut to_loud, "notifications/message").await["params"]["data"], "i");
        next_of(&mut to_quiet, "notifications/resources/updated").await;
    }
}

#[tokio::test]
async fn a_subscription_is_made_again_however_late_the_server_comes_back() {
    let http = web().await;
    let entry = at_with(&http, json!({ "hold": "200ms" }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    client.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    saved(&gateway, "test://a").await;
    http.kill().await;
    let _gateway = gateway.restart(Signal::KILL).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::OK);
    // Longer than a call is held.
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    http.revive().await;
    soon("subscribed", http.server().wait_for(|now| now.subscriptions == ["test://a"])).await;
}

fn write_keys(gateway: &Gateway, keys: &[&str]) {
    let path = gateway.state_dir().join("session.key");
    std::fs::write(&path, keys.join("\n")).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn keys_are_rotated_without_losing_a_session_and_an_old_key_ends_its_sessions() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let old = gateway.connect().await;
    let old_key = std::fs::read_to_string(gateway.state_dir().join("session.key")).unwrap();
    let (old_key, new_key) = (old_key.trim(), "n".repeat(64));
    write_keys(&gateway, &[&new_key, old_key]);
    let gateway = gateway.restart(Signal::TERM).await;
    assert_eq!(ping_status(&anew(&old)).await, StatusCode::OK);
    let new = gateway.connect().await;
    write_keys(&gateway, &[&new_key]);
    let _gateway = gateway.restart(Signal::TERM).await;
    assert_eq!(ping_status(&anew(&old)).await, StatusCode::NOT_FOUND);
    assert_eq!(ping_status(&anew(&new)).await, StatusCode::OK);
}

#[tokio::test]
async fn an_idle_session_ends_and_stays_ended() {
    let http = web().await;
    let config = json!({
        "gateway": { "session_idle": "1s" },
        "mcpServers": { "web": at_with(&http, json!({ "isolation": "per_client" })) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    assert_eq!(gateway.health().await["sessions"], 1);
    until("it ends", async || gateway.health().await["sessions"] == 0).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
    soon("its own is given back", http.server().wait_for(|now| now.sessions_deleted == 1)).await;
    let gateway = gateway.restart(Signal::TERM).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
    saved(&gateway, "ended").await;
    let _gateway = gateway.restart(Signal::KILL).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_that_was_given_back_stays_gone() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    delete(&client).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
    let _gateway = gateway.restart(Signal::TERM).await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
}

/// The file is rounded to minutes, so this one is edited instead of waited for.
#[tokio::test]
async fn a_session_that_expired_while_the_gateway_was_away_does_not_come_back() {
    let http = web().await;
    let config = json!({
        "gateway": { "session_idle": "1s" },
        "mcpServers": { "web": at(&http) },
    });
    let mut gateway = gateway(&config).start();
    let client = gateway.connect().await;
    saved(&gateway, "last_seen").await;
    gateway.signal(Signal::TERM);
    gateway.ended().await;
    let path = gateway.state_dir().join("sessions.json");
    let mut file: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for session in file["sessions"].as_object_mut().unwrap().values_mut() {
        session["last_seen"] = json!(1_000_000);
    }
    std::fs::write(&path, file.to_string()).unwrap();
    let gateway = gateway.restart_ended();
    until("it is swept", async || {
        let text = std::fs::read_to_string(&path).unwrap();
        !text.contains("1000000")
    })
    .await;
    assert_eq!(ping_status(&anew(&client)).await, StatusCode::NOT_FOUND);
    drop(gateway);
}
