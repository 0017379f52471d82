//! supergateway from npm: a stdio server as an HTTP server, or an HTTP server as a stdio server.
//!
//! In stateful mode each session has a child of its own; without it each request has, which costs more and forgets what
//! a session is.

use super::adapter::{Adapter, Choice, Naming, Plan, Site, only_one};
use super::installed::{node_program, npm};
use super::{Address, Port};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "supergateway",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "--outputTransport streamableHttp --stateful",
            why: "sessions are kept; its session timeout of 30 minutes is the default",
            url: "https://github.com/supercorp-ai/supergateway#stdio--streamable-http",
        },
        Choice {
            setting: "--streamableHttp URL",
            why: "an HTTP server behind standard input and output",
            url: "https://github.com/supercorp-ai/supergateway#streamable-http--stdio",
        },
        Choice {
            setting: "--sse URL",
            why: "the same for a server of the 2024-11-05 transport",
            url: "https://github.com/supercorp-ai/supergateway#sse--stdio",
        },
        Choice {
            setting: "--logLevel none",
            why: "no line is written for each message",
            url: "https://github.com/supercorp-ai/supergateway#installation--usage",
        },
    ],
    supports: |upstreams| only_one(upstreams).map(drop),
    installed: |places| npm(places, "supergateway"),
    plan,
};

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let mut program = node_program(site.places, "supergateway/dist/index.js");
    program.args(["--logLevel", "none"]);
    match &upstream.at {
        Address::Http(url) => program.arg("--streamableHttp").arg(url),
        Address::Sse(url) => program.arg("--sse").arg(url),
        Address::Stdio(server) => {
            let port = Port::free()?;
            program.args(["--outputTransport", "streamableHttp", "--stateful"]);
            program.arg("--port").arg(&port).arg("--stdio").arg(server.as_shell_command());
            program.env.clone_from(&server.env);
            return Ok(Plan::one(program, port, "/mcp", Naming::Plain));
        }
    };
    Ok(Plan::started_by_client(program))
}
