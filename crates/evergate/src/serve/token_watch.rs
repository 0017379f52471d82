//! A server that was parked for want of credentials is tried again when its token file changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evergate_runtime::{Reason, StateKind};

use crate::gateway::Gateway;

const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(gateway: Arc<Gateway>) {
    let mut seen: HashMap<String, Option<SystemTime>> = HashMap::new();
    loop {
        for (name, server) in &gateway.config().servers {
            let Some(file) = &server.bearer_token_file else { continue };
            let modified = tokio::fs::metadata(file).await.and_then(|file| file.modified()).ok();
            let changed = seen.insert(name.clone(), modified).is_some_and(|old| old != modified);
            let Ok(handle) = gateway.hub().server(name) else { continue };
            let status = handle.status();
            let parked = status.state == StateKind::PermanentlyFailed
                && status.reason == Reason::AuthRequired;
            if changed && parked {
                tracing::info!(server = name, "the token file changed: trying again");
                handle.enable();
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
