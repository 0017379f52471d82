//! What every test needs: servers, the gateway in front of them, clients.

mod client;
mod gateway;
mod upstream;

pub(crate) use self::client::{Answer, Client, ClientKind, Era, Target, text};
pub(crate) use self::gateway::Gateway;
pub(crate) use self::upstream::Upstream;
pub(crate) use evergate_peers::PATIENCE;

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// A program of this workspace, which Cargo puts beside the tests or above them.
pub(crate) fn built(name: &str) -> PathBuf {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().skip(1).take(3).map(|directory| directory.join(&name));
    places.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("{name} is not built: build it first, or test the whole workspace")
    })
}

/// Waits until something that has no way to tell is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = timeout(PATIENCE, async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(reached.await.is_ok(), "never: {what}");
}
