//! `evergate tools`: what the servers offer.

use std::time::Duration;

use clap::Args;
use evergate_runtime::{Hub, ServerHandle, StateKind};
use serde_json::{Value, json};

use super::source::{self, ConfigArgs};
use crate::config::ToolRules;
use crate::exit_code::Failure;
use crate::output;

/// List the tools of all servers, or of one.
///
/// Tools that the configuration does not allow are left out.
/// A server that cannot be reached is reported on stderr, and makes the exit code 69; the others are listed all the same.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this server.
    server: Option<String>,
    /// Print the tools as the servers describe them, one JSON object a line with `server` and `tool`.
    #[arg(long)]
    json: bool,
    /// How long to wait for each server, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    wait: u64,
}

// === impl Tools ===

impl Tools {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let config = self.config.load_usable()?;
        let (hub, servers) = source::start(&config, self.server.as_deref())?;
        let mut missing = Vec::new();
        for server in &servers {
            match listed(&hub, server, Duration::from_secs(self.wait)).await {
                Ok(tools) => {
                    let rules = config.servers.get(server.name()).map(|server| &server.tools);
                    self.print(server.name(), &tools, rules)?;
                }
                Err(reason) => missing.push(format!("{}: {reason}", server.name())),
            }
        }
        hub.shutdown(Duration::from_secs(5)).await;
        if missing.is_empty() { Ok(()) } else { Err(Failure::unavailable(missing.join("\n"))) }
    }

    fn print(
        &self,
        server: &str,
        tools: &[Value],
        rules: Option<&ToolRules>,
    ) -> Result<(), Failure> {
        for tool in tools {
            let name = tool["name"].as_str().unwrap_or_default();
            if !rules.is_none_or(|rules| rules.allows(name)) {
                continue;
            }
            if self.json {
                output::line(&json!({ "server": server, "tool": tool }).to_string())?;
                continue;
            }
            let about = tool["description"].as_str().unwrap_or_default();
            let about = about.lines().next().unwrap_or_default();
            output::line(format!("{server:<16} {name:<28} {about}").trim_end())?;
        }
        Ok(())
    }
}

/// The tools of one server, once they were listed; or why they were not.
async fn listed(hub: &Hub, server: &ServerHandle, within: Duration) -> Result<Vec<Value>, String> {
    let mut catalog = hub.watch_catalog();
    let mut status = server.watch_status();
    let entry = catalog.wait_for(|catalog| catalog.server(server.name()).is_some());
    let parked = status.wait_for(|status| status.state == StateKind::PermanentlyFailed);
    tokio::select! {
        biased;
        entry = entry => {
            let entry = entry.map_err(|_| "the hub is gone".to_owned())?;
            let tools = entry.server(server.name()).map(|entry| entry.tools.clone()).unwrap_or_default();
            Ok(tools.iter().filter_map(|tool| tool.raw.parse().ok()).collect())
        }
        _ = parked => Err(why(server)),
        () = tokio::time::sleep(within) => Err(why(server)),
    }
}

fn why(server: &ServerHandle) -> String {
    let status = server.status();
    let error = status.last_error.unwrap_or_else(|| "no error so far".into());
    let last_words = status.stderr_tail.last();
    let last_words =
        last_words.map_or_else(String::new, |line| format!("\n  its last words: {line}"));
    let hint = status.reason.revival();
    let hint = hint.map_or_else(String::new, |hint| format!("\n  hint: {hint}"));
    format!("{} ({}): {error}{last_words}{hint}", status.state, status.reason)
}
