//! A call's way: wait for a connection, send, and when no answer comes do what `retry` says.

mod admission;
mod builder;
mod calling;
mod clock;
mod doubt;
mod kept_here;
mod relisting;
mod report;
mod result_stream;
mod result_type;
mod rounds;
mod writing;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use admission::Admitted;
pub use builder::CallBuilder;
use calling::Calling;
use clock::CallClock;
use doubt::Settled;
pub use report::Report;
pub use result_stream::{Reply, ResultStream};
use result_type::ResultType;
use rounds::{Repeats, Round, Taken};

use crate::connection::{CallTrack, CallWatch, Lease};
use crate::error::{CallError, CallFailure, SharedError};
use crate::lifecycle::{Generation, Loss};
use crate::protocol::RawJson;
use crate::retry::{Decision, Limited, Outcome, Replay, Sent, decide};
use crate::slot::Probe;
use crate::transport::{Answer, BegunResult, Received, SendFailure, Sign, TransportError};

enum Request {
    Tool {
        name: String,
        arguments: RawJson,
    },
    /// A tool call whose params somebody else wrote.
    RawTool {
        name: Arc<str>,
        params: RawJson,
    },
    Other {
        method: Cow<'static, str>,
        params: Option<RawJson>,
    },
}

/// A call under way.
struct Call {
    slot: Calling,
    request: Request,
    clock: CallClock,
    cancel: Option<CancellationToken>,
    /// In place of the server's setting.
    replay: Option<Replay>,
    /// Whether the caller has use for a large result before it is complete.
    takes_pieces: bool,
    /// Its caller speaks for itself, and wants the server's answer whatever it is.
    verbatim: bool,
    /// Only to see whether the server is there: what it says of our rate is no news.
    keeps_alive: bool,
    /// The server asked for something, and this is what it is to be asked again with.
    round: Option<Round>,
    /// An earlier sending has an unknown outcome, and so the whole has, whatever becomes of the next.
    may_have_run: AtomicBool,
    /// It is to find out whether the server takes calls again, with this number.
    probe: Option<u64>,
}

/// How one sending ended.
enum Attempt {
    Answered(Answer),
    /// The server was not asked.
    Kept(Answer),
    Begun(Box<BegunResult>),
    Failed(SendFailure),
    TimedOut {
        sent: bool,
    },
    Cancelled {
        sent: bool,
    },
}

/// What a sending brought.
enum Brought {
    /// With the connection it came on, if that is another than the call was sent on.
    Whole(RawJson, Option<Lease>),
    Begun(Box<BegunResult>),
}

/// How a call ended that brought something.
enum Ended {
    Whole(RawJson),
    Begun(Box<BegunResult>, Box<Admitted>),
}

/// A sending that brought no answer.
struct Unanswered {
    failure: SendFailure,
    /// The connection it was sent on.
    generation: Generation,
    /// A new connection may take away what it failed of.
    renewable: bool,
}

/// What was done so far to get an answer.
#[derive(Clone, Copy)]
struct Resends {
    /// It was sent again because its outcome was unknown.
    resent: bool,
    /// It was sent again because it was refused unexecuted.
    renewed: bool,
}

/// A pooled HTTP connection may turn out closed before anything was sent on it. More than this many in a row is not
/// bad luck.
const MAX_UNSENT_IN_A_ROW: u32 = 3;

/// The largest result that is held back until it is complete because it could be asked for again. Memory is worth that
/// much per call, and no more.
const HELD_BACK: usize = 4 * 1024 * 1024;

/// A server that dies takes its connections down one after the other, and its listener last: what is sent again at
/// once goes the same way. Longer than a process takes to be gone, shorter than anybody would notice.
const RESEND_PAUSE: Duration = Duration::from_millis(100);

// === impl Call ===

impl Call {
    #[expect(
        clippy::manual_async_fn,
        reason = "it would be kept twice: as what is given and as what is worked with"
    )]
    fn run(mut self, report: &mut Report) -> impl Future<Output = Result<Reply, CallError>> + Send {
        async move {
            Ok(match self.until_answered(report).await? {
                Ended::Whole(result) => Reply::Whole(result),
                Ended::Begun(begun, admitted) => {
                    Reply::Pieces(ResultStream::new(*begun, self, *admitted))
                }
            })
        }
    }

    /// What is followed besides its answer, if anything is.
    fn track(&self) -> Option<&Arc<CallTrack>> {
        self.clock.track.as_ref()
    }

    async fn until_answered(&mut self, report: &mut Report) -> Result<Ended, CallError> {
        let mut repeats = Repeats::default();
        let mut kept: Option<Admitted> = None;
        let mut after: Option<Generation> = None;
        let mut resent = false;
        let mut renewed = false;
        let mut unsent_in_a_row = 0;
        // What made us wait for another connection: should none come, this is what the caller must hear of.
        let mut first: Option<(SendFailure, Generation)> = None;
        loop {
            // Whoever is in the middle of something does not queue again.
            let place = kept.take().filter(|admitted| !admitted.lease.is_cut().is_cancelled());
            let admitted = match place {
                Some(admitted) => admitted,
                None => match self.admit(after, report).await {
                    Ok(admitted) => admitted,
                    Err(failure) => return Err(self.not_admitted(failure, first)),
                },
            };
            let lease = &admitted.lease;
            self.probe = admitted.probe.as_ref().map(Probe::number);
            if self.round.as_ref().is_some_and(|round| round.generation != lease.generation()) {
                self.start_again(lease.generation(), &mut repeats)?;
            }
            let with_server = report.sending(lease.generation(), first.is_some());
            let attempted = self.send_once(lease, Resends { resent, renewed }).await;
            drop(with_server);
            let unanswered = match attempted {
                Ok(Ok(Brought::Whole(result, other))) => {
                    let by = other.as_ref().unwrap_or(lease);
                    if other.is_some() {
                        report.sent_again(by.generation());
                    }
                    if self.verbatim || !by.peer().version.is_modern() {
                        return Ok(Ended::Whole(result));
                    }
                    let kind = ResultType::of(&result);
                    if kind == ResultType::Complete {
                        return Ok(Ended::Whole(self.complete(result)));
                    }
                    // Rare, and large.
                    let other_way = Box::pin(self.take_other(by, kind, result, &mut repeats));
                    match report.elsewhere(other_way).await? {
                        Taken::Result(result) => return Ok(Ended::Whole(result)),
                        Taken::Round(round) => self.round = Some(round),
                        Taken::Nothing => self.start_again(by.generation(), &mut repeats)?,
                    }
                    // From now on somebody was asked, and would be asked again.
                    self.may_have_run.store(true, Ordering::Relaxed);
                    (resent, renewed, first) = (false, false, None);
                    match other {
                        Some(_) => after = Some(lease.generation()),
                        None => kept = Some(admitted),
                    }
                    continue;
                }
                Ok(Ok(Brought::Begun(begun))) => {
                    return Ok(Ended::Begun(begun, Box::new(admitted)));
                }
                Ok(Err(error)) => {
                    if !lease.peer().version.is_modern()
                        || !Box::pin(self.can_be_mended(lease, &error, &mut repeats)).await?
                    {
                        return Err(error);
                    }
                    kept = Some(admitted);
                    continue;
                }
                Err(unanswered) => unanswered,
            };
            let Unanswered { failure, generation, renewable } = unanswered;
            if failure.outcome == Outcome::Unknown {
                self.may_have_run.store(true, Ordering::Relaxed);
                self.note_executed(&mut repeats);
            }
            let sent = Resends { resent, renewed };
            if self.decide(failure.outcome, sent, renewable) == Decision::GiveUp {
                return Err(self.gave_up(failure, generation, renewable));
            }
            let still_usable = matches!(failure.sign, Sign::None | Sign::Strike);
            if failure.outcome == Outcome::NotSent {
                unsent_in_a_row += 1;
                report.resends -= u32::from(first.is_some());
                if still_usable && unsent_in_a_row > MAX_UNSENT_IN_A_ROW {
                    lease.reporter().lost(Loss::Transport, failure.error.clone()).await;
                    after = Some(generation);
                }
            } else if failure.outcome == Outcome::Rejected {
                renewed = true;
            } else {
                resent = true;
            }
            let unusable =
                !still_usable || (failure.outcome == Outcome::Unknown && self.is_over(lease).await);
            if unusable {
                after = Some(generation);
            }
            self.note_repeat(&failure, generation);
            if failure.outcome != Outcome::NotSent {
                first = Some((failure, generation));
            }
        }
    }

    fn note_repeat(&self, failure: &SendFailure, generation: Generation) {
        tracing::debug!(
            server = %self.slot.name, %generation, method = self.request.method(),
            outcome = %failure.outcome, "sending again"
        );
    }

    fn decide(&self, outcome: Outcome, sent: Resends, renewable: bool) -> Decision {
        let settings = &self.slot.settings;
        decide(Sent {
            outcome,
            method: self.request.method(),
            harmless: self.is_harmless(),
            replay: self.replay.unwrap_or_else(|| settings.replay_for(self.request.tool())),
            resent: sent.resent,
            renewed: sent.renewed,
            renewable,
        })
    }

    /// Sends once, tells the driver what that showed, and returns the end of the call or what is left to decide.
    async fn send_once(
        &self,
        lease: &Lease,
        sent: Resends,
    ) -> Result<Result<Brought, CallError>, Unanswered> {
        let generation = lease.generation();
        let attempt = match self.attempt(lease, self.takes_pieces.then_some(sent)).await {
            Ok(attempt) => attempt,
            Err(failure) => {
                return Ok(Err(self.error(Outcome::NotSent, Some(generation), false, failure)));
            }
        };
        match &attempt {
            Attempt::Answered(_) => lease.note_answer().await,
            Attempt::TimedOut { .. } => {
                lease.note_failure(SharedError::new(self.timed_out())).await;
            }
            // What has begun may still break off.
            Attempt::Begun(_)
            | Attempt::Kept(_)
            | Attempt::Cancelled { .. }
            | Attempt::Failed(_) => {}
        }
        let failure = match self.conclude(attempt, generation, None) {
            Ok(result) => return Ok(result),
            Err(failure) => failure,
        };
        let mut renewable = failure.is_renewable();
        match failure.sign {
            Sign::None => {}
            Sign::Strike => lease.note_failure(SharedError::new(failure.error.clone())).await,
            Sign::Lost(loss) => lease.reporter().lost(loss, failure.error.clone()).await,
            Sign::Doubtful if sent.renewed => {}
            // Rare, and as large as the sending itself.
            Sign::Doubtful => match Box::pin(self.settle_doubt(lease)).await {
                Settled::Lost => renewable = true,
                Settled::NotLost => {}
                Settled::Tried(attempt, candidate) => {
                    let generation = candidate.generation();
                    let failure = match self.conclude(attempt, generation, Some(candidate)) {
                        Ok(result) => return Ok(result),
                        Err(failure) => failure,
                    };
                    if let Sign::Lost(loss) = failure.sign {
                        // What has befallen the candidate has befallen its elder too.
                        lease.reporter().lost(loss, failure.error.clone()).await;
                    }
                    let renewable = failure.is_renewable();
                    return Err(Unanswered { failure, generation, renewable });
                }
            },
        }
        Err(Unanswered { failure, generation, renewable })
    }

    /// The end of the call, unless there is something left to decide.
    fn conclude(
        &self,
        attempt: Attempt,
        generation: Generation,
        candidate: Option<Lease>,
    ) -> Result<Result<Brought, CallError>, SendFailure> {
        match attempt {
            Attempt::Answered(answer) | Attempt::Kept(answer) => {
                let finished = self.finish(answer, generation);
                Ok(finished.map(|result| Brought::Whole(result, candidate)))
            }
            Attempt::Begun(begun) => Ok(Ok(Brought::Begun(begun))),
            Attempt::TimedOut { sent } => Ok(Err(self.ended(sent, generation, self.timed_out()))),
            Attempt::Cancelled { sent } => {
                Ok(Err(self.ended(sent, generation, CallFailure::Cancelled)))
            }
            Attempt::Failed(failure) => Err(failure),
        }
    }

    fn timed_out(&self) -> CallFailure {
        CallFailure::TimedOut { after: self.clock.started.elapsed() }
    }

    /// Sends once and waits for whatever comes first: the beginning of a large result too, if it may be passed on; then
    /// it takes what was done before.
    async fn attempt(
        &self,
        lease: &Lease,
        takes_pieces: Option<Resends>,
    ) -> Result<Attempt, CallFailure> {
        if lease.peer().version.is_modern() && self.is_kept_here() {
            // Boxed because it is rare.
            let keeping = Box::pin(self.keep_here(lease));
            return Ok(tokio::select! {
                biased;
                answer = keeping => Attempt::Kept(answer),
                () = self.cancelled() => Attempt::Cancelled { sent: false },
                () = self.clock.expired() => Attempt::TimedOut { sent: false },
            });
        }
        let watch = lease.watch(self.track().cloned());
        let message = self.message(lease, &watch)?;
        // A question is no result, and is told from one only as a whole.
        let takes_pieces = takes_pieces.filter(|_| !lease.peer().version.is_modern());
        // If it would be asked for again should it break off, then rather not: whoever has seen its beginning cannot be
        // given another.
        let takes_pieces = |size: usize| {
            takes_pieces.is_some_and(|sent| {
                let again = || self.decide(Outcome::Unknown, sent, false) == Decision::Resend;
                size > HELD_BACK || !again()
            })
        };
        // In place: a future that is moved takes up its room twice, and this one is large.
        let mut sending = std::pin::pin!(lease.send(message, &watch, &takes_pieces));
        let attempt = tokio::select! {
            biased;
            result = &mut sending => match result {
                Ok(Received::Answer(answer)) => Attempt::Answered(answer),
                Ok(Received::Begun(begun)) => Attempt::Begun(begun),
                Err(failure) => Attempt::Failed(failure),
            },
            () = self.cancelled() => Attempt::Cancelled { sent: watch.give_up() },
            () = self.clock.expired() => Attempt::TimedOut { sent: watch.give_up() },
        };
        self.note_rate(&attempt, &watch);
        Ok(attempt)
    }

    /// Notes whether the server limits our rate.
    fn note_rate(&self, attempt: &Attempt, watch: &CallWatch) {
        if self.keeps_alive {
            return;
        }
        let limited = match attempt {
            Attempt::Answered(Ok(result)) if self.request.tool().is_some() => {
                Limited::of_result(result)
            }
            Attempt::Answered(Err(error)) => watch.limited().or_else(|| Limited::of_error(error)),
            Attempt::Answered(Ok(_)) | Attempt::Begun(_) => None,
            Attempt::Failed(failure) => {
                let error = || failure.answer.as_ref().and_then(Limited::of_error);
                let Some(limited) = watch.limited().or_else(error) else { return };
                Some(limited)
            }
            Attempt::Kept(_) | Attempt::TimedOut { .. } | Attempt::Cancelled { .. } => return,
        };
        self.slot.note_rate(limited, self.probe);
    }

    /// Whether the connection that failed a request is given up within a moment.
    async fn is_over(&self, lease: &Lease) -> bool {
        let until = (Instant::now() + RESEND_PAUSE).min(self.clock.expires_at());
        timeout_at(until, lease.detached().cancelled()).await.is_ok()
    }

    async fn cancelled(&self) {
        match &self.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn finish(&self, answer: Answer, generation: Generation) -> Result<RawJson, CallError> {
        answer.map_err(|error| {
            self.error(Outcome::Answered, Some(generation), false, CallFailure::Rpc(error))
        })
    }

    fn gave_up(&self, failure: SendFailure, generation: Generation, renewable: bool) -> CallError {
        let SendFailure { outcome, error, answer, sign } = failure;
        if let Some(answer) = answer
            && !renewable
        {
            // It was an answer after all.
            let failure = CallFailure::Rpc(answer);
            return self.error(Outcome::Answered, Some(generation), false, failure);
        }
        let overloaded = matches!(error, TransportError::Status { status: 429, .. });
        let retryable = match outcome {
            Outcome::Rejected => renewable || overloaded,
            Outcome::Unknown => self.is_harmless(),
            Outcome::NotSent => true,
            Outcome::Answered => false,
        } && sign != Sign::Lost(Loss::Auth);
        self.error(outcome, Some(generation), retryable, CallFailure::of_transport(error))
    }

    /// No connection came. If one was wanted because of an earlier failure, that failure is the news.
    fn not_admitted(
        &self,
        failure: CallFailure,
        first: Option<(SendFailure, Generation)>,
    ) -> CallError {
        let permanent = matches!(
            failure,
            CallFailure::Disabled
                | CallFailure::PermanentlyFailed { .. }
                | CallFailure::ShuttingDown
        );
        let Some((first, generation)) = first else {
            let retryable = !permanent && !matches!(failure, CallFailure::Cancelled);
            return self.error(Outcome::NotSent, None, retryable, failure);
        };
        let original = match first.answer {
            Some(answer) => SharedError::new(answer),
            None => SharedError::new(first.error),
        };
        let renewal = SharedError::new(failure);
        let retryable = first.outcome == Outcome::Rejected && !permanent;
        let failure = CallFailure::NotRenewed { renewal, original };
        self.error(first.outcome, Some(generation), retryable, failure)
    }

    fn ended(&self, sent: bool, generation: Generation, failure: CallFailure) -> CallError {
        let outcome = if sent { Outcome::Unknown } else { Outcome::NotSent };
        self.error(outcome, Some(generation), !sent, failure)
    }

    fn error(
        &self,
        outcome: Outcome,
        generation: Option<Generation>,
        retryable: bool,
        source: CallFailure,
    ) -> CallError {
        let forgotten = self.may_have_run.load(Ordering::Relaxed)
            && matches!(outcome, Outcome::NotSent | Outcome::Rejected);
        let (outcome, retryable) =
            if forgotten { (Outcome::Unknown, self.is_harmless()) } else { (outcome, retryable) };
        let own = self.track().and_then(|track| track.company.headers.as_deref());
        let entrusted = &self.slot.entrusted;
        let entrusted = own.map_or_else(|| entrusted.clone(), |own| entrusted.and(own));
        let server = self.slot.name.clone();
        CallError { server, outcome, generation, retryable, source, entrusted }
    }
}
