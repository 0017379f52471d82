//! What the server says unasked.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::jsonrpc;
use crate::server::Server;
use crate::server::modern::MODERN;
use crate::session::{Session, Sink};

/// A list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `notifications/tools/list_changed`
    Tools,
    /// `notifications/prompts/list_changed`
    Prompts,
    /// `notifications/resources/list_changed`
    Resources,
}

impl Server {
    /// Tells every session that a list changed (whether or not it did).
    pub fn notify_list_changed(&self, kind: ListKind) {
        let method = match kind {
            ListKind::Tools => "notifications/tools/list_changed",
            ListKind::Prompts => "notifications/prompts/list_changed",
            ListKind::Resources => "notifications/resources/list_changed",
        };
        self.notify(method, Value::Null);
    }

    /// Sends a notification to every session: on its line or SSE stream, or on one listening
    /// stream of streamable HTTP. `null` sends no params.
    #[expect(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) in place")]
    pub fn notify(&self, method: &str, params: Value) {
        self.tell(method, &params, |_| true);
    }

    /// Tells the sessions that are subscribed to `uri` that it changed.
    pub fn update_resource(&self, uri: &str) {
        let params = json!({ "uri": uri });
        self.tell("notifications/resources/updated", &params, |s| s.is_subscribed(uri));
    }

    /// Cuts every connection on which a client listens, as an impatient proxy in between does.
    /// Sessions stay, except on the 2024-11-05 transport and on lines, where the connection is the
    /// session.
    pub fn cut_listening(&self) {
        for session in self.sessions() {
            session.cut_listening();
        }
    }

    /// Sends a request to the newest session that listens right now. The receiver gets the whole
    /// JSON-RPC response; it fails at once if nobody listens.
    #[expect(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) in place")]
    pub fn request_client(&self, method: &str, params: Value) -> oneshot::Receiver<Value> {
        let sink = self
            .sessions()
            .iter()
            .rev()
            .find(|session| session.is_listening())
            .and_then(Session::listening);
        self.ask_on(&sink.unwrap_or(Sink::Nowhere), method, &params)
    }

    /// Sends a request to the client on one stream.
    pub(crate) fn ask_on(
        &self,
        sink: &Sink,
        method: &str,
        params: &Value,
    ) -> oneshot::Receiver<Value> {
        let (answer, answered) = oneshot::channel();
        let id = self.serial();
        self.state().asked.insert(id, answer);
        if !sink.send(jsonrpc::request(id, method, params)) {
            // Dropping the sender is what tells the receiver.
            self.state().asked.remove(&id);
        }
        answered
    }

    /// Takes a client's response to one of our requests.
    pub(crate) fn receive_response(&self, response: Value) {
        let asked = response["id"].as_u64().and_then(|id| self.state().asked.remove(&id));
        if let Some(answer) = asked {
            drop(answer.send(response));
        }
    }

    /// Who listens without a handshake says itself what for; `whom` chooses among the others.
    fn tell(&self, method: &str, params: &Value, whom: impl Fn(&Session) -> bool) {
        for session in self.sessions() {
            let Some(sink) = session.listening() else { continue };
            if session.protocol() == MODERN {
                for listen in session.listens() {
                    if listen.hears(method, params) {
                        sink.send(listen.told(method, params.clone()));
                    }
                }
            } else if whom(&session) {
                sink.send(jsonrpc::notification(method, params));
            }
        }
    }

    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        self.state().sessions.clone()
    }
}
