//! What the gateway adds to a call over loopback, beside what the least of all proxies adds.
//!
//! Three ways to the same server: straight, through a reverse proxy of sixty lines that understands nothing, and through
//! the built gateway. Each is a process of its own, as they would be in earnest. Rounds of all three alternate, so that
//! whatever else the machine does hits them alike, and ratios are taken per round.
//!
//! `cargo bench -p evergate --bench gateway` prints a table. `-- gateway 1048576 16 1000` does 1000 calls of one kind
//! with 16 callers and nothing else, to be looked at by a profiler.

#[path = "gateway/callers.rs"]
mod callers;
#[path = "gateway/proxy.rs"]
mod proxy;
#[path = "gateway/server.rs"]
mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use callers::Callers;

/// Size of the result, calls per round.
const SIZES: [(usize, usize); 3] = [(100, 640), (10 * 1024, 640), (1024 * 1024, 64)];
const AT_ONCE: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 25;
const WAYS: [&str; 3] = ["direct", "proxy", "gateway"];

/// A process that prints its URL first. Killed when dropped.
struct Process {
    child: Child,
    url: String,
    _folder: Option<tempfile::TempDir>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        match args[..] {
            ["server"] => server::run().await,
            ["proxy", upstream] => proxy::run(upstream).await,
            [way, size, at_once, calls] => {
                let way = WAYS.iter().position(|known| *known == way).expect("a known way");
                let [size, at_once, calls] =
                    [size, at_once, calls].map(|n| n.parse().expect("a number"));
                let (_processes, ways) = start().await;
                let time = ways[way].run(size, at_once, calls).await;
                say(&format!("{:.1} µs per call", micros(time)));
            }
            _ => compare().await,
        }
    });
}

async fn compare() {
    // `cargo test --benches` only wants to know that it works.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let (_processes, ways) = start().await;
    say(
        "  result | callers | direct µs | proxy µs | gateway µs | gateway/direct      | gateway/proxy: median (p10 to p90)",
    );
    for (size, calls) in SIZES {
        for at_once in AT_ONCE {
            let (calls, rounds) = if measured { (calls, ROUNDS) } else { (at_once, 1) };
            let mut times: [Vec<f64>; 3] = Default::default();
            for round in 0..=rounds {
                for turn in 0..ways.len() {
                    // Nobody always follows the same other.
                    let way = (turn + round) % ways.len();
                    let time = micros(ways[way].run(size, at_once, calls).await);
                    // The first round only warms up.
                    if round > 0 {
                        times[way].push(time);
                    }
                }
            }
            let ratio = |a: usize, b: usize| {
                times[a].iter().zip(&times[b]).map(|(a, b)| a / b).collect::<Vec<_>>()
            };
            let (to_direct, to_proxy) = (spread(ratio(2, 0)), spread(ratio(2, 1)));
            let [direct, proxy, gateway] = times.map(|times| spread(times)[1]);
            say(&format!(
                "{size:>8} | {at_once:>7} | {direct:>9.1} | {proxy:>8.1} | {gateway:>10.1} | {} | {}",
                shown(to_direct),
                shown(to_proxy)
            ));
        }
    }
}

/// The processes, and the three ways.
async fn start() -> (Vec<Process>, [Callers; 3]) {
    let myself = std::env::current_exe().expect("the program itself");
    let server = Process::start(Command::new(&myself).arg("server"), None);
    let proxy = Process::start(Command::new(&myself).args(["proxy", &server.url]), None);
    let gateway = gateway(&server.url);
    let ways = [
        Callers::connect(&server.url, "call").await,
        Callers::connect(&proxy.url, "call").await,
        Callers::connect(&gateway.url, "s__call").await,
    ];
    (vec![server, proxy, gateway], ways)
}

fn gateway(server: &str) -> Process {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.json");
    let text = serde_json::json!({ "mcpServers": { "s": { "type": "http", "url": server } } });
    std::fs::write(&config, text.to_string()).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(config);
    command.arg("--state-dir").arg(folder.path().join("state"));
    Process::start(&mut command, Some(folder))
}

// === impl Process ===

impl Process {
    fn start(command: &mut Command, folder: Option<tempfile::TempDir>) -> Self {
        let started =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.expect("a process");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut url).expect("a line");
        Self { child, url: url.trim().to_owned(), _folder: folder }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The values below which a tenth, a half and nine tenths lie.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [10, 50, 90].map(|percent| values[(values.len() - 1) * percent / 100])
}

fn shown([low, middle, high]: [f64; 3]) -> String {
    format!("{middle:.2} ({low:.2} to {high:.2})")
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn say(line: &str) {
    // Nobody reads it if this fails.
    let _ = writeln!(std::io::stdout(), "{line}");
    let _ = std::io::stdout().flush();
}
