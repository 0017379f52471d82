//! What is remembered of a server from one dial to the next, so that a reconnect costs no more than it must.
//!
//! * The kind of HTTP that it speaks.
//! * Which kind of revisions it said it speaks, for good: one that has come back as another refuses what it is then
//!   asked for, and is asked again at that moment.
//! * That it shook hands although it had said nothing to the question before, or had ended of it. Asking is dear with
//!   such a server: each time it costs seconds of silence, or a process. But it has not said that it wants a handshake,
//!   and may only have been slow or in trouble, so it is asked again after a while. One that is known to have understood
//!   the question must be silent twice before that.

use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Shown;
use crate::protocol::Era;
use crate::settings::HttpKind;
use crate::transport::{OpenError, TransportError};

/// Per slot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remembered {
    kind: Option<HttpKind>,
    known: Known,
}

/// What a dial that succeeded showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Learnt {
    pub(crate) kind: Option<HttpKind>,
    pub(crate) shown: Shown,
}

/// What is known of its revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Known {
    #[default]
    Nothing,
    Said(Era),
    /// It ended when it was asked: the next attempt begins with a handshake.
    Ended {
        asked_at: Instant,
        was_modern: bool,
    },
    /// It shakes hands, and does not do well when it is asked.
    Presumed {
        asked_at: Instant,
    },
}

/// How long a server is spared a question that it does not bear.
const SPARED_FOR: Duration = Duration::from_secs(60 * 60);

// === impl Remembered ===

impl Remembered {
    /// The kind of HTTP to try first.
    pub(crate) fn kind(&self) -> Option<HttpKind> {
        self.kind
    }

    /// How to begin; `None` if the server is to be asked.
    pub(crate) fn era(&self, now: Instant) -> Option<Era> {
        match self.known {
            Known::Nothing => None,
            Known::Said(era) => Some(era),
            Known::Ended { .. } => Some(Era::Legacy),
            Known::Presumed { asked_at } => (now < asked_at + SPARED_FOR).then_some(Era::Legacy),
        }
    }

    pub(crate) fn succeeded(&mut self, learnt: Learnt, now: Instant) {
        self.kind = learnt.kind;
        self.known = match (learnt.shown, self.known) {
            (Shown::Kind(era), _) => Known::Said(era),
            (Shown::Nothing, _)
            | (Shown::Silence, Known::Said(Era::Modern))
            | (Shown::AsBefore, Known::Ended { was_modern: true, .. }) => Known::Nothing,
            (Shown::Silence, _) => Known::Presumed { asked_at: now },
            (Shown::AsBefore, Known::Ended { asked_at, .. }) => Known::Presumed { asked_at },
            (Shown::AsBefore, known) => known,
        };
    }

    pub(crate) fn failed(&mut self, error: &OpenError, now: Instant) {
        let was_asked = self.era(now) != Some(Era::Legacy);
        self.known = match (error, self.known) {
            (OpenError::EndedWhenAsked(_), known) => {
                Known::Ended { asked_at: now, was_modern: known == Known::Said(Era::Modern) }
            }
            // Nobody heard a word.
            (
                OpenError::Aborted
                | OpenError::Spawn(..)
                | OpenError::Guardian(_)
                | OpenError::NoDirectory
                | OpenError::Transport(TransportError::Connect(_)),
                known,
            ) => known,
            // The handshake fared no better.
            (_, Known::Ended { .. }) => Known::Nothing,
            (_, Known::Presumed { .. }) if was_asked => Known::Presumed { asked_at: now },
            (_, known) => known,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn succeeded(remembered: &mut Remembered, shown: Shown, now: Instant) {
        remembered.succeeded(Learnt { kind: None, shown }, now);
    }

    fn ended() -> OpenError {
        OpenError::EndedWhenAsked(TransportError::StreamEnded)
    }

    fn refused_connection() -> OpenError {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        OpenError::Transport(TransportError::Connect(crate::error::SharedError::new(error)))
    }

    #[test]
    fn a_server_that_does_not_bear_the_question_is_asked_once_an_hour() {
        let start = Instant::now();
        let later = start + SPARED_FOR;
        let within = later - Duration::from_secs(1);
        let mut silent = Remembered::default();
        assert_eq!(silent.era(start), None);
        succeeded(&mut silent, Shown::Silence, start);
        // Handshakes that go well, and attempts that come to nothing, do not put off the question for ever.
        succeeded(&mut silent, Shown::AsBefore, within);
        silent.failed(&OpenError::TimedOut(SPARED_FOR), within);
        assert_eq!((silent.era(within), silent.era(later)), (Some(Era::Legacy), None));
        // Whom nobody could reach, nobody has asked.
        silent.failed(&refused_connection(), later);
        assert_eq!(silent.era(later), None);
        silent.failed(&OpenError::TimedOut(SPARED_FOR), later);
        assert_eq!(silent.era(later), Some(Era::Legacy));

        let mut fragile = Remembered::default();
        fragile.failed(&ended(), start);
        fragile.failed(&OpenError::Aborted, start);
        assert_eq!(fragile.era(start), Some(Era::Legacy));
        succeeded(&mut fragile, Shown::AsBefore, start);
        assert_eq!((fragile.era(within), fragile.era(later)), (Some(Era::Legacy), None));
    }

    #[test]
    fn a_server_that_ends_whatever_it_is_told_is_asked_again() {
        let now = Instant::now();
        let mut remembered = Remembered::default();
        remembered.failed(&ended(), now);
        remembered.failed(&OpenError::Transport(TransportError::StreamEnded), now);
        assert_eq!(remembered.era(now), None);
    }

    #[test]
    fn a_server_that_has_understood_the_question_is_not_given_up_at_once() {
        let now = Instant::now();
        let modern = || {
            let mut remembered = Remembered::default();
            succeeded(&mut remembered, Shown::Kind(Era::Modern), now);
            remembered
        };
        let mut slow = modern();
        succeeded(&mut slow, Shown::Silence, now);
        assert_eq!(slow.era(now), None);
        succeeded(&mut slow, Shown::Silence, now);
        assert_eq!(slow.era(now), Some(Era::Legacy));
        let mut died = modern();
        died.failed(&ended(), now);
        succeeded(&mut died, Shown::AsBefore, now);
        assert_eq!(died.era(now), None);
    }

    #[test]
    fn what_a_server_said_stays_said() {
        let now = Instant::now();
        let mut remembered = Remembered::default();
        succeeded(&mut remembered, Shown::Kind(Era::Legacy), now);
        remembered.failed(&OpenError::TimedOut(SPARED_FOR), now);
        succeeded(&mut remembered, Shown::AsBefore, now);
        assert_eq!(remembered.era(now + 2 * SPARED_FOR), Some(Era::Legacy));
        succeeded(&mut remembered, Shown::Kind(Era::Modern), now);
        assert_eq!(remembered.era(now), Some(Era::Modern));
    }
}
