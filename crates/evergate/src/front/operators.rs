//! The face for operators: the admin API, the dashboard, the metrics, the way to end it all.
//!
//! A page of another origin must not steer the gateway through the browser of somebody who may. So a request with an
//! origin must have the gateway's own, whatever else is allowed to clients, and whatever changes something must come with a
//! JSON body, which no page of another origin can send without being asked for its origin first. `/close` alone needs none:
//! workflow runners end their gateways with a bare `POST`, and browsers say the origin of every POST.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Interval, interval_at};
use url::form_urlencoded;

use super::event_stream::SIGN_OF_LIFE;
use super::incoming::{self, LAST_EVENT_ID};
use super::keys::Caller;
use super::origin_guard::{OriginGuard, Refused};
use super::request::{Headers, Request};
use super::{Face, Front, Policy, Reply, body, percent_decoded};
use crate::admin::model::{
    Action, CallList, CallOutcome, Happening, LogLevel, Problem, ProblemCode, TryCall, What,
};
use crate::admin::{self, List};
use crate::gateway::Gateway;
use crate::gateway::error_body::Refusal;
use crate::metrics::{Format, render};
use crate::observed::{Follower, Wanted, unix_ms};

/// The largest body: arguments of a tool.
const LARGEST_BODY: usize = 4 << 20;
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Calls that are listed if nobody says how many.
const USUAL_LIMIT: usize = 100;

/// Whether a path is ours.
pub(super) fn has(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/") || is_metrics(path) || is_close(path)
}

/// Refuses a request that is not let in, in the words of the API.
pub(super) async fn turn_away<B>(refused: Refused, request: &mut Request<B>) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut reply = finish(Err(not_let_in(refused)), request).await;
    body::mark(&mut reply, Refusal::ForbiddenOrigin);
    reply
}

/// Whether a request with these headers may be an operator's, whoever that is.
pub(super) fn may_come(guard: &OriginGuard, headers: &Headers) -> Result<(), Problem> {
    is_of_this_origin(headers)?;
    guard.check_operator(headers).map_err(not_let_in)
}

/// For whoever asks here while another listener has the answers: with or without a key there is nothing here.
pub(super) async fn elsewhere<B>(request: &mut Request<B>) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let words =
        "the admin API and the metrics are at another address: that of gateway.admin_listen";
    finish(Err(Problem::new(ProblemCode::UnknownPath, words)), request).await
}

pub(super) async fn answer<B>(
    front: &Arc<Front>,
    face: Face,
    policy: &Policy,
    request: &mut Request<B>,
) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let answered = match may_come_in(face, policy, request) {
        Ok(_) if is_metrics(request.uri.path()) => metrics(front, request).await,
        Ok(caller) if is_close(request.uri.path()) => Ok(match request.method {
            Method::POST => front.close(&caller),
            _ => body::wrong_method("POST"),
        }),
        Ok(caller) => route(front, &caller, request).await,
        Err(problem) => Err(problem),
    };
    finish(answered, request).await
}

async fn finish<B>(answered: Result<Reply, Problem>, request: &mut Request<B>) -> Reply
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut reply = answered.unwrap_or_else(|problem| {
        let mut reply = body::typed(status(problem.error.code), &problem);
        if problem.error.code == ProblemCode::Unauthorized {
            body::ask_for_key(&mut reply);
        }
        reply
    });
    // What is true now may not be in a moment.
    reply.set_default(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !incoming::discard(&mut request.body).await {
        reply.closes = true;
    }
    reply
}

fn is_metrics(path: &str) -> bool {
    path.trim_end_matches('/') == "/metrics"
}

fn is_close(path: &str) -> bool {
    path.trim_end_matches('/') == "/close"
}

fn not_let_in(refused: Refused) -> Problem {
    Problem::new(ProblemCode::Forbidden, refused.what)
}

async fn metrics<B>(front: &Arc<Front>, request: &Request<B>) -> Result<Reply, Problem> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(wrong_method("GET", false));
    }
    let (gateway, format) = (front.gateway.clone(), Format::wanted(&request.headers));
    let rendering = tokio::task::spawn_blocking(move || render(&gateway, format));
    let failed = |_| Problem::new(ProblemCode::Conflict, "the gateway is ending");
    let page = rendering.await.map_err(failed)?;
    Ok(body::metrics(format, page))
}

fn may_come_in<B>(face: Face, policy: &Policy, request: &Request<B>) -> Result<Caller, Problem> {
    let headers = &request.headers;
    may_come(policy.guard_of(face), headers)?;
    let caller = policy
        .keyring
        .identify(headers)
        .map_err(|denied| Problem::new(ProblemCode::Unauthorized, denied.to_string()))?;
    let for_metrics = is_metrics(request.uri.path());
    if caller.is_admin() || (for_metrics && caller.may_see_metrics()) {
        return Ok(caller);
    }
    let message = if for_metrics {
        "this key has neither the scope metrics nor admin"
    } else {
        "this key does not have the scope admin"
    };
    Err(Problem::new(ProblemCode::Forbidden, message))
}

fn is_of_this_origin(headers: &Headers) -> Result<(), Problem> {
    let foreign = || Problem::new(ProblemCode::Forbidden, "pages of other origins may not do this");
    if let Some(site) = headers.get("sec-fetch-site")
        && !matches!(site, b"same-origin" | b"none")
    {
        return Err(foreign());
    }
    let Some(named) = headers.get("origin") else { return Ok(()) };
    let host = headers.get("host");
    let named = named.strip_prefix(b"http://").or_else(|| named.strip_prefix(b"https://"));
    let same = named.zip(host).is_some_and(|(named, host)| named.eq_ignore_ascii_case(host));
    if same { Ok(()) } else { Err(foreign()) }
}

async fn route<B>(
    front: &Arc<Front>,
    caller: &Caller,
    request: &mut Request<B>,
) -> Result<Reply, Problem>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = request.uri.path().trim_end_matches('/').to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let gateway = &front.gateway;
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    let posts = request.method == Method::POST;
    match segments[..] {
        ["api", "v1", "gateway"] if reads => Ok(ok(&admin::overview(front))),
        ["api", "v1", "servers"] if reads => Ok(ok(&admin::servers(gateway))),
        ["api", "v1", "servers", name] if reads => {
            Ok(ok(&admin::server(gateway, &percent_decoded(name))?))
        }
        ["api", "v1", "servers", name, what] => {
            let name = percent_decoded(name);
            one_server(front, caller, &name, what, request).await
        }
        ["api", "v1", "calls"] if reads => calls(gateway, request),
        ["api", "v1", "sessions"] if reads => Ok(ok(&admin::sessions(gateway))),
        ["api", "v1", "events"] if reads => {
            Ok(body::events(events(Arc::clone(gateway), after(request)?)))
        }
        ["api", "v1", "log-level"] if reads => {
            Ok(ok(&LogLevel { level: crate::logging::current_level() }))
        }
        ["api", "v1", "log-level"] if request.method == Method::PUT => {
            let LogLevel { level } = read(request).await?;
            crate::logging::set_level(&level)
                .map_err(|error| Problem::new(ProblemCode::BadRequest, error.to_string()))?;
            tracing::info!(level, by = caller.name(), "log level changed by an operator");
            gateway.observed.audit.level_set(caller, &level);
            Ok(ok(&LogLevel { level: crate::logging::current_level() }))
        }
        ["api", "v1", "openapi.json"] if reads => Ok(ok(&admin::openapi())),
        ["api", "v1", "gateway" | "servers" | "calls" | "sessions" | "events" | "openapi.json"]
        | ["api", "v1", "servers", _] => Err(wrong_method("GET", posts)),
        ["api", "v1", "log-level"] => Err(wrong_method("GET or PUT", posts)),
        _ => {
            let message = "there is nothing here; see /api/v1/openapi.json";
            Err(Problem::new(ProblemCode::UnknownPath, message))
        }
    }
}

async fn one_server<B>(
    front: &Arc<Front>,
    caller: &Caller,
    name: &str,
    what: &str,
    request: &mut Request<B>,
) -> Result<Reply, Problem>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let gateway = &front.gateway;
    let list = match what {
        "tools" => Some(List::Tools),
        "prompts" => Some(List::Prompts),
        "resources" => Some(List::Resources),
        "resource_templates" => Some(List::ResourceTemplates),
        _ => None,
    };
    let action = match what {
        "restart" => Some(Action::Restart),
        "enable" => Some(Action::Enable),
        "disable" => Some(Action::Disable),
        "refresh" => Some(Action::Refresh),
        _ => None,
    };
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    let posts = request.method == Method::POST;
    match (list, action, what) {
        (Some(list), ..) if reads => Ok(ok(&admin::catalogue(gateway, name, list)?)),
        (_, _, "logs") if reads => Ok(ok(&admin::logs(gateway, name, after(request)?)?)),
        (_, Some(action), _) if posts => {
            read::<Nothing, _>(request).await?;
            let done = admin::act(gateway, name, action, caller)?;
            Ok(body::typed(StatusCode::ACCEPTED, &done))
        }
        (_, _, "call") if posts => {
            let wanted: TryCall = read(request).await?;
            Ok(ok(&admin::call(gateway, name, wanted, caller.clone()).await?))
        }
        (Some(_), ..) | (_, _, "logs") => Err(wrong_method("GET", posts)),
        (_, Some(_), _) | (_, _, "call") => Err(wrong_method("POST", posts)),
        _ => {
            let message = format!("there is no {what:?} of a server; see /api/v1/openapi.json");
            Err(Problem::new(ProblemCode::UnknownPath, message))
        }
    }
}

/// An action needs no words.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn calls<B>(gateway: &Gateway, request: &Request<B>) -> Result<Reply, Problem> {
    let mut wanted = Wanted { limit: USUAL_LIMIT, ..Wanted::default() };
    let bad = |message: String| Problem::new(ProblemCode::BadRequest, message);
    for (name, value) in query(request) {
        match &*name {
            "server" if !gateway.config().servers.contains_key(&*value) => {
                return Err(Problem::unknown_server(&value, &gateway.config()));
            }
            "server" => wanted.server = Some(value.into_owned()),
            "outcome" => {
                let outcome = serde_json::from_value::<CallOutcome>(value.as_ref().into());
                let outcome = outcome.map_err(|error| bad(format!("outcome: {error}")))?;
                wanted.outcome = Some(outcome);
            }
            "limit" => {
                let limit = value.parse();
                wanted.limit = limit.map_err(|_| bad(format!("limit: no number: {value:?}")))?;
            }
            other => return Err(bad(format!("no such parameter: {other:?}"))),
        }
    }
    Ok(ok(&CallList { calls: gateway.observed.recent.list(&wanted) }))
}

/// The number after which somebody wants to read on.
fn after<B>(request: &Request<B>) -> Result<Option<u64>, Problem> {
    let in_query = query(request).find(|(name, _)| name == "after").map(|(_, value)| value);
    let in_header = request.headers.text(LAST_EVENT_ID);
    let Some(text) = in_query.or(in_header.map(Into::into)) else { return Ok(None) };
    let number = text.parse().map(Some);
    number.map_err(|_| Problem::new(ProblemCode::BadRequest, format!("after: no number: {text:?}")))
}

fn query<B>(
    request: &Request<B>,
) -> impl Iterator<Item = (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)> {
    form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes())
}

/// From now on, or from where somebody left. Ends with the gateway.
fn events(gateway: Arc<Gateway>, after: Option<u64>) -> impl Stream<Item = Bytes> + Send + 'static {
    let newest = gateway.observed.feed.newest();
    let follower = gateway.observed.feed.follow(after.unwrap_or(newest));
    let hello = Happening {
        n: newest,
        at_unix_ms: unix_ms(std::time::SystemTime::now()),
        what: What::Hello,
    };
    // It is the number to come back with, so it has no id: that would be one that was not sent yet.
    let first = Some(Bytes::from(format!("event: hello\ndata: {}\n\n", text(&hello))));
    let ticks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    unfold((gateway, follower, ticks, first), next_events)
}

type Following = (Arc<Gateway>, Follower, Interval, Option<Bytes>);

async fn next_events(following: Following) -> Option<(Bytes, Following)> {
    let (gateway, mut follower, mut ticks, first) = following;
    let piece = if let Some(first) = first {
        first
    } else {
        tokio::select! {
            new = gateway.observed.feed.next(&mut follower) => {
                let lines = new.iter().map(|one| {
                    format!("id: {}\nevent: {}\ndata: {}\n\n", one.n, one.what.name(), text(one))
                });
                lines.collect::<String>().into()
            }
            _ = ticks.tick() => SIGN_OF_LIFE,
            () = gateway.draining.begun() => return None,
        }
    };
    Some((piece, (gateway, follower, ticks, None)))
}

fn text(value: &impl Serialize) -> String {
    // Maps with text keys can always be written.
    serde_json::to_string(value).unwrap_or_default()
}

fn ok(value: &impl Serialize) -> Reply {
    body::typed(StatusCode::OK, value)
}

async fn read<T: DeserializeOwned, B>(request: &mut Request<B>) -> Result<T, Problem>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let bad = |message: String| Problem::new(ProblemCode::BadRequest, message);
    incoming::has_json_body(&request.headers)
        .map_err(|_| bad("the content-type must be application/json".to_owned()))?;
    let body =
        incoming::whole_body(&mut request.body, LARGEST_BODY).await.map_err(
            |refusal| match refusal {
                Refusal::TooLarge => Problem::new(ProblemCode::TooLarge, "the body is too large"),
                _ => bad("the body broke off".to_owned()),
            },
        )?;
    serde_json::from_slice(&body).map_err(|error| bad(format!("the body: {error}")))
}

fn wrong_method(allowed: &str, posted: bool) -> Problem {
    let hint = if posted { "" } else { " with a JSON body" };
    let hint = if allowed == "POST" { hint } else { "" };
    Problem::new(ProblemCode::WrongMethod, format!("this takes {allowed}{hint}"))
}

fn status(code: ProblemCode) -> StatusCode {
    match code {
        ProblemCode::UnknownServer | ProblemCode::UnknownTool | ProblemCode::UnknownPath => {
            StatusCode::NOT_FOUND
        }
        ProblemCode::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ProblemCode::Forbidden => StatusCode::FORBIDDEN,
        ProblemCode::BadRequest => StatusCode::BAD_REQUEST,
        ProblemCode::Conflict => StatusCode::CONFLICT,
        ProblemCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ProblemCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
    }
}
