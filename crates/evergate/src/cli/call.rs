//! `evergate call`: one tool call from a shell.

use std::time::Duration;

use clap::Args;
use evergate_runtime::{CallFailure, RawJson};
use serde_json::Value;

use super::source::{self, ConfigArgs};
use crate::exit_code::Failure;
use crate::output;

/// Call one tool and print its result.
///
/// Exits with 0 if the tool answered, also when its answer says `isError`; with 69 if the server could not be reached or
/// the outcome is unknown; with 64 if the arguments are not a JSON object or the configuration does not allow
/// the tool. The error says whether the call may have run.
#[derive(Debug, Args)]
pub(crate) struct Call {
    #[command(flatten)]
    config: ConfigArgs,
    /// The server, as the file names it.
    server: String,
    /// The tool, as the server names it.
    tool: String,
    /// Its arguments, a JSON object.
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// Print the result as the server sent it instead of its text.
    #[arg(long)]
    json: bool,
    /// How long the call may take, waiting for the server included, in seconds. What the configuration says if absent.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

// === impl Call ===

impl Call {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let arguments = RawJson::from_text(self.arguments.clone()).map_err(|error| {
            Failure::usage(format!("the arguments are not valid JSON: {error}"))
        })?;
        if !arguments.as_str().trim_start().starts_with('{') {
            return Err(Failure::usage("the arguments must be a JSON object".into()));
        }
        let config = self.config.load_usable()?;
        let rules = config.servers.get(&self.server).map(|server| server.tools.clone());
        let rules = rules.unwrap_or_default();
        if !rules.allows(&self.tool) {
            let (server, tool) = (&self.server, &self.tool);
            return Err(Failure::usage(format!(
                "the configuration does not allow the tool {tool:?} of {server}"
            )));
        }
        let (hub, servers) = source::start(&config, Some(&self.server))?;
        let [server] = &servers[..] else {
            return Err(
                anyhow::anyhow!("one server was to be started, not {}", servers.len()).into()
            );
        };
        let own = rules.overrides_for(&self.tool);
        let mut call = server.call_tool(&self.tool, arguments);
        if let Some(hold) = own.hold {
            call = call.hold(hold);
        }
        if let Some(timeout) = own.timeout {
            call = call.timeout(timeout);
        }
        if let Some(deadline) = self.timeout.map(Duration::from_secs).or(own.max_timeout) {
            call = call.deadline(deadline);
        }
        let result = call.await;
        hub.shutdown(Duration::from_secs(5)).await;
        match result {
            Ok(result) if self.json => output::line(result.as_str()),
            Ok(result) => output::line(&readable(&result)),
            Err(error) => match &error.source {
                CallFailure::Rpc(rpc) if self.json => {
                    output::line(rpc.raw.as_str())?;
                    Err(Failure::unavailable(error.chain()))
                }
                _ => Err(Failure::unavailable(error.chain())),
            },
        }
    }
}

/// The text of a result; what is not text is shown as JSON.
fn readable(result: &RawJson) -> String {
    let Ok(value) = result.parse::<Value>() else { return result.as_str().to_owned() };
    let Some(blocks) = value["content"].as_array() else { return result.as_str().to_owned() };
    let texts = blocks.iter().map(|block| match block["text"].as_str() {
        Some(text) if block["type"] == "text" => text.to_owned(),
        _ => block.to_string(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
