//! A new configuration in place of the running one. Only servers that changed are touched.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use evergate_runtime::{Catalog, InvalidSettings};
use tokio::time::Instant;

use super::{Gateway, own_servers, passes_headers, server_settings, shared};
use crate::admin::model::What;
use crate::config::{Config, Isolation};

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

// === impl Gateway ===

impl Gateway {
    /// A new configuration was not taken; the running one stays. `problem` is the first thing that is wrong with it.
    pub(crate) fn reject(&self, problem: &str) {
        let now = SystemTime::now();
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        *rejected = Some((now, problem.to_owned()));
        drop(rejected);
        self.observed.feed.add(now, What::ReloadRejected { problem: problem.to_owned() });
    }

    /// When the newest configuration was not taken, and why, if that was so.
    pub(crate) fn rejected(&self) -> Option<(SystemTime, String)> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies a configuration that was checked. Calls on servers that did not change are not disturbed; a server that
    /// is gone or changed finishes the calls it has.
    pub(crate) fn reload(self: &Arc<Self>, config: Config) -> Result<Changes, InvalidSettings> {
        let before = self.config();
        let listed = self.hub.catalog();
        let mut changes = Changes::default();
        for (name, server) in shared(&config) {
            let known = before
                .servers
                .get(name)
                .filter(|known| known.unusable.is_none() && known.isolation == Isolation::Shared);
            match known {
                None => {
                    let handle = self.hub.add(name, server_settings::of(server))?;
                    self.tell_shared(&handle);
                    changes.added.push(name.to_owned());
                }
                Some(known) if known.connection_digest != server.connection_digest => {
                    let handle = self.hub.replace(name, server_settings::of(server))?;
                    self.tell_shared(&handle);
                    changes.changed.push(name.to_owned());
                }
                Some(known) => {
                    if known.disabled != server.disabled
                        && let Ok(handle) = self.hub.server(name)
                    {
                        if server.disabled {
                            handle.disable();
                        } else {
                            handle.enable();
                        }
                        changes.changed.push(name.to_owned());
                    }
                    continue;
                }
            }
            if let Ok(mut added) = self.added.lock() {
                added.insert(name.to_owned(), Instant::now());
            }
        }
        // What the new configuration needs comes first and what it no longer needs goes last, so that no list blinks.
        self.start_private(&config, &before, &listed);
        self.passes_headers.store(passes_headers(&config), Ordering::Relaxed);
        self.buffers.set_limit(config.gateway.max_buffered_bytes);
        self.config.store(Arc::new(config));
        self.revision.fetch_add(1, Ordering::AcqRel);
        let config = self.config();
        // For clients that came meanwhile.
        self.start_private(&config, &before, &listed);
        for (name, _) in shared(&before) {
            let kept = shared(&config).any(|(other, _)| other == name);
            if !kept && self.hub.remove(name).is_ok() {
                changes.removed.push(name.to_owned());
            }
        }
        for name in before.servers.keys().filter(|name| !config.servers.contains_key(*name)) {
            self.observed.forget(name);
        }
        let Changes { added, changed, removed } = changes.clone();
        *self.rejected.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.observed.feed.add(SystemTime::now(), What::Reloaded { added, removed, changed });
        self.close_idle_servers();
        self.reloaded.notify_one();
        Ok(changes)
    }

    /// Starts what clients have for themselves and is new or changed, since nobody can call what was never listed.
    fn start_private(self: &Arc<Self>, config: &Config, before: &Config, listed: &Catalog) {
        for client in self.clients.with_servers() {
            for (name, server) in own_servers(config, &client) {
                let same = before
                    .servers
                    .get(name)
                    .is_some_and(|old| old.connection_digest == server.connection_digest);
                let listed = listed.server(name).filter(|_| same).cloned();
                client.private.renew(self, &client, name, server, listed);
            }
        }
    }
}
