//! Which resources to ask for, of a server that takes up all of a request or nothing.
//!
//! Everybody's resources go into one request, so one that the server refuses would silence all others. It is found by
//! asking for fewer, by halves, beside what the server has taken up before. One is held responsible only if a request
//! that differs in nothing else is taken up: a server in trouble refuses everything, and no resource is to blame for it.
//! If the server's error does not say itself that it is about what was asked for, that must happen twice.

use std::collections::HashSet;

use crate::protocol::{RpcError, code};

/// What a server took up and what it refused, in one generation.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// What the server told of last.
    accepted: HashSet<String>,
    /// How many of the others, the oldest, were refused together; half of them are asked for next.
    suspects: usize,
    /// Those of a request that was refused, until one without them is taken up.
    suspected: Option<(Vec<String>, RpcError)>,
    /// Was refused once for a reason that may be another.
    doubted: Option<String>,
}

/// What to ask for next.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) resources: HashSet<String>,
    /// It is all that is wanted.
    pub(super) is_all: bool,
}

/// What to do after a refusal.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Ask for something else.
    Again,
    /// Ask for something else: this one is refused.
    Guilty(String, RpcError),
    /// It has nothing to do with resources.
    GiveUp,
}

// === impl Trials ===

impl Trials {
    /// `wanted` are the oldest first; `lists` says whether anything else is asked for.
    pub(super) fn next(&mut self, wanted: &[String], lists: bool) -> Trial {
        let (mut resources, mut others) = (HashSet::new(), Vec::new());
        for uri in wanted {
            if self.accepted.contains(uri) {
                resources.insert(uri.clone());
            } else {
                others.push(uri);
            }
        }
        if resources.is_empty() && !lists {
            // Nothing is left that they could be compared with.
            self.suspected = None;
        }
        let at_once = match self.suspects {
            _ if self.suspected.is_some() => 0,
            0 => usize::MAX,
            suspects => suspects.div_ceil(2),
        };
        let is_all = others.len() <= at_once;
        resources.extend(others.into_iter().take(at_once).cloned());
        Trial { resources, is_all }
    }

    /// Whoever that shows to be refused.
    pub(super) fn taken_up(&mut self, trial: &HashSet<String>) -> Option<(String, RpcError)> {
        let new = trial.iter().filter(|uri| !self.accepted.contains(*uri)).count();
        self.accepted.clone_from(trial);
        let Some((suspected, error)) = self.suspected.take() else {
            self.suspects = self.suspects.saturating_sub(new);
            self.doubted = self.doubted.take().filter(|doubted| !trial.contains(doubted));
            return None;
        };
        match self.judge(suspected, error) {
            Verdict::Guilty(uri, error) => Some((uri, error)),
            Verdict::Again | Verdict::GiveUp => None,
        }
    }

    /// `accompanied` says whether a request for nothing but what was accepted is under way.
    pub(super) fn refused(
        &mut self,
        trial: &HashSet<String>,
        lists: bool,
        accompanied: bool,
        error: RpcError,
    ) -> Verdict {
        let (old, new): (Vec<_>, Vec<_>) =
            trial.iter().cloned().partition(|uri| self.accepted.contains(uri));
        self.suspected = None;
        if new.is_empty() {
            // Of what it took up before, something is not good any more; or nothing is the matter with that.
            let Self { accepted, .. } = std::mem::take(self);
            return if accepted.is_empty() { Verdict::GiveUp } else { Verdict::Again };
        }
        let incomparable = old.is_empty() && !lists;
        if !accompanied && !incomparable {
            self.suspected = Some((new, error));
            return Verdict::Again;
        }
        if !accompanied && new.len() == 1 && error.code == code::INTERNAL_ERROR {
            // That is what a server in trouble says.
            return Verdict::GiveUp;
        }
        self.judge(new, error)
    }

    /// Judges those without whom a request is taken up.
    fn judge(&mut self, suspected: Vec<String>, error: RpcError) -> Verdict {
        self.suspects = suspected.len();
        let Ok([uri]) = <[String; 1]>::try_from(suspected) else { return Verdict::Again };
        if is_about_resources(&error) || self.doubted.as_ref() == Some(&uri) {
            self.suspects = 0;
            self.doubted = None;
            return Verdict::Guilty(uri, error);
        }
        self.doubted = Some(uri);
        Verdict::Again
    }
}

/// Whether a refusal says that it is about what was asked for, and not about how often, or when.
pub(super) fn is_about_resources(error: &RpcError) -> bool {
    matches!(error.code, code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that refuses these, as many requests as it takes: what it tells of in the end, whom it refuses, and how
    /// often it was asked.
    fn settle(
        trials: &mut Trials,
        wanted: &[String],
        bad: &[usize],
        lists: bool,
        code: i64,
    ) -> (usize, Vec<String>, usize) {
        let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
        let mut refused = Vec::new();
        let mut accompanied = false;
        for asked in 1..1000 {
            let wanted: Vec<_> =
                wanted.iter().filter(|uri| !refused.contains(*uri)).cloned().collect();
            let Trial { resources, is_all } = trials.next(&wanted, lists);
            if resources.is_empty() && !lists {
                return (0, refused, asked);
            }
            if bad.iter().any(|uri| resources.contains(uri)) {
                let error = RpcError::with(code, "no");
                match trials.refused(&resources, lists, accompanied, error) {
                    Verdict::Guilty(uri, _) => refused.push(uri),
                    Verdict::Again => {}
                    Verdict::GiveUp => panic!("given up"),
                }
            } else {
                accompanied = true;
                refused.extend(trials.taken_up(&resources).map(|(uri, _)| uri));
                if is_all {
                    refused.sort();
                    return (resources.len(), refused, asked);
                }
            }
        }
        panic!("never settled");
    }

    fn uris(count: usize) -> Vec<String> {
        (0..count).map(|number| number.to_string()).collect()
    }

    #[test]
    fn those_that_are_refused_are_found_among_many_and_nobody_else() {
        for (lists, code) in [(true, -32602), (false, -32602), (true, -32000), (false, -32000)] {
            for (count, bad) in [
                (1, vec![0]),
                (2, vec![1]),
                (7, vec![0, 6]),
                (1024, vec![]),
                (1024, vec![500]),
                (1024, vec![0, 511, 512, 1023]),
                (5, vec![0, 1, 2, 3, 4]),
            ] {
                let (accepted, refused, asked) =
                    settle(&mut Trials::default(), &uris(count), &bad, lists, code);
                let expected: Vec<_> = {
                    let mut bad: Vec<_> = bad.iter().map(ToString::to_string).collect();
                    bad.sort();
                    bad
                };
                assert_eq!((accepted, refused), (count - bad.len(), expected), "{lists}");
                assert!(asked <= 2 + 14 * bad.len(), "{asked} for {} of {count}", bad.len());
            }
        }
    }

    #[test]
    fn one_more_is_found_at_once_and_one_that_was_good_before_is_found_too() {
        let mut trials = Trials::default();
        settle(&mut trials, &uris(100), &[], true, -32602);
        let (accepted, refused, asked) = settle(&mut trials, &uris(101), &[100], true, -32602);
        assert_eq!((accepted, refused.len()), (100, 1));
        assert!(asked <= 3, "{asked}");
        let (accepted, refused, _) = settle(&mut trials, &uris(100), &[7], true, -32602);
        assert_eq!((accepted, refused), (99, vec!["7".to_owned()]));
    }

    #[test]
    fn nobody_is_to_blame_for_a_server_that_refuses_everything() {
        for (lists, code) in [(true, code::INVALID_PARAMS), (false, code::INTERNAL_ERROR)] {
            let mut trials = Trials::default();
            let wanted = uris(3);
            let mut asked = 0;
            loop {
                asked += 1;
                let trial = trials.next(&wanted, lists);
                let error = RpcError::with(code, "no");
                match trials.refused(&trial.resources, lists, false, error) {
                    Verdict::Again => assert!(asked < 5, "asked for ever"),
                    Verdict::GiveUp => break,
                    Verdict::Guilty(uri, _) => panic!("{uri}"),
                }
            }
        }
    }

    #[test]
    fn one_that_is_refused_in_a_bad_moment_is_tried_once_more() {
        let (mut trials, wanted) = (Trials::default(), uris(1));
        let trial = trials.next(&wanted, true).resources;
        let error = RpcError::with(-32000, "no");
        assert!(matches!(trials.refused(&trial, true, false, error), Verdict::Again));
        let control = trials.next(&wanted, true).resources;
        assert!(control.is_empty() && trials.taken_up(&control).is_none());
        assert_eq!(trials.next(&wanted, true).resources, trial);
        assert!(trials.taken_up(&trial).is_none());
        assert!(trials.next(&wanted, true).is_all);
    }
}
