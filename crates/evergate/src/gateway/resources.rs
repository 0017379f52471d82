//! Requests about one resource: URIs are nobody's prefix, so their owner has to be found.

use std::sync::Arc;

use evergate_runtime::{Outcome, RawJson, StateKind, SubscribeError};

use super::client::Client;
use super::error_body::{self, plain};
use super::forward::{Forward, forward, gone};
use super::{Answer, Gateway, RequestContext};
use crate::config::Isolation;

/// Takes a subscription back that the server did not agree to.
struct Undo<'a> {
    gateway: &'a Gateway,
    server: &'a Arc<str>,
    uri: &'a str,
    client: &'a Client,
    armed: bool,
}

// === impl Gateway ===

impl Gateway {
    /// `resources/read`, `resources/subscribe` and `resources/unsubscribe`: to the owner of the URI.
    pub(super) async fn resource(
        self: &Arc<Self>,
        client: &Arc<Client>,
        method: &str,
        uri: &str,
        forwarded: &Forward,
        context: &RequestContext,
    ) -> Answer {
        match (self.uri_owner(client, uri).await, method) {
            (Some(server), "resources/read") => {
                forward(self, client, &server, forwarded.clone(), context).await
            }
            (Some(server), _) => self.subscribe(client, &server, method, uri).await,
            // A tool's result may link to a resource that nobody lists.
            (None, "resources/read") => self.read_anywhere(client, uri, forwarded, context).await,
            (None, _) => Answer::Error(error_body::no_resource(
                uri,
                "no server lists it; at /mcp/{server} it would reach that server",
            )),
        }
    }

    /// Whose URI, or template of URIs, this is, as far as can be known once every server had its time.
    pub(super) async fn uri_owner(
        self: &Arc<Self>,
        client: &Arc<Client>,
        uri: &str,
    ) -> Option<Arc<str>> {
        let listed = || {
            let view = self.view(client);
            view.merged.template(uri).or_else(|| view.merged.resource(uri)).cloned()
        };
        if let Some(owner) = listed() {
            return Some(owner);
        }
        self.first_lists(client).await;
        listed().or_else(|| self.only_server(client))
    }

    /// Asks every connected server that has resources, until one knows this one. Reading does no harm.
    async fn read_anywhere(
        self: &Arc<Self>,
        client: &Arc<Client>,
        uri: &str,
        forwarded: &Forward,
        context: &RequestContext,
    ) -> Answer {
        for server in self.servers_with(client, "resources") {
            let connected = self.server_for(client, &server);
            let connected = connected.is_some_and(|s| s.status().state == StateKind::Connected);
            if !connected {
                continue;
            }
            let answer = forward(self, client, &server, forwarded.clone(), context).await;
            if matches!(answer, Answer::Result(_) | Answer::Cancelled) {
                return answer;
            }
        }
        Answer::Error(error_body::no_resource(uri, "no server knows it"))
    }

    async fn subscribe(
        self: &Arc<Self>,
        client: &Arc<Client>,
        server: &Arc<str>,
        method: &str,
        uri: &str,
    ) -> Answer {
        let Some(handle) = self.server_for(client, server) else {
            return Answer::Error(gone(server));
        };
        let done = Answer::Result(RawJson::empty_object());
        if method == "resources/subscribe" {
            // Before the server is asked: its first news may come with its answer.
            let is_new = self.subscriptions.add(server, uri, client.uid);
            let undo = Undo { gateway: self, server, uri, client, armed: is_new };
            return match handle.subscribe(uri).await {
                Ok(()) => {
                    undo.disarm();
                    done
                }
                Err(SubscribeError::Call(error)) => {
                    Answer::Error(error_body::of_call(&error, Some(&handle.status())))
                }
                Err(error) => Answer::Error(plain(error_body::INVALID_REQUEST, error.to_string())),
            };
        }
        let last = self.subscriptions.remove(server, uri, &client.uid);
        if !last && self.is_shared(server) {
            return done;
        }
        let ended = handle.unsubscribe(uri).await;
        // Somebody may have come meanwhile, and been heard before this.
        if self.is_shared(server) && self.subscriptions.is_wanted(server, uri) {
            self.subscribe_in_time(handle.clone(), uri.to_owned());
        }
        match ended {
            Ok(()) => done,
            // A server that is away has nothing left to be told: it is not subscribed again when it comes back.
            Err(error) if error.outcome == Outcome::NotSent => done,
            Err(error) => Answer::Error(error_body::of_call(&error, Some(&handle.status()))),
        }
    }

    fn is_shared(&self, server: &str) -> bool {
        let config = self.config();
        config.servers.get(server).is_some_and(|server| server.isolation == Isolation::Shared)
    }
}

// === impl Undo ===

impl Undo<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.gateway.subscriptions.remove(self.server, self.uri, &self.client.uid);
        }
    }
}
