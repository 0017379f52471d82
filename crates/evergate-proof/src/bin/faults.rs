//! `./scripts/faults`: what happens to calls when servers die behind each product.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line program")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use evergate_proof::faults::mix::Mix;
use evergate_proof::faults::pace::Pace;
use evergate_proof::faults::progress::Progress;
use evergate_proof::faults::results::{Results, Way, replace};
use evergate_proof::faults::run::{Ended, Selection, run};
use evergate_proof::faults::scenario::Scenario;
use evergate_proof::faults::{chart, report};
use evergate_proof::product::{Places, Product};

/// Breaks MCP servers behind each product and records what becomes of calls.
///
/// A real client (the official TypeScript SDK) calls tools through each product while the servers behind it are
/// restarted, killed, cut off and hung. The servers count what they executed. Without filters every scenario runs for
/// every product and transport; with filters only those rows are replaced and all others stay as they are.
///
/// Results: fault-matrix.json (every row, written as soon as it is there), fault-matrix.md (the tables and the rules
/// behind them), fault-matrix.svg (the chart). An interrupt keeps the finished rows and leaves no process behind.
#[derive(Debug, Parser)]
#[command(
    name = "faults",
    version,
    after_help = "Examples:
  ./scripts/faults --list                                  what there is
  ./scripts/faults --peer evergate --short                 all scenarios with Evergate, in a few minutes
  ./scripts/faults --peer evergate --peer direct --scenario outage --transport http
  ./scripts/faults --jobs 8                                everything, eight cells at a time"
)]
struct Arguments {
    /// Only this product; may be repeated
    #[arg(long = "peer", value_name = "NAME")]
    peers: Vec<Product>,

    /// Only this scenario; may be repeated
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<Scenario>,

    /// Only servers of this transport; may be repeated
    #[arg(long = "transport", value_name = "NAME")]
    transports: Vec<Way>,

    /// Only this mix of client and server revisions; may be repeated. All but legacy-legacy are played with Evergate only
    #[arg(long = "eras", value_name = "NAME")]
    eras: Vec<Mix>,

    /// Seconds instead of tens of seconds, for CI and for trying things out
    #[arg(long)]
    short: bool,

    /// Cells at a time; most of their time is waiting
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    jobs: u8,

    /// Print products, scenarios and transports, and do nothing
    #[arg(long)]
    list: bool,

    /// Draw the documents again from the rows that are there, and run nothing
    #[arg(long)]
    redraw: bool,

    /// Where the results go
    #[arg(long, default_value = "docs", value_name = "FOLDER")]
    out: PathBuf,

    /// The gateway's program
    #[arg(long, default_value = "target/release/evergate", value_name = "FILE")]
    evergate: PathBuf,

    // The default is a variable, which clap would need another feature for.
    #[arg(
        long,
        value_name = "FOLDER",
        help = "Where ./scripts/install-peers and ./scripts/install-products installed [default: $EVERGATE_PEERS_DIR or .peers]"
    )]
    peers_dir: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match faults(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("faults: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn faults(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let peers = arguments
        .peers_dir
        .clone()
        .or_else(|| std::env::var_os("EVERGATE_PEERS_DIR").map(PathBuf::from));
    let peers = peers.unwrap_or_else(|| ".peers".into());
    let places = Places { evergate: absolute(&arguments.evergate)?, peers: absolute(&peers)? };
    if arguments.list {
        print!("{}", report::list(&places));
        return Ok(ExitCode::SUCCESS);
    }
    let file = |name: &str| arguments.out.join(name);
    let mut results = Results::open(file("fault-matrix.json"))?;
    let selection = Selection {
        products: arguments.peers.clone(),
        scenarios: arguments.scenarios.clone(),
        ways: arguments.transports.clone(),
        mixes: arguments.eras.clone(),
    };
    let mut ended = Ended::Complete;
    if !arguments.redraw {
        let cells = selection.cells();
        anyhow::ensure!(
            !cells.is_empty(),
            "nothing to do: no such scenario has that transport, or no such product those eras (see --list)"
        );
        let pace = if arguments.short { Pace::SHORT } else { Pace::FULL };
        let mut progress = Progress::new(cells.len());
        let jobs = usize::from(arguments.jobs);
        ended = run(&cells, jobs, pace, &places, &mut results, &mut progress, interrupt()).await?;
        progress.finish();
    }
    replace(&file("fault-matrix.md"), &report::markdown(results.matrix()))?;
    replace(&file("fault-matrix.svg"), &chart::svg(results.matrix()))?;
    print!("{}", report::table(results.matrix(), &selection));
    if ended == Ended::Interrupted {
        eprintln!("faults: interrupted; the finished rows are kept");
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until somebody wants this to end.
async fn interrupt() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    drop(tokio::signal::ctrl_c().await);
}
