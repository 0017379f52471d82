//! Keeps one server's entry true for as long as one generation lives.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::list::{self, ListFailure, Listing};
use super::store::CatalogStore;
use super::{Item, ServerCatalog};
use crate::connection::{Connection, Garbage, ListKind};
use crate::error::SharedError;
use crate::lifecycle::Budget;
use crate::settings::Checked;

/// Servers announce changes in bursts; this long a pause makes one listing of them.
const COALESCE: Duration = Duration::from_millis(50);
/// How long to wait before listing again what could not be listed.
const RETRY: Duration = Duration::from_secs(1);

/// Lists at once, then whenever something is announced, asked for or due. Runs until it is dropped.
pub(crate) async fn keep_fresh(
    connection: Arc<Connection>,
    server: Arc<str>,
    settings: Arc<Checked>,
    store: CatalogStore,
    garbage: Arc<Garbage>,
) {
    let stale = connection.inbox().stale_lists().clone();
    let mut lists = Lists::default();
    stale.mark_all();
    loop {
        let due = settings.refresh_every.map(|every| Instant::now() + every);
        tokio::select! {
            () = stale.marked() => {}
            () = at(due) => stale.mark_all(),
        }
        // A first listing is waited for; later ones can be late.
        if lists.complete {
            sleep(COALESCE).await;
        }
        let wanted = stale.take();
        // Boxed because it is large, and this task is idle nearly all of its life.
        match Box::pin(lists.renew(&connection, &settings, &garbage, &wanted)).await {
            Ok(()) => {
                connection.reporter().health(Budget::Discovery, None).await;
                store.publish(&server, lists.entry(&connection));
            }
            Err(failure) => {
                for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
                    if wanted(kind) {
                        stale.mark(kind);
                    }
                }
                match failure {
                    ListFailure::Lost(loss, error) => connection.reporter().lost(loss, error).await,
                    failure @ ListFailure::Failed(_) => {
                        let error = SharedError::new(failure);
                        connection.reporter().health(Budget::Discovery, Some(error)).await;
                    }
                }
                sleep(RETRY).await;
            }
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The lists as last seen on this generation.
#[derive(Debug, Default)]
struct Lists {
    tools: Vec<Item>,
    prompts: Vec<Item>,
    resources: Vec<Item>,
    templates: Vec<Item>,
    complete: bool,
}

// === impl Lists ===

impl Lists {
    async fn renew(
        &mut self,
        connection: &Arc<Connection>,
        settings: &Checked,
        garbage: &Garbage,
        wanted: &impl Fn(ListKind) -> bool,
    ) -> Result<(), ListFailure> {
        let offers = connection.peer().offers;
        let fetch =
            async |listing: Listing| list::list(connection, listing, settings, garbage).await;
        if offers.tools && wanted(ListKind::Tools) {
            self.tools = fetch(list::TOOLS).await?;
        }
        if offers.prompts && wanted(ListKind::Prompts) {
            self.prompts = fetch(list::PROMPTS).await?;
        }
        if offers.resources && wanted(ListKind::Resources) {
            self.resources = fetch(list::RESOURCES).await?;
            self.templates = fetch(list::TEMPLATES).await?;
        }
        self.complete = true;
        Ok(())
    }

    fn entry(&self, connection: &Connection) -> ServerCatalog {
        let peer = connection.peer();
        ServerCatalog::new(
            connection.generation(),
            [&self.tools, &self.prompts, &self.resources, &self.templates].map(Clone::clone),
            peer.capabilities.clone(),
            peer.server_info.clone(),
            peer.instructions.clone(),
        )
    }
}
