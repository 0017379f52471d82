//! Logs, on standard error.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Starts logging. Without a word from `RUST_LOG`, `level` is what is logged.
pub(crate) fn start(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).init();
        }
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}
