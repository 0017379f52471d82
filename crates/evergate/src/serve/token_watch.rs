//! A server that was parked for want of credentials is tried again when its token file changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evergate_runtime::{Reason, ServerHandle, StateKind};

use crate::gateway::Gateway;

/// No shorter than the time for which a token is used without looking at its file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For so long after a change a request may still have left with the old token; file systems' clocks lag, too.
const OLD_IN_USE: Duration = Duration::from_millis(1100);

/// What is known of the token file of one server.
#[derive(Debug, Default)]
struct Seen {
    modified: Option<SystemTime>,
    /// It changed, and nobody was tried since. A request may have left with the old token a moment later, so that the
    /// server is parked only then.
    is_news: bool,
    tried: bool,
}

/// Looks at the files for ever.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let mut seen: HashMap<String, Seen> = HashMap::new();
    loop {
        for (name, server) in &gateway.config().servers {
            let Some(file) = &server.bearer_token_file else { continue };
            let modified = tokio::fs::metadata(file).await.and_then(|file| file.modified()).ok();
            let first = !seen.contains_key(name);
            let known = seen.entry(name.clone()).or_default();
            if known.modified != modified {
                *known = Seen { modified, is_news: !first, tried: false };
                // Tried in the next round: by then the new token is in use for sure.
                continue;
            }
            if known.tried {
                continue;
            }
            for handle in parked(&gateway, name) {
                // Of a file that was first seen with this token only the clock tells whether the server had it.
                let later =
                    modified.is_some_and(|modified| modified + OLD_IN_USE > handle.status().since);
                if known.is_news || later {
                    tracing::info!(server = name, "the token file changed: trying again");
                    handle.enable();
                    known.tried = true;
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The server of this name, and those that clients have for themselves, if they were refused for their credentials.
fn parked(gateway: &Gateway, name: &str) -> Vec<ServerHandle> {
    let shared = gateway.hub().server(name).ok();
    let clients = gateway.clients.with_servers();
    let own = clients.iter().flat_map(|client| client.private.handles());
    let all = shared.into_iter().chain(own.filter(|handle| handle.name() == name));
    all.filter(is_parked).collect()
}

fn is_parked(handle: &ServerHandle) -> bool {
    let status = handle.status();
    status.state == StateKind::PermanentlyFailed && status.reason == Reason::AuthRequired
}
