//! `evergate status`: how a running gateway and its servers are.

mod table;
#[cfg(test)]
mod tests;
mod watch;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::running::{self, Found, GatewayArgs};
use super::terminal::Style;
use crate::admin::model::{Health, ServerReport, ServerState};
use crate::admin_client::{AdminClient, ClientError};
use crate::exit_code::Failure;
use crate::output;
use table::Snapshot;

/// Show how a running gateway and its servers are.
///
/// Servers in trouble come first, with what is wrong and when the next attempt is due. CALLS are with the server, HELD
/// wait for it, RECONNECTS counts the connections made beyond the first.
///
/// Exits with 0 if every server that is switched on is connected or has just been started (or every SERVER that was named), with 1 if not,
/// with 69 if there is no gateway.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    evergate status                    of the gateway that runs here\n  \
    evergate status --watch            keeps the table up to date\n  \
    evergate status docs || evergate why docs\n  \
    evergate status --json | jq -r '.servers[] | select(.held > 0) | .name'\n  \
    EVERGATE_KEY=… evergate status --url https://gateway.example")]
pub(crate) struct Status {
    /// Only these servers.
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Keep the table up to date until Ctrl-C. If this is no terminal: a line for each change.
    #[arg(long, short)]
    watch: bool,
    /// What the admin API says, as JSON: `gateway` and `servers`. With --watch a line for each change.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// Everything as the gateway said it, this version's understanding left out.
#[derive(Serialize)]
struct Raw {
    gateway: Box<RawValue>,
    servers: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RawList {
    servers: Vec<Box<RawValue>>,
}

// === impl Status ===

impl Status {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        if self.watch {
            return watch::run(self).await;
        }
        let Found { client, .. } = self.gateway.find().await?;
        let raw = match self.raw(&client).await {
            Ok(raw) => raw,
            Err(error) => return Err(running::explained(&client, error).await),
        };
        if self.json {
            output::line(&serde_json::to_string(&raw)?)?;
        }
        let snapshot = self.understood(&raw, &client)?;
        if !self.json {
            for line in table::lines(&snapshot, Style::of_stdout()) {
                output::line(&line)?;
            }
        }
        if self.is_well(&snapshot) { Ok(()) } else { Err(Failure::shown_trouble()) }
    }

    async fn raw(&self, client: &AdminClient) -> Result<Raw, ClientError> {
        let gateway = client.get_raw(&["gateway"]).await?;
        if self.servers.is_empty() {
            let RawList { servers } = client.get(&["servers"]).await?;
            return Ok(Raw { gateway, servers });
        }
        let mut servers = Vec::with_capacity(self.servers.len());
        for name in &self.servers {
            servers.push(client.get_raw(&["servers", name]).await?);
        }
        Ok(Raw { gateway, servers })
    }

    fn understood(&self, raw: &Raw, client: &AdminClient) -> Result<Snapshot, ClientError> {
        let servers = raw.servers.iter().map(|server| client.parsed(server.get().as_bytes()));
        Ok(Snapshot {
            url: client.url().to_owned(),
            gateway: client.parsed(raw.gateway.get().as_bytes())?,
            servers: servers.collect::<Result<_, _>>()?,
            named: !self.servers.is_empty(),
        })
    }

    /// Of servers that were named more is expected than that they are off on purpose.
    fn is_well(&self, snapshot: &Snapshot) -> bool {
        let serves = |server: &ServerReport| {
            server.state == ServerState::Connected
                || server.starting
                || (server.state == ServerState::PerClient && !server.degraded)
        };
        if self.servers.is_empty() {
            snapshot.gateway.status == Health::Healthy
        } else {
            snapshot.servers.iter().all(serves)
        }
    }
}
