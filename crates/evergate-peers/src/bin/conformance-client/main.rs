//! A client on `evergate-runtime` and nothing else, for the client mode of the official conformance suite.
//!
//! `conformance-client URL`. It does what a client can do with any server: it uses everything that is offered once, and
//! answers what it is asked. The suite's scenarios are servers that watch how. Only two of them, named in the variable
//! `MCP_CONFORMANCE_SCENARIO`, want something particular.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use evergate_runtime::{
    CallError, Handlers, Hub, Item, Outcome, RawJson, ServerCatalog, ServerHandle, Settings,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

mod form;

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
    let settings = Settings::http(url).timeout(PATIENCE).hold(PATIENCE);
    let hub = Hub::builder().server("suite", settings).handlers(handlers()).start()?;
    let used = use_it(&hub, &scenario).await;
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

async fn use_it(hub: &Hub, scenario: &str) -> anyhow::Result<()> {
    let mut catalogs = hub.watch_catalog();
    let listed = catalogs.wait_for(|catalog| catalog.server("suite").is_some());
    let listed = timeout(PATIENCE, listed).await.context("the server was not listed in time")??;
    let Some(offer) = listed.server("suite").cloned() else { bail!("the server is gone") };
    drop(listed);
    let server = hub.server("suite")?;
    match scenario {
        "http-custom-headers" => {
            let context = std::env::var("MCP_CONFORMANCE_CONTEXT").context("no context")?;
            let wanted: Wanted = serde_json::from_str(&context)?;
            for WantedCall { name, arguments } in wanted.tool_calls {
                server.call_tool(name, arguments).await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let Some(tool) = offer.tool("json_schema_2020_12_tool") else { bail!("no such tool") };
            let schema = parsed(tool)?["inputSchema"].take();
            server.call_tool("json_schema_echo", json!({ "schema": schema })).await?;
        }
        _ => use_everything(&server, &offer).await?,
    }
    Ok(())
}

/// Uses all that is offered, even after a failure. An error is an answer too: not every server means what it offers.
async fn use_everything(server: &ServerHandle, offer: &ServerCatalog) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for tool in &offer.tools {
        let arguments = form::filled_in(&parsed(tool)?["inputSchema"]);
        let called = server.call_tool(&*tool.key, arguments).await;
        failed.extend(unanswered(&tool.key, called));
    }
    for resource in &offer.resources {
        let params = RawJson::from(json!({ "uri": resource.key }));
        let read = server.request("resources/read", Some(params)).await;
        failed.extend(unanswered(&resource.key, read));
    }
    for prompt in &offer.prompts {
        let arguments = form::prompt_arguments(&parsed(prompt)?["arguments"]);
        let params = RawJson::from(json!({ "name": prompt.key, "arguments": arguments }));
        let got = server.request("prompts/get", Some(params)).await;
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
