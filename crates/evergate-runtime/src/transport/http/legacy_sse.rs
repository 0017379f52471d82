//! HTTP+SSE of revision 2024-11-05: one stream brings everything, messages go out by POST to an address it names.
//!
//! The stream is the session. When it ends nothing can be resumed: what was sent and not answered has an unknown
//! outcome.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::answer::{error_in, unauthorized};
use super::body::{self, EventStream};
use super::client::HttpClient;
use super::custom_headers::CustomHeaders;
use super::headers::{self, ContentType};
use super::request_head::RequestHead;
use super::streamable::HttpContext;
use crate::connection::{CallWatch, Inbox, Reporter};
use crate::lifecycle::Loss;
use crate::protocol::{RpcError, parse};
use crate::retry::{Limited, Outcome};
use crate::transport::{Answer, Link, OpenError, SendFailure, Sign, TransportError};

/// An open stream and the address messages go to.
pub(crate) struct SseLink {
    client: HttpClient,
    endpoint: Uri,
    post_headers: HeaderMap,
    custom: CustomHeaders,
    header_timeout: Duration,
    max_message_bytes: usize,
    closed: CancellationToken,
}

/// A message that was not taken.
struct Refusal {
    error: TransportError,
    /// The JSON-RPC error in it, if there was one.
    answer: Option<RpcError>,
}

/// A server that dies breaks its POSTs and its stream, in any order. Giving the stream this long to end keeps a call
/// from using up its one resend on a connection that is already dead.
const STREAM_FOLLOWS: Duration = Duration::from_secs(1);

/// Opens the stream, waits for the address, then reads on in a task of its own.
pub(crate) async fn open(
    context: HttpContext,
    base: &Url,
    inbox: Arc<Inbox>,
    reporter: Reporter,
) -> Result<Arc<SseLink>, OpenError> {
    let mut headers = headers::for_get(context.custom.fixed());
    context.custom.complete(&mut headers, None);
    let head = RequestHead::new(&Method::GET, &context.uri, &headers);
    let sending = context.client.send(&context.uri, &head, Bytes::new(), None);
    let response = match timeout(context.header_timeout, sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(TransportError::from(error).into()),
        Err(_) => return Err(TransportError::Slow(context.header_timeout).into()),
    };
    let status = response.status;
    if status == StatusCode::UNAUTHORIZED {
        return Err(OpenError::AuthRequired { status: status.as_u16() });
    }
    if status != StatusCode::OK {
        let text = body::collect_refusal(response.body, context.max_message_bytes).await;
        let detail = context.custom.detail(&text, None, std::iter::empty());
        return Err(TransportError::Status { status: status.as_u16(), detail }.into());
    }
    match response.content_type {
        ContentType::Events => {}
        ContentType::Json => {
            return Err(TransportError::ContentType("application/json".into()).into());
        }
        ContentType::Other(kind) => {
            return Err(TransportError::ContentType(kind.into()).into());
        }
    }
    let mut stream = EventStream::new(response.body, context.max_message_bytes, None);
    let endpoint = loop {
        match stream.next().await? {
            Some(event) if event.kind == "endpoint" => break endpoint(base, &event.data)?,
            Some(_) => {}
            None => return Err(TransportError::StreamEnded.into()),
        }
    };
    let link = Arc::new(SseLink {
        client: context.client,
        endpoint,
        post_headers: headers::for_post(context.custom.fixed()),
        custom: context.custom,
        header_timeout: context.header_timeout,
        max_message_bytes: context.max_message_bytes,
        closed: CancellationToken::new(),
    });
    context.tasks.spawn(read(link.clone(), stream, inbox, reporter));
    Ok(link)
}

/// The address for messages: relative to the stream's own, and never at another host, which could be anybody's.
fn endpoint(base: &Url, data: &[u8]) -> Result<Uri, OpenError> {
    let text = std::str::from_utf8(data).unwrap_or_default();
    let unusable = || OpenError::BadHandshake("the endpoint event holds no address".into());
    let address = base.join(text.trim()).map_err(|_| unusable())?;
    if address.origin() != base.origin() {
        return Err(OpenError::ForeignEndpoint);
    }
    address.as_str().parse().map_err(|_| unusable())
}

async fn read(link: Arc<SseLink>, mut stream: EventStream, inbox: Arc<Inbox>, reporter: Reporter) {
    let error = loop {
        let next = tokio::select! {
            () = link.closed.cancelled() => break TransportError::Closed,
            next = stream.next() => next,
        };
        match next {
            Ok(Some(event)) if matches!(&*event.kind, "" | "message") => match parse(&event.data) {
                Ok(messages) => {
                    for message in messages {
                        inbox.receive(message, &Link::Sse(link.clone()), None);
                    }
                }
                Err(error) => inbox.count_garbage(&error),
            },
            Ok(Some(_)) => {}
            Ok(None) => break TransportError::StreamEnded,
            Err(error) => break error,
        }
    };
    inbox.fail_all(&error);
    if !link.closed.is_cancelled() {
        reporter.lost(Loss::Transport, error).await;
    }
}

// === impl SseLink ===

impl SseLink {
    pub(crate) async fn exchange(
        &self,
        inbox: &Arc<Inbox>,
        message: Bytes,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        let mut pending = inbox.expect(watch);
        let posting = self.send(message, Some(watch.clone()));
        tokio::pin!(posting);
        // The answer may overtake the acknowledgement of the POST.
        let acknowledged = tokio::select! {
            biased;
            answer = pending.answer() => return answer,
            acknowledged = &mut posting => acknowledged,
        };
        match acknowledged {
            // An acknowledgement that is late, perhaps until the work is done, is none the less on its way.
            Ok(()) | Err(Refusal { error: TransportError::Slow(_), .. }) if watch.is_sent() => {
                pending.answer().await
            }
            Ok(()) => pending.answer().await,
            // The stream knows better what became of it: it may bring the answer, or end too.
            Err(Refusal { error: error @ TransportError::Broken(_), .. }) if watch.is_sent() => {
                let answer = timeout(STREAM_FOLLOWS, pending.answer()).await;
                answer.unwrap_or_else(|_| {
                    Err(SendFailure::new(Outcome::Unknown, error, Sign::Strike))
                })
            }
            Err(Refusal { error, answer }) => {
                let (outcome, sign) = match &error {
                    TransportError::Connect(_) => (Outcome::NotSent, Sign::Lost(Loss::Transport)),
                    TransportError::Status { status: 404 | 410, .. } => {
                        (Outcome::Rejected, Sign::Lost(Loss::Session))
                    }
                    TransportError::Status { status: 401, .. } => {
                        (Outcome::Rejected, unauthorized(watch))
                    }
                    _ if answer.is_some() => (Outcome::Answered, Sign::None),
                    TransportError::Status { status: 400..=499, .. } => {
                        (Outcome::Rejected, Sign::None)
                    }
                    _ if !watch.give_up() => (Outcome::NotSent, Sign::None),
                    _ => (Outcome::Unknown, Sign::Strike),
                };
                Err(SendFailure { answer, ..SendFailure::new(outcome, error, sign) })
            }
        }
    }

    pub(crate) async fn post(&self, message: Bytes) -> Result<(), TransportError> {
        self.send(message, None).await.map_err(|refusal| refusal.error)
    }

    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    async fn send(&self, message: Bytes, watch: Option<Arc<CallWatch>>) -> Result<(), Refusal> {
        let mut headers = self.post_headers.clone();
        self.custom.complete(&mut headers, watch.as_deref());
        let head = RequestHead::new(&Method::POST, &self.endpoint, &headers);
        let sending = self.client.send(&self.endpoint, &head, message, watch.as_deref());
        let mut response = match timeout(self.header_timeout, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(TransportError::from(error).into()),
            Err(_) => return Err(TransportError::Slow(self.header_timeout).into()),
        };
        let status = response.status;
        if status.is_success() {
            response.body.is_at_end();
            return Ok(());
        }
        let reset = response.reset;
        let text = body::collect_refusal(response.body, self.max_message_bytes).await;
        if let Some(watch) = &watch {
            let now = SystemTime::now();
            watch.limit(Limited::of_refusal(status.as_u16(), reset, &text, now));
        }
        // The address holds the session id, usually as a query parameter.
        let query = self.endpoint.query().unwrap_or_default();
        let parameters = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        let detail = self.custom.detail(&text, watch.as_deref(), parameters);
        let error = TransportError::Status { status: status.as_u16(), detail };
        Err(Refusal { error, answer: error_in(&text) })
    }
}

// === impl Refusal ===

impl From<TransportError> for Refusal {
    fn from(error: TransportError) -> Self {
        Self { error, answer: None }
    }
}

impl std::fmt::Debug for SseLink {
    /// The address is the session id.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sse")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_never_go_to_another_host() {
        let base = Url::parse("https://host:1/a/sse").unwrap();
        assert_eq!(endpoint(&base, b"/message?s=1").unwrap(), "https://host:1/message?s=1");
        assert_eq!(endpoint(&base, b"message").unwrap(), "https://host:1/a/message");
        assert!(matches!(endpoint(&base, b"https://host:2/x"), Err(OpenError::ForeignEndpoint)));
        assert!(matches!(endpoint(&base, b"//evil/x"), Err(OpenError::ForeignEndpoint)));
    }
}
