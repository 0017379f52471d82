//! The products that are compared, each started as its own documentation says is best.
//!
//! A product is an adapter of its own file: which servers it can stand in front of, how it is installed, configured,
//! started and where it then answers. Nothing here knows what is measured.

use std::path::{Path, PathBuf};

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
    /// Where `scripts/install-peers` put the peers.
    pub peers: PathBuf,
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

// === impl Places ===

impl Places {
    /// A file under the peers' folder.
    pub fn peer(&self, path: impl AsRef<Path>) -> PathBuf {
        self.peers.join(path)
    }
}
