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
#[command(after_long_help = KEYS)]
pub(crate) struct Check {
    /// A JSON or TOML file with an `mcpServers` section.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

const KEYS: &str = "\
A server entry has either a command or a url:
  command, args, env, cwd      a child process
  url, headers, type           a server at a URL; type: http (find out), streamable-http, sse, json-rpc
and may have:
  disabled, enabled            true or false
  required                     true: the server must be up for the whole to be ready
  timeout                      how long a call may take, as in \"45s\"; a bare number below 1000 is in
                               seconds, from 1000 on in milliseconds
  replay                       safe, always, never: may a call that may have run be sent again?
  lifecycle                    profile (resilient, strict, best-effort), restart (never, on_failure,
                               always), max_attempts (-1: no limit), on_exhausted (keep_probing, fail),
                               hold, connect_timeout, close_timeout, list_timeout, max_timeout,
                               stable_after, backoff {initial, max, multiplier, jitter}

${VAR}, ${env:VAR} and ${VAR:-default} are filled in from the environment. A server whose variable is
not set is switched off; the others are not concerned.";

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
