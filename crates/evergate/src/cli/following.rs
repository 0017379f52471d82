//! The events of a gateway for as long as anybody wants them, across its restarts.
//!
//! A gateway that was restarted counts from the beginning, has another key and may be somewhere else, so it is looked
//! for anew each time, and asked who it is before it is asked what happened since.

use std::time::Duration;

use evergate_runtime::wire::ServerEvent;

use super::running::{Found, GatewayArgs};
use crate::admin::model::{GatewayReport, Happening};
use crate::admin_client::{AdminClient, ClientError, EventStream};
use crate::exit_code::Failure;

/// A stream of events that goes on after an interruption.
#[derive(Debug)]
pub(super) struct Following {
    again: GatewayArgs,
    client: AdminClient,
    stream: Option<EventStream>,
    /// When the gateway started that counted `last`.
    started_unix_ms: Option<u64>,
    /// The newest event that was seen.
    last: Option<u64>,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// Something happened. `None` if this version cannot tell what.
    Event { what: Option<Box<Happening>>, text: String },
    /// The gateway went away; it is looked for.
    Lost(String),
    /// It is back; whether it is another process.
    Back { restarted: bool },
}

/// Soon enough for somebody who looks on, seldom enough for a gateway that is busy starting.
const TRY_EVERY: Duration = Duration::from_millis(500);

// === impl Following ===

impl Following {
    /// Begins with what happens from now on, or with everything after event `after`.
    pub(super) async fn start(args: &GatewayArgs, after: Option<u64>) -> Result<Self, Failure> {
        let Found { client, again } = args.find().await?;
        let mut following =
            Self { again, client, stream: None, started_unix_ms: None, last: after };
        following.open().await?;
        Ok(following)
    }

    /// The gateway as it was found last.
    pub(super) fn client(&self) -> &AdminClient {
        &self.client
    }

    /// What comes next. Nothing is lost if this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Next, Failure> {
        let Some(stream) = &mut self.stream else { return self.find_again().await };
        loop {
            let why = match stream.next().await {
                Ok(Some(event)) => {
                    let (number, next) = understood(&event);
                    match next {
                        Some(next) => {
                            self.last = number.or(self.last);
                            return Ok(next);
                        }
                        // Where it begins: the number to come back with, if nothing happens before that.
                        None => self.last = self.last.or(number),
                    }
                    continue;
                }
                Ok(None) => format!("{} has ended the stream", self.client.url()),
                Err(error) if error.may_pass() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            self.stream = None;
            return Ok(Next::Lost(why));
        }
    }

    async fn find_again(&mut self) -> Result<Next, Failure> {
        loop {
            tokio::time::sleep(TRY_EVERY).await;
            // Not there yet, or there and not yet to be found: both pass.
            let Ok(found) = self.again.find().await else { continue };
            self.client = found.client;
            match self.open().await {
                Ok(restarted) => return Ok(Next::Back { restarted }),
                Err(error) if error.may_pass() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Says whether this is another process than before.
    async fn open(&mut self) -> Result<bool, ClientError> {
        let gateway: GatewayReport = self.client.get(&["gateway"]).await?;
        let known = self.started_unix_ms.replace(gateway.started_unix_ms);
        let restarted = known.is_some_and(|known| known != gateway.started_unix_ms);
        if restarted {
            // Everything it did so far is news.
            self.last = Some(0);
        }
        self.stream = Some(self.client.events(self.last).await?);
        Ok(restarted)
    }
}

/// Its number, and what it says; nothing if it only opens the stream.
fn understood(event: &ServerEvent) -> (Option<u64>, Option<Next>) {
    let text = String::from_utf8_lossy(&event.data).into_owned();
    let what: Option<Box<Happening>> = serde_json::from_str(&text).ok().map(Box::new);
    let number = event.id.as_deref().and_then(|id| id.parse().ok());
    let number = number.or_else(|| what.as_ref().map(|event| event.n));
    let opens = event.data.is_empty() || event.kind == "hello";
    (number, (!opens).then_some(Next::Event { what, text }))
}
