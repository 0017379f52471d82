//! Everything that decides to try again: how long to wait, how often, and whether at all.

mod backoff;
mod limiter;
mod replay;
mod session_loss;

pub use backoff::{Backoff, InvalidBackoff};
pub use limiter::ReconnectLimiter;
pub(crate) use replay::{Decision, Sent, decide};
pub use replay::{Outcome, Replay};
pub(crate) use session_loss::{Bond, Evidence, SessionSign};
