//! Load and nothing else, to be looked at by a profiler.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use evergate_proof::bench::load::{Client, Question};
use evergate_proof::product::Address;

/// One kind of calls against something that runs already.
#[derive(Debug, Args)]
pub(crate) struct SingleLoad {
    #[arg(help = "Where, for example http://127.0.0.1:8080/mcp; behind it must be a fast-server")]
    url: String,
    #[arg(long, default_value = "echo", help = "The tool's name there; for Evergate SERVER__echo")]
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
    /// Exactly so many calls, one after the other, however long it takes
    #[arg(long, conflicts_with_all = ["callers", "seconds"])]
    calls: Option<usize>,
    /// List tools, which must be so many, instead of calling one
    #[arg(long)]
    list: Option<usize>,
}

// === impl SingleLoad ===

impl SingleLoad {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let mut client = Client::connect(&Address::Http(self.url.clone())).await?;
        let question = match self.list {
            Some(tools) => Question::list(tools),
            None => Question::call(&self.tool, self.bytes),
        };
        client.ask(&question).await?;
        let mut out = std::io::stdout();
        if let Some(calls) = self.calls {
            for _ in 0..calls {
                client.ask(&question).await?;
            }
            writeln!(out, "{calls} calls")?;
            return Ok(());
        }
        let seconds = Duration::from_secs_f64(self.seconds);
        let sample = client.run(&[question], self.callers, seconds).await?;
        let (p50, p99) = (sample.percentile(50), sample.percentile(99));
        let (calls, rate) = (sample.calls, sample.rate());
        writeln!(out, "{calls} calls, {rate:.0} calls/s, p50 {p50:.0} µs, p99 {p99:.0} µs")?;
        Ok(())
    }
}
