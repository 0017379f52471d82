//! What every test needs: servers, the gateway in front of them, clients.

mod client;
mod gateway;
mod upstream;

pub(crate) use self::client::{Answer, Client, ClientKind, Target, text};
pub(crate) use self::gateway::Gateway;
pub(crate) use self::upstream::Upstream;
pub(crate) use evergate_peers::PATIENCE;

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Waits until something that has no way to tell is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = timeout(PATIENCE, async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(reached.await.is_ok(), "never: {what}");
}
