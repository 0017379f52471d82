//! What effects have opened and closed so far, kept without looking at the machine that ordered them.

use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Clone)]
pub(super) struct Ledger {
    exclusive: bool,
    newest: Option<Generation>,
    dialing: Option<Dial>,
    /// Handshaken and not closed yet, with what it is there for.
    open: BTreeMap<Generation, Role>,
    /// Entries that should never have been made. Noted, not thrown, because the books are also kept while a test
    /// case is still being made up.
    broken: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Just opened; must get another role before the step is over.
    Unplaced,
    /// Opened although it had been called off; can only be closed.
    Unwanted,
    Installed,
    Offered,
    Closing(Manner),
    /// Was to drain and then was cut short: nothing more can be ordered.
    CutShort,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(exclusive: bool) -> Self {
        Self { exclusive, newest: None, dialing: None, open: BTreeMap::new(), broken: Vec::new() }
    }

    /// One step: what happened, and what was ordered because of it.
    pub(super) fn enter(&mut self, event: Event, effects: &[Effect]) {
        match event {
            Event::DialSucceeded { generation } if self.is_dialing(generation) => {
                let aborted = self.dialing.take().is_some_and(|dial| dial.aborted);
                let role = if aborted { Role::Unwanted } else { Role::Unplaced };
                self.open.insert(generation, role);
            }
            Event::DialFailed { generation, .. } if self.is_dialing(generation) => {
                self.dialing = None;
            }
            Event::Closed { generation } if self.is_closing(generation) => {
                self.open.remove(&generation);
            }
            _ => {}
        }
        for effect in effects {
            self.order(*effect);
        }
        let placed = self.with(Role::Unplaced).or(self.with(Role::Unwanted)).is_none();
        self.rule(placed, "a connection was opened for nothing");
    }

    fn order(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { generation } => {
                self.rule(self.dialing.is_none(), "two connects in flight");
                self.rule(self.newest < Some(generation), "generations do not count up");
                let alone = !self.exclusive || self.open.is_empty();
                self.rule(alone, "exclusive, but dialed beside another");
                self.newest = Some(generation);
                self.dialing = Some(Dial { generation, aborted: false });
            }
            Effect::AbortDial { generation } => {
                let wanted = Some(Dial { generation, aborted: false });
                self.rule(self.dialing == wanted, "called off what was not under way");
                self.dialing = Some(Dial { generation, aborted: true });
            }
            Effect::Offer { generation } => {
                let installed = self.with(Role::Installed).is_some();
                self.rule(installed, "a candidate for nothing");
                self.rule(self.with(Role::Offered).is_none(), "two candidates");
                let role = self.open.insert(generation, Role::Offered);
                self.rule(role == Some(Role::Unplaced), "offered what was not just opened");
            }
            Effect::Install { generation } => {
                self.rule(self.with(Role::Installed).is_none(), "two connections installed");
                let role = self.open.insert(generation, Role::Installed);
                let fresh = matches!(role, Some(Role::Unplaced | Role::Offered));
                self.rule(fresh, "installed what was not open");
            }
            Effect::Close { generation, manner } => {
                let closing = match self.open.get(&generation) {
                    Some(Role::Closing(_)) if manner == Manner::Now => Role::CutShort,
                    Some(Role::Closing(_) | Role::CutShort) => {
                        return self.broken.push("closed too often");
                    }
                    Some(_) => Role::Closing(manner),
                    None => return self.broken.push("closed what was not open"),
                };
                self.open.insert(generation, closing);
            }
            Effect::DropCatalog => {}
        }
    }

    /// The books are clean, and the machine remembers exactly what is in them.
    pub(super) fn check(&self, lifecycle: &Lifecycle) {
        assert_eq!(self.broken, [""; 0]);
        assert_eq!(self.dialing, lifecycle.dial, "the dial in flight");
        assert_eq!(self.with(Role::Installed), lifecycle.current(), "the connection in use");
        assert_eq!(self.with(Role::Offered), lifecycle.candidate(), "the candidate");
        let closing = self.open.keys().copied().filter(|generation| self.is_closing(*generation));
        assert_eq!(closing.collect::<BTreeSet<_>>(), lifecycle.closing, "what is being closed");
    }

    pub(super) fn is_draining(&self) -> bool {
        self.with(Role::Closing(Manner::Drain)).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dialing.is_none() && self.open.is_empty()
    }

    fn is_dialing(&self, generation: Generation) -> bool {
        self.dialing.is_some_and(|dial| dial.generation == generation)
    }

    fn is_closing(&self, generation: Generation) -> bool {
        matches!(self.open.get(&generation), Some(Role::Closing(_) | Role::CutShort))
    }

    fn with(&self, wanted: Role) -> Option<Generation> {
        self.open.iter().find(|(_, role)| **role == wanted).map(|(generation, _)| *generation)
    }

    fn rule(&mut self, kept: bool, otherwise: &'static str) {
        if !kept {
            self.broken.push(otherwise);
        }
    }
}
