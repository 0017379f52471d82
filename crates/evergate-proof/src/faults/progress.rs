//! How far a run is: a bar on a terminal, a line per cell elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use crate::faults::cell::Cell;
use crate::faults::mix::Mix;
use crate::faults::report::{cell_name, in_a_word};
use crate::faults::results::{Row, Way};
use crate::faults::scenario::Scenario;

/// Shows progress on standard error.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    done: usize,
    began: Instant,
    playing: Vec<String>,
    terminal: bool,
}

const BAR: usize = 24;

/// As wide as a terminal surely is.
const WIDTH: usize = 100;

// === impl Progress ===

impl Progress {
    /// For this many cells.
    pub fn new(total: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { total, done: 0, began: Instant::now(), playing: Vec::new(), terminal }
    }

    /// A cell begins.
    pub fn begun(&mut self, cell: Cell) {
        self.playing.push(name(cell.product.name(), cell.scenario, cell.way, cell.mix));
        self.draw();
    }

    /// A cell is over.
    pub fn ended(&mut self, row: &Row) {
        let name = name(&row.product, row.scenario, row.transport, row.eras);
        self.playing.retain(|other| *other != name);
        self.done += 1;
        let line = format!(
            "{:>4}/{} {name:<52} {:>6.1} s  {}",
            self.done,
            self.total,
            row.took_seconds,
            in_a_word(row)
        );
        if self.terminal {
            say(&format!("\r\x1b[K{line}\n"));
        } else {
            say(&format!("{line}\n"));
        }
        self.draw();
    }

    /// Nothing more comes.
    pub fn finish(&self) {
        if self.terminal {
            say("\r\x1b[K");
        }
    }

    fn draw(&self) {
        if !self.terminal {
            return;
        }
        let line = bar(self.done, self.total, self.began.elapsed(), &self.playing.join(", "));
        say(&format!("\r\x1b[K{line}"));
    }
}

fn bar(done: usize, total: usize, elapsed: Duration, playing: &str) -> String {
    let filled = (BAR * done).checked_div(total).unwrap_or(BAR);
    let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR - filled));
    let left = match u32::try_from(done) {
        Ok(some) if some > 0 => {
            let each = elapsed / some;
            let left = each * u32::try_from(total - done).unwrap_or(u32::MAX);
            format!("about {} min left", left.as_secs().div_ceil(60))
        }
        _ => "just begun".to_owned(),
    };
    let line = format!("{bar} {done}/{total}, {left}: {playing}");
    line.chars().take(WIDTH).collect()
}

fn name(product: &str, scenario: Scenario, way: Way, mix: Mix) -> String {
    format!("{product} {}", cell_name(scenario, way, mix))
}

fn say(text: &str) {
    let mut out = std::io::stderr();
    // Progress that nobody can see is no reason to stop.
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up_and_says_how_long_it_will_take() {
        let minute = Duration::from_secs(60);
        assert_eq!(bar(0, 4, minute, "a"), "[........................] 0/4, just begun: a");
        assert_eq!(bar(1, 4, minute, "a"), "[######..................] 1/4, about 3 min left: a");
        assert_eq!(bar(4, 4, minute, ""), "[########################] 4/4, about 0 min left: ");
    }
}
