//! `evergate logs`: what a server's process writes to its standard error.

use std::time::Duration;

use clap::Args;

use super::running::{self, Found, GatewayArgs};
use super::source::hint;
use super::terminal;
use super::words::clean;
use crate::admin::model::{LogLine, ServerLogs, ServerReport};
use crate::admin_client::{AdminClient, ClientError};
use crate::exit_code::Failure;
use crate::output;

/// Show what a server's process wrote to its standard error.
///
/// The gateway keeps the last lines of each server that it started itself, across restarts of the process. Colours and
/// everything else that a terminal would obey are taken out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    evergate logs docs\n  \
    evergate logs docs --follow\n  \
    evergate logs docs --lines 5")]
pub(crate) struct Logs {
    /// The server, as the configuration names it.
    server: String,
    /// Go on with what it writes from now on, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Only so many of the last lines.
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<usize>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// Lines that come in between are kept by the gateway.
const LOOK_EVERY: Duration = Duration::from_millis(500);

// === impl Logs ===

impl Logs {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Found { mut client, again } = self.gateway.find().await?;
        let server = running::server(&client, &self.server).await?;
        let logs: ServerLogs = client.get(&["servers", &self.server, "logs"]).await?;
        let report: ServerReport = client.parsed(server.get().as_bytes())?;
        let of_clients = report.connections.is_some();
        if logs.lines.is_empty() {
            self.explain(&report)?;
        } else if of_clients {
            let name = clean(&report.name);
            hint(&format!(
                "evergate: each client has a process of {name} of its own; this is of the one that failed last, or \
                 else began last"
            ));
        }
        let first = self.lines.map_or(0, |lines| logs.lines.len().saturating_sub(lines));
        print(&logs.lines[first..])?;
        if !self.follow {
            return Ok(());
        }
        if of_clients {
            let name = clean(&report.name);
            return Err(Failure::usage(format!(
                "each client has a process of {name} of its own: there is no one log to follow"
            )));
        }
        let mut next = logs.next;
        let gone = terminal::reader_gone();
        tokio::pin!(gone);
        let mut lost = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = &mut gone => return Ok(()),
            }
            match self.more(&client, &mut next).await {
                Ok(lines) => {
                    if std::mem::take(&mut lost) {
                        hint("evergate: the gateway is back");
                    }
                    print(&lines)?;
                }
                Err(error) if error.may_pass() || lost => {
                    if !std::mem::replace(&mut lost, true) {
                        hint(&format!("evergate: {error}; looking for it"));
                    }
                    // The next one has another key, and may be elsewhere.
                    if let Ok(found) = again.find().await {
                        client = found.client;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What was written since, and up to where that is.
    async fn more(
        &self,
        client: &AdminClient,
        next: &mut u64,
    ) -> Result<Vec<LogLine>, ClientError> {
        let path = ["servers", &self.server, "logs"];
        let mut logs: ServerLogs = match next.checked_sub(1) {
            Some(after) => client.get_with(&path, ("after", after)).await?,
            None => client.get(&path).await?,
        };
        if logs.next < *next {
            // Another process counts from the beginning.
            logs = client.get(&path).await?;
        }
        *next = logs.next;
        Ok(logs.lines)
    }

    /// Why there is nothing to show.
    fn explain(&self, server: &ServerReport) -> Result<(), Failure> {
        let name = clean(&server.name);
        let place = clean(&server.target);
        let child = place.starts_with("stdio") || server.transport.as_deref() == Some("stdio");
        match (child, server.connections) {
            (_, Some(_)) => hint(&format!(
                "evergate: each client has a process of {name} of its own, and none has written anything lately"
            )),
            (true, None) => hint(&format!("evergate: {name} has not written anything yet")),
            (false, None) if self.follow => {
                return Err(Failure::usage(format!(
                    "{name} is not a process of the gateway ({place}): its logs are where it runs"
                )));
            }
            (false, None) => hint(&format!(
                "evergate: {name} is not a process of the gateway ({place}): its logs are where it runs"
            )),
        }
        Ok(())
    }
}

fn print(lines: &[LogLine]) -> Result<(), Failure> {
    lines.iter().try_for_each(|line| output::line(clean(&line.text).trim_end()))
}
