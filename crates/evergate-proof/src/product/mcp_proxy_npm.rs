//! `mcp-proxy` from npm (punkpeye/mcp-proxy): a stdio server as an HTTP server.
//!
//! All clients share one child, which is started before it listens; its documentation knows no way to start it again.

use super::adapter::{Adapter, Choice, Naming, Plan, Site, all_are, only_one};
use super::installed::{node_program, npm};
use super::{Address, Port, Transport, Upstream};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "mcp-proxy-npm",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "--server stream",
            why: "streamable HTTP; stateful and resumable, which is the default",
            url: "https://github.com/punkpeye/mcp-proxy#command-line",
        },
        Choice {
            setting: "--sessionIdleTimeout 0",
            why: "a session lasts until its client ends it",
            url: "https://github.com/punkpeye/mcp-proxy#abandoned-sessions",
        },
        Choice {
            setting: "--requestTimeout",
            why: "how long a request may take; in the fault matrix, where every product has the same deadline",
            url: "https://github.com/punkpeye/mcp-proxy#command-line",
        },
        Choice {
            setting: "--maxBodySize 0",
            why: "no limit on what a call may carry",
            url: "https://github.com/punkpeye/mcp-proxy#request-body-size",
        },
    ],
    supports,
    installed: |places| npm(places, "mcp-proxy"),
    plan,
};

fn supports(upstreams: &[Upstream]) -> Result<(), &'static str> {
    only_one(upstreams)?;
    all_are(upstreams, &[Transport::Stdio], "stdio servers only")
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let Address::Stdio(server) = &upstream.at else { anyhow::bail!("stdio servers only") };
    let port = Port::free()?;
    let mut program = node_program(site.places, "mcp-proxy/dist/bin/mcp-proxy.mjs");
    program.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--server", "stream"]);
    program.args(["--sessionIdleTimeout", "0", "--maxBodySize", "0"]);
    if let Some(timeout) = site.call_timeout {
        program.arg("--requestTimeout").arg(timeout.as_millis());
    }
    program.arg("--").arg(server.command.display());
    program.args(server.args.iter().map(String::as_str));
    program.env.clone_from(&server.env);
    Ok(Plan::one(program, port, "/mcp", Naming::Plain))
}
