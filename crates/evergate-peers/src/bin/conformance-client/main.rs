//! A client on `evergate-runtime`, for the client mode of the official conformance suite.
//!
//! `conformance-client URL`. It does what a client can do with any server: it uses everything that is offered once, and
//! answers what it is asked. The suite's scenarios are servers that watch how. Only two of them, named in the variable
//! `MCP_CONFORMANCE_SCENARIO`, want something particular. Whatever concerns MCP is the runtime's; tokens are not, so
//! the OAuth client is this program's own.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use evergate_runtime::{CallError, Handlers, Hub, Item, Outcome, RawJson, ServerCatalog, Settings};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

mod authorized;
mod form;
mod oauth;

use authorized::Authorized;
use oauth::Oauth;

/// The name of the one server.
const SUITE: &str = "suite";
/// The suite ends a client after 30 s.
const PATIENCE: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(2);

/// What the suite wants to be called, in the one scenario that says so.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    tool_calls: Vec<WantedCall>,
}

#[derive(Deserialize)]
struct WantedCall {
    name: String,
    arguments: Value,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(url) = std::env::args().nth(1) else { bail!("usage: conformance-client URL") };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let oauth = Oauth::new(url.clone(), context().ok());
    let token = oauth.token();
    let settings = Settings::http(url).timeout(PATIENCE).hold(PATIENCE);
    let settings = settings.header_source(move || token.headers());
    let hub = Hub::builder().server(SUITE, settings).handlers(handlers()).start()?;
    let used = use_it(&hub, &scenario, oauth).await;
    hub.shutdown(GOODBYE).await;
    used
}

fn handlers() -> Handlers {
    let message = json!({
        "role": "assistant",
        "content": { "type": "text", "text": "Hello" },
        "model": "none",
    });
    Handlers::new()
        .client_info("evergate-conformance-client", env!("CARGO_PKG_VERSION"))
        .on_elicitation(|request| async move {
            let asked = request.params.and_then(|params| params.parse::<Value>().ok());
            let schema = asked.map(|mut asked| asked["requestedSchema"].take());
            let content = form::filled_in(&schema.unwrap_or_default());
            Ok(json!({ "action": "accept", "content": content }).into())
        })
        .on_sampling(move |_| {
            let message = message.clone();
            async move { Ok(message.into()) }
        })
        .on_roots(|_| async { Ok(json!({ "roots": [] }).into()) })
}

async fn use_it(hub: &Hub, scenario: &str, oauth: Oauth) -> anyhow::Result<()> {
    let mut server = Authorized::new(hub.server(SUITE)?, oauth);
    let listed = timeout(PATIENCE, server.listed(hub)).await;
    let offer = listed.context("the server was not listed in time")??;
    match scenario {
        "http-custom-headers" => {
            let wanted: Wanted = context()?;
            for WantedCall { name, arguments } in wanted.tool_calls {
                server.call_tool(&name, &arguments).await??;
            }
        }
        "json-schema-2020-12-preservation" => {
            let Some(tool) = offer.tool("json_schema_2020_12_tool") else { bail!("no such tool") };
            let schema = parsed(tool)?["inputSchema"].take();
            server.call_tool("json_schema_echo", &json!({ "schema": schema })).await??;
        }
        _ => use_everything(&mut server, &offer).await?,
    }
    Ok(())
}

/// What the suite says besides where its server is.
fn context<T: DeserializeOwned>() -> anyhow::Result<T> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").context("no context")?;
    serde_json::from_str(&context).context("not the context of this scenario")
}

/// Uses all that is offered, even after a failure. An error is an answer too: not every server means what it offers.
async fn use_everything(server: &mut Authorized, offer: &ServerCatalog) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for tool in &offer.tools {
        let arguments = form::filled_in(&parsed(tool)?["inputSchema"]);
        let called = server.call_tool(&tool.key, &arguments).await?;
        failed.extend(unanswered(&tool.key, called));
    }
    for resource in &offer.resources {
        let read = server.request("resources/read", &json!({ "uri": resource.key })).await?;
        failed.extend(unanswered(&resource.key, read));
    }
    for prompt in &offer.prompts {
        let arguments = form::prompt_arguments(&parsed(prompt)?["arguments"]);
        let params = json!({ "name": prompt.key, "arguments": arguments });
        let got = server.request("prompts/get", &params).await?;
        failed.extend(unanswered(&prompt.key, got));
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

fn unanswered(what: &str, outcome: Result<RawJson, CallError>) -> Option<String> {
    let error = outcome.err().filter(|error| error.outcome != Outcome::Answered)?;
    Some(format!("{what}: {error}"))
}

fn parsed(item: &Item) -> anyhow::Result<Value> {
    item.raw.parse().with_context(|| format!("{} is no object", item.key))
}
