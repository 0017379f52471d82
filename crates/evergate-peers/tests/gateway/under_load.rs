//! Servers killed while many calls are under way.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::support::*;

/// Callers of one client at once, and for how long at least.
const CALLERS: usize = 8;
const LOAD: Duration = Duration::from_secs(3);

/// What became of one call.
struct Ended {
    call_id: String,
    answer: Answer,
}

/// All clients call while the server is killed twice, and a while beyond.
async fn load(
    clients: &[Client],
    server: &mut Upstream,
    tool: &str,
    arguments: impl Fn(&str) -> Value,
) -> Vec<Ended> {
    let end = Instant::now() + LOAD;
    let (done, is_done) = watch::channel(false);
    // How many calls of each caller have ended.
    let (counts, _) = watch::channel(vec![0; clients.len() * CALLERS]);
    let caller = async |nth: usize| {
        let client = &clients[nth / CALLERS];
        let mut ended = Vec::new();
        while Instant::now() < end || !*is_done.borrow() {
            let call_id = format!("{:?}-{}-{}", client.kind, nth % CALLERS, ended.len());
            let answer = client.call(tool, arguments(&call_id)).await;
            ended.push(Ended { call_id, answer });
            counts.send_modify(|counts| counts[nth] += 1);
        }
        ended
    };
    // Two calls of everybody: the first may have begun before whatever happened, the second did not.
    let all_served_anew = async || {
        let before = counts.borrow().clone();
        let mut counts = counts.subscribe();
        let anew = counts.wait_for(|now| now.iter().zip(&before).all(|(now, old)| *now >= old + 2));
        timeout(PATIENCE, anew).await.expect("some callers are not served").unwrap();
    };
    let faults = async {
        all_served_anew().await;
        server.kill_and_restart().await;
        // Nothing is sent more than twice, so a call may be hit once only.
        all_served_anew().await;
        server.kill_and_restart().await;
        all_served_anew().await;
        done.send_replace(true);
    };
    let callers = (0..clients.len() * CALLERS).map(caller);
    let (ended, ()) = tokio::join!(join_all(callers), faults);
    ended.into_iter().flatten().collect()
}

/// A tool that says it may be asked twice: nobody sees an error.
async fn idempotent(mut server: Upstream) {
    let gateway = Gateway::start(&[("s", &server)]).await;
    let target = gateway.only("s");
    let connecting = ClientKind::ALL.map(|kind| Client::connect(kind, &target));
    let clients = join_all(connecting).await;
    // Takes a while, so that some calls are always under way.
    let arguments = |_: &str| json!({ "duration": 0.02, "steps": 1 });
    let ended = load(&clients, &mut server, "trigger-long-running-operation", arguments).await;
    for Ended { call_id, answer } in &ended {
        let result = answer.as_ref().unwrap_or_else(|error| panic!("{call_id}: {error}"));
        assert_ne!(result["isError"], true, "{call_id}: {result}");
    }
    for client in clients {
        client.close().await;
    }
    gateway.stop().await;
}

/// A tool that promises nothing: each call runs once, or its fate is said to be unknown.
async fn once(mut server: Upstream, tool: &str, arguments: impl Fn(&str) -> Value) {
    let gateway = Gateway::start(&[("s", &server)]).await;
    let client = Client::connect(ClientKind::TsV1, &gateway.only("s")).await;
    client.tools().await;
    let clients = [client];
    let ended = load(&clients, &mut server, tool, arguments).await;
    let executed = server.executions();
    for Ended { call_id, answer } in &ended {
        let times = executed.get(call_id).copied().unwrap_or_default();
        match answer {
            Ok(_) => assert_eq!(times, 1, "{call_id}: {answer:?}"),
            Err(error) => {
                assert_eq!(error["data"]["outcome"], "unknown", "{call_id}: {error}");
                assert!(times <= 1, "{call_id} ran {times} times");
            }
        }
    }
    assert!(ended.iter().any(|ended| ended.answer.is_ok()), "nothing was answered");
    let [client] = clients;
    client.close().await;
    gateway.stop().await;
}

fn counted(call_id: &str) -> Value {
    json!({ "call_id": call_id, "ms": 20 })
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn http_nobody_sees_an_error() {
    idempotent(Upstream::everything_http()).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn sse_nobody_sees_an_error() {
    idempotent(Upstream::everything_sse()).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn stdio_nobody_sees_an_error() {
    idempotent(Upstream::everything_stdio()).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn http_nothing_runs_twice() {
    once(Upstream::python_http(), "counter", counted).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn sse_nothing_runs_twice() {
    once(Upstream::python_sse(), "counter", counted).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn stdio_nothing_runs_twice() {
    once(Upstream::python_stdio(), "counter", counted).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn rmcp_nothing_runs_twice() {
    let sum = |call_id: &str| json!({ "a": 2, "b": 3, "call_id": call_id, "ms": 20 });
    once(Upstream::rmcp_http(), "add", sum).await;
}
