//! Rounds over all contestants in turn.

use std::time::Duration;

use anyhow::Result;

use crate::bench::contestant::Contestant;
use crate::bench::load::{Question, Sample};
use crate::bench::{Bench, Results, Row, Spread, say};
use crate::product::{Product, Upstream};

/// One case: what is asked by how many at once.
pub(super) struct Case<'a> {
    pub(super) measure: &'a str,
    pub(super) name: String,
    pub(super) callers: usize,
}

/// If all callers together would wait longer than this for one answer each, the product is too slow for the case.
const LONGEST_WAVE: Duration = Duration::from_secs(2);

/// One caller alone may wait longer, so that there is a figure at all.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// Starts every product that can stand in front of these servers. Those that cannot are told of, and left out.
pub(super) async fn start(
    bench: &Bench,
    measure: &str,
    results: &mut Results,
    upstreams: impl Fn(Product) -> Vec<Upstream>,
) -> Vec<Contestant> {
    let mut contestants = Vec::new();
    for &product in &bench.products {
        let upstreams = upstreams(product);
        // What an earlier run said of it.
        results.forget(measure, "", product.name());
        say(&format!("   starting {product}"));
        let started = match product.supports(&upstreams) {
            Ok(()) => Contestant::start(product, &upstreams, &bench.places).await,
            Err(reason) => Err(anyhow::anyhow!("n/a: {reason}")),
        };
        match started {
            Ok(contestant) => contestants.push(contestant),
            Err(problem) => {
                say(&format!("   {product}: {problem:#}"));
                let mut row = Row::new(measure, "", product.name());
                let problem = format!("{problem:#}");
                row.note = problem.lines().next().map(str::to_owned);
                results.put(row);
            }
        }
    }
    contestants
}

/// Measures one case with all contestants.
pub(super) async fn compare(
    bench: &Bench,
    results: &mut Results,
    case: &Case<'_>,
    contestants: &mut [Contestant],
    question: impl Fn(&Contestant) -> Vec<Question>,
) {
    let mut rows: Vec<Row> = contestants
        .iter()
        .map(|contestant| Row::new(case.measure, &case.name, &contestant.name))
        .collect();
    for round in 0..=bench.rounds {
        for turn in 0..contestants.len() {
            // Nobody always follows the same other.
            let at = (turn + round) % contestants.len();
            let (contestant, row) = (&mut contestants[at], &mut rows[at]);
            if row.note.is_some() {
                continue;
            }
            let questions = question(contestant);
            // The first round only warms up.
            let slice = if round == 0 { bench.slice / 3 } else { bench.slice };
            match measure(contestant, &questions, case.callers, slice).await {
                Ok((sample, cpu)) if round > 0 => add(row, &sample, cpu),
                Ok(_) => {}
                Err(problem) => row.note = Some(format!("{problem:#}")),
            }
        }
    }
    results.put_case(rows);
    tell(case, results);
}

/// The sample, and the processor time it took. On new connections: nobody has good or bad luck with them for all rounds.
pub(super) async fn measure(
    contestant: &mut Contestant,
    questions: &[Question],
    callers: usize,
    slice: Duration,
) -> Result<(Sample, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "there are few callers")]
    let wave = callers as f64 / contestant.rate;
    let longest = if callers == 1 { LONGEST_CALL } else { LONGEST_WAVE };
    // Nothing is known of it before its first answer.
    anyhow::ensure!(
        contestant.rate == 0.0 || wave < longest.as_secs_f64(),
        "too slow: about {:.1} calls/s",
        contestant.rate
    );
    contestant.client.reconnect(questions, callers).await?;
    let before = contestant.cpu_seconds();
    let sample = contestant.client.run(questions, callers, slice).await?;
    contestant.rate = sample.rate();
    Ok((sample, contestant.cpu_seconds() - before))
}

pub(super) fn add(row: &mut Row, sample: &Sample, cpu: f64) {
    row.add("rate", sample.rate());
    row.add("p50", sample.percentile(50));
    row.add("p99", sample.percentile(99));
    if row.product != "direct" {
        #[expect(clippy::cast_precision_loss, reason = "as many calls are never made")]
        row.add("cpu", cpu * 1e6 / sample.calls as f64);
    }
}

/// One line about the case: calls per second in relation to direct ones, and the processor time of each.
fn tell(case: &Case<'_>, results: &Results) {
    let rows =
        results.rows.iter().filter(|row| row.measure == case.measure && row.case == case.name);
    let told: Vec<String> = rows
        .map(|row| {
            let rate = row.figure("rate").map(|rate| format!(" {:.0}/s", rate.middle));
            let ratio = row.to_direct.get("rate").and_then(|ratios| Spread::of(ratios));
            let ratio = ratio.map(|ratio| format!(" {:.3}", ratio.middle)).or(rate);
            let cpu = row.figure("cpu").map(|cpu| format!(" {:.0}µs", cpu.middle));
            let told = format!("{}{}", ratio.unwrap_or_default(), cpu.unwrap_or_default());
            let note = row.note.as_ref().map(|note| format!(" ({note})"));
            format!("{}{told}{}", row.product, note.unwrap_or_default())
        })
        .collect();
    say(&format!("   {}: {}", case.name, told.join(" | ")));
}
