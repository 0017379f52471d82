//! `mcp-proxy` from `PyPI` (sparfenyuk/mcp-proxy): a stdio server as an HTTP server, or an HTTP server as a stdio server.
//!
//! Several servers are possible, but each then has a URL of its own (`/servers/NAME/`), so to a client it is a proxy for
//! one. It starts its only child before it listens, and does not start when that fails.

use super::adapter::{Adapter, Choice, Naming, Plan, Site, only_one};
use super::installed::{pypi, python_program};
use super::{Address, Port};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "mcp-proxy-pypi",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "--port, --host",
            why: "a stdio server behind streamable HTTP; stateful, which is the default",
            url: "https://github.com/sparfenyuk/mcp-proxy#2-sse-to-stdio",
        },
        Choice {
            setting: "--pass-environment",
            why: "the server gets the environment it would have without it",
            url: "https://github.com/sparfenyuk/mcp-proxy#21-configuration",
        },
        Choice {
            setting: "--transport streamablehttp",
            why: "an HTTP server behind standard input and output; the default is the older transport",
            url: "https://github.com/sparfenyuk/mcp-proxy#11-configuration",
        },
        Choice {
            setting: "--log-level WARNING",
            why: "no line is written for each call",
            url: "https://github.com/sparfenyuk/mcp-proxy#command-line-arguments",
        },
    ],
    supports: |upstreams| only_one(upstreams).map(drop),
    installed: |places| pypi(places, "mcp-proxy", "mcp-proxy"),
    plan,
};

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let mut program = python_program(site.places, "mcp-proxy", "mcp-proxy");
    program.args(["--log-level", "WARNING"]);
    match &upstream.at {
        Address::Http(url) => program.args(["--transport", "streamablehttp"]).arg(url),
        Address::Sse(url) => program.args(["--transport", "sse"]).arg(url),
        Address::Stdio(server) => {
            let port = Port::free()?;
            program.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
            program.args(["--pass-environment", "--"]).arg(server.command.display());
            program.args(server.args.iter().map(String::as_str));
            program.env.clone_from(&server.env);
            return Ok(Plan::one(program, port, "/mcp", Naming::Plain));
        }
    };
    Ok(Plan::started_by_client(program))
}
