//! The listening stream: how an idle server's news reaches us, and how we notice that it is gone.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::sleep;

use super::answer::{MAX_RETRY, within_reason};
use super::headers::ContentType;
use super::streamable::HttpLink;
use crate::connection::{Inbox, Reporter};
use crate::lifecycle::Loss;
use crate::protocol::parse;
use crate::retry::SessionSign;
use crate::transport::{Link, TransportError};

/// The first delay after a stream ended or failed; doubles while it keeps failing.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// What one round of listening came to.
enum Round {
    /// The stream was open and ended; come back after the server's own delay, if it named one. A stream that brought
    /// nothing is not worth coming back to quickly.
    Ended { retry: Option<Duration>, brought_something: bool },
    /// It did not open; come back later.
    Failed,
    /// The server offers no stream. Not an error.
    Unavailable,
    /// The connection is of no more use.
    Lost(Loss, TransportError),
}

/// How long the first listing waits for the stream, and with it whoever waits for the list to make the first call: what
/// changes, and what a server asks, before anybody listens is told to nobody. Longer than an answer takes, and short,
/// since some servers answer only when they have something to say.
const LISTED_WITHIN: Duration = Duration::from_millis(500);

/// Listens for as long as the generation lives; the caller ends it by dropping it.
pub(crate) fn listen(
    link: Arc<HttpLink>,
    inbox: Arc<Inbox>,
    reporter: Reporter,
) -> impl Future<Output = ()> {
    // Now, not when it is first polled: by then the first listing may have begun.
    inbox.stale_lists().hold(LISTED_WITHIN);
    keep_listening(link, inbox, reporter)
}

async fn keep_listening(link: Arc<HttpLink>, inbox: Arc<Inbox>, reporter: Reporter) {
    // The cursor lives and dies with this generation: an id of another session would mean nothing to the server.
    let mut cursor: Option<String> = None;
    let mut opened = false;
    let mut delay = FIRST_DELAY;
    loop {
        let round = round(&link, &inbox, &mut cursor, &mut opened).await;
        // Whatever it came to, nobody needs to wait for it.
        inbox.stale_lists().release();
        match round {
            Round::Ended { retry, brought_something: true } => {
                delay = FIRST_DELAY;
                sleep(retry.unwrap_or(delay)).await;
            }
            Round::Ended { retry, brought_something: false } => {
                sleep(delay.max(retry.unwrap_or_default())).await;
                delay = (delay * 2).min(MAX_RETRY);
            }
            Round::Failed => {
                sleep(delay).await;
                delay = (delay * 2).min(MAX_RETRY);
            }
            Round::Unavailable => return,
            Round::Lost(loss, error) => {
                reporter.lost(loss, error).await;
                return;
            }
        }
    }
}

async fn round(
    link: &Arc<HttpLink>,
    inbox: &Arc<Inbox>,
    cursor: &mut Option<String>,
    opened: &mut bool,
) -> Round {
    let response = match link.get(cursor.as_deref(), None).await {
        Ok(response) => response,
        Err(error @ TransportError::Connect(_)) => return Round::Lost(Loss::Transport, error),
        Err(TransportError::UnusableCursor) => {
            *cursor = None;
            return Round::Failed;
        }
        Err(_) => return Round::Failed,
    };
    let status = response.status;
    if !status.is_success() {
        let text = link.refusal_text(response).await;
        let (sign, _) = link.session_sign(status, &text);
        return match sign {
            SessionSign::Lost => Round::Lost(Loss::Session, link.session_lost(status, &text, None)),
            // It took our session when it opened the stream, and now finds fault with the same request.
            SessionSign::Doubtful if *opened => {
                Round::Lost(Loss::Session, link.session_lost(status, &text, None))
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Round::Failed
            }
            _ => Round::Unavailable,
        };
    }
    if response.content_type != ContentType::Events {
        return Round::Failed;
    }
    // What was announced while nobody listened comes again only from a server that knows where we stopped.
    if cursor.is_none() {
        inbox.stale_lists().mark_if_begun();
    }
    inbox.stale_lists().release();
    *opened = true;
    let mut brought_something = false;
    let mut stream = link.event_stream(response, cursor.take());
    let mut too_large = false;
    loop {
        let event = match stream.next().await {
            Ok(Some(event)) => event,
            Err(TransportError::TooLarge { limit }) => {
                inbox.count_garbage(&TransportError::TooLarge { limit });
                too_large = true;
                break;
            }
            // A broken connection ends the stream like its end does.
            Ok(None) | Err(_) => break,
        };
        brought_something = true;
        if event.data.is_empty() || !matches!(&*event.kind, "" | "message") {
            continue;
        }
        match parse(&event.data) {
            Ok(messages) => {
                for message in messages {
                    inbox.receive(message, &Link::Http(link.clone()), None);
                }
            }
            Err(error) => inbox.count_garbage(&error),
        }
    }
    // To resume before an event that cannot be taken would bring that event again, for ever.
    *cursor = stream.last_id().filter(|_| !too_large).map(str::to_owned);
    Round::Ended { retry: stream.retry().map(within_reason), brought_something }
}
