//! Servers die, restart and forget. Clients do not notice, and nothing runs twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evergate_testkit::{HttpServer, SessionLoss};
use serde_json::{Value, json};

use crate::kit::{
    at, at_sse, at_with, begin, child, kill, pid_of, runs, servers, soon, status, text, web,
};
use crate::support::{Gateway, Session, exists, gateway, until};

async fn start(entry: Value) -> (Gateway, Session) {
    let gateway = gateway(&servers(json!({ "s": entry }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    (gateway, client)
}

async fn restarts_between_calls(http: &HttpServer, entry: Value) {
    let (_gateway, client) = start(entry).await;
    let names = client.tool_names().await;
    for round in 0..3 {
        let call_id = format!("{round}");
        let answer = client.call("s__bump", json!({ "call_id": call_id })).await;
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(http.server().executions(&call_id), 1);
        http.kill().await;
        assert_eq!(client.tool_names().await, names, "the list stays");
        http.revive().await;
    }
    client.call_text("s__bump", json!({ "call_id": "last" })).await;
    assert_eq!(http.server().counters().calls, 4);
    assert_eq!(client.tool_names().await, names);
}

#[tokio::test]
async fn a_restart_of_an_http_server_between_calls_goes_unnoticed() {
    let http = web().await;
    restarts_between_calls(&http, at(&http)).await;
}

#[tokio::test]
async fn a_restart_of_an_sse_server_between_calls_goes_unnoticed() {
    let http = web().await;
    restarts_between_calls(&http, at_sse(&http)).await;
}

/// How many calls each of eight callers has finished.
type Finished = Arc<[AtomicUsize; 8]>;

const ROUNDS: usize = 12;

/// What eight callers saw: every call that may be repeated must succeed, no other may have run twice.
async fn eight_callers(client: &Session, finished: &Finished) -> Vec<(String, Value)> {
    let callers = (0..8).map(|caller| {
        let (client, finished) = (client.clone(), finished.clone());
        tokio::spawn(async move {
            let mut seen = Vec::new();
            for round in 0..ROUNDS {
                let tool = if round % 2 == 0 { "read" } else { "bump" };
                let call_id = format!("{tool}-{caller}-{round}");
                let params =
                    json!({ "name": format!("s__{tool}"), "arguments": { "call_id": call_id } });
                let id = json!(format!("{caller}/{round}"));
                seen.push((call_id, client.request_with_id(id, "tools/call", params).await));
                finished[caller].fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            seen
        })
    });
    let seen = futures_util::future::join_all(callers).await;
    seen.into_iter().flat_map(Result::unwrap).collect()
}

/// Waits until every caller is done with the call it was at, and with another. A call is sent again once, so a server may
/// die once on each.
async fn all_move_on(finished: &Finished) {
    let counts = || finished.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let before = counts();
    until("all callers move on", async || {
        let moved = |(now, before): (&usize, &usize)| *now >= (before + 2).min(ROUNDS);
        counts().iter().zip(&before).all(moved)
    })
    .await;
}

fn judge(seen: &[(String, Value)], executions: impl Fn(&str) -> usize) {
    for (call_id, answer) in seen {
        let ran = executions(call_id);
        if call_id.starts_with("read") {
            assert!(answer["result"].is_object(), "{call_id}: {answer}");
            assert!(ran >= 1);
        } else if answer["result"].is_object() {
            assert_eq!(ran, 1, "{call_id}");
        } else {
            assert_eq!(answer["error"]["code"], -31003, "{call_id}: {answer}");
            assert_eq!(answer["error"]["data"]["outcome"], "unknown");
            assert!(ran <= 1, "{call_id} ran {ran} times");
        }
    }
}

async fn restarts_under_load(http: &HttpServer, entry: Value) {
    let (_gateway, client) = start(entry).await;
    let names = client.tool_names().await;
    let finished = Finished::default();
    let calling = eight_callers(&client, &finished);
    let chaos = async {
        for _ in 0..3 {
            all_move_on(&finished).await;
            http.kill().await;
            assert_eq!(client.tool_names().await, names, "the list stays");
            http.revive().await;
        }
    };
    let (seen, ()) = tokio::join!(calling, chaos);
    assert_eq!(seen.len(), 96);
    judge(&seen, |call_id| usize::try_from(http.server().executions(call_id)).unwrap());
    assert_eq!(client.tool_names().await, names);
}

#[tokio::test]
async fn eight_callers_survive_restarts_of_an_http_server() {
    let http = web().await;
    restarts_under_load(&http, at(&http)).await;
}

#[tokio::test]
async fn eight_callers_survive_restarts_of_an_sse_server() {
    let http = web().await;
    restarts_under_load(&http, at_sse(&http)).await;
}

#[tokio::test]
async fn eight_callers_survive_the_deaths_of_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let state_file = folder.path().join("state");
    let entry = child(&["--state-file", state_file.to_str().unwrap()]);
    let (gateway, client) = start(entry).await;
    let names = client.tool_names().await;
    let finished = Finished::default();
    let calling = eight_callers(&client, &finished);
    let chaos = async {
        for _ in 0..3 {
            all_move_on(&finished).await;
            let pid = status(&gateway, "s").await["pid"].as_u64();
            if let Some(pid) = pid.map(|pid| u32::try_from(pid).unwrap()).filter(|pid| exists(*pid))
            {
                kill(pid);
            }
            assert_eq!(client.tool_names().await, names, "the list stays");
        }
    };
    let (seen, ()) = tokio::join!(calling, chaos);
    judge(&seen, |call_id| runs(&state_file, call_id));
}

#[tokio::test]
async fn a_forgotten_session_is_renewed_in_every_shape() {
    let shapes = [
        SessionLoss::NotFound404,
        SessionLoss::NotFound404Empty,
        SessionLoss::BadRequest400NoValidSession,
        SessionLoss::BadRequest400NotInitialized,
        SessionLoss::BadRequest400Opaque,
        SessionLoss::Ok200(-32600, "Session not found".into()),
        SessionLoss::Ok200(-32001, "Session not found".into()),
        SessionLoss::Unauthorized401,
        SessionLoss::Unprocessable422,
        SessionLoss::Unavailable503,
    ];
    let http = web().await;
    let (gateway, client) = start(at(&http)).await;
    let names = client.tool_names().await;
    for (n, shape) in shapes.into_iter().enumerate() {
        http.server().expire_sessions(shape.clone());
        let call_id = n.to_string();
        let answer = client.call("s__bump", json!({ "call_id": call_id })).await;
        assert_eq!(text(&answer), (n + 1).to_string(), "{shape:?}: {answer}");
        assert_eq!(http.server().executions(&call_id), 1, "{shape:?}");
        assert_eq!(client.tool_names().await, names, "{shape:?}");
        assert_eq!(http.server().counters().sessions_open, 1, "{shape:?}");
    }
    assert_eq!(status(&gateway, "s").await["status"], "running");
}

#[tokio::test]
async fn one_new_handshake_serves_all_callers_of_a_forgotten_session() {
    let http = web().await;
    let (_gateway, client) = start(at(&http)).await;
    let before = http.server().counters().handshakes;
    http.server().expire_sessions(SessionLoss::NotFound404);
    let calls = (0..8).map(|n| begin(&client, "s__bump", json!({ "call_id": n.to_string() })));
    for call in futures_util::future::join_all(calls).await {
        assert!(call.unwrap()["result"].is_object());
    }
    assert_eq!(http.server().counters().handshakes, before + 1);
    assert_eq!(http.server().counters().calls, 8);
}

#[tokio::test]
async fn a_child_killed_while_idle_is_replaced_before_anybody_asks() {
    let (gateway, client) = start(child(&[])).await;
    let pid = pid_of(&client, "s__pid").await;
    kill(pid);
    until("a new one", async || {
        let now = status(&gateway, "s").await["pid"].as_u64();
        now.is_some_and(|now| now != u64::from(pid))
    })
    .await;
    assert_ne!(pid_of(&client, "s__pid").await, pid);
}

#[tokio::test]
async fn a_call_that_may_have_run_in_a_child_that_died_ends_at_once_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let state_file = folder.path().join("state");
    let (_gateway, client) = start(child(&["--state-file", state_file.to_str().unwrap()])).await;
    let pid = pid_of(&client, "s__pid").await;
    let call = begin(&client, "s__slow", json!({ "ms": 60_000, "call_id": "x" }));
    until("it runs", async || runs(&state_file, "x") == 1).await;
    kill(pid);
    let answer = soon("an end", call).await.unwrap();
    let error = &answer["error"];
    assert_eq!(error["code"], -31003, "{answer}");
    assert_eq!(error["data"]["server"], "s");
    assert_eq!(error["data"]["outcome"], "unknown");
    assert_eq!(error["data"]["retryable"], false);
    assert_eq!(error["data"]["generation"], 1);
    assert!(error["data"]["hint"].as_str().unwrap().contains("may have run"));
    assert_ne!(pid_of(&client, "s__pid").await, pid);
    assert_eq!(runs(&state_file, "x"), 1);
}

#[tokio::test]
async fn a_call_that_may_be_repeated_survives_the_death_of_its_child() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (state, stall) = (path("state"), path("stall"));
    let entry = child(&["--state-file", &state, "--stall-once", &stall]);
    let (gateway, client) = start(entry).await;
    let call = begin(&client, "s__read", json!({ "call_id": "x" }));
    until("it hangs", async || runs(Path::new(&state), "x") == 1).await;
    let pid = status(&gateway, "s").await["pid"].as_u64().unwrap();
    kill(u32::try_from(pid).unwrap());
    assert_eq!(text(&soon("an answer", call).await.unwrap()), "read");
    assert_eq!(runs(Path::new(&state), "x"), 2, "once in each process");
}

#[tokio::test]
async fn a_child_that_exits_after_every_call_serves_all_of_them() {
    let (_gateway, client) = start(child(&["--exit-after", "1", "--exit-code", "3"])).await;
    for _ in 0..4 {
        client.call_text("s__read", json!({})).await;
    }
}

#[tokio::test]
async fn a_dead_server_is_no_concern_of_another() {
    let (dead, alive) = (web().await, web().await);
    let config = servers(json!({ "dead": at(&dead), "alive": at(&alive) }));
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let names = client.tool_names().await;
    dead.kill().await;
    let held = begin(&client, "dead__bump", json!({ "call_id": "x" }));
    until("it is held", async || status(&gateway, "dead").await["held"] == 1).await;
    assert_eq!(client.call_text("alive__bump", json!({})).await, "1");
    assert_eq!(client.tool_names().await, names);
    dead.revive().await;
    assert_eq!(text(&held.await.unwrap()), "1");
    assert_eq!(dead.server().executions("x"), 1);
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_pinged_as_often_as_configured() {
    let http = web().await;
    let pings = |http: &HttpServer| {
        http.server().counters().requests.get("ping").copied().unwrap_or_default()
    };
    let often = json!({ "ping_every": "100ms", "refresh_every": "never" });
    let entry = at_with(&http, json!({ "lifecycle": often }));
    let own = web().await;
    let soon_closed = at_with(&own, json!({ "lifecycle": often, "isolation": "per_client" }));
    let config = json!({
        "gateway": { "per_client_idle": "150ms" },
        "mcpServers": { "web": entry, "own": soon_closed },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    client.call_text("own__bump", json!({})).await;
    until("it was pinged thrice", async || pings(&http) >= 3).await;
    assert_eq!(pings(&own), 0);
}
