//! A server for measuring what stands in front of it: it does the least that is correct.
//!
//! Results are made once per size and shared from then on, requests are located and not modelled, one thread does
//! everything. It misbehaves in no way; [`Server`](crate::Server) is for that. The program `fast-server` runs it.

mod answer;
mod http;
mod stdio;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::stdio::program_path;
pub(crate) use answer::Answer;

/// What a [`FastServer`] offers and how it answers.
#[derive(Debug, Clone, Copy)]
pub struct FastServerSettings {
    /// Tools in its list. The first is `echo`, which takes `bytes`; so do all others.
    pub tools: usize,
    /// Requests are answered with event streams instead of JSON.
    pub event_streams: bool,
    /// The id stands behind the result, as the official TypeScript server writes it.
    pub id_last: bool,
}

/// An MCP server whose tools return [`fast_text`] of the size that is asked for.
#[derive(Debug)]
pub struct FastServer {
    settings: FastServerSettings,
    tools: Bytes,
    results: Mutex<HashMap<usize, Bytes>>,
}

/// The path of the program `fast-server`, if it was built; see [`stdio_server_path`](crate::stdio_server_path).
pub fn fast_server_path() -> Option<PathBuf> {
    program_path("fast-server")
}

/// The text that a tool of a [`FastServer`] returns: as long as asked for, and not the same everywhere, so that bytes
/// which are lost, doubled or out of place show.
pub fn fast_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut line = 0_u64;
    while text.len() < bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{:013x} ", line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12);
        line += 1;
    }
    text.truncate(bytes);
    text
}

// === impl FastServer ===

impl FastServer {
    /// A server, not yet reachable.
    pub fn new(settings: FastServerSettings) -> Self {
        Self { settings, tools: tool_list(settings.tools), results: Mutex::default() }
    }

    fn result(&self, bytes: usize) -> Bytes {
        let made = self.results().get(&bytes).cloned();
        made.unwrap_or_else(|| {
            let text = fast_text(bytes);
            let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
            self.results().entry(bytes).or_insert_with(|| result.into()).clone()
        })
    }

    fn results(&self) -> MutexGuard<'_, HashMap<usize, Bytes>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Described about as wordily as tools are.
fn tool_list(tools: usize) -> Bytes {
    let mut list = String::from(r#"{"tools":["#);
    for number in 0..tools.max(1) {
        let name = if number == 0 { "echo".to_owned() } else { format!("tool{number}") };
        let comma = if number == 0 { "" } else { "," };
        // Writing to a text cannot fail.
        let _ = write!(
            list,
            r#"{comma}{{"name":"{name}","description":"Returns a text of the given number of bytes. Use it when you need exactly that many and do not care which.","inputSchema":{{"type":"object","properties":{{"bytes":{{"type":"integer","description":"How many bytes the text has."}}}},"required":["bytes"]}}}}"#
        );
    }
    list.push_str("]}");
    list.into()
}

#[cfg(test)]
mod tests;
