//! What was aimed at, and whether it was reached.

use std::fmt::Write as _;

use crate::bench::measure::{
    CALLERS, FILE, LIST_CASES, MEMORY_CASE, SERVERS, SESSIONS, SIZES, case, growth_case, ready_case,
};
use crate::bench::{Results, Row, Spread};

/// One of the aims.
#[derive(Debug, Clone)]
pub struct Target {
    /// In words, with the limit.
    pub text: String,
    /// The limit.
    pub limit: f64,
    /// Whether more is better.
    pub at_least: bool,
    /// Nothing if it was not measured.
    pub measured: Option<f64>,
}

const OURS: &str = "evergate";
const SMALL: usize = SIZES[0];
const LARGE: usize = SIZES[2];
const MIB: f64 = 1_048_576.0;

pub(super) fn table(results: &Results) -> String {
    let mut text = String::from("| target | measured | met |\n|---|---|---|\n");
    for target in targets(results) {
        let measured = target.measured.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let met = match target.met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let _ = writeln!(text, "| {} | {measured} | {met} |", target.text);
    }
    text
}

/// All of them.
pub fn targets(results: &Results) -> Vec<Target> {
    let mut all = Vec::new();
    let ours = |measure: &str, case: &str| results.get(measure, case, OURS);
    for (figure, limit, at_least, text) in [
        ("rate", 0.9, true, "small calls: calls/s at least 0.9 of nginx"),
        ("cpu", 1.25, false, "small calls: CPU per call at most 1.25 of nginx"),
        ("p99", 1.3, false, "small calls: p99 at most 1.3 of nginx"),
    ] {
        for callers in CALLERS {
            let row = ours("json", &case(SMALL, callers));
            let measured = row.and_then(|row| middle(row.to_nginx.get(figure)?));
            let text = format!("{text}, {callers} at once");
            all.push(Target { text, limit, at_least, measured });
        }
    }
    for callers in CALLERS {
        let row = ours("stdio", &case(SMALL, callers));
        all.push(Target {
            text: format!(
                "small calls, child process: at least 0.65 of direct HTTP, {callers} at once"
            ),
            limit: 0.65,
            at_least: true,
            measured: row.and_then(|row| middle(row.to_direct.get("rate")?)),
        });
    }
    for callers in [1, 64] {
        all.push(Target {
            text: format!(
                "1 MiB: calls/s at least 0.9 of the faster of nginx and haproxy, {callers} at once"
            ),
            limit: 0.9,
            at_least: true,
            measured: to_faster(results, &case(LARGE, callers)),
        });
    }
    all.push(Target {
        text: "tools/list of 20 × 50 tools: p50 at most 1.5 of nginx sending the same bytes"
            .to_owned(),
        limit: 1.5,
        at_least: false,
        measured: to_file(results, LIST_CASES[0].0, OURS).map(|spread| spread.middle),
    });
    let memory = ours("memory", MEMORY_CASE);
    let of_memory = |figure: &str| Some(memory?.figure(figure)?.middle);
    let ready = |servers| Some(ours("start", &ready_case(servers))?.figure("ms")?.middle);
    let grown = |measure: &str, number: usize| {
        ours(measure, &growth_case(number)).and_then(|row| Some(row.figure("cpu to first")?.middle))
    };
    let growth = of_memory("soak end").zip(of_memory("soak half"));
    let later = ready(500).zip(ready(0));
    for (text, limit, measured) in [
        ("idle memory under 15 MiB", 15.0, of_memory("idle").map(|bytes| bytes / MIB)),
        (
            "under 20 KiB for each idle session",
            20.0,
            of_memory("per session").map(|bytes| bytes / 1024.0),
        ),
        (
            "1 MiB results, 64 at once: under 256 KiB of memory for each",
            256.0,
            of_memory("per large call").map(|bytes| bytes / 1024.0),
        ),
        (
            "no growth: under 0.5 MiB in the second half of the soak",
            0.5,
            growth.map(|(end, half)| (end - half) / MIB),
        ),
        ("ready in under 30 ms without servers", 30.0, ready(0)),
        (
            "start independent of the servers: ready less than 10 ms later with 500 than with none",
            10.0,
            later.map(|(many, none)| many - none),
        ),
        (
            "CPU per call with 500 servers within 1.1 of that with 1",
            1.1,
            grown("servers", SERVERS[3]),
        ),
        (
            "CPU per call with 5,000 sessions within 1.1 of that with 10",
            1.1,
            grown("sessions", SESSIONS[3]),
        ),
    ] {
        all.push(Target { text: text.to_owned(), limit, at_least: false, measured });
    }
    all
}

fn middle(values: &[f64]) -> Option<f64> {
    Some(Spread::of(values)?.middle)
}

/// Calls per second in relation to the faster of the plain proxies.
fn to_faster(results: &Results, case: &str) -> Option<f64> {
    let rate = |row: &Row| Some(row.figure("rate")?.middle);
    let of = |product: &str| results.get("json", case, product);
    let faster = [of("nginx"), of("haproxy")]
        .into_iter()
        .flatten()
        .max_by(|a, b| rate(a).partial_cmp(&rate(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    let (ours, theirs) = (of(OURS)?.figures.get("rate")?, faster.figures.get("rate")?);
    middle(&ours.iter().zip(theirs).map(|(a, b)| a / b).collect::<Vec<_>>())
}

/// The latency of a list in relation to nginx sending a file.
pub(super) fn to_file(results: &Results, case: &str, product: &str) -> Option<Spread> {
    let file = results.get("list", case, FILE)?.figures.get("p50")?;
    let ours = results.get("list", case, product)?.figures.get("p50")?;
    Spread::of(&ours.iter().zip(file).map(|(a, b)| a / b).collect::<Vec<_>>())
}

// === impl Target ===

impl Target {
    /// Nothing if it was not measured.
    pub fn met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(if self.at_least { measured >= self.limit } else { measured <= self.limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measure: &str, case: &str, product: &str, figure: &str, values: &[f64]) -> Row {
        let mut row = Row::new(measure, case, product);
        for value in values {
            row.add(figure, *value);
        }
        row
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert!(targets(&Results::default()).iter().all(|target| target.met().is_none()));
    }

    #[test]
    fn large_results_are_held_against_the_faster_proxy() {
        let mut results = Results::default();
        let case = case(LARGE, 1);
        results.put_case(vec![
            row("json", &case, "nginx", "rate", &[50.0, 50.0]),
            row("json", &case, "haproxy", "rate", &[100.0, 200.0]),
            row("json", &case, "evergate", "rate", &[95.0, 190.0]),
        ]);
        let measured = to_faster(&results, &case).unwrap();
        assert!((measured - 0.95).abs() < 1e-9);
        let target = targets(&results).into_iter().find(|t| t.measured == Some(measured)).unwrap();
        assert_eq!(target.met(), Some(true));
    }
}
