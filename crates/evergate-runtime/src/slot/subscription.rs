//! Hearing of changes without a handshake (2026-07-28): one request that the server answers only in the end, and on whose
//! stream it says what has changed. It is made again whenever it ends, and whenever something else is to be heard of.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::Slot;
use crate::connection::{Asking, Connection};
use crate::protocol::{code, method};

/// After a subscription ended; doubles while it keeps ending at once.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// One that lasted this long was worth coming back to.
const LASTED: Duration = Duration::from_secs(5);

/// Listens for as long as the generation lives; the caller ends it by dropping it.
pub(crate) async fn follow(connection: Arc<Connection>, slot: Arc<Slot>) {
    let mut delay = FIRST_DELAY;
    let mut first = true;
    loop {
        let Some(params) = wanted(&connection, &slot) else {
            slot.side_state.changed().await;
            continue;
        };
        // What happened while nobody listened is not told again.
        if !std::mem::take(&mut first) {
            connection.inbox().stale_lists().mark_all();
        }
        let watch = connection.watch(None);
        let params = params.to_string();
        let asking = Asking::plain(method::LISTEN, Some(params.as_bytes()));
        let Ok(message) = connection.write(&watch, asking) else { return };
        let began = Instant::now();
        let ended = tokio::select! {
            ended = connection.ask(message, &watch) => ended,
            // The next one says what else is wanted.
            () = slot.side_state.changed() => continue,
        };
        if let Ok(Err(error)) = &ended
            && error.code == code::METHOD_NOT_FOUND
        {
            // There is nothing to hear.
            return;
        }
        delay =
            if began.elapsed() >= LASTED { FIRST_DELAY } else { (delay * 2).min(LONGEST_DELAY) };
        sleep(delay).await;
    }
}

/// What there is to hear of, as far as the server offers it.
fn wanted(connection: &Connection, slot: &Slot) -> Option<Value> {
    let offers: Value = connection.peer().capabilities.parse().unwrap_or_default();
    let mut filter = Map::new();
    for (list, field) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        if offers[list]["listChanged"] == true {
            filter.insert(field.to_owned(), true.into());
        }
    }
    let subscriptions = slot.side_state.subscriptions();
    if !subscriptions.is_empty() {
        filter.insert("resourceSubscriptions".to_owned(), subscriptions.into());
    }
    (!filter.is_empty()).then(|| json!({ "notifications": filter }))
}
