//! `evergate serve`: the gateway over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::source::{self, ConfigArgs};
use crate::config::parse_listen;
use crate::demo;
use crate::exit_code::Failure;
use crate::serve::{self, HandedOver, Options};

/// Put all servers behind one endpoint (the default command).
///
/// Point any MCP client at the URL that is printed. Servers may restart, crash and forget sessions, and so may the
/// gateway itself: the client does not notice.
///
/// Without --config it is evergate.toml, evergate.json or .mcp.json of the current folder; if there is none of these, two
/// demonstration servers are served.
#[derive(Debug, Args, Clone)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where to listen; port 0 picks a free one. [default: gateway.listen, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Where to keep what a restart must not forget: the key of session ids, the last catalogs. [default: a folder
    /// for this configuration under ~/.local/state/evergate]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Listen on an address that others can reach although there are no keys.
    #[arg(long)]
    allow_unauthenticated: bool,
}

// === impl Serve ===

impl Serve {
    pub(crate) async fn run(self, handed_over: HandedOver) -> Result<(), Failure> {
        let options = Options {
            listen: self.listen,
            state_dir: self.state_dir,
            allow_unauthenticated: self.allow_unauthenticated,
            handed_over,
        };
        if let Some(sources) = self.config.sources()? {
            let config = source::load_usable(&sources)?;
            return serve::http(config, Some(sources), options).await;
        }
        let demo = demo::Embedded::start().await?;
        source::hint(
            "evergate: no --config, and no file of a usual name in this folder, so two demonstration servers are served.\n  \
             With the servers your clients have: evergate import && evergate",
        );
        serve::http(demo.config, None, options).await
    }
}
