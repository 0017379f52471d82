//! What every test needs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use evergate_runtime::{
    Hub, HubEvent, RawJson, ReconnectLimiter, ServerHandle, Settings, StateKind, Status, Transition,
};
use evergate_testkit::wait::until;
use tokio::sync::broadcast;
use tokio::time::timeout;

/// Longer than anything takes on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// So long that it can only be reached by a bug.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

/// Tests share one process, and some count what belongs to all of it. Held until a test's runtime is gone, since that
/// has files and children too.
static PROCESS: RwLock<()> = RwLock::new(());

/// Runs a test that others do not disturb.
pub(crate) fn among_others(test: impl Future<Output = ()>) {
    with_own_runtimes(|| run(test));
}

/// The same for one that has several.
pub(crate) fn with_own_runtimes(test: impl FnOnce()) {
    let _shared = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    test();
}

/// Runs a test that counts children, files or memory.
pub(crate) fn alone(test: impl Future<Output = ()>) {
    let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    run(test);
}

fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(test);
}

pub(crate) fn program() -> PathBuf {
    evergate_testkit::stdio_server_path().expect(
        "scripted-stdio-server is not built: run `cargo build -p evergate-testkit` first, or test the whole workspace",
    )
}

/// The scripted server with these flags.
pub(crate) fn scripted<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Settings {
    quick(Settings::stdio(program(), args))
}

/// The scripted server started from a shell, which knows it as `$SERVER`.
pub(crate) fn shell(script: &str) -> Settings {
    quick(Settings::stdio("/bin/sh", ["-c", script])).env("SERVER", program())
}

/// Reconnects as often as it must, with hardly a pause.
fn quick(settings: Settings) -> Settings {
    let ms = Duration::from_millis;
    settings.backoff(ms(10), ms(50), 2.0, 0.0).max_attempts(None)
}

/// A hub with one server called `s`.
pub(crate) fn hub(settings: Settings) -> (Hub, ServerHandle) {
    let limiter = ReconnectLimiter::new(10_000, 10_000);
    let hub = Hub::builder().server("s", settings).limiter(limiter).start().unwrap();
    let handle = hub.server("s").unwrap();
    (hub, handle)
}

/// Its process id, once it is connected.
pub(crate) async fn connected(server: &ServerHandle) -> u32 {
    reach(server, |status| status.state == StateKind::Connected).await.pid.unwrap()
}

/// The same for a connection newer than `generation`.
pub(crate) async fn beyond(server: &ServerHandle, generation: u64) -> u32 {
    let newer = |status: &Status| {
        status.state == StateKind::Connected
            && status.generation.is_some_and(|now| now.get() > generation)
    };
    reach(server, newer).await.pid.unwrap()
}

pub(crate) async fn state(server: &ServerHandle, wanted: StateKind) -> Status {
    reach(server, |status| status.state == wanted).await
}

async fn reach(server: &ServerHandle, wanted: impl FnMut(&Status) -> bool) -> Status {
    let reached = server.wait_until(PATIENCE, wanted).await;
    let reached = reached.unwrap_or_else(|_| panic!("not reached: {:?}", server.status()));
    (*reached).clone()
}

/// Waits until the catalog says which tools may be called twice.
pub(crate) async fn listed(hub: &Hub) {
    let mut catalog = hub.watch_catalog();
    let listed = catalog.wait_for(|catalog| catalog.server("s").is_some());
    timeout(PATIENCE, listed).await.expect("never listed").unwrap();
}

/// The next transition out of a state; none is ever missed, however short the state.
pub(crate) async fn leaves(
    events: &mut broadcast::Receiver<HubEvent>,
    state: StateKind,
) -> Transition {
    let leaving = async {
        loop {
            if let HubEvent::Transition(transition) = events.recv().await.unwrap()
                && transition.from == state
            {
                return transition;
            }
        }
    };
    timeout(PATIENCE, leaving).await.unwrap_or_else(|_| panic!("never left {state}"))
}

/// Ends everything and sees that nothing is left under way.
pub(crate) async fn shut_down(hub: Hub) {
    let report = timeout(PATIENCE, hub.shutdown(Duration::ZERO)).await.expect("shutdown hangs");
    assert_eq!(report.unfinished_tasks, 0);
}

/// The text of the first content block.
pub(crate) fn text(result: &RawJson) -> String {
    let value: serde_json::Value = result.parse().unwrap();
    value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// How often a call was executed, over all processes that wrote to the state file.
pub(crate) fn executions(state_file: &Path, call_id: &str) -> usize {
    let text = std::fs::read_to_string(state_file).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').nth(1) == Some(call_id)).count()
}

pub(crate) async fn executed(state_file: &Path, call_id: &str) {
    until("the call is executed", || executions(state_file, call_id) > 0).await;
}
