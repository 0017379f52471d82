//! `evergate check`: what a configuration would do, without starting anything.

use std::path::PathBuf;

use clap::Args;

use super::source;
use crate::exit_code::Failure;
use crate::output;

/// Validate a configuration and say how it was understood; nothing is started.
///
/// Every problem is listed with its place in the file. Exits with 0 if the file can be used, with 64 if not.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A JSON or TOML file with an `mcpServers` section.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

// === impl Check ===

impl Check {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let config = source::load(&self.config)?;
        for finding in &config.findings {
            output::line(&finding.to_string())?;
        }
        if config.has_errors() {
            return Err(Failure::usage(format!("{} cannot be used", self.config.display())));
        }
        for (name, server) in &config.servers {
            let state = match (&server.unusable, server.disabled) {
                (Some(reason), _) => format!("off: {reason}"),
                (None, true) => "off: disabled".to_owned(),
                (None, false) => "on".to_owned(),
            };
            output::line(&format!("{name:<20} {:<40} {state}", server.summary))?;
        }
        Ok(())
    }
}
