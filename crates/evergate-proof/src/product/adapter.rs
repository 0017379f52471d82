//! What the file of each product says about it.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use super::{Address, Places, Port, Program, Transport, Upstream};

/// A setting that was chosen for a product.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// As it is written on its command line or in its configuration.
    pub setting: &'static str,
    /// What it is good for.
    pub why: &'static str,
    /// Where its documentation tells of it.
    pub url: &'static str,
}

/// One product.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) name: &'static str,
    pub(super) understands_mcp: bool,
    pub(super) docs: &'static [Choice],
    /// There is at least one server.
    pub(super) supports: fn(&[Upstream]) -> Result<(), &'static str>,
    pub(super) installed: fn(&Places) -> Result<String, String>,
    /// Writes what it needs into the folder.
    pub(super) plan: fn(&Site<'_>) -> anyhow::Result<Plan>,
}

/// What there is to plan with.
#[derive(Debug)]
pub(super) struct Site<'a> {
    /// Servers that the product supports.
    pub(super) upstreams: &'a [Upstream],
    pub(super) places: &'a Places,
    /// Its own, gone when it is.
    pub(super) folder: &'a Path,
    /// How long a call may take, for products that have a setting for it.
    pub(super) call_timeout: Option<Duration>,
}

/// How it is started, and where it then is.
pub(super) struct Plan {
    /// Started one after the other, each when the one before is ready. None for what the client starts itself.
    pub(super) services: Vec<Service>,
    /// Where a client goes.
    pub(super) address: Address,
    pub(super) naming: Naming,
    /// For a product that keeps its servers in a database of its own.
    pub(super) setup: Option<Setup>,
}

/// A program that listens.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) program: Program,
    pub(super) port: Port,
    /// For one that listens before it can serve: the path that tells, and a word of the good answer.
    pub(super) health: Option<(&'static str, &'static str)>,
}

/// What is done once, after the first start.
pub(super) type Setup = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// What a product calls a tool of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// As the server does.
    Plain,
    /// The server's name, this, the tool's name.
    Joined(&'static str),
    /// The same, with every underscore as a hyphen.
    Slug(&'static str),
}

// === impl Naming ===

impl Naming {
    pub(super) fn tool(self, server: &str, tool: &str) -> String {
        match self {
            Self::Plain => tool.to_owned(),
            Self::Joined(separator) => format!("{server}{separator}{tool}"),
            Self::Slug(separator) => format!("{server}{separator}{tool}").replace('_', "-"),
        }
    }
}

// === impl Service ===

impl Service {
    /// Ready when it accepts connections.
    pub(super) fn new(program: Program, port: Port) -> Self {
        Self { program, port, health: None }
    }

    /// Ready when what is at this path has this word in it.
    pub(super) fn healthy_at(mut self, path: &'static str, word: &'static str) -> Self {
        self.health = Some((path, word));
        self
    }
}

// === impl Plan ===

impl Plan {
    /// A program that the client starts, in front of the only server.
    pub(super) fn started_by_client(program: Program) -> Self {
        let address = Address::Stdio(program);
        Self { services: Vec::new(), address, naming: Naming::Plain, setup: None }
    }

    /// One program behind which everything is found at this path.
    pub(super) fn one(program: Program, port: Port, path: &str, naming: Naming) -> Self {
        let address = Address::Http(format!("http://127.0.0.1:{port}{path}"));
        Self { services: vec![Service::new(program, port)], address, naming, setup: None }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("services", &self.services).finish_non_exhaustive()
    }
}

// === impl Program ===

impl Program {
    /// As one line for a shell.
    pub(super) fn as_shell_command(&self) -> String {
        let words = std::iter::once(self.command.display().to_string()).chain(self.args.clone());
        let quoted: Vec<String> =
            words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        quoted.join(" ")
    }
}

/// The only server, for products that know only one.
pub(super) fn only_one(upstreams: &[Upstream]) -> Result<&Upstream, &'static str> {
    match upstreams {
        [one] => Ok(one),
        _ => Err("one server only"),
    }
}

/// Whether all servers are of these kinds.
pub(super) fn all_are(
    upstreams: &[Upstream],
    kinds: &[Transport],
    otherwise: &'static str,
) -> Result<(), &'static str> {
    if upstreams.iter().all(|upstream| kinds.contains(&upstream.at.transport())) {
        Ok(())
    } else {
        Err(otherwise)
    }
}
