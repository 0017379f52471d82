//! What each product costs: see `--help`.

#[path = "bench/cli.rs"]
mod cli;
#[path = "bench/single_load.rs"]
mod single_load;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // One thread, so that the load is no more than that, whatever it is asked to do.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(cli.run()));
    match done {
        Ok(code) => code,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem:#}");
            ExitCode::FAILURE
        }
    }
}
