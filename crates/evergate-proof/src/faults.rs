//! The fault matrix: what happens to calls when servers die behind each product.
//!
//! A *cell* is one product, one scenario, one transport, and one mix of revisions. Its way through the code:
//!
//! 1. [`scenario`]: the list, as values; [`pace`]: how long each part of it takes; [`mix`]: with or without a handshake.
//! 2. [`run`]: all cells, a few at a time, each bounded, none able to stop the others.
//! 3. [`cell`]: one cell: servers, product, client, then what [`script`] says (callers are in `traffic`), then the end of everything.
//! 4. [`upstream`]: the servers, which count what was really executed. [`host`]: the client, an agent host that keeps its
//!    connection until it is told that it is gone; [`client`] is the Node process with the official SDK in it.
//! 5. [`witness`]: every call and every list, with times. [`verdict`]: what they amount to, by the same rules for all.
//! 6. [`results`]: the rows on disk, kept one by one; [`report`] and [`chart`] draw them.

pub mod cell;
pub mod chart;
pub mod client;
pub mod host;
pub mod mix;
pub mod pace;
pub mod progress;
pub mod report;
pub mod results;
pub mod run;
#[cfg(test)]
mod sample;
pub mod scenario;
pub mod script;
mod traffic;
pub mod upstream;
pub mod verdict;
pub mod witness;
