//! Keeps a session from being forgotten for want of use, and finds out that it was before a caller does.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Slot;
use crate::call::CallBuilder;
use crate::connection::Connection;
use crate::own::Own;
use crate::retry::Outcome;

/// How often it is looked whether the connection is used, in the time that it may be idle. Nobody notes when it was: that
/// would cost every call something.
const LOOKS: u32 = 8;
/// How soon the next ping follows one that got no answer: three of those condemn a connection, and a caller should not be
/// the one who finds out.
const AGAIN: Duration = Duration::from_secs(30);

/// Pings a connection that nobody uses. Runs until it is dropped.
pub(crate) async fn keep_alive(slot: Arc<Slot>, connection: Arc<Connection>) {
    let Some(every) = slot.settings.ping_every else { return };
    let mut looked = Instant::now();
    let (mut requests, mut idle_since) = (connection.requests(), looked);
    let mut patience = every;
    loop {
        sleep_until((looked + every / LOOKS).min(idle_since + patience)).await;
        let before = std::mem::replace(&mut looked, Instant::now());
        if connection.is_leased() {
            // A child that does one thing at a time would not answer, and is not to blame.
            (requests, idle_since, patience) = (connection.requests(), looked, every);
            continue;
        }
        if connection.requests() != requests {
            // Perhaps right after the last look.
            (requests, idle_since, patience) = (connection.requests(), before, every);
        }
        if looked < idle_since + patience {
            continue;
        }
        let ping = CallBuilder::ping(Own::new(slot.clone())).into_future();
        let answered = tokio::select! {
            // Who refuses a ping is there.
            result = ping => result.map_or_else(
                |error| matches!(error.outcome, Outcome::Answered | Outcome::Rejected),
                |_| true,
            ),
            () = slot.shared.closing.begun() => return,
            () = slot.retirement.begun() => return,
        };
        looked = Instant::now();
        (requests, idle_since) = (connection.requests(), looked);
        patience = if answered { every } else { AGAIN.min(every) };
    }
}
