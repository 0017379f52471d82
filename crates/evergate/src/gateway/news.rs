//! What clients hear without having asked: changed lists, and what servers announce.

use std::collections::HashSet;
use std::sync::Arc;

use evergate_runtime::{Hub, Notification, RawJson, wire};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;

use super::Gateway;
use super::client::{Client, Kind, Uid};
use super::log_level::Level;
use super::outlet::Outlet;
use super::stateless::rounds::Rounds;
use super::view::View;
use crate::config::Isolation;
use crate::logging::seldom::Seldom;

pub(super) const MESSAGE: &str = "notifications/message";
const RESOURCE_UPDATED: &str = "notifications/resources/updated";

#[derive(Deserialize)]
struct LogFields {
    level: Option<String>,
}

#[derive(Deserialize)]
struct UpdateFields {
    uri: String,
}

/// Spreads the news of all shared servers, until the gateway drains.
pub(super) async fn spread(gateway: Arc<Gateway>) {
    let mut catalog = gateway.hub.watch_catalog();
    let mut notifications = gateway.hub.notifications();
    loop {
        tokio::select! {
            () = gateway.draining.begun() => return,
            () = gateway.reloaded.notified() => announce_to_all(&gateway),
            changed = catalog.changed() => match changed {
                Ok(()) => announce_to_all(&gateway),
                Err(_) => return,
            },
            notification = notifications.recv() => match notification {
                Ok(notification) => spread_one(&gateway, &notification),
                Err(RecvError::Lagged(missed)) => {
                    tell_missed(missed);
                }
                Err(RecvError::Closed) => return,
            },
        }
    }
}

fn tell_missed(missed: u64) {
    static FLOOD: Seldom = Seldom::new();
    if let Some(suppressed) = FLOOD.may_say() {
        tracing::warn!(missed, suppressed, "servers announce more than can be passed on");
    }
}

/// Spreads the news of a client's own server, until that ends.
pub(super) async fn follow(gateway: Arc<Gateway>, client: Arc<Client>, hub: Arc<Hub>) {
    let mut catalog = hub.watch_catalog();
    let mut notifications = hub.notifications();
    // Its end shows as the end of the channels.
    drop(hub);
    loop {
        tokio::select! {
            () = client.ended.begun() => return,
            changed = catalog.changed() => match changed {
                Ok(()) => {
                    for client in sharing(&gateway, &client) {
                        tell_changes(&client, &gateway.view(&client));
                    }
                }
                Err(_) => return,
            },
            notification = notifications.recv() => match notification {
                Ok(notification) => spread_private(&gateway, &client, &notification),
                Err(RecvError::Lagged(missed)) => {
                    tell_missed(missed);
                }
                Err(RecvError::Closed) => return,
            },
        }
    }
}

/// Those who have this server too: the client itself, and whoever listens on its behalf.
pub(super) fn sharing(gateway: &Gateway, client: &Arc<Client>) -> Vec<Arc<Client>> {
    // On behalf of a session nobody listens.
    if matches!(client.kind, Kind::Session) {
        return vec![client.clone()];
    }
    let mut all = gateway.clients.all();
    all.retain(|other| Arc::ptr_eq(&other.private, &client.private));
    all
}

/// Tells a client which lists differ from what it was told of last.
pub(super) fn tell_changes(client: &Client, view: &View) {
    let names = ["tools", "prompts", "resources"];
    for (name, changed) in names.into_iter().zip(client.announce(view.digests())) {
        if changed {
            client.tell(&format!("notifications/{name}/list_changed"), None);
        }
    }
}

/// Whether a client wants to hear a log message. Without a word from the client it is the server that chooses.
fn wants(client: &Client, method: &str, params: Option<&RawJson>) -> bool {
    let Some(wanted) = client.level().filter(|_| method == MESSAGE) else { return true };
    is_at_least(wanted, params)
}

/// Whether a log message is so important. One that does not say is.
pub(super) fn is_at_least(wanted: Level, params: Option<&RawJson>) -> bool {
    let fields = params.and_then(|params| params.parse::<LogFields>().ok());
    let level = fields.and_then(|fields| Level::parse(&fields.level?));
    level.is_none_or(|level| level >= wanted)
}

fn announce_to_all(gateway: &Gateway) {
    for client in gateway.clients.all() {
        tell_changes(&client, &gateway.view(&client));
    }
}

/// What a server says in the stream of a call: to its client, on that stream. News of a resource goes to those who
/// asked for it, whoever's call it came with.
pub(super) fn from_call(
    gateway: &Gateway,
    client: &Arc<Client>,
    (stream, rounds): (&Outlet, Option<&Rounds>),
    notification: &Notification,
) {
    if notification.method != RESOURCE_UPDATED {
        if let Some(rounds) = rounds {
            if notification.method == MESSAGE {
                rounds.offer_log(stream, notification);
            }
        } else if wants(client, &notification.method, notification.params.as_ref()) {
            let params = notification.params.as_ref().map(RawJson::as_bytes);
            stream.offer(wire::notification(&notification.method, params));
        }
        return;
    }
    let config = gateway.config();
    let server = config.servers.get(&*notification.server);
    if server.is_some_and(|server| server.isolation == Isolation::PerClient) {
        spread_private(gateway, client, notification);
    } else {
        spread_one(gateway, notification);
    }
}

fn spread_private(gateway: &Gateway, client: &Arc<Client>, notification: &Notification) {
    let subscribers = subscribers(gateway, notification);
    for client in sharing(gateway, client) {
        if subscribers.as_ref().is_none_or(|subscribers| subscribers.contains(&client.uid)) {
            pass_on(&client, notification);
        }
    }
}

/// Who is to hear of it, if not everybody.
fn subscribers(gateway: &Gateway, notification: &Notification) -> Option<HashSet<Uid>> {
    if notification.method != RESOURCE_UPDATED {
        return None;
    }
    let update = notification.params.as_ref()?.parse::<UpdateFields>().ok()?;
    Some(gateway.subscriptions.subscribers(&notification.server, &update.uri))
}

fn spread_one(gateway: &Gateway, notification: &Notification) {
    let subscribers = subscribers(gateway, notification);
    for client in gateway.clients.all() {
        let concerned = match &subscribers {
            Some(subscribers) => {
                subscribers.contains(&client.uid) && client.may_use(&notification.server)
            }
            None => client.may_use(&notification.server),
        };
        if concerned {
            pass_on(&client, notification);
        }
    }
}

fn pass_on(client: &Client, notification: &Notification) {
    let (method, params) = (notification.method.as_str(), notification.params.as_ref());
    if wants(client, method, params) {
        client.tell(method, params);
    }
}
