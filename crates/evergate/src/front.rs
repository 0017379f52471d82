//! The HTTP face: one listener, a dozen paths, and nothing that knows a server.
//!
//! | path | what |
//! |---|---|
//! | `/mcp`, `/mcp/{server}` | streamable HTTP: all servers, or one ([`mcp_endpoint`], without sessions [`stateless`]) |
//! | `/sse`, `/message` | HTTP+SSE for 2024-11-05 clients ([`legacy_sse`]) |
//! | `/livez`, `/readyz`, `/health` | is the process alive, may it get traffic, how is every server ([`health`]) |
//! | `/api/v1/…` | the admin API ([`operators`]) |
//! | `/metrics` | numbers for Prometheus ([`operators`], `metrics`) |
//! | `/`, `/dashboard/…` | the dashboard ([`page`]) |
//! | `/close` | drains and ends the process ([`operators`]) |

mod arriving;
pub(crate) mod body;
mod bucket;
mod event_id;
mod event_stream;
mod health;
pub(crate) mod http1;
mod incoming;
pub(crate) mod keys;
mod legacy_sse;
pub(crate) mod listener;
mod mcp_endpoint;
mod operators;
pub(crate) mod origin_guard;
mod page;
mod piped;
pub(crate) mod places;
pub(crate) mod request;
mod respond;
pub(crate) mod session_id;
pub(crate) mod sessions;
mod stateless;
pub(crate) mod stdio;
mod surviving;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use evergate_runtime::PerThread;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, VARY,
};
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::config::Secret;
use crate::dashboard;
use crate::gateway::Gateway;
use crate::gateway::error_body::Refusal;
use body::Response;
use keys::{Caller, Denied, Keyring};
use legacy_sse::SseStreams;
use origin_guard::OriginGuard;
use request::{Headers, Request, visible};
use sessions::Sessions;

/// In a box: it passes many hands, and is large.
pub(crate) type Reply = Box<Response>;

/// Everything behind the listener.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) gateway: PerThread<Gateway>,
    pub(crate) sessions: Sessions,
    pub(crate) place: Place,
    sse: SseStreams,
    policy: ArcSwap<Policy>,
    /// Somebody asked over HTTP that the process ends.
    pub(crate) close_asked: CancellationToken,
    closed: AtomicBool,
}

/// Who may come in. Replaced as a whole by a reload.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) keyring: Keyring,
    pub(crate) guard: OriginGuard,
    /// Of the operators' own listener.
    pub(crate) admin_guard: Option<OriginGuard>,
}

/// Where a request came in, and so for whom there is something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    /// Clients, and operators too, unless these have a listener of their own.
    Public,
    /// Operators only.
    Admin,
}

/// Where a front is.
#[derive(Debug)]
pub(crate) struct Place {
    /// For clients.
    pub(crate) address: SocketAddr,
    /// For operators, if somewhere else.
    pub(crate) admin_address: Option<SocketAddr>,
    /// What it was configured from, to be shown.
    pub(crate) config_files: Vec<String>,
    /// What opens the admin API to whoever may read this process's own files, where keys are needed.
    pub(crate) local_key: Option<Secret>,
}

// === impl Policy ===

impl Policy {
    fn guard_of(&self, face: Face) -> &OriginGuard {
        match face {
            Face::Public => &self.guard,
            Face::Admin => self.admin_guard.as_ref().unwrap_or(&self.guard),
        }
    }
}

// === impl Front ===

impl Front {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        sessions: Sessions,
        policy: Policy,
        place: Place,
    ) -> Self {
        Self {
            gateway: PerThread::new(gateway),
            sessions,
            place,
            sse: SseStreams::default(),
            policy: ArcSwap::from_pointee(policy),
            close_asked: CancellationToken::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// One at a time: there is one who reloads.
    pub(crate) fn set_policy(&self, mut policy: Policy) {
        policy.keyring.succeed(&self.policy.load().keyring);
        self.policy.store(Arc::new(policy));
    }

    /// Answers one HTTP request.
    ///
    /// The request stays where it is: on its way it is only borrowed, for it is large, and each hand would have room for it.
    pub(crate) async fn answer<B>(
        self: &Arc<Self>,
        face: Face,
        mut request: Box<Request<B>>,
    ) -> Reply
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let reply = self.answer_uncounted(face, &mut request).await;
        if let Some(refusal) = reply.refusal {
            self.gateway.observed.metrics.refused(refusal);
        }
        reply
    }

    async fn answer_uncounted<B>(self: &Arc<Self>, face: Face, request: &mut Request<B>) -> Reply
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Whoever probes, by whatever name and address, learns one bit.
        if matches!(request.method, Method::GET | Method::HEAD) {
            match request.uri.path() {
                "/livez" => return body::text(StatusCode::OK, "ok\n"),
                "/readyz" => return health::ready(self, face, &request.headers),
                _ => {}
            }
        }
        let for_operators = self.is_for_operators(face);
        let checked = self.policy.load().guard_of(face).check(&request.headers);
        let allowed_origin = match checked {
            Ok(origin) => origin,
            Err(refused) => {
                tracing::debug!(what = %refused, "refused");
                if for_operators && operators::has(request.uri.path()) {
                    return Box::pin(operators::turn_away(refused, request)).await;
                }
                return turned_away(Refusal::ForbiddenOrigin, request).await;
            }
        };
        if for_operators && let Some(file) = dashboard::file(request.uri.path()) {
            return Box::pin(page::answer(file, request)).await;
        }
        if for_operators && operators::has(request.uri.path()) {
            // Large and rare, and not for other origins.
            return Box::pin(operators::answer(self, face, &self.policy(), request)).await;
        }
        if !for_operators && operators::has(request.uri.path()) {
            return Box::pin(operators::elsewhere(request)).await;
        }
        let preflight = request.method == Method::OPTIONS && allowed_origin.is_some();
        let mut reply = if preflight {
            body::empty(StatusCode::NO_CONTENT)
        } else {
            self.route(face, request).await
        };
        if let Some(origin) = allowed_origin {
            // Those of a request that was answered may be gone by now, and nobody asks them then.
            allow_origin(&mut reply, origin, &request.headers);
        }
        reply
    }

    async fn route<B>(self: &Arc<Self>, face: Face, request: &mut Request<B>) -> Reply
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let caller = match self.identify(&mut request.headers) {
            Ok(caller) => caller,
            Err(denied) => {
                tracing::debug!(why = %denied, path = request.uri.path(), "unauthorized");
                return turned_away(Refusal::Unauthorized, request).await;
            }
        };
        let path = request.uri.path().trim_end_matches('/');
        // By far most.
        let is_client = face == Face::Public && caller.may_use_mcp();
        if path == "/mcp" && is_client {
            return mcp_endpoint::answer(self, caller, None, request).await;
        }
        let path = path.to_owned();
        if face == Face::Admin && path != "/health" {
            return turned_away(Refusal::UnknownPath, request).await;
        }
        if !is_client && is_for_clients(&path) {
            return turned_away(Refusal::Forbidden, request).await;
        }
        if path == "/health" && matches!(request.method, Method::GET | Method::HEAD) {
            let sees_all = self.is_for_operators(face)
                && caller.is_admin()
                && operators::may_come(self.policy().guard_of(face), &request.headers).is_ok();
            return health::report(self, &caller, sees_all);
        }
        Box::pin(self.route_others(&path, caller, request)).await
    }

    fn identify(&self, headers: &mut Headers) -> Result<Caller, Denied> {
        // Only for a moment: nobody counts who looks at it.
        let policy = self.policy.load();
        let caller = policy.keyring.identify(headers)?;
        // From here on the key is nobody's business.
        policy.keyring.hide(headers);
        Ok(caller)
    }

    async fn route_others<B>(
        self: &Arc<Self>,
        path: &str,
        caller: Caller,
        request: &mut Request<B>,
    ) -> Reply
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let get = matches!(request.method, Method::GET | Method::HEAD);
        let post = request.method == Method::POST;
        match path {
            "/sse" if get => legacy_sse::open(self, caller, request),
            "/message" if post => legacy_sse::message(self, caller, request).await,
            "/livez" | "/readyz" | "/health" | "/sse" => body::wrong_method("GET"),
            "/message" => body::wrong_method("POST"),
            path => match path.strip_prefix("/mcp/") {
                Some(server) => self.one_server(caller, server, request).await,
                None => turned_away(Refusal::UnknownPath, request).await,
            },
        }
    }

    async fn one_server<B>(
        self: &Arc<Self>,
        caller: Caller,
        server: &str,
        request: &mut Request<B>,
    ) -> Reply
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let server = percent_decoded(server);
        let config = self.gateway.config();
        let known = config.servers.get(&server).filter(|known| known.unusable.is_none());
        // What a caller may not use is not there.
        if known.is_none() || !caller.may_use_server(&server) {
            return turned_away(Refusal::UnknownServer, request).await;
        }
        mcp_endpoint::answer(self, caller, Some(&server), request).await
    }

    /// Whether operators come in here.
    fn is_for_operators(&self, face: Face) -> bool {
        face == Face::Admin || self.place.admin_address.is_none()
    }

    /// Drains and ends the process; a second time there is nothing left to close.
    fn close(&self, by: &Caller) -> Reply {
        if self.closed.swap(true, Ordering::AcqRel) || self.gateway.draining.has_begun() {
            return body::json(
                StatusCode::GONE,
                &json!({ "error": "the gateway is closed already" }),
            );
        }
        let servers = self.gateway.hub().servers().len();
        tracing::info!(by = by.name(), "asked to close by an operator");
        self.gateway.observed.audit.closed(by);
        self.close_asked.cancel();
        body::json(StatusCode::OK, &json!({ "status": "closed", "serversTerminated": servers }))
    }
}

fn is_for_clients(path: &str) -> bool {
    matches!(path, "/mcp" | "/sse" | "/message") || path.starts_with("/mcp/")
}

/// Refuses a request before anybody has looked at its body.
async fn turned_away<B>(refusal: Refusal, unread: &mut Request<B>) -> Reply
where
    B: http_body::Body<Data = bytes::Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut reply = body::refusal(refusal);
    if !Box::pin(incoming::discard(&mut unread.body)).await {
        reply.closes = true;
    }
    reply
}

/// For clients in a browser.
fn allow_origin(reply: &mut Reply, origin: HeaderValue, asked: &Headers) {
    reply.set(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    reply.set(VARY, HeaderValue::from_static("origin"));
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    reply.set(ACCESS_CONTROL_ALLOW_METHODS, methods);
    reply.set(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(asked));
    reply.set(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
}

/// All that clients send. What tools want repeated in headers has names of their own.
fn allowed_headers(asked: &Headers) -> HeaderValue {
    let always = "content-type, accept, authorization, x-api-key, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id";
    let asked = asked.get_all("access-control-request-headers");
    let asked = asked.filter_map(visible).flat_map(|names| names.split(','));
    let params = asked.map(str::trim).filter(|name| {
        name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-"))
    });
    let all: Vec<&str> = std::iter::once(always).chain(params).collect();
    // They came in a header, so they fit into one.
    HeaderValue::from_str(&all.join(", ")).unwrap_or(HeaderValue::from_static(always))
}

/// A path segment as it was meant; one that is not valid text names no server.
fn percent_decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        match byte {
            b'%' => {
                let (Some(high), Some(low)) = (hex(rest.next()), hex(rest.next())) else {
                    return String::new();
                };
                bytes.extend(u8::try_from(high * 16 + low));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}
