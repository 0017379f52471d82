//! What the runtime adds to a loopback HTTP call, as a ratio to the bare client that it is built on.
//!
//! Rounds of both alternate, so that whatever else the machine does hits both alike, and the ratio is taken per round.
//! Criterion measures one after the other, which on a busy machine compares two different machines.
//!
//! `cargo bench --bench overhead` prints a table. `-- runtime 1048576 100` does 100 calls of one kind and nothing else,
//! to be looked at by a profiler.

#[path = "common/fixed_server.rs"]
mod fixed_server;

use std::io::Write as _;
use std::time::Duration;

use evergate_runtime::{HttpKind, Hub, RawJson, ServerHandle, Settings};
use tokio::time::Instant;

use fixed_server::Bare;

/// Size of the result, calls per round.
const SIZES: [(usize, usize); 3] = [(100, 200), (64 * 1024, 50), (1024 * 1024, 10)];
const ROUNDS: usize = 200;

struct Sides {
    bare: Bare,
    server: ServerHandle,
    _hub: Hub,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let sides = Sides::start();
        let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
        if let (Some(side), Some(size), Some(calls)) = (args.next(), args.next(), args.next()) {
            let calls = calls.parse().expect("a number of calls");
            if side == "bare" {
                sides.time_bare(&size, calls).await;
            } else {
                sides.time_runtime(&size, calls).await;
            }
            return;
        }
        // `cargo test --benches` only wants to know that it works.
        let measured = std::env::args().any(|arg| arg == "--bench");
        say("result bytes | bare µs | runtime µs | added µs | ratio: median (p10 to p90)");
        for (size, calls) in SIZES {
            sides.compare(size, calls, if measured { ROUNDS } else { 1 }).await;
        }
    });
}

// === impl Sides ===

impl Sides {
    fn start() -> Self {
        let addr = fixed_server::start().expect("a free port");
        let settings = Settings::http(format!("http://{addr}/mcp")).http_kind(HttpKind::Streamable);
        let hub = Hub::builder().server("s", settings).start().expect("valid settings");
        let server = hub.server("s").expect("just added");
        Self { bare: Bare::new(addr), server, _hub: hub }
    }

    async fn compare(&self, size: usize, calls: usize, rounds: usize) {
        let tool = size.to_string();
        self.time_bare(&tool, calls).await;
        self.time_runtime(&tool, calls).await;
        let (mut bare, mut runtime, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let (one, other);
            if round % 2 == 0 {
                one = self.time_bare(&tool, calls).await;
                other = self.time_runtime(&tool, calls).await;
            } else {
                other = self.time_runtime(&tool, calls).await;
                one = self.time_bare(&tool, calls).await;
            }
            ratios.push(other.as_secs_f64() / one.as_secs_f64());
            bare.push(one.as_secs_f64() * 1e6);
            runtime.push(other.as_secs_f64() * 1e6);
        }
        let (bare, runtime) = (share(&mut bare, 50), share(&mut runtime, 50));
        say(&format!(
            "{size:>12} | {bare:>7.1} | {runtime:>10.1} | {:>8.1} | {:.3} ({:.3} to {:.3})",
            runtime - bare,
            share(&mut ratios, 50),
            share(&mut ratios, 10),
            share(&mut ratios, 90),
        ));
    }

    /// The time of one call, on average.
    async fn time_bare(&self, tool: &str, calls: usize) -> Duration {
        let started = Instant::now();
        for _ in 0..calls {
            self.bare.call(tool).await;
        }
        started.elapsed() / u32::try_from(calls).unwrap_or(u32::MAX)
    }

    async fn time_runtime(&self, tool: &str, calls: usize) -> Duration {
        let started = Instant::now();
        for _ in 0..calls {
            let call = self.server.call_tool(tool, RawJson::empty_object());
            call.await.expect("an answer");
        }
        started.elapsed() / u32::try_from(calls).unwrap_or(u32::MAX)
    }
}

/// The value below which `percent` of the values lie.
fn share(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}

fn say(line: &str) {
    // Nobody reads it if this fails.
    let _ = writeln!(std::io::stdout(), "{line}");
}
