//! How a connection begins. The only place that knows: up to 2025-11-25 by a handshake, later by asking the server what it
//! is, which it may be asked at any time.
//!
//! A server that may be of either kind is asked first. What it makes of that is told to the driver, which remembers it:
//! for good if it says something about revisions; for a while if it says nothing, or ends, and then shakes hands; and not
//! at all if it says that it is busy, say, or it would be taken for an older one for no reason.

mod discovery;
mod peer;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use self::discovery::Discovered;
pub(crate) use self::peer::Peer;
use super::call_watch::CallWatch;
use super::inbox::Inbox;
use crate::handlers::Handlers;
use crate::lifecycle::Loss;
use crate::protocol::{self, Era, ProtocolVersion, code, method};
use crate::transport::{Link, OpenError, Received, Sign, TransportError};

/// Which revisions to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Protocol {
    /// Whatever the server speaks: it is asked without a handshake first, and the answer is remembered.
    #[default]
    Auto,
    /// Only those with a handshake: up to 2025-11-25.
    Legacy,
    /// Only those without: from 2026-07-28 on.
    Modern,
}

/// A connection that began.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) peer: Peer,
    pub(crate) shown: Shown,
}

/// What a beginning showed of how to begin next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The server said which kind it is.
    Kind(Era),
    /// It left the question unanswered and shook hands.
    Silence,
    /// Its answer had nothing to do with revisions.
    Nothing,
    /// It shook hands without having been asked.
    AsBefore,
}

/// What beginning takes.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    pub(crate) link: &'a Link,
    pub(crate) inbox: &'a Arc<Inbox>,
    pub(crate) handlers: &'a Handlers,
    ids: AtomicU64,
}

/// The first id that no beginning uses.
pub(super) const FIRST_ID: u64 = 8;

/// A server that says nothing to a question from before the handshake may want the handshake, or may be slow.
const PROBE: Duration = Duration::from_secs(5);

// === impl Beginning ===

impl<'a> Beginning<'a> {
    pub(crate) fn new(link: &'a Link, inbox: &'a Arc<Inbox>, handlers: &'a Handlers) -> Self {
        // Not 0, which some servers take for no id at all.
        Self { link, inbox, handlers, ids: AtomicU64::new(1) }
    }

    /// Begins in the way the server understands. `known` is what it understood last time, `None` if it is to be asked;
    /// `within` is all the time there is.
    pub(crate) async fn begin(
        &self,
        protocol: Protocol,
        known: Option<Era>,
        within: Duration,
    ) -> Result<Begun, OpenError> {
        let may_be_modern = match self.link {
            Link::Http(link) => link.may_listen(),
            Link::Lines(_) => true,
            Link::Sse(_) => false,
        };
        match protocol {
            Protocol::Modern if !may_be_modern => Err(OpenError::NoTransportFits(
                "without a handshake there is only streamable HTTP".into(),
            )),
            Protocol::Modern => match self.discover().await? {
                Discovered::Peer(peer) => Ok(Begun::modern(*peer)),
                Discovered::Legacy(error) | Discovered::Unclear(error) => Err(error),
            },
            Protocol::Auto if may_be_modern && known == Some(Era::Legacy) => {
                self.shake_again().await
            }
            Protocol::Auto if may_be_modern => self.find_out(PROBE.min(within / 3)).await,
            Protocol::Auto | Protocol::Legacy => {
                let peer = self.initialize().await?;
                self.confirm(peer, Shown::Kind(Era::Legacy)).await
            }
        }
    }

    /// Asks, and shakes hands with whoever does not say that it needs none.
    async fn find_out(&self, patience: Duration) -> Result<Begun, OpenError> {
        let mut asking = pin!(self.discover());
        let asked = timeout(patience, &mut asking).await;
        if let Ok(discovered) = asked {
            return match discovered? {
                Discovered::Peer(peer) => Ok(Begun::modern(*peer)),
                Discovered::Legacy(_) => {
                    self.settle(self.initialize().await, Shown::Kind(Era::Legacy)).await
                }
                Discovered::Unclear(_) => {
                    self.settle(self.initialize().await, Shown::Nothing).await
                }
            };
        }
        // Both questions stand now: a server that is only slow answers the first before it has even seen the second.
        let mut shaking = pin!(self.initialize());
        let (shaken, shown) = tokio::select! {
            biased;
            discovered = &mut asking => match discovered {
                Ok(Discovered::Peer(peer)) => {
                    // Each POST is for itself, but on one stream the second question may have changed the server's mind.
                    let also = match self.link {
                        Link::Lines(_) => timeout(patience, shaking).await.ok(),
                        Link::Http(_) | Link::Sse(_) => None,
                    };
                    return match also {
                        Some(Ok(shaken)) => {
                            self.confirm(shaken, Shown::Kind(Era::Modern)).await
                        }
                        _ => Ok(Begun::modern(*peer)),
                    };
                }
                Ok(Discovered::Legacy(_)) => (shaking.await, Shown::Kind(Era::Legacy)),
                Err(error @ OpenError::EndedWhenAsked(_)) => return Err(error),
                Ok(Discovered::Unclear(_)) | Err(_) => (shaking.await, Shown::Nothing),
            },
            // It has ended under both questions, and the first may be why.
            shaken = &mut shaking => (shaken.map_err(|error| self.ended_when_asked(error)), Shown::Silence),
        };
        self.settle(shaken, shown).await
    }

    /// Shakes hands with a server that did so last time, and asks it should it refuse: it may have come back as another.
    async fn shake_again(&self) -> Result<Begun, OpenError> {
        let error = match self.initialize().await {
            Ok(peer) => return self.confirm(peer, Shown::AsBefore).await,
            Err(error) => error,
        };
        let refused = match &error {
            OpenError::Refused(_)
            | OpenError::BadHandshake(_)
            | OpenError::UnsupportedProtocol(_) => true,
            OpenError::Transport(TransportError::Status { status, .. }) => {
                matches!(status, 400 | 404 | 405)
            }
            _ => false,
        };
        if refused { self.discover_after(error).await } else { Err(error) }
    }

    /// Concludes a handshake with a server that was asked before.
    async fn settle(
        &self,
        shaken: Result<Peer, OpenError>,
        shown: Shown,
    ) -> Result<Begun, OpenError> {
        match shaken {
            Ok(peer) => self.confirm(peer, shown).await,
            Err(OpenError::Refused(error)) if error.code == code::UNSUPPORTED_VERSION => {
                self.discover_after(OpenError::Refused(error)).await
            }
            Err(error) => Err(error),
        }
    }

    async fn discover_after(&self, refused: OpenError) -> Result<Begun, OpenError> {
        match self.discover().await? {
            Discovered::Peer(peer) => Ok(Begun::modern(*peer)),
            Discovered::Legacy(_) | Discovered::Unclear(_) => Err(refused),
        }
    }

    /// The first half of a handshake.
    async fn initialize(&self) -> Result<Peer, OpenError> {
        let watch = Arc::new(CallWatch::new(self.next_id(), None));
        let params = serde_json::json!({
            "protocolVersion": ProtocolVersion::NEWEST_WITH_HANDSHAKE.as_str(),
            "capabilities": self.handlers.capabilities(),
            "clientInfo": self.handlers.declared_client_info(),
        });
        let params = params.to_string();
        let message = protocol::request(watch.id(), method::INITIALIZE, Some(params.as_bytes()));
        let answer = self.link.exchange(self.inbox, message, &watch, &|_| false).await;
        let answer = answer.and_then(Received::whole).map_err(|failure| match failure.sign {
            Sign::Lost(Loss::Auth) => OpenError::AuthRequired { status: 401 },
            _ => OpenError::Transport(failure.error),
        })?;
        let result = answer.map_err(|error| {
            // What OAuth calls an unusable token; a bare "unauthorized" may mean anything.
            let text = error.message.to_lowercase();
            if text.contains("invalid_token") || text.contains("invalid token") {
                OpenError::AuthRequired { status: 200 }
            } else {
                OpenError::Refused(error)
            }
        })?;
        Peer::read(&result)
    }

    /// The second half.
    async fn confirm(&self, peer: Peer, shown: Shown) -> Result<Begun, OpenError> {
        if let Link::Http(link) = self.link {
            link.establish(peer.version);
        }
        let confirmed =
            self.link.post(protocol::notification(method::INITIALIZED, None), None).await;
        confirmed.map_err(|error| match error {
            TransportError::Status { status: 401, .. } => OpenError::AuthRequired { status: 401 },
            error => OpenError::Transport(error),
        })?;
        Ok(Begun { peer, shown })
    }

    /// Each its own: an answer to one question may come while another is waited for.
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

// === impl Begun ===

impl Begun {
    fn modern(peer: Peer) -> Self {
        Self { peer, shown: Shown::Kind(Era::Modern) }
    }
}
