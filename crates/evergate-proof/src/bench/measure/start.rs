//! From the start of the process to the first answered call, and to an answer of the gateway itself.

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use crate::bench::contestant::Contestant;
use crate::bench::gateway::Gateway;
use crate::bench::load::HttpClient;
use crate::bench::upstream::FastServer;
use crate::bench::{Bench, Results, Row, Spread, say};
use crate::product::{Places, Upstream};

/// From the start to the first answered call.
pub const FIRST_CALL: &str = "first call";

/// Numbers of servers with which the time until a handshake is answered is measured.
pub const READY: [usize; 4] = [0, 1, 100, 500];

pub(super) async fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    let server = FastServer::start(&[]).await?;
    let one = server.servers(1);
    let mut rows: Vec<Row> = bench
        .products
        .iter()
        .map(|product| Row::new("start", FIRST_CALL, product.name()))
        .collect();
    let mut ready: Vec<Row> =
        READY.iter().map(|servers| Row::new("start", &ready_case(*servers), "evergate")).collect();
    let evergate = bench.products.iter().any(|product| product.name() == "evergate");
    for _ in 0..bench.rounds {
        for (product, row) in bench.products.iter().zip(&mut rows) {
            if row.note.is_some() {
                continue;
            }
            let started = Instant::now();
            match Contestant::start(*product, &one, &bench.places).await {
                Ok(contestant) => {
                    row.add("ms", milliseconds(started));
                    row.add("resident", contestant.resident_bytes());
                }
                Err(problem) => {
                    row.note = format!("{problem:#}").lines().next().map(str::to_owned);
                }
            }
        }
        for (servers, row) in READY.iter().zip(&mut ready).filter(|_| evergate) {
            row.add("ms", until_ready(&bench.places, &server.servers(*servers)).await?);
        }
    }
    if evergate {
        rows.extend(ready);
    }
    for row in &rows {
        let time = row.figures.get("ms").and_then(|times| Spread::of(times));
        let told = time.map(|time| format!("{:.1} ms", time.middle)).or(row.note.clone());
        say(&format!("   {}, {}: {}", row.product, row.case, told.unwrap_or_default()));
    }
    results.put_case(rows);
    Ok(())
}

/// The name of a case.
pub fn ready_case(servers: usize) -> String {
    match servers {
        0 => "ready, no server".to_owned(),
        1 => "ready, 1 server".to_owned(),
        _ => format!("ready, {servers} servers"),
    }
}

/// From the start of Evergate to its answer to a handshake.
async fn until_ready(places: &Places, upstreams: &[Upstream]) -> Result<f64> {
    let started = Instant::now();
    let gateway = Gateway::start(None, upstreams, places).await?;
    HttpClient::connect(gateway.url()).await.context("it is not ready")?;
    Ok(milliseconds(started))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
