//! Spares a server that limits our rate, as a pure value: no clock, no IO.
//!
//! After so many rate-limit answers in a row nothing is sent for a while, by default or as long as the server asked for;
//! then one call goes through, and its answer decides. A call that is refused meanwhile costs nobody anything, and its
//! caller knows when to come back.

use std::time::{Duration, Instant};

use super::rate_limit::Limited;

/// One server's.
#[derive(Debug, Clone)]
pub(crate) struct RateBreaker {
    /// At least one.
    threshold: u32,
    pause: Duration,
    state: State,
    /// The newest rate-limit answer.
    last: Option<Limited>,
    /// Of all calls that found out, or tried to.
    probes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything passes; so many rate-limit answers in a row.
    Closed(u32),
    /// Nothing passes before that.
    Open { until: Instant },
    /// The newest probe is finding out. Should it take too long, another may.
    Probing { until: Instant },
}

/// Whether a call may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    Free,
    /// It is the one that finds out, and has this number. How it ends must be told, or that it ended otherwise.
    Probe(u64),
    Shut {
        until: Instant,
    },
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    /// The probe fared no better.
    OpenedAgain,
    Closed,
}

/// However long a server asks for: its clock may be wrong.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// A server that says "now" and means "no" is not believed.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long one call may keep all others waiting for what it finds out.
const PROBE: Duration = Duration::from_secs(30);

// === impl RateBreaker ===

impl RateBreaker {
    /// Zero counts as one.
    pub(crate) fn new(threshold: u32, pause: Duration) -> Self {
        Self { threshold: threshold.max(1), pause, state: State::Closed(0), last: None, probes: 0 }
    }

    /// Nothing to remember: an answer that is fine changes nothing.
    pub(crate) fn is_calm(&self) -> bool {
        self.state == State::Closed(0)
    }

    /// Until when nothing is sent, if so, and the answer that led to it.
    pub(crate) fn shut(&self) -> Option<(Instant, Option<Limited>)> {
        match self.state {
            State::Closed(_) => None,
            State::Open { until } | State::Probing { until } => Some((until, self.last)),
        }
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.threshold
    }

    /// A call is about to be sent.
    pub(crate) fn pass(&mut self, now: Instant) -> Passage {
        match self.state {
            State::Closed(_) => Passage::Free,
            State::Open { until } | State::Probing { until } if now < until => {
                Passage::Shut { until }
            }
            State::Open { .. } | State::Probing { .. } => {
                self.state = State::Probing { until: now + PROBE };
                self.probes += 1;
                Passage::Probe(self.probes)
            }
        }
    }

    /// An answer came, to a probe or to another call. What was sent before it opened decides nothing.
    pub(crate) fn on_answer(
        &mut self,
        limited: Option<Limited>,
        probe: Option<u64>,
        now: Instant,
    ) -> Option<Change> {
        let decides = probe == Some(self.probes);
        let Some(limited) = limited else {
            return match self.state {
                State::Closed(_) => {
                    self.state = State::Closed(0);
                    None
                }
                State::Probing { .. } if decides => {
                    self.state = State::Closed(0);
                    Some(Change::Closed)
                }
                State::Open { .. } | State::Probing { .. } => None,
            };
        };
        let asked = limited.reset_in.map(|reset| reset.clamp(SHORTEST, LONGEST));
        let until = now + asked.unwrap_or(self.pause);
        self.last = Some(limited);
        match self.state {
            State::Closed(before) if before + 1 < self.threshold => {
                self.state = State::Closed(before + 1);
                None
            }
            State::Closed(_) => {
                self.state = State::Open { until };
                Some(Change::Opened)
            }
            // Sent before; it may know better how long it takes.
            State::Open { until: before } => {
                let until = if asked.is_some() { before.max(until) } else { before };
                self.state = State::Open { until };
                None
            }
            State::Probing { .. } if decides => {
                self.state = State::Open { until };
                Some(Change::OpenedAgain)
            }
            State::Probing { .. } => None,
        }
    }

    /// A probe ended without an answer, which says nothing: the next call may find out.
    pub(crate) fn release(&mut self, probe: u64, now: Instant) {
        if let State::Probing { .. } = self.state
            && probe == self.probes
        {
            self.state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rate_limit::ShownBy;
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn limited(reset_in: Option<u64>) -> Limited {
        let reset_in = reset_in.map(Duration::from_secs);
        Limited { shown_by: ShownBy::Status(429), reset_in }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// One that three answers in a row have opened.
    fn open(reset_in: Option<u64>, now: Instant) -> RateBreaker {
        let mut breaker = RateBreaker::new(3, PAUSE);
        assert_eq!(breaker.on_answer(Some(limited(None)), None, now), None);
        assert_eq!(breaker.on_answer(Some(limited(None)), None, now), None);
        assert_eq!(breaker.on_answer(Some(limited(reset_in)), None, now), Some(Change::Opened));
        breaker
    }

    #[test]
    fn only_answers_in_a_row_open_it() {
        let now = start();
        let mut breaker = RateBreaker::new(3, PAUSE);
        for _ in 0..10 {
            assert_eq!(breaker.on_answer(Some(limited(None)), None, now), None);
            assert_eq!(breaker.on_answer(Some(limited(None)), None, now), None);
            assert!(!breaker.is_calm());
            assert_eq!(breaker.on_answer(None, None, now), None);
            assert!(breaker.is_calm());
        }
        assert_eq!(breaker.pass(now), Passage::Free);
    }

    #[test]
    fn it_opens_for_its_own_pause_or_the_servers_within_reason() {
        let now = start();
        for (asked, pause) in
            [(None, 60), (Some(5), 5), (Some(600), 600), (Some(0), 1), (Some(86_400), 3600)]
        {
            let mut breaker = open(asked, now);
            let until = now + seconds(pause);
            assert_eq!(breaker.pass(now), Passage::Shut { until }, "{asked:?}");
            let just_before = now + seconds(pause).saturating_sub(Duration::from_millis(1));
            assert_eq!(breaker.pass(just_before), Passage::Shut { until }, "{asked:?}");
            assert_eq!(breaker.pass(until), Passage::Probe(1), "{asked:?}");
        }
    }

    #[test]
    fn one_call_finds_out_while_others_are_refused() {
        let now = start();
        let mut breaker = open(None, now);
        let then = now + PAUSE;
        assert_eq!(breaker.pass(then), Passage::Probe(1));
        assert!(matches!(breaker.pass(then), Passage::Shut { .. }));
        assert_eq!(breaker.on_answer(None, Some(1), then), Some(Change::Closed));
        assert_eq!((breaker.pass(then), breaker.shut()), (Passage::Free, None));
    }

    #[test]
    fn a_probe_that_fares_no_better_opens_it_again() {
        let now = start();
        let mut breaker = open(None, now);
        let then = now + PAUSE;
        breaker.pass(then);
        assert_eq!(
            breaker.on_answer(Some(limited(Some(10))), Some(1), then),
            Some(Change::OpenedAgain)
        );
        assert_eq!(breaker.pass(then), Passage::Shut { until: then + seconds(10) });
    }

    #[test]
    fn a_probe_without_an_answer_leaves_it_to_the_next() {
        let now = start();
        let mut breaker = open(None, now);
        let then = now + PAUSE;
        breaker.pass(then);
        breaker.release(1, then);
        assert_eq!(breaker.pass(then), Passage::Probe(2));
        assert_eq!(breaker.pass(then + PROBE), Passage::Probe(3), "it takes too long");
        breaker.release(2, then + PROBE);
        assert!(matches!(breaker.pass(then + PROBE), Passage::Shut { .. }), "the third is out");
    }

    #[test]
    fn only_the_probe_that_is_out_decides() {
        let now = start();
        let mut breaker = open(None, now);
        let then = now + PAUSE;
        breaker.pass(then);
        for stale in [None, Some(limited(Some(5)))] {
            assert_eq!(breaker.on_answer(stale, None, then), None);
        }
        assert_eq!(breaker.pass(then), Passage::Shut { until: then + PROBE });
        let late = then + PROBE;
        breaker.pass(late);
        assert_eq!(breaker.on_answer(None, Some(1), late), None, "the second is out");
        assert_eq!(breaker.on_answer(None, Some(2), late), Some(Change::Closed));
    }

    #[test]
    fn answers_to_what_was_sent_before_close_nothing_and_may_name_a_later_time() {
        let now = start();
        let mut breaker = open(Some(10), now);
        assert_eq!(breaker.on_answer(None, None, now), None);
        assert_eq!(breaker.on_answer(Some(limited(None)), None, now), None);
        assert_eq!(breaker.pass(now), Passage::Shut { until: now + seconds(10) });
        breaker.on_answer(Some(limited(Some(30))), None, now);
        assert_eq!(breaker.pass(now), Passage::Shut { until: now + seconds(30) });
    }

    #[derive(Debug, Clone)]
    enum Step {
        Pass,
        Answer(Option<Limited>),
        Release,
        Wait(u64),
    }

    fn answer() -> impl Strategy<Value = Limited> {
        proptest::option::of(0..8000_u64).prop_map(limited)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Pass),
            3 => proptest::option::of(answer()).prop_map(Step::Answer),
            1 => Just(Step::Release),
            2 => (0..5000_u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Whatever happens: it is never shut for longer than the longest pause, a shut one lets exactly one call through
        /// per probe, and it always comes back.
        #[test]
        fn it_is_never_shut_for_good(steps in proptest::collection::vec(step(), 0..200)) {
            let mut now = start();
            let mut breaker = RateBreaker::new(3, PAUSE);
            let mut probing = None;
            for step in steps {
                match step {
                    Step::Pass => match breaker.pass(now) {
                        Passage::Free => prop_assert!(breaker.shut().is_none()),
                        Passage::Probe(number) => {
                            prop_assert!(breaker.shut().is_some());
                            probing = Some(number);
                        }
                        Passage::Shut { until } => prop_assert!(until > now && until <= now + LONGEST),
                    },
                    Step::Answer(answer) => {
                        let was_shut = breaker.shut().is_some();
                        let change = breaker.on_answer(answer, probing, now);
                        match change {
                            Some(Change::Opened) => prop_assert!(!was_shut && breaker.shut().is_some()),
                            Some(Change::OpenedAgain) => {
                                prop_assert!(was_shut && probing.is_some() && breaker.shut().is_some());
                                probing = None;
                            }
                            Some(Change::Closed) => {
                                prop_assert!(was_shut && probing.is_some() && breaker.is_calm());
                                probing = None;
                            }
                            None => prop_assert_eq!(was_shut, breaker.shut().is_some()),
                        }
                    }
                    Step::Release => {
                        if let Some(number) = probing.take() {
                            breaker.release(number, now);
                        }
                    }
                    Step::Wait(s) => now += seconds(s),
                }
            }
            let later = now + LONGEST;
            let passage = breaker.pass(later);
            prop_assert!(!matches!(passage, Passage::Shut { .. }), "{:?}", breaker);
            let probe = if let Passage::Probe(number) = passage { Some(number) } else { None };
            breaker.on_answer(None, probe, later);
            prop_assert!(breaker.is_calm());
            prop_assert_eq!(breaker.pass(later), Passage::Free);
        }
    }
}
