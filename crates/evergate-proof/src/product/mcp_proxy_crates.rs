//! `mcp-proxy` from crates.io (joshrotenberg/mcp-proxy): many servers behind one endpoint, in Rust.
//!
//! Retries are what it offers against failures. They are off by default and are switched on here, with the values that its
//! example shows; its circuit breaker and outlier detection stay off, since they refuse calls to a server that may be well
//! again.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::Value;

use super::adapter::{Adapter, Choice, Naming, Plan, Site, all_are};
use super::installed::crates_io;
use super::{Address, Places, Port, Program, Transport, Upstream};

const REFERENCE: &str = "https://github.com/joshrotenberg/mcp-proxy/blob/main/config.example.toml";

pub(super) const ADAPTER: Adapter = Adapter {
    name: "mcp-proxy-crates",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "separator = \"__\"",
            why: "its default, a slash, is not allowed in the names of tools by most clients",
            url: REFERENCE,
        },
        Choice {
            setting: "[backends.retry] max_retries = 3",
            why: "off by default; calls that failed are tried again, with growing delays, whether they may have run or not",
            url: REFERENCE,
        },
        Choice {
            setting: "[backends.timeout]",
            why: "how long a call may take; in the fault matrix, where every product has the same deadline",
            url: REFERENCE,
        },
        Choice {
            setting: "audit = false, log_level = \"warn\"",
            why: "no line is written for each call",
            url: REFERENCE,
        },
    ],
    supports,
    installed: |places| crates_io(places, "mcp-proxy-crates", "mcp-proxy"),
    plan,
};

fn supports(upstreams: &[Upstream]) -> Result<(), &'static str> {
    let kinds = [Transport::Http, Transport::Stdio];
    all_are(upstreams, &kinds, "no servers of the 2024-11-05 transport")
}

fn program(places: &Places) -> std::path::PathBuf {
    places.product("mcp-proxy-crates/bin/mcp-proxy")
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let port = Port::free()?;
    let config = site.folder.join("proxy.toml");
    let text = config_text(site, &port)?;
    std::fs::write(&config, text).context("cannot write its configuration")?;
    let mut program = Program::new(program(site.places));
    program.arg("--config").arg(config.display());
    Ok(Plan::one(program, port, "/", Naming::Joined("__")))
}

fn config_text(site: &Site<'_>, port: &Port) -> anyhow::Result<String> {
    let mut text = format!(
        "[proxy]
name = \"proxy\"
separator = \"__\"

[proxy.listen]
host = \"127.0.0.1\"
port = {port}

[observability]
audit = false
log_level = \"warn\"
"
    );
    for upstream in site.upstreams {
        // A JSON string is a TOML string too, but for escapes that no path or URL has.
        let quoted = |text: &str| Value::from(text).to_string();
        writeln!(text, "\n[[backends]]\nname = {}", quoted(&upstream.name))?;
        match &upstream.at {
            Address::Http(url) => writeln!(text, "transport = \"http\"\nurl = {}", quoted(url))?,
            Address::Sse(_) => anyhow::bail!("no servers of the 2024-11-05 transport"),
            Address::Stdio(program) => {
                writeln!(text, "transport = \"stdio\"")?;
                writeln!(text, "command = {}", quoted(&program.command.display().to_string()))?;
                writeln!(text, "args = {}", Value::from(program.args.clone()))?;
            }
        }
        writeln!(text, "[backends.retry]\nmax_retries = 3")?;
        if let Some(timeout) = site.call_timeout {
            writeln!(text, "[backends.timeout]\nseconds = {}", timeout.as_secs())?;
        }
        if let Address::Stdio(program) = &upstream.at {
            writeln!(text, "[backends.env]")?;
            for (name, value) in &program.env {
                writeln!(text, "{} = {}", quoted(name), quoted(value))?;
            }
        }
    }
    Ok(text)
}
