//! Waiting for what nobody announces.

use std::time::Duration;

/// How often [`until`] looks. Short, because tests wait for it.
const INTERVAL: Duration = Duration::from_millis(5);

/// How often it looks before it gives up: 30 s worth of intervals.
const ATTEMPTS: u32 = 6000;

/// Waits until `condition` holds, looking every 5 ms for up to 30 s.
///
/// A last resort for things that send no event, such as processes that end. For a server's own
/// counters use [`Server::wait_for`](crate::Server::wait_for), which never polls.
///
/// # Panics
///
/// With `what` if the condition does not hold in time.
pub async fn until<F>(what: &str, mut condition: F)
where
    F: FnMut() -> bool,
{
    for _ in 0..ATTEMPTS {
        if condition() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
    panic!("waited too long until {what}");
}
