//! A 400 may mean that the session is gone, or that the request is bad. A second session beside the first decides:
//! if the request fares better there, the first was gone; if not, the 400 was the answer and nobody was disturbed.

use std::sync::Arc;

use tokio::time::sleep_until;

use super::{Attempt, Call};
use crate::connection::{Connection, Lease};
use crate::lifecycle::Generation;
use crate::slot::Published;
use crate::transport::{Answer, Sign};

/// What became of a doubt.
pub(super) enum Settled {
    /// The session was gone; this is the answer from the new one.
    Answered(Answer, Generation),
    /// The session was gone; send again on the new one.
    Lost,
    /// The session is fine, or nobody could tell.
    NotLost,
}

/// Holds a candidate on trial. Dropped without a verdict, it gives the candidate up.
struct Trial {
    candidate: Option<Arc<Connection>>,
}

// === impl Call ===

impl Call {
    pub(super) async fn settle_doubt(&self, doubted: &Lease) -> Settled {
        if doubted.is_trusted() {
            return Settled::NotLost;
        }
        let mut published = self.slot.published.subscribe();
        doubted.reporter().doubted().await;
        let until = self.clock.expires_at();
        loop {
            let now = published.borrow_and_update().clone();
            if moved_on(&now, doubted.generation()) {
                return Settled::Lost;
            }
            if doubted.is_trusted() {
                return Settled::NotLost;
            }
            if let Some(candidate) = &now.candidate
                && let Ok(_scout) = candidate.scout().try_acquire()
            {
                return self.try_candidate(doubted, candidate).await;
            }
            if now.candidate.is_none() && !now.status.in_doubt {
                // The second handshake came to nothing.
                return Settled::NotLost;
            }
            tokio::select! {
                changed = published.changed() => {
                    if changed.is_err() {
                        return Settled::NotLost;
                    }
                }
                () = self.cancelled() => return Settled::NotLost,
                () = sleep_until(until) => return Settled::NotLost,
            }
        }
    }

    async fn try_candidate(&self, doubted: &Lease, candidate: &Arc<Connection>) -> Settled {
        let mut trial = Trial { candidate: Some(candidate.clone()) };
        let lease = candidate.lease();
        match self.attempt(&lease).await {
            Ok(Attempt::Answered(answer)) => {
                trial.verdict(true).await;
                Settled::Answered(answer, candidate.generation())
            }
            Ok(Attempt::Failed(failure)) if failure.sign == Sign::Doubtful => {
                // The same answer from a session that is certainly alive: it is about the request.
                doubted.trust();
                trial.verdict(false).await;
                Settled::NotLost
            }
            _ => {
                trial.verdict(false).await;
                Settled::NotLost
            }
        }
    }
}

fn moved_on(published: &Published, doubted: Generation) -> bool {
    published.status.generation.is_some_and(|generation| generation > doubted)
        || published.connection.is_none()
}

// === impl Trial ===

impl Trial {
    async fn verdict(&mut self, lost: bool) {
        if let Some(candidate) = self.candidate.take() {
            candidate.reporter().verdict(lost).await;
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            let reporter = candidate.reporter().clone();
            candidate.spawn(async move { reporter.verdict(false).await });
        }
    }
}
