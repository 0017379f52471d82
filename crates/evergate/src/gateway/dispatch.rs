//! What a client asks for, and whose business that is.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use evergate_runtime::{CallError, Own, RawJson, ResultStream, RpcError, ServerHandle, StateKind};
use http::HeaderMap;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::Gateway;
use super::client::{CallGuard, Client, Kind, Scope};
use super::error_body::{self, plain};
use super::forward::{Forward, forward};
use super::log_level::Level;
use super::merged::Owner;
use super::names;
use super::outlet::Outlet;
use super::params::{self, Noted, ToolCall};
use super::stateless::rounds::Rounds;
use super::stateless::tasks;
use crate::front::request::Headers;
use crate::observed::{LONGEST_NAME, Recording};

/// How long a call waits for its server to be told what to log.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(RawJson),
    /// A large result, still arriving; only where [`RequestContext::takes_pieces`] says so.
    Pieces(Box<Pieces>),
    /// The error object.
    Error(RawJson),
    /// The client took the request back.
    Cancelled,
}

/// A result on its way, and the call that it ends.
#[derive(Debug)]
pub(crate) struct Pieces {
    stream: ResultStream,
    recording: Option<Recording>,
    guard: Option<CallGuard>,
}

/// What a client asks for. Passed on by reference: each hand would have room for it twice.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: Option<RawJson>,
    /// What was seen of them, if anybody looked.
    pub(crate) noted: Option<Noted>,
}

/// What comes with a request besides that.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    /// Where to send what leads up to the answer.
    pub(crate) stream: Outlet,
    /// Of the HTTP request, if it came in one.
    pub(crate) headers: Option<Arc<HeaderMap>>,
    /// A large result may be answered while it arrives.
    pub(crate) takes_pieces: bool,
    /// Of a call without a session (2026-07-28): what its caller can do, and what it is asked.
    pub(crate) rounds: Option<Arc<Rounds>>,
}

/// Whether requests of this kind go on to a server, rather than being answered here.
pub(crate) fn goes_to_server(method: &str) -> bool {
    !matches!(
        method,
        "initialize"
            | "ping"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "logging/setLevel"
            | "server/discover"
            | "subscriptions/listen"
    )
}

// === impl Pieces ===

impl Pieces {
    pub(super) fn new(stream: ResultStream, mut recording: Recording) -> Self {
        recording.streams();
        Self { stream, recording: Some(recording), guard: None }
    }

    /// The next one; `None` when the result is complete.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallError>>> {
        let next = ready!(self.stream.poll_next(context));
        match &next {
            Some(Ok(piece)) => {
                if let Some(recording) = &mut self.recording {
                    recording.received(piece.len());
                }
            }
            Some(Err(error)) => {
                if let Some(mut recording) = self.recording.take() {
                    recording.failed(error);
                }
            }
            None => {
                if let Some(recording) = self.recording.take() {
                    recording.answered();
                }
            }
        }
        Poll::Ready(next)
    }

    /// What closes a result that broke off, if it can be closed.
    pub(crate) fn cut_short(&self, note: &str) -> Option<Bytes> {
        self.stream.cut_short(note)
    }

    async fn whole(mut self) -> Result<RawJson, CallError> {
        let result = self.stream.whole().await;
        if let Some(mut recording) = self.recording.take() {
            match &result {
                Ok(result) => {
                    recording.received(result.as_bytes().len());
                    recording.answered();
                }
                Err(error) => recording.failed(error),
            }
        }
        result
    }
}

// === impl Answer ===

impl Answer {
    /// The same with all of its result.
    pub(crate) async fn whole(self) -> Self {
        let Self::Pieces(pieces) = self else { return self };
        match pieces.whole().await {
            Ok(result) => Self::Result(result),
            Err(error) => Self::Error(error_body::of_call(&error, None)),
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Answers one request of a client.
    pub(crate) async fn request(
        self: &Arc<Self>,
        client: &Own<Client>,
        id: &RawJson,
        asked: &mut ClientRequest,
        context: &RequestContext,
    ) -> Answer {
        if let Some(headers) = &context.headers
            && self.passes_headers()
        {
            client.set_headers(headers);
        }
        let begun = Client::begin(client, id, &context.stream, context.rounds.as_ref());
        let Some(guard) = begun else {
            let message = "a request with this id is under way already";
            return Answer::Error(plain(error_body::INVALID_REQUEST, message));
        };
        let answer = tokio::select! {
            biased;
            answer = self.dispatch(client, asked, context, &guard) => answer,
            () = guard.withdrawal.given() => Answer::Cancelled,
        };
        match answer {
            _ if guard.withdrawal.is_given() => Answer::Cancelled,
            // The call is not over before its result is.
            Answer::Pieces(mut pieces) => {
                pieces.stream.cancel(guard.withdrawal.token());
                pieces.guard = Some(guard);
                Answer::Pieces(pieces)
            }
            answer => answer,
        }
    }

    /// Takes note of something a client says without asking.
    pub(crate) fn notified(
        self: &Arc<Self>,
        client: &Arc<Client>,
        method: &str,
        params: Option<&RawJson>,
    ) {
        client.touch(Instant::now());
        match method {
            "notifications/cancelled" => {
                if let Some(id) = params::cancelled_id(params) {
                    client.cancel(&id);
                }
            }
            "notifications/roots/list_changed" => self.roots_changed(client),
            "notifications/progress" => {
                if let Some(params) = params {
                    client.progressed(params);
                }
            }
            // The handshake is ours alone. Whatever the future brings concerns one server among many, and nothing says
            // which.
            _ => {}
        }
    }

    /// A client answers a question.
    pub(crate) fn answered(
        client: &Client,
        id: Option<&RawJson>,
        answer: Result<RawJson, RpcError>,
    ) {
        client.touch(Instant::now());
        client.answered(id, answer);
    }

    async fn dispatch(
        self: &Arc<Self>,
        client: &Arc<Client>,
        asked: &mut ClientRequest,
        context: &RequestContext,
        guard: &CallGuard,
    ) -> Answer {
        if asked.method == "tools/call" {
            return self.call_tool(client, asked, context, guard).await;
        }
        // In a box, so that tool calls, which are most, need not move room for the rest about.
        Box::pin(self.dispatch_others(client, asked, context, guard)).await
    }

    async fn call_tool(
        self: &Arc<Self>,
        client: &Arc<Client>,
        asked: &mut ClientRequest,
        context: &RequestContext,
        guard: &CallGuard,
    ) -> Answer {
        let call = match ToolCall::read(asked.params.as_ref(), asked.noted.as_ref()) {
            Ok(call) => call,
            Err(wrong) => return invalid(wrong),
        };
        let name = &*call.name;
        let Some(owner) = self.tool_owner(client, name).await else {
            return match self.why_off(client, name) {
                Some((server, why)) => Answer::Error(error_body::unavailable(&server, &why)),
                None => invalid(&format!("Unknown tool: {name}")),
            };
        };
        let renamed = asked.params.as_ref().filter(|_| name != &*owner.own);
        let renamed = renamed.map(|params| call.renamed(params, &owner.own));
        let (progress_token, trace) = (call.progress_token, call.trace);
        let forwarded = Forward {
            method: std::mem::take(&mut asked.method),
            params: renamed.or_else(|| asked.params.take()),
            tool: Some(owner.own.clone()),
            progress_token,
            trace,
            number: guard.number,
        };
        forward(self, client, &owner.server, forwarded, context).await
    }

    async fn dispatch_others(
        self: &Arc<Self>,
        client: &Arc<Client>,
        ClientRequest { method, params, .. }: &mut ClientRequest,
        context: &RequestContext,
        guard: &CallGuard,
    ) -> Answer {
        if method.len() > LONGEST_NAME {
            // It would be repeated in headers, records and errors, and is nobody's.
            let message = format!("the method is longer than {LONGEST_NAME} bytes");
            return Answer::Error(plain(error_body::INVALID_REQUEST, message));
        }
        let Some(fields) = params::read(params.as_ref()) else {
            return invalid(params::NO_OBJECT);
        };
        let Ok(progress_token) = fields.progress_token() else {
            return invalid(params::BAD_META);
        };
        let mut forwarded = Forward {
            method: std::mem::take(method),
            params: params.clone(),
            tool: None,
            progress_token,
            trace: fields.trace(),
            number: guard.number,
        };
        let method = forwarded.method.clone();
        let method = &*method;
        if let Some(rounds) = &context.rounds
            && let Some(answer) = self.without_session(client, rounds, &forwarded, context).await
        {
            return answer;
        }
        match method {
            "ping" => Answer::Result(RawJson::empty_object()),
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                if fields.cursor.is_some() {
                    return invalid("no cursor was given out: lists come in one piece");
                }
                self.first_lists(client).await;
                let view = self.view(client);
                self.count_stale(client, method);
                if context.rounds.is_none() {
                    return Answer::Result(view.list(method));
                }
                Answer::Result(view.list_to_keep(method, |server| {
                    let handle = self.server_for(client, server);
                    handle.is_some_and(|handle| handle.protocol().is_some())
                }))
            }
            "prompts/get" => {
                let Some(name) = fields.name.and_then(params::text) else {
                    return invalid("prompts/get needs a name");
                };
                let Some(owner) = self.prompt_owner(client, &name).await else {
                    return invalid(&format!("Unknown prompt: {name}"));
                };
                forwarded.rename(fields.name, &owner.own);
                forward(self, client, &owner.server, forwarded, context).await
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                let Some(uri) = fields.uri.and_then(params::text) else {
                    return invalid(&format!("{method} needs a uri"));
                };
                self.resource(client, method, &uri, &forwarded, context).await
            }
            "completion/complete" => {
                let Some(reference) = fields.reference() else {
                    return invalid("completion/complete needs a ref");
                };
                if let Some(name) = reference.name.and_then(params::text) {
                    let Some(owner) = self.prompt_owner(client, &name).await else {
                        return invalid(&format!("Unknown prompt: {name}"));
                    };
                    forwarded.rename(reference.name, &owner.own);
                    return forward(self, client, &owner.server, forwarded, context).await;
                }
                let uri = reference.uri.and_then(params::text).unwrap_or_default();
                match self.uri_owner(client, &uri).await {
                    Some(server) => forward(self, client, &server, forwarded, context).await,
                    None => invalid(&format!("Unknown resource template: {uri}")),
                }
            }
            "logging/setLevel" => {
                let Some(level) =
                    fields.level.and_then(params::text).as_deref().and_then(Level::parse)
                else {
                    return invalid(
                        "the level must be debug, info, notice, warning, error, critical, alert or emergency",
                    );
                };
                self.set_level(client, level, forwarded, context).await
            }
            _ => match self.only_server(client) {
                Some(server) => forward(self, client, &server, forwarded, context).await,
                None => Answer::Error(plain(
                    error_body::METHOD_NOT_FOUND,
                    format!(
                        "{method} is not known here; at /mcp/{{server}} it would reach that server"
                    ),
                )),
            },
        }
    }

    /// Counts, for each server that is out of reach, a list that its last good entries are in.
    fn count_stale(&self, client: &Client, method: &str) {
        if !self.observed.metrics.any_away() {
            return;
        }
        let catalog = self.hub.catalog();
        for handle in self.hub.servers() {
            let name = handle.name();
            let Some(listed) = catalog.server(name).filter(|_| client.may_use(name)) else {
                continue;
            };
            let is_empty = match method {
                "tools/list" => listed.tools.is_empty(),
                "prompts/list" => listed.prompts.is_empty(),
                "resources/list" => listed.resources.is_empty(),
                _ => listed.resource_templates.is_empty(),
            };
            if !is_empty && handle.protocol().is_none() {
                self.observed.metrics_of(name).served_stale();
            }
        }
    }

    /// Answers what only clients without a session can ask, and refuses what they cannot.
    async fn without_session(
        self: &Arc<Self>,
        client: &Arc<Client>,
        rounds: &Rounds,
        forwarded: &Forward,
        context: &RequestContext,
    ) -> Option<Answer> {
        let method = &*forwarded.method;
        if let Some(answer) = self.not_offered(client, method).await {
            return Some(answer);
        }
        if method == "server/discover" {
            return Some(Answer::Result(self.discover(client).await));
        }
        if !tasks::is_about_one(method) {
            return None;
        }
        if let Some(lacking) = rounds.lacks_tasks() {
            return Some(Answer::Error(error_body::missing_capability(&lacking)));
        }
        let asked = forwarded.params.as_ref();
        let Some((server, params)) = asked.and_then(|params| self.task_owner(client, params))
        else {
            return Some(invalid("no task of this name is known here"));
        };
        let forwarded = Forward { params: Some(params), ..forwarded.clone() };
        Some(forward(self, client, &server, forwarded, context).await)
    }

    /// The header of a tool call that does not say what its argument does.
    pub(crate) fn wrong_header(
        self: &Arc<Self>,
        client: &Arc<Client>,
        params: Option<&RawJson>,
        headers: &Headers,
    ) -> Option<String> {
        let view = self.view(client);
        // Few tools want headers, and most gateways have none of them.
        let tool = view.any_with_headers().then(|| ToolCall::read(params, None).ok()).flatten();
        let tool = view.with_headers(&tool?.name)?;
        let params: Value = params?.parse().ok()?;
        tool.wrong_header(&params["arguments"], &headers.to_map()).map(str::to_owned)
    }

    /// Whose tool this is, as far as can be known once every server had its time.
    pub(super) async fn tool_owner(
        self: &Arc<Self>,
        client: &Arc<Client>,
        name: &str,
    ) -> Option<Own<Owner>> {
        let listed = || self.listed_tool(client, name);
        let unlisted = || self.unlisted_tool(client, name).map(|owner| Own::new(Arc::new(owner)));
        // A name that tells whose it is need not wait for the lists of others.
        let found = listed().or_else(|| (!names::may_be_cut(name)).then(unlisted).flatten());
        if found.is_some() {
            return found;
        }
        Box::pin(self.first_lists(client)).await;
        listed().or_else(unlisted)
    }

    /// The same for a prompt.
    pub(super) async fn prompt_owner(
        self: &Arc<Self>,
        client: &Arc<Client>,
        name: &str,
    ) -> Option<Owner> {
        let listed = || self.view(client).merged.prompt(name).cloned();
        if let Some(owner) = listed() {
            return Some(owner);
        }
        self.first_lists(client).await;
        listed().or_else(|| self.unlisted_owner(client, name))
    }

    /// Each client gets what it asked for; servers are asked for the most that any client wants.
    async fn set_level(
        self: &Arc<Self>,
        client: &Arc<Client>,
        level: Level,
        forwarded: Forward,
        context: &RequestContext,
    ) -> Answer {
        client.set_level(level);
        // A server that is still being listed has not said yet whether it logs.
        self.first_lists(client).await;
        let servers = self.servers_with(client, "logging");
        let alone = match &client.scope {
            Scope::One(server) if servers.is_empty() => Some(server.clone()),
            _ => None,
        };
        if let Some(server) = alone {
            // Its own word on that is better than ours.
            return forward(self, client, &server, forwarded, context).await;
        }
        for server in servers {
            let Some(handle) = self.server_for(client, &server) else { continue };
            let connected = handle.status().state == StateKind::Connected;
            let (gateway, client) = (self.clone(), client.clone());
            let told =
                self.tasks.spawn(async move { gateway.settle_level(Some(&client), &handle).await });
            if connected {
                // Messages that the next call causes are to come at this level already. A panic there is not ours.
                let _ = told.await;
            }
        }
        Answer::Result(RawJson::empty_object())
    }

    /// Has a server log what the caller of a call wants to hear. One that speaks the caller's revision reads that in the
    /// request itself.
    pub(super) async fn hear_logs(&self, client: &Client, rounds: &Rounds, handle: &ServerHandle) {
        let with_handshake = handle.protocol().is_some_and(|version| !version.is_modern());
        let logs = || self.declares(client, handle.name(), "logging") == Some(true);
        if rounds.level().is_some() && with_handshake && logs() {
            // Late is better than never: the call does not wait for it longer.
            let _ = timeout(TOLD_WITHIN, self.settle_level(Some(client), handle)).await;
        }
    }

    /// The server that everything must be meant for, if the client sees only one.
    pub(super) fn only_server(&self, client: &Client) -> Option<Arc<str>> {
        if let Scope::One(server) = &client.scope {
            return Some(server.clone());
        }
        let config = self.config();
        let mut usable =
            config.servers.iter().filter(|(name, server)| server.is_on() && client.may_use(name));
        let only = usable.next().map(|(name, _)| Arc::from(name.as_str()));
        only.filter(|_| usable.next().is_none())
    }

    fn roots_changed(self: &Arc<Self>, client: &Arc<Client>) {
        client.private.roots_changed();
        let clients = self.clients.all();
        let others = clients
            .iter()
            .filter(|other| other.uid != client.uid && matches!(other.kind, Kind::Session));
        // With more than one, no shared server could find out whose roots are meant.
        if !others.into_iter().any(|other| other.answers("roots/list")) {
            self.hub.roots_changed();
        }
    }
}

fn invalid(message: &str) -> Answer {
    Answer::Error(plain(error_body::INVALID_PARAMS, message))
}
