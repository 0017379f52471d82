//! One live, handshaken peer: one generation of one slot.

mod attribution;
mod call_watch;
mod deliveries;
mod dialect;
mod handshake;
mod in_flight;
mod inbox;
mod reporter;
mod stale_lists;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use call_watch::Progress;
pub(crate) use call_watch::{CallTrack, CallWatch, Company, Pulse};
pub(crate) use deliveries::Deliveries;
pub(crate) use dialect::{Asking, Params};
pub use handshake::Protocol;
pub(crate) use handshake::{Beginning, Begun, Peer, Shown};
pub(crate) use inbox::{Acknowledgement, Garbage, Honoured, Inbox, InboxContext};
pub(crate) use reporter::Reporter;
pub(crate) use stale_lists::ListKind;

use crate::error::SharedError;
use crate::lifecycle::{Budget, Generation, Manner};
use crate::own::Own;
use crate::protocol::{self, method};
use crate::sharded::Apart;
use crate::tally::Tally;
use crate::tasks::Tasks;
use crate::transport::{Answer, Link, Received, SendFailure, TakesPieces, TransportError};

/// A peer that took part in a handshake. Lives until its generation ends, and a little longer while calls that it
/// accepted drain.
#[derive(Debug)]
pub(crate) struct Connection {
    generation: Generation,
    link: Link,
    inbox: Arc<Inbox>,
    peer: Peer,
    reporter: Reporter,
    tasks: Tasks,
    opened_at: Instant,
    /// Every request writes to it and to nothing else here.
    next_id: Apart<AtomicU64>,
    /// No longer the connection that serves calls.
    detached: CancellationToken,
    /// Ends every call still under way.
    cut: CancellationToken,
    leases: Tally,
    /// A failure was reported and not yet made up for; spares the driver a report for every success.
    struck: AtomicBool,
    /// A doubtful answer turned out to be about the request, not the session.
    trusted: AtomicBool,
    /// The right to try a doubtful request on this connection while it is only a candidate.
    scout: Semaphore,
}

/// The right to use one connection. While it is held the connection is not closed, only cut off if it must be.
#[derive(Debug)]
pub(crate) struct Lease {
    connection: Own<Connection>,
}

/// Ends a sending, however it ends, and tells the server about a request that its caller gave up on.
#[derive(Debug)]
pub(crate) struct CancelOnDrop<'a> {
    connection: &'a Arc<Connection>,
    watch: &'a Arc<CallWatch>,
    armed: bool,
}

/// Sessions are forgotten after minutes or hours; this only has to be longer than a doubt usually takes to settle.
const FRESH: Duration = Duration::from_secs(5);

// === impl Connection ===

impl Connection {
    pub(crate) fn new(
        link: Link,
        inbox: Arc<Inbox>,
        peer: Peer,
        reporter: Reporter,
        tasks: Tasks,
    ) -> Self {
        if peer.version.is_modern() {
            inbox.expect_no_requests();
        }
        Self {
            generation: reporter.generation(),
            link,
            inbox,
            peer,
            reporter,
            tasks,
            opened_at: Instant::now(),
            next_id: Apart(AtomicU64::new(handshake::FIRST_ID)),
            detached: CancellationToken::new(),
            cut: CancellationToken::new(),
            leases: Tally::default(),
            struck: AtomicBool::new(false),
            trusted: AtomicBool::new(false),
            scout: Semaphore::new(1),
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        Lease::of(Own::new(self.clone()))
    }

    /// A new request under an id this connection has never used.
    pub(crate) fn watch(&self, track: Option<Arc<CallTrack>>) -> Arc<CallWatch> {
        // One after the other, whatever thread they come from, and yet each tells whose it is.
        let id =
            self.next_id.0.fetch_add(in_flight::ID_STEP, Ordering::Relaxed) + in_flight::own_part();
        Arc::new(CallWatch::new(id, track))
    }

    /// A request as this server understands it.
    pub(crate) fn write(
        &self,
        watch: &CallWatch,
        asking: Asking<'_>,
    ) -> Result<Bytes, dialect::BadParams> {
        self.peer.dialect.write(watch, asking)
    }

    /// Sends a request and waits for its whole answer.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        message: Bytes,
        watch: &Arc<CallWatch>,
    ) -> Result<Answer, SendFailure> {
        self.send(message, watch, &|_| false).await?.whole()
    }

    /// Sends a request and waits for its answer, or the beginning of a large one, or for the end of this connection.
    pub(crate) async fn send(
        self: &Arc<Self>,
        message: Bytes,
        watch: &Arc<CallWatch>,
        takes_pieces: TakesPieces<'_>,
    ) -> Result<Received, SendFailure> {
        let mut cancel = CancelOnDrop { connection: self, watch, armed: true };
        let result = tokio::select! {
            biased;
            result = self.link.exchange(&self.inbox, message, watch, takes_pieces) => result,
            () = watch.is_cut_off() => {
                // It may have been cut because it broke, and then that is the news.
                let error = self.inbox.broken().unwrap_or(TransportError::Closed);
                Err(SendFailure::broken(watch.give_up(), error))
            }
        };
        cancel.armed = false;
        result
    }

    /// Sends something nobody answers.
    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), TransportError> {
        tokio::select! {
            result = self.link.post(message, None) => result,
            () = self.cut.cancelled() => Err(TransportError::Closed),
        }
    }

    /// Requests made on it so far.
    pub(crate) fn requests(&self) -> u64 {
        self.next_id.0.load(Ordering::Relaxed)
    }

    /// Calls are under way on it.
    pub(crate) fn is_leased(&self) -> bool {
        self.leases.count() > 0
    }

    pub(crate) fn detach(&self) {
        self.detached.cancel();
    }

    pub(crate) fn detached(&self) -> &CancellationToken {
        &self.detached
    }

    /// Ends every call still under way, and whatever is being done for the server.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
        self.inbox.close();
    }

    /// Cancelled when it is.
    pub(crate) fn is_cut(&self) -> &CancellationToken {
        &self.cut
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Lets go of it without waiting for anything.
    pub(crate) fn abandon(&self) {
        self.detach();
        self.cut();
        match &self.link {
            Link::Lines(link) => link.abandon(),
            Link::Sse(link) => link.close(),
            Link::Http(_) => {}
        }
    }

    /// Closes it, letting calls finish first if so asked; at most `drain` for those and `within` for the rest.
    pub(crate) async fn close(
        &self,
        manner: Manner,
        drain: Duration,
        within: Duration,
    ) -> Result<(), TransportError> {
        self.detach();
        self.leases.close();
        if manner == Manner::Drain {
            let drained = tokio::time::timeout(drain, self.leases.done());
            tokio::select! {
                _ = drained => {}
                () = self.cut.cancelled() => {}
            }
        }
        self.cut();
        self.link.close(within).await
    }

    /// Notes that a call was answered; only news reaches the driver.
    pub(crate) async fn note_answer(&self) {
        // Only to look takes it from nobody.
        if self.has_strikes() && self.struck.swap(false, Ordering::Relaxed) {
            self.reporter.health(Budget::Rpc, None).await;
        }
    }

    /// Whether an answer would be news.
    pub(crate) fn has_strikes(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }

    /// Notes that a call got no answer.
    pub(crate) async fn note_failure(&self, error: SharedError) {
        self.struck.store(true, Ordering::Relaxed);
        self.reporter.health(Budget::Rpc, Some(error)).await;
    }

    pub(crate) fn trust(&self) {
        self.trusted.store(true, Ordering::Release);
    }

    /// So young that its session cannot have been forgotten yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.opened_at.elapsed() < FRESH
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Acquire)
    }

    pub(crate) fn scout(&self) -> &Semaphore {
        &self.scout
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // `close` is the way; this only keeps a connection nobody closed from leaving tasks and children behind.
        self.abandon();
    }
}

// === impl Lease ===

impl Lease {
    pub(crate) fn of(connection: Own<Connection>) -> Self {
        connection.leases.add();
        Self { connection }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.connection.leases.remove();
    }
}

impl std::ops::Deref for Lease {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Self::of(self.connection.clone())
    }
}

// === impl CancelOnDrop ===

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.watch.end();
        if !self.armed || !self.watch.give_up() {
            return;
        }
        // Over HTTP a request without a handshake is cancelled by hanging up, which has happened by now.
        if self.connection.peer.version.is_modern() && matches!(self.connection.link, Link::Http(_))
        {
            return;
        }
        // To the generation that holds the request, wherever the slot has moved on to.
        let connection = self.connection.clone();
        let params = format!("{{\"requestId\":{}}}", self.watch.id());
        let message = protocol::notification(method::CANCELLED, Some(params.as_bytes()));
        let lease = connection.lease();
        self.connection.tasks.spawn(async move {
            if let Err(error) = lease.notify(message).await {
                tracing::debug!(%error, "a cancellation did not reach the server");
            }
        });
    }
}
