//! The products that are compared, each started as its own documentation says is best.
//!
//! A product is an adapter in a file of its own: which servers it can stand in front of, how it is installed,
//! configured, started and where it then answers. Nothing here knows what is measured.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

mod adapter;
mod contextforge;
mod direct;
mod evergate;
mod fastmcp;
mod haproxy;
mod http;
mod installed;
mod mcp_hub;
mod mcp_proxy_crates;
mod mcp_proxy_npm;
mod mcp_proxy_pypi;
mod mcp_remote;
mod nginx;
mod port;
mod process;
mod running;
mod supergateway;
mod tree;

pub use adapter::Choice;
pub use port::Port;
pub use running::{Leftover, Outliver, Running};

use adapter::Adapter;

/// Everything that can stand between a client and its servers, and the client alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Product {
    /// The client alone.
    Direct,
    /// Ours.
    Evergate,
    /// A reverse proxy that knows nothing of MCP.
    Nginx,
    /// Another.
    Haproxy,
    /// The proxy of a Python framework, for many servers.
    FastMcp,
    /// A registry and gateway for many servers.
    ContextForge,
    /// A hub for many servers.
    McpHub,
    /// Between stdio and HTTP, in Python.
    McpProxyPypi,
    /// From stdio to HTTP, in JavaScript.
    McpProxyNpm,
    /// Between stdio and HTTP, in JavaScript.
    Supergateway,
    /// From HTTP to stdio, in JavaScript.
    McpRemote,
    /// Many servers behind one endpoint, in Rust.
    McpProxyCrates,
}

/// One MCP server that a product is put in front of.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Letters and digits only, so that every product accepts it.
    pub name: String,
    /// How it is reached.
    pub at: Address,
}

/// Where an MCP server, or a product, is reached.
#[derive(Debug, Clone)]
pub enum Address {
    /// Streamable HTTP.
    Http(String),
    /// The 2024-11-05 transport: the URL of its event stream.
    Sse(String),
    /// A program on standard input and output, to be started by whoever wants to talk to it.
    Stdio(Program),
}

/// A program and how to start it.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
}

/// The kinds of [`Address`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// [`Address::Http`]
    Http,
    /// [`Address::Sse`]
    Sse,
    /// [`Address::Stdio`]
    Stdio,
}

/// Where things are found.
#[derive(Debug, Clone)]
pub struct Places {
    /// The built `evergate` binary (release, unless somebody says otherwise).
    pub evergate: PathBuf,
    /// The folder into which `scripts/install-peers` and `scripts/install-products` install.
    pub peers: PathBuf,
}

// === impl Product ===

impl Product {
    /// All of them, in the order in which they are shown.
    pub const ALL: &[Self] = &[
        Self::Direct,
        Self::Evergate,
        Self::Nginx,
        Self::Haproxy,
        Self::FastMcp,
        Self::ContextForge,
        Self::McpHub,
        Self::McpProxyPypi,
        Self::McpProxyNpm,
        Self::Supergateway,
        Self::McpRemote,
        Self::McpProxyCrates,
    ];

    fn adapter(self) -> &'static Adapter {
        match self {
            Self::Direct => &direct::ADAPTER,
            Self::Evergate => &evergate::ADAPTER,
            Self::Nginx => &nginx::ADAPTER,
            Self::Haproxy => &haproxy::ADAPTER,
            Self::FastMcp => &fastmcp::ADAPTER,
            Self::ContextForge => &contextforge::ADAPTER,
            Self::McpHub => &mcp_hub::ADAPTER,
            Self::McpProxyPypi => &mcp_proxy_pypi::ADAPTER,
            Self::McpProxyNpm => &mcp_proxy_npm::ADAPTER,
            Self::Supergateway => &supergateway::ADAPTER,
            Self::McpRemote => &mcp_remote::ADAPTER,
            Self::McpProxyCrates => &mcp_proxy_crates::ADAPTER,
        }
    }

    /// As on the command line and in tables.
    pub fn name(self) -> &'static str {
        self.adapter().name
    }

    /// Whether it is more than a pipe for bytes.
    pub fn understands_mcp(self) -> bool {
        self.adapter().understands_mcp
    }

    /// Each setting that was chosen for it, and where its documentation says so.
    pub fn docs(self) -> &'static [Choice] {
        self.adapter().docs
    }

    /// Whether it can stand in front of these servers, or why not.
    pub fn supports(self, upstreams: &[Upstream]) -> Result<(), &'static str> {
        if upstreams.is_empty() {
            return Err("no server to stand in front of");
        }
        (self.adapter().supports)(upstreams)
    }

    /// Its version, or what is missing.
    pub fn installed(self, places: &Places) -> Result<String, String> {
        (self.adapter().installed)(places)
    }

    /// Starts it in front of these servers. It accepts connections when this returns.
    pub async fn start(self, upstreams: &[Upstream], places: &Places) -> anyhow::Result<Running> {
        self.start_with(upstreams, places, None).await
    }

    /// The same, told that a call may take so long, where it has a setting for that.
    pub async fn start_with(
        self,
        upstreams: &[Upstream],
        places: &Places,
        call_timeout: Option<Duration>,
    ) -> anyhow::Result<Running> {
        self.supports(upstreams).map_err(anyhow::Error::msg)?;
        self.installed(places).map_err(anyhow::Error::msg)?;
        Running::start(self.adapter(), upstreams, places, call_timeout).await
    }
}

impl FromStr for Product {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|product| product.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|product| product.name()).collect();
            format!("no product is called {name}; there are {}", known.join(", "))
        })
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

// === impl Address ===

impl Address {
    /// Its kind.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Http(_) => Transport::Http,
            Self::Sse(_) => Transport::Sse,
            Self::Stdio(_) => Transport::Stdio,
        }
    }
}

// === impl Program ===

impl Program {
    /// Without arguments.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self { command: command.into(), args: Vec::new(), env: Vec::new() }
    }

    pub(crate) fn arg(&mut self, argument: impl fmt::Display) -> &mut Self {
        self.args.push(argument.to_string());
        self
    }

    pub(crate) fn args<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.args.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn env(&mut self, name: &str, value: impl fmt::Display) -> &mut Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// As an entry of the `mcpServers` that most products read.
    pub(crate) fn as_entry(&self) -> Value {
        let mut entry = json!({ "command": self.command, "args": self.args });
        if !self.env.is_empty() {
            entry["env"] = self.env.iter().cloned().collect();
        }
        entry
    }
}

// === impl Places ===

impl Places {
    /// A file under the peers' folder.
    pub fn peer(&self, path: impl AsRef<Path>) -> PathBuf {
        self.peers.join(path)
    }

    /// A file of a product that `scripts/install-products` installed.
    pub(crate) fn product(&self, path: impl AsRef<Path>) -> PathBuf {
        self.peers.join("products").join(path)
    }
}

#[cfg(test)]
mod tests;
