//! What every test needs.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

pub(crate) use evergate_peers::{PATIENCE, Peer, free_port};
use evergate_runtime::{
    CallError, Hub, Outcome, RawJson, ServerCatalog, ServerHandle, Settings, StateKind,
};
use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::timeout;

/// What became of one call under load.
pub(crate) struct Ended {
    pub(crate) call_id: String,
    pub(crate) result: Result<RawJson, CallError>,
}

/// Callers at once, and what each of them does one after the other.
const CALLERS: usize = 16;
const CALLS_EACH: usize = 12;

/// A hub with one server called `s` that is tried again at once and for ever.
pub(crate) fn hub(settings: Settings) -> (Hub, ServerHandle) {
    let ms = Duration::from_millis;
    let settings = settings.backoff(ms(20), ms(200), 2.0, 0.0).max_attempts(None);
    let hub = Hub::builder().server("s", settings).start().unwrap();
    let handle = hub.server("s").unwrap();
    (hub, handle)
}

/// What it offers, once that is listed.
pub(crate) async fn listed(hub: &Hub) -> std::sync::Arc<ServerCatalog> {
    let mut catalog = hub.watch_catalog();
    let listed = catalog.wait_for(|catalog| catalog.server("s").is_some());
    let catalog = timeout(PATIENCE, listed).await.expect("never listed").unwrap();
    catalog.servers["s"].clone()
}

pub(crate) fn keys(items: &[evergate_runtime::Item]) -> Vec<&str> {
    let mut keys: Vec<&str> = items.iter().map(|item| item.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

/// Waits for a connection newer than `generation`, without calling anything.
pub(crate) async fn beyond(server: &ServerHandle, generation: u64) {
    let newer = server.wait_until(PATIENCE, |status| {
        status.state == StateKind::Connected
            && status.generation.is_some_and(|now| now.get() > generation)
    });
    let reached = newer.await.is_ok();
    assert!(reached, "no generation beyond {generation}: {:?}", server.status());
}

pub(crate) fn generation(server: &ServerHandle) -> u64 {
    server.status().generation.unwrap().get()
}

/// Kills the child of a stdio server.
pub(crate) fn kill_child(server: &ServerHandle) {
    let pid = i32::try_from(server.status().pid.unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Calls from all sides while something happens, which may start when some calls have ended well.
pub(crate) async fn under_load(
    server: &ServerHandle,
    tool: &str,
    arguments: impl Fn(&str) -> Value,
    fault: impl AsyncFnOnce(),
) -> Vec<Ended> {
    let warm = tokio::sync::Semaphore::new(0);
    let caller = async |caller: usize| {
        let mut ended = Vec::new();
        for nth in 0..CALLS_EACH {
            let call_id = format!("{tool}-{caller}-{nth}");
            let result = server.call_tool(tool, arguments(&call_id)).deadline(PATIENCE).await;
            if result.is_ok() {
                warm.add_permits(1);
            }
            ended.push(Ended { call_id, result });
        }
        ended
    };
    let faulty = async {
        let under_way = warm.acquire_many(u32::try_from(2 * CALLERS).unwrap());
        timeout(PATIENCE, under_way).await.expect("no calls").unwrap().forget();
        fault().await;
    };
    let (ended, ()) = tokio::join!(join_all((0..CALLERS).map(caller)), faulty);
    ended.into_iter().flatten().collect()
}

/// Every call was answered.
pub(crate) fn assert_answered(ended: &[Ended]) {
    assert_eq!(ended.len(), CALLERS * CALLS_EACH);
    for Ended { call_id, result } in ended {
        if let Err(error) = result {
            panic!("{call_id}: {}: {}", error.outcome, error.chain());
        }
    }
}

/// Every call was answered, or its fate is not known; and none was executed twice.
pub(crate) fn assert_once(ended: &[Ended], log: &Path) {
    assert_eq!(ended.len(), CALLERS * CALLS_EACH);
    let executed = executions(log);
    for Ended { call_id, result } in ended {
        let times = executed.get(call_id).copied().unwrap_or_default();
        match result {
            Ok(_) => assert_eq!(times, 1, "{call_id}"),
            Err(error) => {
                assert_eq!(error.outcome, Outcome::Unknown, "{call_id}: {}", error.chain());
                assert!(times <= 1, "{call_id} ran {times} times");
            }
        }
    }
}

/// How often each call ran, over all processes that wrote to the log.
pub(crate) fn executions(log: &Path) -> HashMap<String, usize> {
    let mut executed = HashMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        *executed.entry(line.to_owned()).or_default() += 1;
    }
    executed
}

pub(crate) async fn shut_down(hub: Hub) {
    let report = timeout(PATIENCE, hub.shutdown(Duration::ZERO)).await.expect("shutdown hangs");
    assert_eq!(report.unfinished_tasks, 0);
}

/// The text of the first content block.
pub(crate) fn text(result: &RawJson) -> String {
    let value: Value = result.parse().unwrap();
    value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
