//! What each product costs: `./scripts/bench`.
//!
//! The way of a run: [`measure`] has a file for each question that is asked. It starts [`upstream`] servers and, in front
//! of them, all products at once as [`contestant`]s, lets [`load`] loose on one after the other, round by round, so
//! that whatever else the machine does hits all alike, and puts what it finds into [`rows`]. [`report`] makes tables,
//! plots and the verdict on the targets of that.

pub mod contestant;
pub mod group;
pub mod load;
pub mod measure;
pub mod report;
pub mod rows;
pub mod upstream;
pub mod usage;

use std::io::Write as _;
use std::time::Duration;

use crate::product::{Places, Product};
pub use measure::Measure;
pub use rows::{Results, Row, Spread};

/// What is measured and how long.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Where programs are found.
    pub places: Places,
    /// Which ones, in order.
    pub products: Vec<Product>,
    /// What, in order.
    pub measures: Vec<Measure>,
    /// How often each figure is taken.
    pub rounds: usize,
    /// How long it takes to take it once.
    pub slice: Duration,
    /// Little of everything, to see that it works.
    pub short: bool,
}

// === impl Bench ===

impl Bench {
    /// Everything that was asked for, in order. Whoever drops this keeps what was found up to then, and nothing runs on.
    pub async fn run(&self, results: &mut Results) {
        for measure in &self.measures {
            say(&format!("\n== {}: {}", measure.name(), measure.about()));
            if let Err(problem) = measure.run(self, results).await {
                say(&format!("{}: {problem:#}", measure.name()));
            }
        }
    }
}

/// How things go, for whoever waits.
pub fn say(line: &str) {
    // Nobody reads it if this fails.
    let _ = writeln!(std::io::stderr(), "{line}");
}
