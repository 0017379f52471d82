//! One call to the server that owns it, and what comes back.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{
    Attribution, CallBuilder, Handlers, Notification, RawJson, Reply, RpcError, ServerHandle,
    ServerRequest,
};
use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::client::Client;
use super::error_body;
use super::outlet::Outlet;
use super::patience::Patience;
use super::stateless::rounds::Rounds;
use super::stateless::tasks;
use super::{Answer, Gateway, Pieces, RequestContext, news, params, payload};
use crate::config::{Config, Isolation, Server};
use crate::observed::{Beginning, Recording, brief_shared, kept};
use crate::telemetry::{About, TraceContext};

/// A request on its way to a server.
#[derive(Debug, Clone)]
pub(super) struct Forward {
    pub(super) method: Cow<'static, str>,
    pub(super) params: Option<RawJson>,
    /// The tool, as its server calls it.
    pub(super) tool: Option<Arc<str>>,
    /// The client's, if it wants to hear of progress.
    pub(super) progress_token: Option<RawJson>,
    /// Where the client says in `_meta` that it stands.
    pub(super) trace: Option<Box<TraceContext>>,
    /// Which of the client's requests this is.
    pub(super) number: u64,
}

/// A call that is about to be made.
struct Begun {
    /// Who keeps account of it.
    recording: Recording,
    call: CallBuilder,
    /// Of a tool: only its result can say in the end that it failed.
    takes_pieces: bool,
    keep_alive: Duration,
}

/// Whom a call is for that is talked about before its end, or whose caller has no session.
struct Addressee<'a> {
    gateway: &'a Arc<Gateway>,
    client: &'a Client,
    server: &'a Arc<str>,
    handle: &'a ServerHandle,
    context: &'a RequestContext,
}

/// What a server logs without saying about which call, for a caller who has no other way to hear of it. The call reads it
/// itself, so that what was said before its answer comes before that.
struct Logs<'a> {
    rounds: &'a Rounds,
    news: broadcast::Receiver<Notification>,
}

// === impl Forward ===

impl Forward {
    /// Replaces a name, borrowed from these params or from others with the same text, by the server's own.
    pub(super) fn rename(&mut self, name: Option<&RawValue>, own: &str) {
        if let (Some(params), Some(name)) = (&self.params, name)
            && params::text(name).as_deref() != Some(own)
        {
            self.params = Some(params::with_text(params, name, own));
        }
    }
}

pub(super) async fn forward(
    gateway: &Arc<Gateway>,
    client: &Arc<Client>,
    server: &Arc<str>,
    request: Forward,
    context: &RequestContext,
) -> Answer {
    let Some(handle) = gateway.server_for(client, server) else {
        return Answer::Error(gone(server));
    };
    let (is_tool, about_task) = (request.tool.is_some(), tasks::is_about_one(&request.method));
    let rounds = context.rounds.as_ref();
    let token = request.progress_token.clone();
    let patience = token.map(|token| Patience::new(token, context.stream.clone()));
    let to = (server, &handle);
    let Some(begun) = begin(gateway, client, to, request, patience.as_ref(), context) else {
        return Answer::Error(gone(server));
    };
    let Begun { mut recording, call, takes_pieces, keep_alive } = begun;
    let result = {
        // In place: a future that is moved takes up its room twice, and this one is large.
        let made = pin!(call.reported(takes_pieces && is_tool, &mut recording.report));
        if rounds.is_none() && patience.is_none() {
            made.await
        } else {
            let to = Addressee { gateway, client, server, handle: &handle, context };
            // In a box, as whatever is rarer and large.
            Box::pin(to.accompany(made, patience, keep_alive)).await
        }
    };
    let result = result.map(|reply| match reply {
        Reply::Whole(result) if rounds.is_some() => {
            Reply::Whole(tasks::published(client, server, about_task, result))
        }
        reply => reply,
    });
    match result {
        // The runtime knows the limit.
        Ok(Reply::Pieces(pieces)) => Answer::Pieces(Box::new(Pieces::new(pieces, recording))),
        Ok(Reply::Whole(result)) => {
            recording.received(result.as_bytes().len());
            recording.look_at(&result);
            recording.answered();
            let result = RawJson::from_valid(gateway.buffers.counted(result.to_bytes()));
            {
                let config = gateway.config_now();
                if !is_tool || !payload::may_be_stored(&config.gateway, &result) {
                    return payload::refuse_too_large(&config.gateway, server, result);
                }
            }
            let config = gateway.config();
            Box::pin(payload::stored(&config.gateway, client, server, result)).await
        }
        Err(error) => {
            recording.failed(&error);
            Answer::Error(error_body::of_call(&error, Some(&handle.status())))
        }
    }
}

/// All there is to a call before it is made. Apart from the waiting, which would keep it all. `None` if its server is
/// configured no longer.
fn begin(
    gateway: &Arc<Gateway>,
    client: &Arc<Client>,
    (server, handle): (&Arc<str>, &ServerHandle),
    mut request: Forward,
    patience: Option<&Patience>,
    context: &RequestContext,
) -> Option<Begun> {
    let config = &gateway.config_now();
    let settings = config.servers.get(&**server)?;
    let about = (server, settings);
    let (recording, headers) =
        begin_recording(gateway, client, about, config, &mut request, context);
    let Forward { method, params, tool, number, .. } = request;
    let mut call = configured(handle, settings, method, params, tool.as_ref());
    let rounds = context.rounds.as_ref();
    let (caller, handlers) = match rounds {
        Some(rounds) => (rounds.caller, Arc::new(questions_in_rounds(client, rounds))),
        None => (client.number(), shared_handlers(gateway, client)),
    };
    // Whoever takes it back drops it.
    call = call.caller(caller).number(number).handlers(handlers);
    if let Some(rounds) = rounds.cloned() {
        let (around, listener) = (gateway.clone(), client.clone());
        let stream = context.stream.clone();
        call = call.verbatim().on_notification(move |notification| {
            news::from_call(&around, &listener, (&stream, Some(&*rounds)), &notification);
        });
    }
    if let Some(patience) = patience.cloned() {
        call = call.on_progress(move |progress| patience.report(&progress));
    }
    if let Some(headers) = headers {
        call = call.headers(headers);
    }
    // What may be kept in a file must be there as a whole.
    let takes_pieces = context.takes_pieces && config.gateway.payload_dir.is_none();
    Some(Begun { recording, call, takes_pieces, keep_alive: config.gateway.keep_alive })
}

/// Begins to keep account of a call, and puts into it where it stands in a trace. With the headers its server is to see.
fn begin_recording(
    gateway: &Arc<Gateway>,
    client: &Arc<Client>,
    (server, settings): (&Arc<str>, &Server),
    config: &Config,
    request: &mut Forward,
    context: &RequestContext,
) -> (Recording, Option<HeaderMap>) {
    let observed = &gateway.observed;
    let about = About {
        protocol: &client.introduction.version,
        has_session: context.rounds.is_none(),
        is_shared: settings.isolation == Isolation::Shared,
    };
    let (told, own) = (context.headers.as_deref(), request.trace.take());
    let trace = observed.telemetry.begin(own.map(|own| *own), told, about);
    let is_recorded = trace.as_ref().is_some_and(|trace| trace.is_recorded());
    let is_named = request.tool.is_none() && (is_recorded || observed.audit.is_on());
    let params = request.params.as_ref();
    let request_bytes = params.map_or(0, |params| params.as_bytes().len());
    let name = params.filter(|_| is_named).and_then(params::shown_name);
    let kept = params.filter(|_| config.gateway.record_arguments).and_then(kept);
    let mut headers = passed_on(settings, told);
    if let Some(trace) = &trace {
        trace.add_to(headers.get_or_insert_default());
        request.params = trace.params(request.params.take());
    }
    let beginning = Beginning {
        client: client.label(),
        caller: client.caller(),
        server: server.clone(),
        method: request.method.clone(),
        tool: request.tool.as_ref().map(brief_shared),
        request_bytes,
        name,
        params: kept,
        session: Some(client.session_label()),
        trace,
        keep: config.gateway.recent_calls,
    };
    (Recording::begin(observed, beginning), headers)
}

/// The call, with what the configuration says of its tool.
fn configured(
    handle: &ServerHandle,
    settings: &Server,
    method: Cow<'static, str>,
    params: Option<RawJson>,
    tool: Option<&Arc<str>>,
) -> CallBuilder {
    let Some(tool) = tool else { return handle.request(method, params) };
    let params = params.unwrap_or_else(RawJson::empty_object);
    let rules = settings.tools.overrides_for(tool);
    let mut call = handle.call_tool_with(tool.clone(), params);
    if let Some(timeout) = rules.timeout {
        call = call.timeout(timeout);
    }
    if let Some(timeout) = rules.max_timeout {
        call = call.max_timeout(timeout);
    }
    if let Some(hold) = rules.hold {
        call = call.hold(hold);
    }
    if let Some(replay) = rules.replay {
        call = call.replay(replay);
    }
    call
}

// === impl Addressee ===

impl Addressee<'_> {
    /// Waits for the call, and passes on meanwhile what is said about it.
    async fn accompany<T>(
        &self,
        made: Pin<&mut impl Future<Output = T>>,
        patience: Option<Patience>,
        keep_alive: Duration,
    ) -> T {
        let Self { gateway, client, server, handle, context } = self;
        let rounds = context.rounds.as_ref();
        if let Some(rounds) = rounds {
            rounds.goes_to(server, patience.as_ref());
            gateway.hear_logs(client, rounds, handle).await;
        }
        let mut said = rounds.and_then(|rounds| Logs::of(gateway, client, server, rounds));
        let result = {
            let waiting = async {
                match patience.filter(|_| matches!(context.stream, Outlet::Pipe(_))) {
                    Some(patience) => patience.keep(handle, keep_alive).await,
                    None => std::future::pending().await,
                }
            };
            let hearing = async {
                match &mut said {
                    Some(said) => said.pass_on(&context.stream).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = made => result,
                never = waiting => match never {},
                never = hearing => match never {},
            }
        };
        if let Some(said) = &mut said {
            said.pass_on_the_rest(&context.stream);
        }
        result
    }
}

// === impl Logs ===

impl<'a> Logs<'a> {
    /// `None` if the caller does not want to hear of it.
    fn of(gateway: &Gateway, client: &Client, server: &str, rounds: &'a Rounds) -> Option<Self> {
        rounds.level()?;
        let own = client.private.started(server).map(|(_, hub)| hub.notifications());
        let news = own.unwrap_or_else(|| gateway.hub.notifications());
        Some(Self { rounds, news })
    }

    /// Never ends.
    async fn pass_on(&mut self, stream: &Outlet) -> Infallible {
        loop {
            match self.news.recv().await {
                Ok(notification) => self.offer(stream, &notification),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    fn pass_on_the_rest(&mut self, stream: &Outlet) {
        loop {
            match self.news.try_recv() {
                Ok(notification) => self.offer(stream, &notification),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn offer(&self, stream: &Outlet, notification: &Notification) {
        if notification.method == news::MESSAGE {
            self.rounds.offer_log(stream, notification);
        }
    }
}

/// A server that was there a moment ago.
pub(super) fn gone(server: &str) -> RawJson {
    error_body::unavailable(server, "no longer configured, switched off, or not allowed")
}

/// What the server asks and says because of a call goes to the client that made it, over the call's own stream. The same
/// for all calls of a client.
fn shared_handlers(gateway: &Arc<Gateway>, client: &Arc<Client>) -> Arc<Handlers> {
    let handlers = || {
        let (asked, told) = (Arc::downgrade(client), Arc::downgrade(client));
        let around = Arc::downgrade(gateway);
        let can_do = client.introduction.capabilities.clone();
        let handlers = Handlers::new().declare(can_do).on_notification(move |said, call| {
            let (Some(gateway), Some(client)) = (around.upgrade(), told.upgrade()) else { return };
            let stream = call.and_then(|number| client.stream_of(number));
            // One that has just ended has no stream to say anything on.
            let stream = stream.unwrap_or(Outlet::Nowhere);
            news::from_call(&gateway, &client, (&stream, None), &said);
        });
        handlers.on_any(move |request: ServerRequest| {
            let client = asked.upgrade();
            async move {
                let Some(client) = client else {
                    let message = "the client's session has ended";
                    return Err(RpcError::with(error_body::INTERNAL, message));
                };
                let stream = request.call.and_then(|number| client.stream_of(number));
                // If all that is known is whose call it is about, it is moot when all of those have ended, as the runtime
                // sees.
                let call = request.call.filter(|_| request.attribution == Attribution::Call);
                client.ask(&request, stream.as_ref(), call).await
            }
        })
    };
    client.here.own().handlers.get_or_init(|| Arc::new(handlers())).clone()
}

/// What the server asks because of a call without a session is asked by its result. If all that is known is whose call it is
/// about, it goes with one that its caller waits for: whichever call the answer comes with, it is the server's question that
/// is answered.
fn questions_in_rounds(client: &Arc<Client>, own: &Arc<Rounds>) -> Handlers {
    let (client, own) = (client.clone(), own.clone());
    Handlers::new().on_any(move |request: ServerRequest| {
        let (client, own) = (client.clone(), own.clone());
        let is_tied = request.attribution == Attribution::Call || client.known_number().is_none();
        async move {
            loop {
                let other = if is_tied { None } else { client.waited_for(&request.server) };
                let rounds = other.as_ref().unwrap_or(&own);
                match rounds.ask(&request).await {
                    Ok(answer) => return answer,
                    // Another may be waited for.
                    Err(_) if other.is_some() => {}
                    Err(_) => {
                        let message = "the call that this was asked for has ended";
                        return Err(RpcError::with(error_body::INTERNAL, message));
                    }
                }
            }
        }
    })
}

/// The client's headers that this server is to see.
fn passed_on(server: &Server, headers: Option<&HeaderMap>) -> Option<HeaderMap> {
    let headers = headers?;
    let mut passed = HeaderMap::new();
    for name in &server.headers_from_client {
        for value in headers.get_all(name) {
            passed.append(name.clone(), value.clone());
        }
    }
    (!passed.is_empty()).then_some(passed)
}
