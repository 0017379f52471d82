//! `mcp-hub` from npm (ravitemer/mcp-hub): all servers of an `mcpServers` file behind one endpoint.
//!
//! Its endpoint speaks the 2024-11-05 transport only. A server's kind is guessed: streamable HTTP is tried first. A
//! server that is down does not keep it from starting.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::adapter::{Adapter, Choice, Naming, Plan, Service, Site};
use super::installed::{node_program, npm};
use super::{Address, Port, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "mcp-hub",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "--config",
            why: "the kind of a server follows from its entry",
            url: "https://github.com/ravitemer/mcp-hub#configuration",
        },
        Choice {
            setting: "--auto-shutdown is left off",
            why: "it goes on without clients",
            url: "https://github.com/ravitemer/mcp-hub#cli-options",
        },
    ],
    supports: |_| Ok(()),
    installed: |places| npm(places, "mcp-hub"),
    plan,
};

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let port = Port::free()?;
    let config = site.folder.join("servers.json");
    std::fs::write(&config, config_text(site.upstreams))
        .context("cannot write its configuration")?;
    let mut program = node_program(site.places, "mcp-hub/dist/cli.js");
    program.arg("--port").arg(&port).arg("--config").arg(config.display());
    // It keeps notes for its user there.
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
        program.env(variable, site.folder.join("home").display());
    }
    let address = Address::Sse(format!("http://127.0.0.1:{port}/mcp"));
    let service = Service::new(program, port).healthy_at("/api/health", "\"ready\"");
    Ok(Plan { services: vec![service], address, naming: Naming::Joined("__"), setup: None })
}

fn config_text(upstreams: &[Upstream]) -> String {
    let entry = |at: &Address| match at {
        Address::Http(url) | Address::Sse(url) => json!({ "url": url }),
        Address::Stdio(program) => program.as_entry(),
    };
    let servers: Value =
        upstreams.iter().map(|upstream| (upstream.name.clone(), entry(&upstream.at))).collect();
    format!("{:#}", json!({ "mcpServers": servers }))
}
