//! What one slot tells the hub's witness.

use std::fmt;

use tokio::time::Instant;

use crate::lifecycle::{Event, Generation, Reason, StateKind};
use crate::observe::{Happening, Told};

/// Where a slot is: its state, the connection that serves calls, and whether that is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) state: StateKind,
    pub(super) current: Option<Generation>,
    pub(super) in_doubt: bool,
}

/// Remembers of a slot what is told of it later.
pub(super) struct Witnessed {
    told: Told,
    /// Why and when the connection was lost that the next one will replace.
    lost: Option<(Reason, Instant)>,
    /// When the doubt began that is not settled yet: a session that turns out lost was lost by then.
    doubted: Option<Instant>,
}

// === impl Witnessed ===

impl Witnessed {
    pub(super) fn new(told: Told) -> Self {
        Self { told, lost: None, doubted: None }
    }

    pub(super) fn tell(&self, happening: Happening) {
        (self.told)(happening);
    }

    /// Tells of one step. `reason` is that of the new state, `process` whether the current connection is with a child.
    pub(super) fn stepped(
        &mut self,
        (before, after): (Place, Place),
        event: &Event,
        reason: Reason,
        process: bool,
    ) {
        let now = Instant::now();
        if before.current.is_some() && before.current != after.current {
            let reason = match event {
                // It was replaced in the same step, and the new one has its own reason.
                _ if after.current.is_none() => reason,
                Event::Lost { loss, .. } => (*loss).into(),
                Event::Health { .. } => Reason::Unresponsive,
                _ => Reason::SessionLost,
            };
            self.tell(Happening::Lost(reason));
            self.lost = Some((reason, self.doubted.take().unwrap_or(now)));
        }
        if before.state != after.state {
            self.tell(Happening::Moved { from: before.state, to: after.state });
        }
        if matches!(after.state, StateKind::Disabled | StateKind::Disabling) {
            self.lost = None;
        }
        if after.current.is_some() && before.current != after.current {
            let since_loss = self.lost.take();
            let since_loss = since_loss.map(|(reason, at)| (reason, now.duration_since(at)));
            self.tell(Happening::Connected { process, since_loss });
        }
        self.doubted = after.in_doubt.then(|| self.doubted.unwrap_or(now));
    }
}

impl fmt::Debug for Witnessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witnessed")
    }
}
