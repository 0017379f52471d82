//! The end of the process: calls finish, children end, whatever kind of end it is.

use std::time::{Duration, Instant};

use http::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{at, begin, child, child_with, pid_of, servers, soon, text, web};
use crate::support::{Http, exists, gateway, until};

#[tokio::test]
async fn a_call_in_flight_finishes_new_ones_are_refused_and_nobody_is_left_behind() {
    let http = web().await;
    let config = servers(json!({
        "web": at(&http),
        "c": child(&["--spawn-grandchildren", "1"]),
        "own": child_with(&[], json!({ "isolation": "per_client" })),
    }));
    let mut gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let pids = [pid_of(&client, "c__pid").await, pid_of(&client, "own__pid").await];
    let call = begin(&client, "web__hold", json!({}));
    let slow = begin(&client, "own__slow", json!({ "ms": 800 }));
    soon("it is under way", http.server().wait_for(|now| now.calls == 1)).await;
    gateway.signal(Signal::TERM);
    let ready = Http::new(&gateway.at("/readyz"));
    until("it drains", async || ready.get(&[]).await.status == 503).await;
    let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }).to_string();
    let refused = client.http.post(&client.headers(), ping).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(gateway.http().post(&[], "{}").await.status, StatusCode::BAD_REQUEST);
    // A call that waits for its client's word can still be answered and cancelled: notifications are taken.
    client.notify("notifications/cancelled", json!({ "requestId": "nothing" })).await;
    assert!(exists(pids[0]), "children end after the calls");
    assert_eq!(text(&soon("its answer", slow).await.unwrap()), "slow but done");
    http.server().release_held();
    assert_eq!(text(&soon("its answer", call).await.unwrap()), "released");
    assert!(gateway.ended().await.success());
    for pid in pids {
        assert!(!exists(pid), "{pid} is left");
    }
    assert_eq!(http.server().counters().sessions_deleted, 1);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_children_with_it() {
    let http = web().await;
    let stubborn = child(&["--ignore-stdin-eof", "--ignore-sigterm"]);
    let mut gateway = gateway(&servers(json!({ "web": at(&http), "c": stubborn }))).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "c__pid").await;
    let call = begin(&client, "web__hold", json!({}));
    soon("it is under way", http.server().wait_for(|now| now.calls == 1)).await;
    gateway.signal(Signal::TERM);
    let ready = Http::new(&gateway.at("/readyz"));
    until("it drains", async || ready.get(&[]).await.status == 503).await;
    // Sooner it would be the same word twice.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    gateway.signal(Signal::INT);
    let status = gateway.ended().await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(status.code(), Some(70));
    until("the child ends too", async || !exists(pid)).await;
    assert!(call.await.is_err(), "its connection was cut");
}

#[tokio::test]
async fn calls_that_outlast_the_drain_time_are_cut_with_an_error_that_says_so() {
    let http = web().await;
    let config = json!({
        "gateway": { "drain": "300ms" },
        "mcpServers": { "web": at(&http), "c": child(&[]) },
    });
    let mut gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "c__pid").await;
    let calls = [
        begin(&client, "web__hold", json!({})),
        begin(&client, "c__slow", json!({ "ms": 60_000 })),
    ];
    until("both are under way", async || {
        let health = gateway.health().await;
        let in_flight = |name: &str| health["servers"][name]["in_flight"] == 1;
        in_flight("web") && in_flight("c")
    })
    .await;
    gateway.signal(Signal::TERM);
    for call in calls {
        let answer = soon("an end", call).await.unwrap();
        assert_eq!(answer["error"]["code"], -31003, "{answer}");
        assert_eq!(answer["error"]["data"]["outcome"], "unknown");
    }
    assert!(gateway.ended().await.success());
    assert!(!exists(pid));
    assert!(gateway.stderr().contains("calls were cut off"), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_no_child_behind() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pids");
    let args =
        ["--ignore-stdin-eof", "--ignore-sigterm", "--spawn-grandchildren", "2", "--pid-file"];
    let args = [&args[..], &[pid_file.to_str().unwrap()]].concat();
    let config = servers(json!({
        "c": child(&args),
        "own": child_with(&[], json!({ "isolation": "per_client" })),
    }));
    let mut gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let mut pids = vec![pid_of(&client, "c__pid").await, pid_of(&client, "own__pid").await];
    let grandchildren = std::fs::read_to_string(&pid_file).unwrap();
    pids.extend(grandchildren.lines().map(|pid| pid.parse::<u32>().unwrap()));
    assert_eq!(pids.len(), 4);
    gateway.signal(Signal::KILL);
    gateway.ended().await;
    until("all of them end", async || !pids.iter().any(|pid| exists(*pid))).await;
}

#[tokio::test]
async fn asked_over_http_it_ends_in_the_same_way() {
    let http = web().await;
    let mut gateway = gateway(&servers(json!({ "web": at(&http), "c": child(&[]) }))).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "c__pid").await;
    let call = begin(&client, "web__hold", json!({}));
    soon("it is under way", http.server().wait_for(|now| now.calls == 1)).await;
    let close = Http::new(&gateway.at("/close"));
    assert_eq!(close.post(&[], "").await.status, StatusCode::OK);
    assert_eq!(close.post(&[], "").await.status, StatusCode::GONE);
    http.server().release_held();
    assert_eq!(text(&soon("its answer", call).await.unwrap()), "released");
    assert!(gateway.ended().await.success());
    assert!(!exists(pid));
}

#[tokio::test]
async fn a_gateway_without_anything_to_do_ends_quickly() {
    let mut gateway = gateway(&servers(json!({ "c": child(&[]) }))).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    client.tool_names().await;
    let began = Instant::now();
    gateway.signal(Signal::INT);
    assert!(gateway.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    while events.message().await.is_some() {}
}
