//! `HAProxy` as a plain reverse proxy: like nginx, the price of one more HTTP exchange.
//!
//! It passes bytes on as they come by default, and by default uses one thread for each core.

use anyhow::Context as _;

use super::adapter::{Adapter, Choice, Naming, Plan, Site, only_one};
use super::installed::says;
use super::nginx::{supports, through};
use super::{Places, Port, Program};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "haproxy",
    understands_mcp: false,
    docs: &[
        Choice {
            setting: "http-reuse always",
            why: "any kept connection to the server serves any client",
            url: "https://docs.haproxy.org/2.6/configuration.html#4.2-http-reuse",
        },
        Choice {
            setting: "timeout client 1d, timeout server 1d",
            why: "a listening stream may be silent for long",
            url: "https://docs.haproxy.org/2.6/configuration.html#4.2-timeout%20server",
        },
    ],
    supports,
    installed,
    plan,
};

fn installed(_places: &Places) -> Result<String, String> {
    says("haproxy", "-v").ok_or_else(|| "no haproxy: ./scripts/install-products haproxy".to_owned())
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    let port = Port::free()?;
    let (server, address) = through(&upstream.at, &port)?;
    let config = site.folder.join("haproxy.cfg");
    std::fs::write(&config, config_text(&port, &server))
        .context("cannot write its configuration")?;
    let mut program = Program::new("haproxy");
    // In the foreground, and quiet.
    program.args(["-db", "-q", "-f"]).arg(config.display());
    let mut plan = Plan::one(program, port, "", Naming::Plain);
    plan.address = address;
    Ok(plan)
}

fn config_text(port: &Port, server: &str) -> String {
    format!(
        "defaults
    mode http
    timeout connect 5s
    timeout client 1d
    timeout server 1d

frontend front
    bind 127.0.0.1:{port}
    default_backend back

backend back
    http-reuse always
    server server {server}
"
    )
}
