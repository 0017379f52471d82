//! The client alone: what happens without anything in between.

use super::Upstream;
use super::adapter::{Adapter, Naming, Plan, Site, only_one};

pub(super) const ADAPTER: Adapter = Adapter {
    name: "direct",
    understands_mcp: true,
    docs: &[],
    supports,
    installed: |_| Ok("-".to_owned()),
    plan,
};

fn supports(upstreams: &[Upstream]) -> Result<(), &'static str> {
    only_one(upstreams).map(drop)
}

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let upstream = only_one(site.upstreams).map_err(anyhow::Error::msg)?;
    Ok(Plan {
        services: Vec::new(),
        address: upstream.at.clone(),
        naming: Naming::Plain,
        setup: None,
    })
}
