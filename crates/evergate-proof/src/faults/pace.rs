//! How long the parts of a scenario take: in full, and short enough for CI.

use std::time::Duration;

/// The durations of a run. Every cell of a run has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Whether this is the short form.
    pub short: bool,
    /// How long the client waits for an answer before it gives a call up by itself.
    pub deadline: Duration,
    /// How long a product is told to wait, where it has a setting for that: less than the client, so that it has the
    /// chance to say what became of a call.
    pub product_timeout: Duration,
    /// How long a server is away in the scenarios where it comes back.
    pub outage: Duration,
    /// How long a server goes on dying, once a second.
    pub flapping: Duration,
    /// How long a slow server takes until it answers its first handshake.
    pub slow_start: Duration,
    /// How long after the end of the fault a product has to get a good call through.
    pub window: Duration,
    /// How long calls go on after the first good one, to see whether it stays good.
    pub settle: Duration,
    /// How long news (`list_changed`) may take to arrive.
    pub news: Duration,
}

/// Between the end of one call of a caller and the start of its next.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Between two looks at the tool list.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A flapping server dies this often.
pub const FLAP_EVERY: Duration = Duration::from_secs(1);

// === impl Pace ===

impl Pace {
    /// The durations that the published matrix is made with.
    pub const FULL: Self = Self {
        short: false,
        deadline: Duration::from_secs(20),
        product_timeout: Duration::from_secs(12),
        outage: Duration::from_secs(10),
        flapping: Duration::from_secs(30),
        slow_start: Duration::from_secs(5),
        window: Duration::from_secs(10),
        settle: Duration::from_secs(1),
        news: Duration::from_secs(5),
    };

    /// The same scenarios in seconds, for CI.
    pub const SHORT: Self = Self {
        short: true,
        deadline: Duration::from_secs(10),
        product_timeout: Duration::from_secs(6),
        outage: Duration::from_secs(2),
        flapping: Duration::from_secs(5),
        slow_start: Duration::from_millis(1500),
        window: Duration::from_secs(8),
        settle: Duration::from_millis(300),
        news: Duration::from_secs(3),
    };
}
