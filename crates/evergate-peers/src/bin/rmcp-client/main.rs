//! A client made with the official Rust SDK, driven by tests over standard input and output.
//!
//! It speaks the little language of `peers/clients/README.md`, as the clients in other languages do.

mod bridge;
mod listening;
mod operations;
mod transport;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use rmcp::ClientLifecycleMode;
use rmcp::model::{
    ClientConfig, ClientResult, ErrorCode, ErrorData, ProtocolVersion, ServerNotification,
    ServerRequest,
};
use rmcp::service::{
    NotificationContext, RequestContext, RoleClient, RunningService, Service,
    serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{
    IntoTransport as _, StreamableHttpClientTransport, Transport, UnixSocketHttpClient,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;

use self::bridge::Bridge;
use self::listening::Listening;
use self::transport::Counted;

/// What happened since it was last asked for.
type Events = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Answers what servers ask with fixed answers, and counts it.
struct Client {
    events: Events,
}

type Running = RunningService<RoleClient, Client>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(
                &json!({ "ok": false, "error": { "code": "Error", "message": format!("{error:#}") } }),
            );
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (era, arguments) = match &arguments[..] {
        ["--era", era, rest @ ..] => (*era, rest),
        rest => ("legacy", rest),
    };
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let era = match era {
        "legacy" => ClientLifecycleMode::Initialize,
        "modern" => ClientLifecycleMode::Discover { preferred_versions },
        "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        _ => bail!("no era {era}"),
    };
    match *arguments {
        ["--url", url] => {
            let bridge = Bridge::to(url)?;
            let client = UnixSocketHttpClient::new(&bridge.path(), url);
            // A gateway that needs the client to begin again has failed.
            let config =
                StreamableHttpClientTransportConfig::with_uri(url).reinit_on_expired_session(false);
            serve(StreamableHttpClientTransport::with_client(client, config), era).await
        }
        ["--command", program, ref arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().context("cannot start")?;
            let streams = child.stdout.take().zip(child.stdin.take()).context("no pipes")?;
            serve(streams.into_transport(), era).await
        }
        _ => bail!(
            "usage: rmcp-client [--era legacy|modern|auto] (--url URL | --command COMMAND [ARGUMENT]...)"
        ),
    }
}

/// Connects once, then does what standard input says. Commands run side by side.
async fn serve(
    transport: impl Transport<RoleClient> + 'static,
    era: ClientLifecycleMode,
) -> anyhow::Result<()> {
    let events = Events::default();
    let transport = Counted::new(transport);
    let handshakes = transport.handshakes();
    let client = Client { events: events.clone() };
    let running: Running =
        serve_client_with_lifecycle(client, transport, era).await.context("cannot connect")?;
    let running = Arc::new(running);
    let about = running.peer().peer_info();
    let server = about.as_ref().map(|info| serde_json::to_value(&info.server_info)).transpose()?;
    let protocol = about.as_ref().map(|info| info.protocol_version.to_string());
    let connected =
        json!({ "server": server, "protocol": protocol, "initialize": handshakes.get() });
    say(&json!({ "ok": true, "result": connected }));

    let mut listening = Listening::new(events.clone());
    let mut commands = JoinSet::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let command: Value = serde_json::from_str(&line)?;
        let id = command["id"].clone();
        match command["op"].as_str() {
            Some("close") => {
                commands.shutdown().await;
                listening.end().await;
                if let Some(running) = Arc::into_inner(running) {
                    running.cancel().await?;
                }
                say(&json!({ "id": id, "ok": true, "result": {} }));
                return Ok(());
            }
            Some("events") => {
                let mut seen = std::mem::take(&mut *lock(&events));
                seen.insert("initialize", handshakes.get());
                say(&json!({ "id": id, "ok": true, "result": seen }));
            }
            Some("listen") => {
                let mut answer = listening.begin(running.peer(), &command["filter"]).await;
                answer["id"] = id;
                say(&answer);
            }
            Some("unlisten") => {
                listening.end().await;
                say(&json!({ "id": id, "ok": true, "result": {} }));
            }
            _ => {
                let running = running.clone();
                commands.spawn(async move {
                    let mut answer = operations::perform(&running, &command).await;
                    answer["id"] = id;
                    say(&answer);
                });
            }
        }
        while commands.try_join_next().is_some() {}
    }
    Ok(())
}

fn lock(events: &Events) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The event that counts a notification.
fn event(notification: &ServerNotification) -> &'static str {
    match notification {
        ServerNotification::ProgressNotification(_) => "progress",
        ServerNotification::LoggingMessageNotification(_) => "log_message",
        ServerNotification::ResourceUpdatedNotification(_) => "resource_updated",
        ServerNotification::ResourceListChangedNotification(_) => "resources_changed",
        ServerNotification::ToolListChangedNotification(_) => "tools_changed",
        ServerNotification::PromptListChangedNotification(_) => "prompts_changed",
        _ => "other",
    }
}

/// One line, written at once.
fn say(line: &Value) {
    let mut output = std::io::stdout().lock();
    // Whoever does not listen any more is not told.
    let _ = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush());
}

// === impl Client ===

impl Client {
    fn count(&self, event: &'static str) {
        *lock(&self.events).entry(event).or_default() += 1;
    }
}

impl Service<RoleClient> for Client {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let answer = match request {
            ServerRequest::PingRequest(_) => json!({}),
            ServerRequest::CreateMessageRequest(_) => {
                self.count("sampling");
                let content = json!({ "type": "text", "text": "sampled" });
                json!({ "model": "fixed", "role": "assistant", "content": content })
            }
            ServerRequest::ElicitRequest(_) => {
                self.count("elicitation");
                json!({ "action": "accept", "content": { "name": "Ada" } })
            }
            ServerRequest::ListRootsRequest(_) => {
                self.count("roots");
                json!({ "roots": [{ "uri": "file:///evergate", "name": "evergate" }] })
            }
            other => {
                let error = format!("no answer to {other:?}");
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, error, None));
            }
        };
        serde_json::from_value(answer)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        self.count(event(&notification));
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        "evergate-peer-rmcp".clone_into(&mut config.client_info.name);
        config.capabilities.sampling = Some(rmcp::model::SamplingCapability::default());
        config.capabilities.elicitation = Some(rmcp::model::ElicitationCapability::default());
        config.capabilities.roots = Some(rmcp::model::RootsCapabilities::default());
        config
    }
}
