//! `FastMCP`'s proxy: `fastmcp run mcp.json`, one endpoint for all servers of an `mcpServers` file.
//!
//! It opens a session to an HTTP server for each request, and keeps stdio servers between requests (`keep_alive`, on by
//! default). With one server tools keep their names, with several they get its name and `_` in front. A server that is
//! down does not keep it from starting.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::adapter::{Adapter, Choice, Naming, Plan, Site};
use super::installed::{pypi, python_program};
use super::{Address, Port, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "fastmcp",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "fastmcp run mcp.json",
            why: "a proxy for one or several servers of a configuration file",
            url: "https://gofastmcp.com/servers/proxy",
        },
        Choice {
            setting: "--transport http",
            why: "streamable HTTP, the transport it recommends for network use; sessions are kept by default",
            url: "https://gofastmcp.com/deployment/running-server",
        },
        Choice {
            setting: "\"transport\": \"http\" or \"sse\"",
            why: "the kind of each server is stated, not guessed",
            url: "https://gofastmcp.com/clients/transports",
        },
        Choice {
            setting: "\"timeout\" of each server",
            why: "how long a request may take; in the fault matrix, where every product has the same deadline",
            url: "https://gofastmcp.com/integrations/mcp-json-configuration",
        },
        Choice {
            setting: "--log-level WARNING, --no-banner",
            why: "no line is written for each call",
            url: "https://gofastmcp.com/patterns/cli",
        },
    ],
    supports: |_| Ok(()),
    installed: |places| pypi(places, "fastmcp", "fastmcp"),
    plan,
};

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let port = Port::free()?;
    let config = site.folder.join("mcp.json");
    std::fs::write(&config, config_text(site.upstreams, site.call_timeout))
        .context("cannot write its configuration")?;
    let mut program = python_program(site.places, "fastmcp", "fastmcp");
    program.arg("run").arg(config.display());
    program.args(["--transport", "http", "--host", "127.0.0.1", "--port", &port.to_string()]);
    program.args(["--log-level", "WARNING", "--no-banner"]);
    let naming = if site.upstreams.len() == 1 { Naming::Plain } else { Naming::Joined("_") };
    Ok(Plan::one(program, port, "/mcp", naming))
}

fn config_text(upstreams: &[Upstream], call_timeout: Option<Duration>) -> String {
    let entry = |upstream: &Upstream| {
        let mut entry = entry(&upstream.at);
        if let Some(timeout) = call_timeout {
            entry["timeout"] = json!(timeout.as_millis());
        }
        entry
    };
    let servers: Value =
        upstreams.iter().map(|upstream| (upstream.name.clone(), entry(upstream))).collect();
    format!("{:#}", json!({ "mcpServers": servers }))
}

fn entry(at: &Address) -> Value {
    match at {
        Address::Http(url) => json!({ "transport": "http", "url": url }),
        Address::Sse(url) => json!({ "transport": "sse", "url": url }),
        Address::Stdio(program) => program.as_entry(),
    }
}
