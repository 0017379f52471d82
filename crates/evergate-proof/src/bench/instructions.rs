//! How many instructions and allocations a call takes inside the gateway: `./scripts/instructions`.
//!
//! Valgrind counts them. Instructions are those between two moments of one run. Allocations can only be had for a whole
//! run; so calls are made some times in one run and twice as often in another, and the difference is what they took.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::gateway::Gateway;
use super::load::{Client, HttpClient, Question};
use super::report::{Counts, Kind};
use super::say;
use super::upstream::{FastServer, child};
use super::usage::cpu_seconds;
use crate::product::{Places, Program, Upstream};

struct Calls {
    name: &'static str,
    upstreams: Vec<Upstream>,
    question: Question,
    count: u32,
}

const START: &str = "start, no servers";

/// Enough for connections and buffers to be there.
const WARM_UP: u32 = 20;

/// How long all servers may take to be known under Valgrind.
const LISTED: Duration = Duration::from_secs(60);

/// Counts everything. Allocations as well, if wanted, which takes as long again.
pub async fn count(places: &Places, allocations: bool) -> Result<Counts> {
    let plain = FastServer::start(&[]).await?;
    let streams = FastServer::start(&["--sse"]).await?;
    let many = FastServer::start(&["--tools", "50"]).await?;
    let small = Question::call("s0__echo", 100);
    let kinds = [
        Calls {
            name: "small result, HTTP server",
            upstreams: plain.servers(1),
            question: small.clone(),
            count: 200,
        },
        Calls {
            name: "small result, HTTP server with event streams",
            upstreams: streams.servers(1),
            question: small.clone(),
            count: 200,
        },
        Calls {
            name: "small result, child process",
            upstreams: vec![child(&[])?],
            question: small,
            count: 200,
        },
        Calls {
            name: "1 MiB result, HTTP server",
            upstreams: plain.servers(1),
            question: Question::call("s0__echo", 1024 * 1024),
            count: 20,
        },
        Calls {
            name: "tools/list of 20 servers with 50 tools each",
            upstreams: many.servers(20),
            question: Question::list(1000),
            count: 40,
        },
    ];
    let mut counts = Counts::new();
    let start = start(places).await?;
    say(&format!("   {START}: {start:.0} instructions"));
    let start = Kind { instructions: start, allocations: None, allocated_bytes: None };
    counts.insert(START.to_owned(), start);
    for kind in kinds {
        let instructions = kind.instructions(places).await?;
        // Twenty servers that start allocate more or less by more than all the answers take.
        let allocations = allocations && kind.upstreams.len() == 1;
        let allocated = if allocations { Some(kind.allocations(places).await?) } else { None };
        say(&format!("   {}: {instructions:.0} instructions per call", kind.name));
        let kinds = Kind {
            instructions: instructions.round(),
            allocations: allocated.map(|[_, blocks]| (blocks * 10.0).round() / 10.0),
            allocated_bytes: allocated.map(|[bytes, _]| bytes.round()),
        };
        counts.insert(kind.name.to_owned(), kinds);
    }
    Ok(counts)
}

/// What changed since the last time, line by line.
pub fn compared(old: &Counts, new: &Counts) -> String {
    let percent = |old: f64, new: f64| format!("{:+.1} %", (new / old - 1.0) * 100.0);
    let mut text = String::new();
    for (name, new) in new {
        let before = old.get(name);
        let changed = before.map_or("new".to_owned(), |old| {
            format!(
                "{:.0} before, {}",
                old.instructions,
                percent(old.instructions, new.instructions)
            )
        });
        // Writing to a text cannot fail.
        let _ = write!(text, "{name}: {:.0} instructions ({changed})", new.instructions);
        if let Some(now) = new.allocations {
            let old = before.and_then(|old| old.allocations);
            let changed = old.map_or("new".to_owned(), |old| format!("{old} before"));
            let _ = write!(text, ", {now} allocations ({changed})");
        }
        text.push('\n');
    }
    text
}

fn valgrind(args: &[&str]) -> Program {
    let mut program = Program::new("valgrind");
    program.args(args.iter().copied());
    // With one worker the same happens in the same order each time, as far as possible.
    program.env("TOKIO_WORKER_THREADS", "1");
    program
}

fn instructions_in(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

/// `Total:     1,234 bytes in 56 blocks`
fn allocations_in(text: &str) -> Option<[f64; 2]> {
    let (_, line) = text.lines().find_map(|line| line.split_once("Total:"))?;
    let line = line.replace(',', "");
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?])
}

// === impl Calls ===

impl Calls {
    /// Instructions of one call.
    async fn instructions(&self, places: &Places) -> Result<f64> {
        let folder = TempDir::with_prefix("evergate-bench-")?;
        let gateway = Gateway::start(Some(&callgrind(&folder)), &self.upstreams, places).await?;
        let mut client = self.warm(&gateway).await?;
        settled(&gateway).await;
        dumped(&gateway, &folder, 1).await?;
        for _ in 0..self.count {
            client.ask(&self.question).await?;
        }
        Ok(dumped(&gateway, &folder, 2).await? / f64::from(self.count))
    }

    /// Bytes and blocks of one call.
    async fn allocations(&self, places: &Places) -> Result<[f64; 2]> {
        let once = self.allocated(places, self.count).await?;
        let twice = self.allocated(places, 2 * self.count).await?;
        Ok([0, 1].map(|at| (twice[at] - once[at]) / f64::from(self.count)))
    }

    async fn allocated(&self, places: &Places, count: u32) -> Result<[f64; 2]> {
        let folder = TempDir::with_prefix("evergate-bench-")?;
        let file = folder.path().join("out");
        let log = format!("--log-file={}", file.display());
        let program = valgrind(&["--tool=dhat", "--dhat-out-file=/dev/null", &log]);
        let gateway = Gateway::start(Some(&program), &self.upstreams, places).await?;
        let mut client = self.warm(&gateway).await?;
        for _ in 0..count {
            client.ask(&self.question).await?;
        }
        gateway.stop().await?;
        let text = std::fs::read_to_string(&file).context("dhat wrote nothing")?;
        allocations_in(&text).context("dhat is not understood")
    }

    /// A client whose question is answered.
    async fn warm(&self, gateway: &Gateway) -> Result<Client> {
        let mut client = Client::Http(HttpClient::connect(gateway.url()).await?);
        let deadline = Instant::now() + LISTED;
        while let Err(problem) = client.ask(&self.question).await {
            if Instant::now() > deadline {
                return Err(problem).context(self.name);
            }
            sleep(Duration::from_millis(100)).await;
        }
        for _ in 0..WARM_UP.min(self.count) {
            client.ask(&self.question).await?;
        }
        Ok(client)
    }
}

/// Instructions until it listens, without servers.
async fn start(places: &Places) -> Result<f64> {
    let folder = TempDir::with_prefix("evergate-bench-")?;
    let gateway = Gateway::start(Some(&callgrind(&folder)), &[], places).await?;
    dumped(&gateway, &folder, 1).await
}

fn callgrind(folder: &TempDir) -> Program {
    let out = format!("--callgrind-out-file={}", folder.path().join("out").display());
    valgrind(&["--tool=callgrind", &out])
}

/// Returns when it has nothing left to do: what many servers bring with them goes on behind the first answers.
async fn settled(gateway: &Gateway) {
    let pids: Vec<u32> = gateway.pid().into_iter().collect();
    let deadline = Instant::now() + LISTED;
    let (mut before, mut quiet) = (cpu_seconds(&pids), 0);
    while quiet < 3 && Instant::now() < deadline {
        sleep(Duration::from_millis(300)).await;
        let now = cpu_seconds(&pids);
        quiet = if now - before < 0.005 { quiet + 1 } else { 0 };
        before = now;
    }
}

/// Has callgrind write the instructions since it last did, into a file with the next number.
async fn dumped(gateway: &Gateway, folder: &TempDir, number: u32) -> Result<f64> {
    let pid = gateway.pid().context("it has ended")?;
    let mut command = tokio::process::Command::new("vgdb");
    command.arg(format!("--pid={pid}")).arg("dump").kill_on_drop(true);
    let done = timeout(LISTED, command.output()).await.context("vgdb hangs")??;
    let said = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "vgdb cannot reach the gateway: {}", said.trim());
    let text = std::fs::read_to_string(folder.path().join(format!("out.{number}")));
    instructions_in(&text.context("callgrind wrote nothing")?)
        .context("callgrind is not understood")
}

#[cfg(test)]
mod tests {
    use super::{allocations_in, instructions_in};

    #[test]
    fn what_valgrind_says_is_understood() {
        assert_eq!(instructions_in("events: Ir\n1 2\n\ntotals: 345\n"), Some(345.0));
        let text =
            "==7== \n==7== Total:     1,234,567 bytes in 8,901 blocks\n==7== At t-gmax: 1 bytes";
        assert_eq!(allocations_in(text), Some([1_234_567.0, 8901.0]));
        assert_eq!(allocations_in("nothing"), None);
    }
}
