//! Requests that are not carried out, and why.

use super::model::{Problem, ProblemBody, ProblemCode};
use crate::config::{Config, nearest};

// === impl Problem ===

impl Problem {
    pub(crate) fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { error: ProblemBody { code, message: message.into(), nearest: None } }
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ProblemCode::Conflict, message)
    }

    pub(crate) fn unknown_server(name: &str, config: &Config) -> Self {
        let known = config.servers.keys().map(String::as_str);
        Self::unknown(ProblemCode::UnknownServer, "server", name, known)
    }

    /// With the name that was probably meant.
    pub(crate) fn unknown<'a>(
        code: ProblemCode,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let meant = nearest(name, known);
        let hint = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        let message = format!("no {what} is called {name:?}{hint}");
        let nearest = meant.map(str::to_owned);
        Self { error: ProblemBody { code, message, nearest } }
    }
}
