//! Evergate between clients and servers of different revisions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::faults::mix::Mix;
use crate::faults::report::document::short;
use crate::faults::results::{Matrix, Outcome, Row, Way};
use crate::faults::scenario::Scenario;
use crate::faults::verdict::{Grade, Tally};
use crate::product::Product;

/// The section, or nothing if nothing of it was run.
pub(super) fn between(matrix: &Matrix) -> String {
    let ours = Product::Evergate.name();
    let rows: Vec<&Row> = matrix.rows.iter().filter(|row| row.product == ours).collect();
    if rows.iter().all(|row| row.eras == Mix::default()) {
        return String::new();
    }
    let mut text = "\
## Between revisions

*Legacy* revisions, up to 2025-11-25, have a handshake and sessions; *modern*, 2026-07-28, has neither: every request
stands for itself, and a response stream that breaks is a lost request that nobody can come back for. The tables above
are made with a legacy client and legacy servers, which every product knows. Evergate also plays every scenario with
the other mixes. The modern client is the official TypeScript SDK, version 2, told to speak 2026-07-28 and nothing else;
it listens for changes, and repeats nothing by itself. A modern server knows nothing else either.

"
    .to_owned();
    text += &numbers(&rows);
    text += &table(matrix, ours);
    text += &reasons(&rows);
    text += &provenance(&rows);
    text
}

fn numbers(rows: &[&Row]) -> String {
    let mut text = "\
| client, server | cells | perfect | calls | answered | failed (inevitable) | lost silently | executed twice | \
ambiguous errors | new handshakes | list blinked | orphans |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"
    .to_owned();
    for mix in Mix::ALL {
        let tallies: Vec<&Tally> =
            rows.iter().filter(|row| row.eras == *mix).filter_map(|row| row.tally()).collect();
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let perfect = tallies.iter().filter(|tally| tally.grade == Grade::Perfect).count();
        let _ = writeln!(
            text,
            "| {} | {} | {perfect} | {} | {} | {} ({}) | {} | {} | {} | {} | {} | {} |",
            mix.title(),
            tallies.len(),
            sum(|tally| tally.calls),
            sum(|tally| tally.answered),
            sum(|tally| tally.failed),
            sum(|tally| tally.inevitable),
            sum(|tally| tally.lost),
            sum(|tally| tally.twice),
            sum(|tally| tally.ambiguous),
            sum(|tally| tally.reinitialized.into()),
            sum(|tally| u64::from(tally.blinks > 0)),
            sum(|tally| tally.orphans),
        );
    }
    text.push('\n');
    text
}

fn table(matrix: &Matrix, product: &str) -> String {
    let titles: Vec<_> = Mix::ALL.iter().map(|mix| mix.title()).collect();
    let mut text = format!("| scenario | server | {} |\n|---|---|", titles.join(" | "));
    text += &"---|".repeat(titles.len());
    text.push('\n');
    for scenario in Scenario::ALL {
        for way in scenario.transports().iter().map(|transport| Way::from(*transport)) {
            let found = |mix: &Mix| matrix.find_between(*mix, product, *scenario, way);
            let rows: Vec<_> = Mix::ALL.iter().map(found).collect();
            if rows.iter().all(Option::is_none) {
                continue;
            }
            let cells: Vec<_> =
                rows.into_iter().map(|row| row.map_or_else(|| "not run".into(), short)).collect();
            let (anchor, title) = (scenario.name(), scenario.title());
            let _ =
                writeln!(text, "| [{title}](#{anchor}) | {} | {} |", way.name(), cells.join(" | "));
        }
    }
    text.push('\n');
    text
}

/// Why there is no judgement where there is none.
fn reasons(rows: &[&Row]) -> String {
    let because = |row: &&Row| match &row.outcome {
        Outcome::NotApplicable(why) => Some((row.eras, row.scenario, row.transport, why.clone())),
        _ => None,
    };
    let all: Vec<_> = rows.iter().filter_map(because).collect();
    let distinct: BTreeSet<&str> = all.iter().map(|(.., why)| why.as_str()).collect();
    let mut text = String::new();
    for why in distinct {
        let cells = all.iter().filter(|(.., other)| other == why).count();
        let _ = writeln!(text, "- – in {cells} cells: {why}.");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// What was run, since not everything has to be run on one day.
fn provenance(rows: &[&Row]) -> String {
    let mut text = String::new();
    for mix in Mix::ALL {
        let of_mix = || rows.iter().filter(|row| row.eras == *mix && row.tally().is_some());
        let days: BTreeSet<&str> = of_mix().map(|row| row.date.as_str()).collect();
        let (short, cells) = (of_mix().filter(|row| row.short).count(), of_mix().count());
        let days = days.into_iter().collect::<Vec<_>>().join(", ");
        let how = match short {
            0 => "in full".to_owned(),
            _ if short == cells => "in the short form".to_owned(),
            _ => format!("{short} of them in the short form"),
        };
        if cells > 0 {
            let _ = writeln!(text, "- {}: {cells} cells, {how}, {days}.", mix.title());
        }
    }
    format!("What was run:\n\n{text}\n")
}
