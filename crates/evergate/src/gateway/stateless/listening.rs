//! News for clients without a session (2026-07-28: `subscriptions/listen`): a request that stays open, and says what it wants
//! to hear of.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evergate_runtime::{Outcome, RawJson, ServerHandle, StateKind, SubscribeError, wire};
use futures_util::{StreamExt as _, stream};
use indexmap::IndexSet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::{CacheHint, SERVER_INFO};
use crate::front::session_id::SessionFacts;
use crate::gateway::Gateway;
use crate::gateway::client::{Client, Kind, Scope};
use crate::gateway::error_body::{INTERNAL, INVALID_PARAMS, plain};
use crate::gateway::handshake;
use crate::gateway::outlet::Outlet;

/// The key in `_meta` that tells which of its requests a client hears of.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// In one request; more than any client shows at once.
const MAX_URIS: usize = 1024;
/// Subscriptions of one request that are asked for at once.
const AT_ONCE: usize = 16;
/// How long connected servers may take to agree to subscriptions before their client is told that it has them.
const AGREES_WITHIN: Duration = Duration::from_secs(5);

/// What a client wants to hear of, and what of that it will.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
}

#[derive(Deserialize)]
struct ListenParams {
    notifications: Map<String, Value>,
}

/// The request of one listening client.
#[derive(Debug)]
pub(crate) struct Listening {
    id: RawJson,
    wanted: Wanted,
    /// What came before the client was told what it will hear of, each once; that must come first. `None` from then on.
    early: Mutex<Option<IndexSet<Bytes>>>,
}

/// A listening client; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    gateway: Arc<Gateway>,
    pub(crate) client: Arc<Client>,
}

// === impl Gateway ===

impl Gateway {
    /// Has a client hear, in its outbox, of what it wants to. Else the error. With it the acknowledgement: once that is
    /// sent, the client is to be [told](Listener::begin) the rest.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        principal: &Arc<Client>,
        id: &RawJson,
        params: Option<&RawJson>,
        outbox: Outlet,
    ) -> Result<(Listener, Bytes), RawJson> {
        let wanted = wanted(params)?;
        if self.clients.listeners() >= self.config().gateway.max_sessions {
            return Err(plain(INTERNAL, "Subscription limit reached"));
        }
        let wanted = self.offered(principal, wanted).await;
        let early = Mutex::new(Some(IndexSet::new()));
        let listening = Listening { id: id.clone(), wanted: wanted.clone(), early };
        let client = Client::listener(principal, SessionFacts::new_uid(), listening, outbox);
        let listener = Listener { gateway: self.clone(), client: Arc::new(client) };
        self.attach(&listener.client, false);
        let until = Instant::now() + AGREES_WITHIN;
        let uris = stream::iter(wanted.resource_subscriptions.clone());
        let subscribing = uris.map(|uri| async {
            let hears = self.hears_of(principal, &listener.client, &uri, until).await;
            hears.then_some(uri)
        });
        // Not all at once: others use these servers too.
        let heard_of: Vec<Option<String>> = subscribing.buffer_unordered(AT_ONCE).collect().await;
        let agreed =
            Wanted { resource_subscriptions: heard_of.into_iter().flatten().collect(), ..wanted };
        let agreed = serde_json::to_value(&agreed).unwrap_or_default();
        let params = Map::from_iter([("notifications".to_owned(), agreed)]);
        let acknowledgement = match listener.listening() {
            Some(listening) => listening.message(ACKNOWLEDGED, params),
            None => Bytes::new(),
        };
        Ok((listener, acknowledgement))
    }

    /// The part of it that there can be news of.
    async fn offered(self: &Arc<Self>, principal: &Arc<Client>, mut wanted: Wanted) -> Wanted {
        if let Scope::One(server) = &principal.scope {
            self.first_lists(principal).await;
            let has = |list: &str| self.declares(principal, server, list).unwrap_or(true);
            wanted.tools_list_changed &= has("tools");
            wanted.prompts_list_changed &= has("prompts");
            wanted.resources_list_changed &= has("resources");
        }
        wanted
    }

    /// Subscribes a listening client to one resource; `false` if there will be no news of it. A server of its own is the
    /// principal's, and stays when the listener has gone.
    async fn hears_of(
        self: &Arc<Self>,
        principal: &Arc<Client>,
        client: &Client,
        uri: &str,
        until: Instant,
    ) -> bool {
        let Some(server) = self.uri_owner(principal, uri).await else { return false };
        let Some(handle) = self.server_for(principal, &server) else { return false };
        // Before the server is asked: its first news may come with its answer.
        self.subscriptions.add(&server, uri, client.uid);
        if handle.status().state != StateKind::Connected {
            return self.later(handle, uri);
        }
        match timeout_at(until, handle.subscribe(uri)).await {
            Ok(Ok(())) => true,
            Ok(Err(SubscribeError::Call(error))) if error.outcome == Outcome::NotSent => {
                self.later(handle, uri)
            }
            Ok(Err(_)) => {
                self.subscriptions.remove(&server, uri, &client.uid);
                false
            }
            Err(_) => self.later(handle, uri),
        }
    }

    fn later(self: &Arc<Self>, handle: ServerHandle, uri: &str) -> bool {
        self.subscribe_in_time(handle, uri.to_owned());
        true
    }

    /// What a client wants to hear of servers of its own.
    fn private_subscriptions(&self, client: &Client) -> Vec<(ServerHandle, String)> {
        let of_one = |handle: ServerHandle| {
            let uris = self.subscriptions.of(handle.name(), &client.uid);
            uris.into_iter().map(move |uri| (handle.clone(), uri))
        };
        client.private.handles().into_iter().flat_map(of_one).collect()
    }

    /// Whether anybody else who has the same servers wants to hear of this.
    fn is_wanted_privately(&self, client: &Client, server: &str, uri: &str) -> bool {
        self.clients.all().iter().any(|other| {
            Arc::ptr_eq(&other.private, &client.private)
                && self.subscriptions.subscribers(server, uri).contains(&other.uid)
        })
    }
}

fn wanted(params: Option<&RawJson>) -> Result<Wanted, RawJson> {
    let wrong = |what: &str| plain(INVALID_PARAMS, what);
    let params: Option<ListenParams> = params.and_then(|params| params.parse().ok());
    let params =
        params.ok_or_else(|| wrong("subscriptions/listen needs notifications, an object"))?;
    let wanted: Wanted = serde_json::from_value(Value::Object(params.notifications))
        .map_err(|error| wrong(&format!("notifications: {error}")))?;
    if wanted.resource_subscriptions.len() > MAX_URIS {
        return Err(wrong("resourceSubscriptions may have at most 1024 URIs"));
    }
    Ok(wanted)
}

// === impl Listening ===

impl Listening {
    /// Tells the client, if it wants to hear of this. `false` if it did not get through.
    pub(in crate::gateway) fn tell(
        &self,
        outbox: &Outlet,
        method: &str,
        params: Option<&RawJson>,
    ) -> bool {
        let wants = match method {
            "notifications/tools/list_changed" => self.wanted.tools_list_changed,
            "notifications/prompts/list_changed" => self.wanted.prompts_list_changed,
            "notifications/resources/list_changed" => self.wanted.resources_list_changed,
            // Whose news it is was looked up already.
            "notifications/resources/updated" => true,
            _ => false,
        };
        if !wants {
            return true;
        }
        let params = params.and_then(|params| params.parse::<Map<String, Value>>().ok());
        let message = self.message(method, params.unwrap_or_default());
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *early {
            Some(early) => {
                early.insert(message);
                true
            }
            None => outbox.offer(message),
        }
    }

    /// What a request that is over is answered with.
    pub(crate) fn result(&self) -> RawJson {
        let mut meta = self.meta(Map::new());
        meta[SERVER_INFO] = handshake::ourselves();
        super::complete(&json!({ "_meta": meta }).into(), None::<CacheHint>)
    }

    fn message(&self, method: &str, mut params: Map<String, Value>) -> Bytes {
        let meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        params.insert("_meta".into(), self.meta(meta));
        wire::notification(method, Some(Value::Object(params).to_string().as_bytes()))
    }

    fn meta(&self, mut meta: Map<String, Value>) -> Value {
        meta.insert(SUBSCRIPTION.into(), self.id.parse().unwrap_or_default());
        meta.into()
    }
}

// === impl Listener ===

impl Listener {
    pub(crate) fn listening(&self) -> Option<&Listening> {
        match &self.client.kind {
            Kind::Listener(listening) => Some(listening),
            Kind::Session | Kind::Principal { .. } => None,
        }
    }

    /// From now on the client hears of news as they come.
    pub(crate) fn begin(&self) {
        let Some(listening) = self.listening() else { return };
        let mut early = listening.early.lock().unwrap_or_else(PoisonError::into_inner);
        for message in early.take().unwrap_or_default() {
            self.client.outbox.offer(message);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let (gateway, client) = (&self.gateway, &self.client);
        // Servers that are the principal's own go on, and nobody else would tell them.
        let private = gateway.private_subscriptions(client);
        gateway.detach(client);
        for (handle, uri) in private {
            if gateway.is_wanted_privately(client, handle.name(), &uri) {
                continue;
            }
            let (gateway, client) = (gateway.clone(), client.clone());
            self.gateway.tasks.spawn(async move {
                if let Err(error) = handle.unsubscribe(&uri).await {
                    let (server, error) = (handle.name(), error.chain());
                    tracing::debug!(server, error, "could not unsubscribe");
                }
                // Somebody may have come meanwhile, and been heard before this.
                if gateway.is_wanted_privately(&client, handle.name(), &uri) {
                    gateway.subscribe_in_time(handle, uri);
                }
            });
        }
    }
}
