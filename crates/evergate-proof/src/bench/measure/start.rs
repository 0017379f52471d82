//! From the start of the process to the first answered call, and to an answer of the gateway itself.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, timeout};

use crate::bench::contestant::Contestant;
use crate::bench::group::Group;
use crate::bench::load::HttpClient;
use crate::bench::upstream::FastServer;
use crate::bench::{Bench, Results, Row, Spread, say};
use crate::product::{Address, Places, Program, Upstream};

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
    let folder = TempDir::with_prefix("evergate-bench-")?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let servers: serde_json::Map<_, _> = upstreams
        .iter()
        .filter_map(|upstream| match &upstream.at {
            Address::Http(url) => Some((upstream.name.clone(), json!({ "url": url }))),
            _ => None,
        })
        .collect();
    std::fs::write(path("config.json"), json!({ "mcpServers": servers }).to_string())?;
    let mut args = ["serve", "--listen", "127.0.0.1:0", "--config"].map(str::to_owned).to_vec();
    args.extend([path("config.json"), "--state-dir".to_owned(), path("state")]);
    let program = Program { command: places.evergate.clone(), args, env: Vec::new() };
    let started = Instant::now();
    let mut group = Group::start(&program)?;
    let mut url = String::new();
    let stdout = group.child().stdout.take().context("piped")?;
    timeout(Duration::from_secs(30), BufReader::new(stdout).read_line(&mut url)).await??;
    HttpClient::connect(url.trim()).await.context("it is not ready")?;
    Ok(milliseconds(started))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
