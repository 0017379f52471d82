//! The table of what grows.

use std::fmt::Write as _;

use super::tables::number;
use crate::bench::{Measure, Results, Spread};

pub(super) fn table(results: &Results, measure: Measure) -> String {
    let name = measure.name();
    let mut text = format!(
        "| {name} | calls/s | CPU µs per call | CPU, in relation | time, in relation |\n|---|---|---|---|---|\n"
    );
    for case in results.cases(name) {
        let Some(row) = results.get(name, case, "evergate") else { continue };
        let ratio = |name: &str| row.figure(name).map_or("-".to_owned(), Spread::shown);
        let figure = |name: &str| row.figure(name).map_or("-".to_owned(), |f| number(f.middle));
        let (cpu, time) = (ratio("cpu to first"), ratio("time to first"));
        let (rate, per_call) = (figure("rate"), figure("cpu"));
        let _ = writeln!(text, "| {case} | {rate} | {per_call} | {cpu} | {time} |");
    }
    text
}
