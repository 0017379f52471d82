//! Evergate started by hand: without servers, or under a tool that looks at it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use super::group::Group;
use crate::product::{Address, Places, Program, Upstream};

/// The process, and where it is.
#[derive(Debug)]
pub struct Gateway {
    group: Group,
    url: String,
    _folder: TempDir,
}

/// Tools that look at a process make it fifty times as slow.
const LONGEST: Duration = Duration::from_secs(60);

// === impl Gateway ===

impl Gateway {
    /// Starts it, as an argument of another program if there is one. It has said where it is when this returns.
    pub async fn start(
        under: Option<&Program>,
        upstreams: &[Upstream],
        places: &Places,
    ) -> Result<Self> {
        let folder = TempDir::with_prefix("evergate-bench-")?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let servers: Map<String, Value> = upstreams.iter().map(entry).collect();
        std::fs::write(path("config.json"), json!({ "mcpServers": servers }).to_string())?;
        let mut program = Program::new(&places.evergate);
        if let Some(under) = under {
            program = under.clone();
            program.arg(places.evergate.display());
        }
        program.args(["serve", "--listen", "127.0.0.1:0", "--config", &path("config.json")]);
        program.args(["--state-dir", &path("state")]);
        let mut group = Group::start(&program)?;
        let mut url = String::new();
        let stdout = group.child().stdout.take().context("piped")?;
        timeout(LONGEST, BufReader::new(stdout).read_line(&mut url)).await.context("no word")??;
        Ok(Self { group, url: url.trim().to_owned(), _folder: folder })
    }

    /// Where clients go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.group.id()
    }

    /// Asks it to end and waits for that.
    pub async fn stop(mut self) -> Result<()> {
        let child = self.group.child();
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        kill_process(pid.context("it has ended already")?, Signal::TERM)?;
        timeout(LONGEST, child.wait()).await.context("it does not end")??;
        Ok(())
    }
}

fn entry(upstream: &Upstream) -> (String, Value) {
    let entry = match &upstream.at {
        Address::Http(url) => json!({ "type": "http", "url": url }),
        Address::Sse(url) => json!({ "type": "sse", "url": url }),
        Address::Stdio(program) => program.as_entry(),
    };
    (upstream.name.clone(), entry)
}
