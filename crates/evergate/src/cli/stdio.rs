//! `evergate stdio`: the gateway for clients that launch a command.

use std::path::PathBuf;

use clap::Args;

use super::source::ConfigArgs;
use crate::exit_code::Failure;
use crate::gateway::client::Scope;
use crate::serve;

/// The gateway over standard input and output, for clients that launch a command.
///
/// The client's configuration has `evergate` as the command, and `stdio --config /path/to/servers.json` as arguments.
/// Standard output carries MCP only; logs go to standard error.
#[derive(Debug, Args, Clone)]
pub(crate) struct Stdio {
    /// A JSON or TOML file with an `mcpServers` section. May be given more than once: together they are one.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Where to keep the last catalogs, so that tools are there before their servers are. [default: a folder for this
    /// configuration under ~/.local/state/evergate]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

// === impl Stdio ===

impl Stdio {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let sources = ConfigArgs::files(self.config).required_sources()?;
        let config = super::source::load_usable(&sources)?;
        serve::pipes(config, Scope::All, Some(sources), self.state_dir).await
    }
}
