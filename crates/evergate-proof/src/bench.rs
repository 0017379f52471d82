//! What each product costs: `./scripts/bench`.
//!
//! The way of a run: [`measure`] has a file for each question that is asked. It starts [`upstream`] servers and, in front
//! of them, all products at once as [`contestant`]s, lets [`load`] loose on one after the other, round by round, so
//! that whatever else the machine does hits all alike, and puts what it finds into [`rows`]. [`report`] makes tables,
//! plots and the verdict on the targets of that.

pub mod contestant;
pub mod gateway;
pub mod group;
pub mod instructions;
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
    /// Says where and when it was measured, and which versions.
    pub fn describe(&self, results: &mut Results) {
        results.machine = machine();
        results.date = today();
        for product in &self.products {
            let version = product.installed(&self.places).unwrap_or_else(|missing| missing);
            results.products.insert(product.name().to_owned(), version);
        }
    }

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

/// The processor, as far as the system knows it.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {model}, shared by the load, the product and the server")
}

/// As year, month and day.
fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = now.map_or(0, |now| now.as_secs() / 86_400);
    // Years begin in March here, so that the day that is sometimes missing is the last.
    let days = days + 719_468;
    let era_day = days % 146_097;
    let year = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day = era_day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, calendar) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + days / 146_097 * 400 + u64::from(calendar <= 2);
    format!("{year}-{calendar:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn today_is_a_date() {
        let today = super::today();
        assert_eq!(today.len(), 10, "{today}");
        assert!(*today > *"2026-01-01" && *today < *"2100", "{today}");
    }
}
