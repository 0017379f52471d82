//! All cells, a few at a time. None of them can stop the others, and an interrupt keeps what is finished.

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::faults::cell::Cell;
use crate::faults::mix::Mix;
use crate::faults::pace::Pace;
use crate::faults::progress::Progress;
use crate::faults::results::{Outcome, Results, Row, Way};
use crate::faults::scenario::Scenario;
use crate::product::{Places, Product};

/// What to run. An empty list means all.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// These products.
    pub products: Vec<Product>,
    /// These scenarios.
    pub scenarios: Vec<Scenario>,
    /// These transports.
    pub ways: Vec<Way>,
    /// These eras of client and server.
    pub mixes: Vec<Mix>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With its last cell.
    Complete,
    /// Before that, because somebody wanted it.
    Interrupted,
}

// === impl Selection ===

impl Selection {
    /// The cells, scenario by scenario: what is compared runs close together in time.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &scenario in Scenario::ALL.iter().filter(|one| wanted(&self.scenarios, one)) {
            let ways = scenario.transports().iter().map(|transport| Way::from(*transport));
            for way in ways.filter(|one| wanted(&self.ways, one)) {
                let products =
                    Product::ALL.iter().copied().filter(|product| product.understands_mcp());
                for product in products.filter(|one| wanted(&self.products, one)) {
                    let mixes = Mix::of(product).iter().filter(|one| wanted(&self.mixes, one));
                    cells.extend(mixes.map(|&mix| Cell { product, scenario, way, mix }));
                }
            }
        }
        cells
    }
}

fn wanted<T: PartialEq>(list: &[T], one: &T) -> bool {
    list.is_empty() || list.contains(one)
}

/// Plays these cells, `jobs` at a time, until they are all played or `interrupted` comes. Every row is on disk before the
/// next is begun, and nothing runs any more when this returns.
pub async fn run(
    cells: &[Cell],
    jobs: usize,
    pace: Pace,
    places: &Places,
    results: &mut Results,
    progress: &mut Progress,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<Ended> {
    tokio::pin!(interrupted);
    let mut playing: JoinSet<Row> = JoinSet::new();
    let mut waiting = cells.iter().copied();
    let mut names = std::collections::HashMap::new();
    loop {
        while playing.len() < jobs.max(1)
            && let Some(cell) = waiting.next()
        {
            let places = places.clone();
            progress.begun(cell);
            let task = playing.spawn(async move { row_of(cell, pace, &places).await });
            names.insert(task.id(), cell);
        }
        let ended = tokio::select! {
            () = &mut interrupted => {
                // Whatever a cell started ends when it is dropped.
                playing.shutdown().await;
                return Ok(Ended::Interrupted);
            }
            ended = playing.join_next_with_id() => ended,
        };
        let row = match ended {
            None => return Ok(Ended::Complete),
            Some(Ok((_, row))) => row,
            Some(Err(error)) => match names.get(&error.id()) {
                Some(cell) => {
                    row_from(*cell, pace, "-", 0.0, Outcome::RunnerFailed(error.to_string()))
                }
                None => continue,
            },
        };
        results.keep(row.clone())?;
        progress.ended(&row);
    }
}

async fn row_of(cell: Cell, pace: Pace, places: &Places) -> Row {
    let began = Instant::now();
    let version = cell.product.installed(places).unwrap_or_else(|_| "-".to_owned());
    let outcome = cell.play(pace, places).await;
    let took = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    row_from(cell, pace, &version, took, outcome)
}

fn row_from(cell: Cell, pace: Pace, version: &str, took_seconds: f64, outcome: Outcome) -> Row {
    Row {
        product: cell.product.name().to_owned(),
        scenario: cell.scenario,
        transport: cell.way,
        eras: cell.mix,
        version: version.to_owned(),
        date: today(),
        short: pace.short,
        took_seconds,
        load: load(),
        outcome,
    }
}

/// Processes that want to run, averaged over a minute, per processor. Linux only.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let average: f64 = text.split(' ').next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?.get();
    let processors = f64::from(u32::try_from(processors).ok()?);
    Some((average / processors * 10.0).round() / 10.0)
}

/// The day in UTC, as `2026-11-15`.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_of(seconds / 86_400)
}

/// The date of a day, counted from 1970-01-01, in the calendar that began in March so that leap days come last.
fn date_of(day: u64) -> String {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let days =
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_772, "2026-11-15")];
        for (day, date) in days {
            assert_eq!(date_of(day), date);
        }
    }

    #[test]
    fn filters_choose_and_nothing_means_all() {
        let selection = Selection {
            products: vec![Product::Evergate],
            scenarios: vec![Scenario::Outage],
            ways: vec![Way::Sse],
            mixes: vec![Mix::ModernLegacy],
        };
        let cell = Cell {
            product: Product::Evergate,
            scenario: Scenario::Outage,
            way: Way::Sse,
            mix: Mix::ModernLegacy,
        };
        assert_eq!(selection.cells(), [cell]);
        let all = Selection::default().cells();
        assert!(
            Scenario::ALL.iter().all(|scenario| all.iter().any(|cell| cell.scenario == *scenario))
        );
        assert!(all.iter().all(|cell| cell.product.understands_mcp()));
        let theirs = all.iter().filter(|cell| cell.product != Product::Evergate);
        assert!(
            theirs.clone().count() > 0 && theirs.clone().all(|cell| cell.mix == Mix::default())
        );
    }
}
