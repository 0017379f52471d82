//! Keeps one server's entry true for as long as one generation lives.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::list::{self, ListFailure, Listing};
use super::store::CatalogStore;
use super::{CacheHint, CacheHints, Item, ServerCatalog};
use crate::connection::{Connection, Garbage, ListKind};
use crate::error::SharedError;
use crate::lifecycle::Budget;
use crate::settings::Checked;
use crate::slot::SlotId;

/// Servers announce changes in bursts; this long a pause makes one listing of them.
const COALESCE: Duration = Duration::from_millis(50);
/// Some servers add tools a moment after the handshake. What a new connection does not list at once may be there soon,
/// and a list that shrinks and grows again is worse than one that shrinks a little later.
const SETTLE: Duration = Duration::from_secs(1);
/// A list that may be kept for less is not listed more often for that.
const SHORTEST_TTL: Duration = Duration::from_secs(30);
/// How long to wait before listing again what could not be listed.
const RETRY: Duration = Duration::from_secs(1);
/// The same for a list that the server refuses to give, which may be its last word.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// Lists at once, then whenever something is announced, asked for or due. Runs until it is dropped.
pub(crate) async fn keep_fresh(
    connection: Arc<Connection>,
    (server, slot): (Arc<str>, SlotId),
    settings: Arc<Checked>,
    store: CatalogStore,
    garbage: Arc<Garbage>,
) {
    let stale = connection.inbox().stale_lists().clone();
    let mut lists = Lists::new(store.last_good(&server, slot).as_ref());
    let mut after_refusal = RETRY;
    let mut settled = false;
    let due_again = || settings.refresh_every.map(|every| Instant::now() + every);
    let mut due = due_again();
    stale.mark_all();
    loop {
        let expired = lists.expires_next();
        let again = (!lists.refused.is_empty()).then(|| Instant::now() + after_refusal);
        tokio::select! {
            () = stale.marked() => {}
            () = at(due) => {
                due = due_again();
                stale.mark_all();
            }
            () = at(expired) => lists.expired(Instant::now()).for_each(|kind| stale.mark(kind)),
            () = at(again) => {
                after_refusal = (after_refusal * 2).min(LONGEST_RETRY);
                lists.refused.drain(..).for_each(|kind| stale.mark(kind));
            }
        }
        // A first listing is waited for; later ones can be late.
        if lists.complete {
            sleep(COALESCE).await;
        }
        let (wanted, listing) = stale.take();
        // Boxed because it is large, and this task is idle nearly all of its life.
        match Box::pin(lists.renew(&connection, &settings, &garbage, &wanted)).await {
            Ok(()) => {
                if lists.refused.is_empty() {
                    after_refusal = RETRY;
                }
                connection.reporter().health(Budget::Discovery, None).await;
                let entry = lists.entry(&connection);
                let before = store.last_good(&server, slot);
                if !settled && before.is_some_and(|before| entry.lacks_some_of(&before)) {
                    settled = true;
                    sleep(SETTLE).await;
                    stale.mark_all();
                    continue;
                }
                settled = true;
                store.publish(&server, slot, entry);
                stale.complete(listing);
            }
            Err(failure) => {
                for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
                    if wanted(kind) {
                        stale.mark(kind);
                    }
                }
                match failure {
                    ListFailure::Lost(loss, error) => connection.reporter().lost(loss, error).await,
                    failure => {
                        let error = SharedError::new(failure);
                        connection.reporter().health(Budget::Discovery, Some(error)).await;
                    }
                }
                sleep(RETRY).await;
            }
        }
    }
}

/// When a list is to be looked at again because it says so. One that may not be kept at all would never be done with.
fn expiry(hint: CacheHint) -> Option<Instant> {
    let ttl = Duration::from_millis(hint.ttl_ms);
    (hint.ttl_ms > 0).then(|| Instant::now() + ttl.max(SHORTEST_TTL))
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The lists as last seen.
#[derive(Debug)]
struct Lists {
    tools: Vec<Item>,
    prompts: Vec<Item>,
    resources: Vec<Item>,
    templates: Vec<Item>,
    complete: bool,
    hints: CacheHints,
    /// When they may not be kept any longer.
    expiring: [Option<Instant>; 4],
    /// What the server answered with an error when last asked; the last good version is kept.
    refused: Vec<ListKind>,
}

// === impl Lists ===

impl Lists {
    /// Begins with what an earlier generation offered, in case the server refuses to say it again.
    fn new(before: Option<&Arc<ServerCatalog>>) -> Self {
        let kept = |list: fn(&ServerCatalog) -> &Vec<Item>| {
            before.map_or_else(Vec::new, |before| list(before).clone())
        };
        let mut tools = kept(|before| &before.tools);
        if before.is_some_and(|before| before.generation.is_none()) {
            // An earlier process heard it: good enough to be shown, not to send a call twice.
            for tool in &mut tools {
                tool.harmless = false;
            }
        }
        Self {
            tools,
            prompts: kept(|before| &before.prompts),
            resources: kept(|before| &before.resources),
            templates: kept(|before| &before.resource_templates),
            complete: false,
            hints: CacheHints::default(),
            expiring: [None; 4],
            refused: Vec::new(),
        }
    }

    async fn renew(
        &mut self,
        connection: &Arc<Connection>,
        settings: &Checked,
        garbage: &Garbage,
        wanted: &impl Fn(ListKind) -> bool,
    ) -> Result<(), ListFailure> {
        let offers = connection.peer().offers;
        self.refused.retain(|kind| !wanted(*kind));
        let asked = [
            (ListKind::Tools, offers.tools, list::TOOLS),
            (ListKind::Prompts, offers.prompts, list::PROMPTS),
            (ListKind::Resources, offers.resources, list::RESOURCES),
            (ListKind::Resources, offers.resources, list::TEMPLATES),
        ];
        for (nth, (kind, offered, listing)) in asked.into_iter().enumerate() {
            if !wanted(kind) {
                continue;
            }
            let fresh = if offered {
                list::list(connection, listing, settings, garbage).await
            } else {
                Ok((Vec::new(), None))
            };
            match fresh {
                Ok((items, hint)) => {
                    *self.kept(listing) = items;
                    *self.hints.of(listing.field) = hint;
                    self.expiring[nth] = hint.and_then(expiry);
                }
                Err(ListFailure::Refused(error)) => {
                    garbage.add(error);
                    self.refused.push(kind);
                }
                Err(failure) => return Err(failure),
            }
        }
        self.complete = true;
        Ok(())
    }

    fn expires_next(&self) -> Option<Instant> {
        self.expiring.iter().flatten().min().copied()
    }

    /// What may not be kept any longer. Said once: the next listing says anew how long.
    fn expired(&mut self, now: Instant) -> impl Iterator<Item = ListKind> + use<> {
        let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Resources];
        let expired = self.expiring.each_mut().map(|at| at.take_if(|at| *at <= now).is_some());
        kinds.into_iter().zip(expired).filter_map(|(kind, expired)| expired.then_some(kind))
    }

    fn kept(&mut self, listing: Listing) -> &mut Vec<Item> {
        match listing.field {
            "tools" => &mut self.tools,
            "prompts" => &mut self.prompts,
            "resources" => &mut self.resources,
            _ => &mut self.templates,
        }
    }

    fn entry(&self, connection: &Connection) -> ServerCatalog {
        let peer = connection.peer();
        ServerCatalog::new(
            Some(connection.generation()),
            [&self.tools, &self.prompts, &self.resources, &self.templates].map(Clone::clone),
            peer.capabilities.clone(),
            peer.server_info.clone(),
            peer.instructions.clone(),
        )
        .with_hints(self.hints)
    }
}
