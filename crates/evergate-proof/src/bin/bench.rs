//! What each product costs: see `--help`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use evergate_proof::bench::load::{Client, Question};
use evergate_proof::product::Address;

/// Measures what Evergate and its peers cost, side by side.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Calls a tool of a fast-server at a URL, to be looked at by a profiler.
    Load(Load),
}

#[derive(Debug, Args)]
struct Load {
    /// Where, for example http://127.0.0.1:8080/mcp
    url: String,
    /// The tool's name there
    #[arg(long, default_value = "echo")]
    tool: String,
    /// The size of each result
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Calls at once
    #[arg(long, default_value_t = 16)]
    callers: usize,
    /// How long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            match Cli::parse().command {
                Command::Load(load) => load.run().await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem:#}");
            ExitCode::FAILURE
        }
    }
}

// === impl Load ===

impl Load {
    async fn run(&self) -> anyhow::Result<()> {
        let mut client = Client::connect(&Address::Http(self.url.clone())).await?;
        let question = Question::call(&self.tool, self.bytes);
        client.ask(&question).await?;
        let sample =
            client.run(&[question], self.callers, Duration::from_secs_f64(self.seconds)).await?;
        writeln!(
            std::io::stdout(),
            "{} calls, {:.0} calls/s, p50 {:.0} µs, p99 {:.0} µs",
            sample.calls,
            sample.rate(),
            sample.percentile(50),
            sample.percentile(99)
        )?;
        Ok(())
    }
}
