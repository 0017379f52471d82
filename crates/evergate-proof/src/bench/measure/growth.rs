//! The price of a call as there are more servers, and more sessions.
//!
//! One Evergate for each number, all at once, and rounds over them in turn: what counts is the ratio to the one with the
//! fewest, in the same round.

use anyhow::Result;
use futures_util::stream::{FuturesUnordered, TryStreamExt as _};

use super::rounds::add;
use crate::bench::contestant::Contestant;
use crate::bench::load::{Client, HttpClient, Question, Sample};
use crate::bench::upstream::{FastServer, NAME};
use crate::bench::{Bench, Results, Row, Spread, say};
use crate::product::Product;

/// How many servers.
pub const SERVERS: [usize; 4] = [1, 10, 100, 500];

/// How many sessions.
pub const SESSIONS: [usize; 4] = [10, 100, 1000, 5000];

const CALLERS: usize = 16;
const BYTES: usize = 100;

/// Tools of each server.
const TOOLS: usize = 10;

/// The name of a case.
pub fn growth_case(number: usize) -> String {
    number.to_string()
}

/// One of the gateways, and what is asked of it.
struct Grown {
    contestant: Contestant,
    questions: Vec<Question>,
    /// None: the client's own.
    sessions: Vec<String>,
    row: Row,
}

pub(super) async fn servers(bench: &Bench, results: &mut Results) -> Result<()> {
    let server = FastServer::start(&["--tools", &TOOLS.to_string()]).await?;
    let mut all = Vec::new();
    for count in few(bench, SERVERS) {
        let upstreams = server.servers(count);
        let mut contestant =
            Contestant::start(Product::Evergate, &upstreams, &bench.places).await?;
        contestant.lists(count * TOOLS).await?;
        // Spread over all of them.
        let asked = (0..CALLERS).map(|caller| format!("s{}", caller * count / CALLERS));
        let questions = asked.map(|server| contestant.call(&server, BYTES)).collect();
        let row = Row::new("servers", &growth_case(count), "evergate");
        all.push(Grown { contestant, questions, sessions: Vec::new(), row });
    }
    measure(bench, results, all).await
}

pub(super) async fn sessions(bench: &Bench, results: &mut Results) -> Result<()> {
    let server = FastServer::start(&[]).await?;
    let mut all = Vec::new();
    for count in few(bench, SESSIONS) {
        let contestant =
            Contestant::start(Product::Evergate, &server.servers(1), &bench.places).await?;
        let url = contestant.url().unwrap_or_default();
        let mut sessions = Vec::with_capacity(count);
        while sessions.len() < count {
            let opening: FuturesUnordered<_> = (0..CALLERS.min(count - sessions.len()))
                .map(|_| HttpClient::connect(&url))
                .collect();
            let opened: Vec<HttpClient> = opening.try_collect().await?;
            sessions
                .extend(opened.iter().filter_map(|session| session.session().map(str::to_owned)));
        }
        let questions = vec![contestant.call(NAME, BYTES)];
        let row = Row::new("sessions", &growth_case(count), "evergate");
        all.push(Grown { contestant, questions, sessions, row });
    }
    measure(bench, results, all).await
}

fn few(bench: &Bench, numbers: [usize; 4]) -> Vec<usize> {
    numbers.into_iter().take(if bench.short { 3 } else { 4 }).collect()
}

async fn measure(bench: &Bench, results: &mut Results, mut all: Vec<Grown>) -> Result<()> {
    for round in 0..=bench.rounds {
        for turn in 0..all.len() {
            let at = (turn + round) % all.len();
            let grown = &mut all[at];
            let (sample, cpu) = grown.sample(bench).await?;
            // The first round only warms up.
            if round > 0 {
                add(&mut grown.row, &sample, cpu);
            }
        }
    }
    let first = all.first().map(|grown| grown.row.clone()).unwrap_or_default();
    for Grown { mut row, .. } in all {
        for (name, inverse) in [("cpu", false), ("rate", true)] {
            let ratios = row.figures.get(name).into_iter().flatten();
            let ratios = ratios.zip(first.figures.get(name).into_iter().flatten());
            let ratios = ratios.map(|(a, b)| if inverse { b / a } else { a / b }).collect();
            let key = if inverse { "time to first" } else { "cpu to first" };
            row.figures.insert(key.to_owned(), ratios);
        }
        let shown = |name: &str| row.figures.get(name).and_then(|values| Spread::of(values));
        if let (Some(rate), Some(cpu), Some(cpu_to), Some(time_to)) =
            (shown("rate"), shown("cpu"), shown("cpu to first"), shown("time to first"))
        {
            say(&format!(
                "   {}: {:.0} calls/s, {:.1} µs, processor time {:.2} and time {:.2} of the first",
                row.case, rate.middle, cpu.middle, cpu_to.middle, time_to.middle
            ));
        }
        results.put(row);
    }
    Ok(())
}

// === impl Grown ===

impl Grown {
    async fn sample(&mut self, bench: &Bench) -> Result<(Sample, f64)> {
        let before = self.contestant.cpu_seconds();
        let client = &mut self.contestant.client;
        let sample = match client {
            Client::Http(client) if !self.sessions.is_empty() => {
                let question = &self.questions[0];
                client.run_sessions(question, &self.sessions, CALLERS, bench.slice).await?
            }
            client => client.run(&self.questions, CALLERS, bench.slice).await?,
        };
        Ok((sample, self.contestant.cpu_seconds() - before))
    }
}
