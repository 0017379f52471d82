//! Servers killed while many calls are under way.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

/// Callers of one client at once, and for how long.
const CALLERS: usize = 8;
const LOAD: Duration = Duration::from_secs(3);

/// What became of one call.
struct Ended {
    call_id: String,
    answer: Answer,
}

/// All clients call while the server is killed twice.
async fn load(
    clients: &[Client],
    server: &mut Upstream,
    tool: &str,
    arguments: impl Fn(&str) -> Value,
) -> Vec<Ended> {
    let end = Instant::now() + LOAD;
    let warm = Semaphore::new(0);
    let caller = async |client: &Client, caller: usize| {
        let mut ended = Vec::new();
        while Instant::now() < end {
            let call_id = format!("{:?}-{caller}-{}", client.kind, ended.len());
            let answer = client.call(tool, arguments(&call_id)).await;
            warm.add_permits(1);
            ended.push(Ended { call_id, answer });
        }
        ended
    };
    let callers = clients.iter().flat_map(|client| (0..CALLERS).map(move |nth| (client, nth)));
    let callers = callers.map(|(client, nth)| caller(client, nth));
    let faults = async {
        let under_way = warm.acquire_many(u32::try_from(CALLERS).unwrap());
        timeout(PATIENCE, under_way).await.expect("no calls").unwrap().forget();
        server.kill_and_restart().await;
        sleep(LOAD / 3).await;
        server.kill_and_restart().await;
    };
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
        let calls =
            ended.iter().filter(|ended| ended.call_id.starts_with(&format!("{:?}", client.kind)));
        assert!(calls.count() >= CALLERS, "{:?} was not served", client.kind);
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
