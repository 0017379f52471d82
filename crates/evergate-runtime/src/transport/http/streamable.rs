//! Streamable HTTP, and plain JSON-RPC over POST, which is the same without streams.
//!
//! An answer is bound to the POST it responds to, whatever id its body carries or lacks. A stream that breaks before
//! the answer is resumed where the server gave a cursor to resume from; otherwise the outcome is unknown.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use tokio::time::timeout;

use super::answer::{error_in, unanswered};
use super::body::{self, EventStream};
use super::client::{HttpClient, HttpError, Response};
use super::custom_headers::CustomHeaders;
use super::headers;
use super::request_head::RequestHead;
use crate::connection::{CallWatch, Inbox};
use crate::error::SharedError;
use crate::lifecycle::Loss;
use crate::protocol::{ProtocolVersion, RpcError};
use crate::retry::{Bond, Evidence, Outcome, SessionSign};
use crate::tasks::Tasks;
use crate::transport::{Received, SendFailure, Sign, TakesPieces, TransportError};

/// One session with one server.
pub(crate) struct HttpLink {
    client: HttpClient,
    uri: Uri,
    custom: CustomHeaders,
    profile: Profile,
    header_timeout: Duration,
    pub(super) max_message_bytes: usize,
    pub(super) tasks: Tasks,
    /// The id that came with the answer to initialize, until the handshake is complete.
    provisional: Mutex<Option<HeaderValue>>,
    established: OnceLock<Established>,
}

/// Which dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Streamable,
    Plain,
}

/// What the handshake settled.
struct Established {
    session: Option<HeaderValue>,
    /// Streams can be taken up again: up to 2025-11-25.
    resumable: bool,
    post: HeaderMap,
    /// A POST with no more headers than those.
    plain_post: RequestHead,
    get: HeaderMap,
}

/// What all links of a slot have in common.
#[derive(Clone)]
pub(crate) struct HttpContext {
    pub(crate) client: HttpClient,
    pub(crate) uri: Uri,
    pub(crate) custom: CustomHeaders,
    pub(crate) header_timeout: Duration,
    pub(crate) max_message_bytes: usize,
    pub(crate) tasks: Tasks,
}

/// How much of a refusal that is no JSON-RPC is searched for words about sessions.
const LOOKED_AT: usize = 64 * 1024;

// === impl HttpLink ===

impl HttpLink {
    pub(crate) fn new(context: HttpContext, profile: Profile) -> Self {
        let HttpContext { client, uri, custom, header_timeout, max_message_bytes, tasks } = context;
        Self {
            client,
            uri,
            custom,
            profile,
            header_timeout,
            max_message_bytes,
            tasks,
            provisional: Mutex::new(None),
            established: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.profile {
            Profile::Streamable => "streamable_http",
            Profile::Plain => "plain_http",
        }
    }

    /// Whether the dialect has a listening stream.
    pub(crate) fn may_listen(&self) -> bool {
        self.profile == Profile::Streamable
    }

    /// Keeps the session id and revision the handshake settled, for every later request.
    pub(crate) fn establish(&self, version: ProtocolVersion) {
        // Later revisions have none: should a handshake be under way beside, its id is not for them.
        let session = self.take_provisional().filter(|_| !version.is_modern());
        let mut post = self.post_headers();
        let mut get = headers::for_get(self.custom.fixed());
        for headers in [&mut post, &mut get] {
            // Later ones say it themselves, with everything else that they say.
            if !version.is_modern() {
                let version = HeaderValue::from_static(version.as_str());
                headers.insert(headers::PROTOCOL_VERSION, version);
            }
            if let Some(session) = &session {
                headers.insert(headers::SESSION_ID, session.clone());
            }
        }
        // A handshake happens once per link; a second would find this set and change nothing.
        let plain_post = RequestHead::new(&Method::POST, &self.uri, &post);
        let _ = self.established.set(Established {
            session,
            resumable: !version.is_modern(),
            post,
            plain_post,
            get,
        });
    }

    pub(crate) async fn exchange(
        self: &Arc<Self>,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
        takes_pieces: TakesPieces<'_>,
    ) -> Result<Received, SendFailure> {
        let _followed = inbox.follow(watch);
        let mut head = self.post_head(Some(watch));
        if let Some(routing) = watch.routing() {
            head = Cow::Owned(head.and(routing));
        }
        let response = self.client.send(&self.uri, &head, message, Some(watch)).await;
        let mut response = response.map_err(|error| match error {
            error @ HttpError::Connect(_) => {
                SendFailure::new(Outcome::NotSent, error.into(), Sign::Lost(Loss::Transport))
            }
            error if watch.is_sent() => unanswered(error.into()),
            // A pooled connection that closed before the request got onto it. The next try opens a new one.
            error => SendFailure::new(Outcome::NotSent, error.into(), Sign::None),
        })?;
        // Requests that speak for themselves begin no session, whatever comes back.
        let begins = self.established.get().is_none() && watch.routing().is_none();
        if begins
            && response.status.is_success()
            && let Some(session) = response.session_id.take()
        {
            self.set_provisional(Some(session));
        }
        let answer = self.read(response, inbox, watch, takes_pieces).await;
        if begins && !matches!(answer, Ok(Received::Answer(Ok(_)))) {
            // No session came of it: some servers put an id on refusals too.
            self.set_provisional(None);
        }
        answer
    }

    /// Sends something nobody answers; `call` is the one on whose stream it was asked for, if it was.
    pub(crate) async fn post(
        &self,
        message: Bytes,
        call: Option<&CallWatch>,
    ) -> Result<(), TransportError> {
        let mut response = self.within_header_timeout(&self.post_head(call), message).await?;
        let status = response.status;
        if status.is_success() {
            response.body.is_at_end();
            return Ok(());
        }
        let text = self.refusal_text(response).await;
        // A server that knows no notifications answers them with an error. That is its business.
        if self.profile == Profile::Plain {
            return Ok(());
        }
        match self.session_sign(status, &text).0 {
            SessionSign::Lost => Err(self.session_lost(status, &text, call)),
            SessionSign::Doubtful | SessionSign::Fine => {
                Err(self.status_error(status, &text, call))
            }
        }
    }

    /// Tells the server that the session is over. Servers may refuse (405) or not know it any more (404).
    pub(crate) async fn close(&self, within: Duration) -> Result<(), TransportError> {
        let (session, mut headers) = match self.established.get() {
            Some(established) => (established.session.clone(), established.get.clone()),
            None => (self.take_provisional(), headers::for_get(self.custom.fixed())),
        };
        let Some(session) = session else { return Ok(()) };
        headers.insert(headers::SESSION_ID, session);
        let head = self.head(&Method::DELETE, headers, None);
        let sending = self.client.send(&self.uri, &head, Bytes::new(), None);
        match timeout(within, sending).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(TransportError::Broken(SharedError::new(error))),
            Err(_) => Err(TransportError::Slow(within)),
        }
    }

    /// Opens the listening stream, or resumes a stream after the event `last_id`; `call` is the one whose stream it is.
    pub(super) async fn get(
        &self,
        last_id: Option<&str>,
        call: Option<&CallWatch>,
    ) -> Result<Response, TransportError> {
        let mut headers = match self.established.get() {
            Some(established) => established.get.clone(),
            None => headers::for_get(self.custom.fixed()),
        };
        if let Some(session) = self.provisional() {
            headers.insert(headers::SESSION_ID, session);
        }
        if let Some(id) = last_id {
            let id = HeaderValue::from_bytes(id.as_bytes());
            let id = id.map_err(|_| TransportError::UnusableCursor)?;
            headers.insert(headers::LAST_EVENT_ID, id);
        }
        let head = self.head(&Method::GET, headers, call);
        self.within_header_timeout(&head, Bytes::new()).await
    }

    pub(super) async fn refusal_text(&self, response: Response) -> Bytes {
        body::collect_refusal(response.body, self.max_message_bytes).await
    }

    /// Whether a stream that broke can be taken up where it broke.
    pub(super) fn can_resume(&self) -> bool {
        self.established.get().is_none_or(|established| established.resumable)
    }

    /// What the server may have forgotten; `None` as long as there is nothing.
    pub(super) fn bond(&self) -> Option<Bond> {
        self.established.get().map(|established| match &established.session {
            Some(_) => Bond::Session,
            None if established.resumable => Bond::Handshake,
            None => Bond::Revision,
        })
    }

    pub(super) fn event_stream(&self, response: Response, cursor: Option<String>) -> EventStream {
        EventStream::new(response.body, self.max_message_bytes, cursor)
    }

    /// What a refusal says about our session, and the JSON-RPC error in it.
    pub(super) fn session_sign(
        &self,
        status: StatusCode,
        body: &Bytes,
    ) -> (SessionSign, Option<RpcError>) {
        let error = error_in(body);
        let Some(bond) = self.bond() else { return (SessionSign::Fine, error) };
        let status = status.as_u16();
        let sign = if let Some(error) = &error {
            Evidence::of(status, error).sign(bond)
        } else {
            let text = String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)]);
            Evidence { status, code: None, text: &text, names_revisions: false }.sign(bond)
        };
        (sign, error)
    }

    /// `call` is the one whose own request was refused, if it was one's.
    pub(super) fn session_lost(
        &self,
        status: StatusCode,
        body: &[u8],
        call: Option<&CallWatch>,
    ) -> TransportError {
        TransportError::SessionLost { status: status.as_u16(), detail: self.detail(body, call) }
    }

    pub(super) fn status_error(
        &self,
        status: StatusCode,
        body: &[u8],
        call: Option<&CallWatch>,
    ) -> TransportError {
        TransportError::Status { status: status.as_u16(), detail: self.detail(body, call) }
    }

    /// What the server said, less our session id and headers should it repeat them.
    fn detail(&self, body: &[u8], call: Option<&CallWatch>) -> String {
        let session = self.established.get().and_then(|established| established.session.as_ref());
        let session = session.and_then(|session| session.to_str().ok());
        self.custom.detail(body, call, session.into_iter())
    }

    async fn within_header_timeout(
        &self,
        head: &RequestHead,
        body: Bytes,
    ) -> Result<Response, TransportError> {
        let sending = self.client.send(&self.uri, head, body, None);
        match timeout(self.header_timeout, sending).await {
            Ok(response) => Ok(response?),
            Err(_) => Err(TransportError::Slow(self.header_timeout)),
        }
    }

    /// `call` is the one whose own request it is, or on whose stream it was asked for.
    fn post_head(&self, call: Option<&CallWatch>) -> Cow<'_, RequestHead> {
        match self.established.get() {
            Some(known) if !self.custom.changes(call) => Cow::Borrowed(&known.plain_post),
            Some(known) => Cow::Owned(self.head(&Method::POST, known.post.clone(), call)),
            None => Cow::Owned(self.head(&Method::POST, self.post_headers(), call)),
        }
    }

    fn head(
        &self,
        method: &Method,
        mut headers: HeaderMap,
        call: Option<&CallWatch>,
    ) -> RequestHead {
        self.custom.complete(&mut headers, call);
        RequestHead::new(method, &self.uri, &headers)
    }

    fn post_headers(&self) -> HeaderMap {
        match self.profile {
            Profile::Streamable => headers::for_post(self.custom.fixed()),
            Profile::Plain => headers::for_plain_post(self.custom.fixed()),
        }
    }

    fn provisional(&self) -> Option<HeaderValue> {
        self.provisional.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_provisional(&self, session: Option<HeaderValue>) {
        *self.provisional.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn take_provisional(&self) -> Option<HeaderValue> {
        self.provisional.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl std::fmt::Debug for HttpLink {
    /// The address may hold secrets in its query, and the headers do.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
