//! The matrix as text: the document, the table at the end of a run, a word per cell.

use std::fmt::Write as _;

use crate::faults::mix::Mix;
use crate::faults::pace::Pace;
use crate::faults::results::{Matrix, Outcome, Row, Way};
use crate::faults::run::Selection;
use crate::faults::scenario::Scenario;
use crate::faults::script::News;
use crate::faults::verdict::{Grade, Tally};
use crate::product::{Places, Product};

mod document;
mod eras;
#[cfg(test)]
mod tests;

pub use document::markdown;

// === impl Grade ===

impl Grade {
    /// From the best to the worst.
    pub const ALL: &[Self] =
        &[Self::Perfect, Self::Noticed, Self::Ambiguous, Self::Lost, Self::NeverRecovered];

    /// One word, the same everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Noticed => "noticed",
            Self::Ambiguous => "ambiguous",
            Self::Lost => "lost",
            Self::NeverRecovered => "never",
        }
    }

    /// What the word means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Perfect => {
                "every call that could be answered was; every other ended in an error that tells what became of it"
            }
            Self::Noticed => {
                "the client noticed: a clear error that could have been avoided, a new handshake, a tool list that \
                 failed or lacked tools, news that did not come, or processes left behind"
            }
            Self::Ambiguous => {
                "an error from which nobody can tell whether the call ran, or that tells it wrongly"
            }
            Self::Lost => "a call got no answer until the client's own deadline, or ran twice",
            Self::NeverRecovered => {
                "no call was answered any more after the fault, or the tool list stayed out of date"
            }
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Perfect => "✅",
            Self::Noticed => "🔵",
            Self::Ambiguous => "⚠️",
            Self::Lost => "❌",
            Self::NeverRecovered => "⛔",
        }
    }
}

/// What a row comes to, in a few words.
pub fn in_a_word(row: &Row) -> String {
    match &row.outcome {
        Outcome::Ran(tally) => summary(tally),
        Outcome::NotApplicable(why) => format!("n/a: {why}"),
        Outcome::NotInstalled(what) => format!("not installed: {}", first_line(what)),
        Outcome::DidNotStart(why) => format!("did not start: {}", first_line(why)),
        Outcome::RunnerFailed(why) => format!("THE RUNNER FAILED: {}", first_line(why)),
    }
}

/// The grade, and the numbers that made it so.
fn summary(tally: &Tally) -> String {
    let mut parts = Vec::new();
    let mut some = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    some(tally.lost, "lost");
    some(tally.twice, "twice");
    some(tally.ambiguous, "ambiguous");
    some(tally.failed.saturating_sub(tally.inevitable), "failed");
    some(tally.inevitable, "inevitable");
    some(tally.reinitialized.into(), "new handshakes");
    some(tally.blinks, "list blinks");
    some(tally.orphans, "orphans");
    match tally.news {
        Some(News::WhenAsked) => parts.push("not told".into()),
        Some(News::Never) => parts.push("list stale".into()),
        Some(News::Told) | None => {}
    }
    if let Some(seconds) = tally.recovery_seconds {
        parts.push(format!("back after {seconds:.2} s"));
    }
    match tally.cured_by_new_client {
        Some(true) => parts.push("a new client works".into()),
        Some(false) => parts.push("a new client fails too".into()),
        None => {}
    }
    let word = tally.grade.word();
    if parts.is_empty() { word.to_owned() } else { format!("{word} ({})", parts.join(", ")) }
}

/// The table at the end of a run: only what the run was about.
pub fn table(matrix: &Matrix, selection: &Selection) -> String {
    let mut text = String::new();
    let cells = selection.cells();
    for product in matrix.products() {
        let rows: Vec<&Row> = cells
            .iter()
            .filter(|cell| cell.product.name() == product)
            .filter_map(|cell| matrix.find_between(cell.mix, product, cell.scenario, cell.way))
            .collect();
        let Some(first) = rows.first() else { continue };
        let _ = writeln!(text, "\n{product} {}", first.version);
        for row in rows {
            let name = cell_name(row.scenario, row.transport, row.eras);
            let _ = writeln!(text, "  {name:<42} {}", in_a_word(row));
        }
    }
    text
}

/// A cell of one product. What every product knows needs no word.
pub fn cell_name(scenario: Scenario, way: Way, mix: Mix) -> String {
    let name = format!("{}/{}", scenario.name(), way.name());
    if mix == Mix::default() { name } else { format!("{name} {}", mix.name()) }
}

/// What there is to choose from.
pub fn list(places: &Places) -> String {
    let mut text = "products (--peer):\n".to_owned();
    for product in Product::ALL.iter().filter(|product| product.understands_mcp()) {
        let state =
            product.installed(places).unwrap_or_else(|missing| format!("not installed: {missing}"));
        let _ = writeln!(text, "  {:<18} {}", product.name(), first_line(&state));
    }
    text += "\nscenarios (--scenario) and their transports (--transport):\n";
    for scenario in Scenario::ALL {
        let ways: Vec<_> =
            scenario.transports().iter().map(|transport| Way::from(*transport).name()).collect();
        let _ = writeln!(
            text,
            "  {:<18} {:<36} {}",
            scenario.name(),
            scenario.title(),
            ways.join(", ")
        );
    }
    text += "\neras of client and server (--eras), all of them with evergate:\n";
    for mix in Mix::ALL {
        let _ = writeln!(text, "  {:<18} {}", mix.name(), mix.title());
    }
    text
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The pace that rows were made with.
fn pace_of(row: &Row) -> Pace {
    if row.short { Pace::SHORT } else { Pace::FULL }
}
