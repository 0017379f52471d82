//! Evergate with nothing configured but its servers, and how long a call may take where everybody is told that: the
//! defaults are what is measured.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::adapter::{Adapter, Naming, Plan, Site};
use super::installed::says;
use super::{Address, Places, Port, Program, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "evergate",
    understands_mcp: true,
    docs: &[],
    supports: |_| Ok(()),
    installed,
    plan,
};

fn installed(places: &Places) -> Result<String, String> {
    says(&places.evergate, "--version")
        .ok_or_else(|| "no evergate program: cargo build --release -p evergate".to_owned())
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let port = Port::free()?;
    let config = site.folder.join("evergate.json");
    std::fs::write(&config, config_text(site.upstreams, site.call_timeout))
        .context("cannot write its configuration")?;
    let mut program = Program::new(&site.places.evergate);
    program.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--config"]);
    program.arg(config.display());
    program.arg("--state-dir").arg(site.folder.join("state").display());
    Ok(Plan::one(program, port, "/mcp", Naming::Joined("__")))
}

fn config_text(upstreams: &[Upstream], call_timeout: Option<Duration>) -> String {
    let entry = |upstream: &Upstream| {
        let mut entry = entry(&upstream.at);
        if let Some(timeout) = call_timeout {
            entry["timeout"] = json!(format!("{}ms", timeout.as_millis()));
        }
        entry
    };
    let servers: Value =
        upstreams.iter().map(|upstream| (upstream.name.clone(), entry(upstream))).collect();
    format!("{:#}", json!({ "mcpServers": servers }))
}

fn entry(at: &Address) -> Value {
    match at {
        Address::Http(url) => json!({ "type": "http", "url": url }),
        Address::Sse(url) => json!({ "type": "sse", "url": url }),
        Address::Stdio(program) => program.as_entry(),
    }
}
