//! Resident memory: idle, with many sessions, and whether it grows with use.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use tokio::time::{Instant, sleep};

use crate::bench::contestant::Contestant;
use crate::bench::load::{Client, HttpClient, Question};
use crate::bench::upstream::{FastServer, NAME};
use crate::bench::{Bench, Results, Row, say};
use crate::product::{Product, Upstream};

/// The only case.
pub const CASE: &str = "one server";

const SESSIONS: usize = 1000;

/// What a busy gateway of a team serves in an hour: about 55 calls a second, in sessions of 100 calls each.
const SOAK_CALLS: usize = 200_000;
const CALLS_PER_SESSION: usize = 100;
const SOAK_CALLERS: usize = 16;

/// Results for which it matters whether they are kept whole.
const LARGE: usize = 1024 * 1024;
const LARGE_CALLERS: usize = 64;

/// Products that take longer are told of with what they managed.
const LONGEST: Duration = Duration::from_secs(40);

/// Memory that was given back shows a little later.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) async fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    let server = FastServer::start(&[]).await?;
    let upstreams = server.servers(1);
    for &product in bench.products.iter().filter(|product| **product != Product::Direct) {
        let mut row = Row::new("memory", CASE, product.name());
        if let Err(problem) = measure(bench, product, &upstreams, &mut row).await {
            row.note = format!("{problem:#}").lines().next().map(str::to_owned);
        }
        let told: Vec<String> =
            row.figures.iter().map(|(name, values)| format!("{name} {:.0}", values[0])).collect();
        say(&format!("   {product}: {} {}", told.join(", "), row.note.as_deref().unwrap_or("")));
        results.put(row);
    }
    Ok(())
}

async fn measure(
    bench: &Bench,
    product: Product,
    upstreams: &[Upstream],
    row: &mut Row,
) -> Result<()> {
    let mut contestant = Contestant::start(product, upstreams, &bench.places).await?;
    sleep(SETTLE).await;
    let idle = contestant.resident_bytes();
    row.add("idle", idle);
    // A program on standard input and output has one session.
    if let Some(url) = contestant.url() {
        let wanted = if bench.short { SESSIONS / 10 } else { SESSIONS };
        let sessions = sessions(&url, wanted).await?;
        sleep(SETTLE).await;
        let with_sessions = contestant.resident_bytes();
        #[expect(clippy::cast_precision_loss, reason = "there are few sessions")]
        let count = sessions.len() as f64;
        row.add("sessions", count);
        row.add("per session", (with_sessions - idle) / count);
        let opening: Result<Vec<_>> = sessions
            .iter()
            .map(HttpClient::listen)
            .collect::<FuturesUnordered<_>>()
            .try_collect()
            .await;
        match opening {
            Ok(_listening) => {
                sleep(SETTLE).await;
                row.add("per listening session", (contestant.resident_bytes() - idle) / count);
            }
            Err(problem) => say(&format!("   {product}: {problem:#}")),
        }
    }
    large_results(bench, &mut contestant, row).await?;
    drop(contestant);
    let mut contestant = Contestant::start(product, upstreams, &bench.places).await?;
    soak(&mut contestant, if bench.short { SOAK_CALLS / 100 } else { SOAK_CALLS }, row).await
}

/// What is kept of results on their way.
async fn large_results(bench: &Bench, contestant: &mut Contestant, row: &mut Row) -> Result<()> {
    let question = [contestant.call(NAME, LARGE)];
    let one = contestant.client.run(&question, 1, Duration::ZERO).await?;
    // All at once would take the slowest for ever.
    if one.rate() > 20.0 {
        let before = contestant.resident_bytes();
        contestant.client.run(&question, LARGE_CALLERS, bench.slice * 3).await?;
        let more = (contestant.peak_bytes() - before).max(0.0);
        #[expect(clippy::cast_precision_loss, reason = "there are few callers")]
        row.add("per large call", more / LARGE_CALLERS as f64);
    }
    Ok(())
}

/// Opens sessions, as many as fit into the time, and hangs up.
async fn sessions(url: &str, wanted: usize) -> Result<Vec<HttpClient>> {
    let until = Instant::now() + LONGEST;
    let mut sessions = Vec::with_capacity(wanted);
    while sessions.len() < wanted && Instant::now() < until {
        let mut session = HttpClient::connect(url).await?;
        session.hang_up();
        sessions.push(session);
    }
    Ok(sessions)
}

/// Many calls in many sessions. What counts is what the second half adds.
async fn soak(contestant: &mut Contestant, calls: usize, row: &mut Row) -> Result<()> {
    let until = Instant::now() + LONGEST;
    let mut done = 0;
    let mut resident = Vec::new();
    let questions = [contestant.call(NAME, 100), contestant.call(NAME, 10 * 1024)];
    for _ in 0..2 {
        done += match contestant.url() {
            Some(url) => half(&url, &questions, calls / 2, until).await?,
            None => lines(contestant, &questions, calls / 2, until).await?,
        };
        sleep(SETTLE).await;
        resident.push(contestant.resident_bytes());
    }
    #[expect(clippy::cast_precision_loss, reason = "as many calls are never made")]
    row.add("soak calls", done as f64);
    row.add("soak half", resident[0]);
    row.add("soak end", resident[1]);
    Ok(())
}

async fn half(url: &str, questions: &[Question], calls: usize, until: Instant) -> Result<usize> {
    let done = Cell::new(0);
    let going_on = || done.get() < calls && Instant::now() < until;
    let callers: FuturesUnordered<_> = (0..SOAK_CALLERS)
        .map(|_| async {
            while going_on() {
                let mut client = Client::Http(HttpClient::connect(url).await?);
                for call in 0..CALLS_PER_SESSION {
                    client.ask(&questions[call % questions.len()]).await?;
                    done.set(done.get() + 1);
                    if !going_on() {
                        break;
                    }
                }
                if let Client::Http(client) = client {
                    client.end().await.context("a session cannot be ended")?;
                }
            }
            anyhow::Ok(())
        })
        .collect();
    callers.try_collect::<()>().await?;
    Ok(done.get())
}

/// Without sessions, since there is only one.
async fn lines(
    contestant: &mut Contestant,
    questions: &[Question],
    calls: usize,
    until: Instant,
) -> Result<usize> {
    let mut done = 0;
    while done < calls && Instant::now() < until {
        contestant.client.ask(&questions[done % questions.len()]).await?;
        done += 1;
    }
    Ok(done)
}
