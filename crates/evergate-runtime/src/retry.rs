//! Everything that decides to try again: how long to wait, how often, and whether at all.

mod backoff;
mod breaker;
mod limiter;
mod rate_limit;
mod replay;
mod session_loss;

pub use backoff::{Backoff, InvalidBackoff};
pub(crate) use breaker::{Change, Passage, RateBreaker};
pub use limiter::ReconnectLimiter;
pub(crate) use rate_limit::{Limited, Reset, ShownBy};
pub(crate) use replay::{Decision, Sent, decide};
pub use replay::{Outcome, Replay};
pub(crate) use session_loss::{Bond, Evidence, SessionSign};
