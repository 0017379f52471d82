//! The questions that are asked, a file each.

mod calls;
mod growth;
mod list;
mod memory;
mod rounds;
mod start;

use std::str::FromStr;

use anyhow::Result;

use super::{Bench, Results};
pub use calls::{CALLERS, SIZES, case, size_name};
pub use growth::{SERVERS, SESSIONS, growth_case};
pub use list::{CASES as LIST_CASES, FILE};
pub use memory::CASE as MEMORY_CASE;
pub use start::{FIRST_CALL, READY, ready_case};

/// One of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Calls whose results come as JSON.
    Json,
    /// Calls whose results the server sends as event streams.
    Sse,
    /// Calls of a server that is a child process.
    Stdio,
    /// `tools/list` of many servers.
    List,
    /// Memory.
    Memory,
    /// From start to first answer.
    Start,
    /// The price of a call with many servers.
    Servers,
    /// The price of a call with many sessions.
    Sessions,
}

// === impl Measure ===

impl Measure {
    /// All of them, in the order in which they are measured.
    pub const ALL: &[Self] = &[
        Self::Json,
        Self::Sse,
        Self::Stdio,
        Self::List,
        Self::Start,
        Self::Memory,
        Self::Servers,
        Self::Sessions,
    ];

    /// As on the command line and in `performance.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Sse => "sse",
            Self::Stdio => "stdio",
            Self::List => "list",
            Self::Memory => "memory",
            Self::Start => "start",
            Self::Servers => "servers",
            Self::Sessions => "sessions",
        }
    }

    /// In a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::Json => "calls per second, latency and processor time; HTTP server, JSON answers",
            Self::Sse => "the same; HTTP server that answers with event streams",
            Self::Stdio => "the same; server that is a child process on standard input and output",
            Self::List => "tools/list of 20 servers with 50 tools each",
            Self::Memory => "resident memory idle, with 1,000 sessions, and after many calls",
            Self::Start => "time from start to ready, and to the first answered call",
            Self::Servers => "the price of a call with 1 to 500 servers configured",
            Self::Sessions => "the price of a call with 10 to 5,000 sessions open",
        }
    }

    pub(super) async fn run(self, bench: &Bench, results: &mut Results) -> Result<()> {
        match self {
            Self::Json | Self::Sse | Self::Stdio => calls::run(self, bench, results).await,
            Self::List => list::run(bench, results).await,
            Self::Memory => memory::run(bench, results).await,
            Self::Start => start::run(bench, results).await,
            Self::Servers => growth::servers(bench, results).await,
            Self::Sessions => growth::sessions(bench, results).await,
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|measure| measure.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|measure| measure.name()).collect();
            format!("nothing is called {name}; there are {}", known.join(", "))
        })
    }
}
