//! The servers behind the products: processes of the test kit's `fast-server`.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use evergate_testkit::fast_server_path;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::product::{Address, Program, Upstream};

/// A process that is as many servers as anybody wants. It ends when this is dropped.
#[derive(Debug)]
pub struct FastServer {
    _child: Child,
    url: String,
}

/// The name of the first server at every product.
pub const NAME: &str = "s0";

// === impl FastServer ===

impl FastServer {
    /// Starts it with these arguments.
    pub async fn start(args: &[&str]) -> Result<Self> {
        let mut command = Command::new(path()?);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start fast-server")?;
        let stdout = child.stdout.take().context("piped")?;
        let mut url = String::new();
        timeout(Duration::from_secs(10), BufReader::new(stdout).read_line(&mut url))
            .await
            .context("fast-server does not say where it is")??;
        Ok(Self { _child: child, url: url.trim().to_owned() })
    }

    /// So many servers at it, named `s0`, `s1` and so on.
    pub fn servers(&self, count: usize) -> Vec<Upstream> {
        let base = self.url.trim_end_matches("/mcp");
        let one = |number: usize| {
            let name = format!("s{number}");
            Upstream { at: Address::Http(format!("{base}/{name}/mcp")), name }
        };
        (0..count).map(one).collect()
    }
}

/// A server that its product starts as a child.
pub fn child(args: &[&str]) -> Result<Upstream> {
    let args = args.iter().map(|&arg| arg.to_owned()).chain(["--stdio".to_owned()]).collect();
    let program = Program { command: path()?, args, env: Vec::new() };
    Ok(Upstream { name: NAME.to_owned(), at: Address::Stdio(program) })
}

fn path() -> Result<std::path::PathBuf> {
    fast_server_path().context("no fast-server: cargo build --release -p evergate-testkit")
}
