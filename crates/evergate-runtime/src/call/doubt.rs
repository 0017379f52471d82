//! A 400 may mean that the session is gone, or that the request is bad. A second session beside the first decides:
//! if the request fares better there, the first was gone; if not, the 400 was the answer and nobody was disturbed.

use std::sync::Arc;

use tokio::time::sleep_until;

use super::{Attempt, Call};
use crate::connection::{Connection, Lease};
use crate::lifecycle::Generation;
use crate::slot::Published;
use crate::transport::Sign;

/// What became of a doubt.
pub(super) enum Settled {
    /// The request was tried on the candidate: this is what is known about it now.
    Tried(Attempt, Lease),
    /// The session was gone; send again on the new one.
    Lost,
    /// The session is fine, or nobody could tell.
    NotLost,
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
            if doubted.is_trusted() || (now.candidate.is_none() && !now.status.in_doubt) {
                return Settled::NotLost;
            }
            // One caller at a time tries the candidate. One that gives up says nothing and leaves it to the next.
            let turn = async {
                match &now.candidate {
                    Some(candidate) => (candidate, candidate.scout().acquire().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = published.changed() => {
                    if changed.is_err() {
                        return Settled::NotLost;
                    }
                }
                () = self.cancelled() => return Settled::NotLost,
                () = sleep_until(until) => return Settled::NotLost,
                (candidate, _scout) = turn => {
                    return self.try_candidate(doubted, candidate).await;
                }
            }
        }
    }

    async fn try_candidate(&self, doubted: &Lease, candidate: &Arc<Connection>) -> Settled {
        let lease = candidate.lease();
        match self.attempt(&lease, None).await {
            Ok(answered @ Attempt::Answered(_)) => {
                candidate.reporter().verdict(true).await;
                Settled::Tried(answered, lease)
            }
            Ok(Attempt::Failed(failure)) if failure.sign == Sign::Doubtful => {
                // The same answer from a session that is certainly alive: it is about the request.
                if candidate.is_fresh() {
                    doubted.trust();
                }
                candidate.reporter().verdict(false).await;
                Settled::NotLost
            }
            Ok(ended) => Settled::Tried(ended, lease),
            // The message could not even be written; it was written once already, so this cannot be.
            Err(_) => Settled::NotLost,
        }
    }
}

fn moved_on(published: &Published, doubted: Generation) -> bool {
    published.status.generation.is_some_and(|generation| generation > doubted)
        || published.connection.is_none()
}
