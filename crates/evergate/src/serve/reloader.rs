//! Reads the configuration again when its files change, or on SIGHUP. A bad one changes nothing.
//!
//! Files are looked at once a second instead of being watched: that costs nothing for a handful of small files, and
//! works with every editor, symbolic link, mount and file system.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::signals::Hangups;
use super::supervisor::{self, News};
use super::{itself, policy};
use crate::config::{Config, Severity, Sources};
use crate::front::Front;
use crate::gateway::Gateway;

/// What the files hold.
pub(super) type Contents = [u8; 32];

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keeps a gateway over HTTP up to date.
pub(super) async fn run(sources: Sources, loaded: Contents, front: Arc<Front>, hangups: Hangups) {
    let place = &front.place;
    let addresses = [place.address, place.admin_address.unwrap_or(place.address)];
    keep_up(sources, loaded, front.gateway.clone(), hangups, &addresses, |config| {
        front.set_policy(policy(&config.gateway, &front.place));
        let policy = front.policy();
        for client in front.gateway.clients.all() {
            if let Some(name) = client.caller().name() {
                client.set_caller(&policy.keyring.holder(name));
            }
        }
    })
    .await;
}

/// Keeps a gateway over standard input and output up to date.
pub(super) async fn run_quietly(
    sources: Sources,
    loaded: Contents,
    gateway: Arc<Gateway>,
    hangups: Hangups,
) {
    keep_up(sources, loaded, gateway, hangups, &[], |_| {}).await;
}

async fn keep_up(
    sources: Sources,
    mut known: Contents,
    gateway: Arc<Gateway>,
    mut hangups: Hangups,
    addresses: &[SocketAddr],
    also: impl Fn(&Config),
) {
    loop {
        let asked = tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => false,
            () = hangups.next() => true,
        };
        if asked {
            // Whoever asks may have moved it away.
            gateway.observed.audit.reopen();
        }
        let files = sources.files.clone();
        let Ok(now) = tokio::task::spawn_blocking(move || contents(&files)).await else { continue };
        if now == known && !asked {
            continue;
        }
        known = now;
        supervisor::tell(News::Reloading);
        let applied = load(&sources).and_then(|mut config| {
            itself::leave_out(&mut config, addresses);
            apply(&gateway, config, &also)
        });
        gateway.observed.metrics.reloaded(applied.is_ok());
        if let Err(problem) = applied {
            gateway.reject(&problem);
        }
        supervisor::tell(News::Reloaded);
    }
}

/// Puts it in force, or says what is wrong with it.
fn apply(
    gateway: &Arc<Gateway>,
    mut config: Config,
    also: &impl Fn(&Config),
) -> Result<(), String> {
    let running = gateway.config();
    let (before, after) = (&running.gateway, &mut config.gateway);
    if before.listen != after.listen
        || before.admin_listen != after.admin_listen
        || before.session_keys != after.session_keys
    {
        tracing::warn!(
            "gateway.listen, gateway.admin_listen and gateway.session_key take effect after a restart"
        );
    }
    if after.auth.is_empty() && !before.auth.is_empty() {
        tracing::warn!(
            "the new configuration has no keys: the running keys stay in force until a restart"
        );
        // Also for the next reload, to which these are the running ones.
        after.auth.clone_from(&before.auth);
    }
    if before.otlp != after.otlp {
        tracing::warn!("gateway.otlp takes effect after a restart");
    }
    let (audited, audit) = (before.audit.clone(), after.audit.clone());
    match gateway.reload(config) {
        Ok(changes) => {
            also(&gateway.config());
            if audited != audit {
                gateway.observed.audit.configure(audit);
            }
            tracing::info!(
                added = changes.added.join(", "),
                changed = changes.changed.join(", "),
                removed = changes.removed.join(", "),
                "configuration reloaded"
            );
            Ok(())
        }
        Err(error) => {
            tracing::error!(%error, "the new configuration cannot be used: the running one stays");
            Err(error.to_string())
        }
    }
}

/// Reads it, or says the first thing that is wrong with it.
fn load(sources: &Sources) -> Result<Config, String> {
    let config = match sources.load(&|name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(error) => {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::error!(error, "the new configuration cannot be read: the running one stays");
            return Err(error);
        }
    };
    if config.has_errors() {
        for finding in &config.findings {
            tracing::error!("{finding}");
        }
        tracing::error!("the new configuration cannot be used: the running one stays");
        let first = config.findings.iter().find(|finding| finding.severity == Severity::Error);
        return Err(first.map(ToString::to_string).unwrap_or_default());
    }
    Ok(config)
}

/// A hash of all files; one that cannot be read counts as empty. Blocks. To be taken for the first time as soon as the
/// files are loaded: what changes after that is a change.
pub(super) fn contents(files: &[PathBuf]) -> Contents {
    let mut hash = Sha256::new();
    for file in files {
        let text = std::fs::read(file).unwrap_or_default();
        hash.update(text.len().to_le_bytes());
        hash.update(&text);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;

    fn config(servers: &[&str]) -> Config {
        let servers: serde_json::Map<String, serde_json::Value> = servers
            .iter()
            .map(|&name| (name.to_owned(), serde_json::json!({ "command": "x", "disabled": true })))
            .collect();
        let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        std::fs::write(file.path(), serde_json::json!({ "mcpServers": servers }).to_string())
            .unwrap();
        let sources = Sources { files: vec![file.path().to_owned()], stdin: None };
        sources.load(&|_| None).unwrap()
    }

    #[tokio::test]
    async fn nothing_else_changes_if_the_servers_cannot() {
        let (gateway, _) = Gateway::start(config(&["a"]), BTreeMap::new()).unwrap();
        let applied = Cell::new(0);
        let also = |_: &Config| applied.set(applied.get() + 1);
        let mut bad = config(&["a", "b"]);
        let b = bad.servers.get_mut("b").unwrap();
        b.settings = b.settings.clone().timeout(Duration::ZERO);
        assert!(apply(&gateway, bad, &also).is_err());
        assert_eq!(applied.get(), 0);
        assert!(apply(&gateway, config(&["a", "b"]), &also).is_ok());
        assert_eq!(applied.get(), 1);
    }
}
