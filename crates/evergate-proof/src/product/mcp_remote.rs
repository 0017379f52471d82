//! `mcp-remote` from npm: an HTTP server for clients that only start programs.

use super::adapter::{Adapter, Choice, Plan, Site, all_are, only_one};
use super::installed::{node_program, npm};
use super::{Address, Transport, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "mcp-remote",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "--transport http-only or sse-only",
            why: "the kind of the server is stated, not guessed",
            url: "https://github.com/punkpeye/mcp-remote#transport-strategies",
        },
        Choice {
            setting: "--keep-alive, --body-timeout 0",
            why: "a quiet connection is kept, by both sides",
            url: "https://github.com/punkpeye/mcp-remote#flags",
        },
        Choice {
            setting: "--headers-timeout",
            why: "how long an answer may take to begin; in the fault matrix, where every product has the same deadline",
            url: "https://github.com/punkpeye/mcp-remote#flags",
        },
        Choice {
            setting: "--silent",
            why: "no line is written for each message",
            url: "https://github.com/punkpeye/mcp-remote#flags",
        },
        Choice {
            setting: "MCP_REMOTE_CONFIG_DIR",
            why: "a folder of this run only",
            url: "https://github.com/punkpeye/mcp-remote#troubleshooting",
        },
    ],
    supports,
    installed: |places| npm(places, "mcp-remote"),
    plan,
};

fn supports(upstreams: &[Upstream]) -> Result<(), &'static str> {
    only_one(upstreams)?;
    all_are(upstreams, &[Transport::Http, Transport::Sse], "HTTP servers only")
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let (url, transport) = match &upstream.at {
        Address::Http(url) => (url, "http-only"),
        Address::Sse(url) => (url, "sse-only"),
        Address::Stdio(_) => anyhow::bail!("HTTP servers only"),
    };
    let mut program = node_program(site.places, "mcp-remote/dist/proxy.js");
    program.arg(url).args(["--allow-http", "--transport", transport]);
    program.args(["--keep-alive", "--body-timeout", "0", "--silent"]);
    if let Some(timeout) = site.call_timeout {
        program.arg("--headers-timeout").arg(timeout.as_secs());
    }
    program.env("MCP_REMOTE_CONFIG_DIR", site.folder.join("auth").display());
    Ok(Plan::started_by_client(program))
}
