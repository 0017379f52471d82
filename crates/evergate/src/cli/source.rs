//! From the configuration of the command line to servers that can be started.

use std::path::Path;

use evergate_runtime::{Hub, ServerHandle};

use crate::config::{self, Config};
use crate::exit_code::Failure;

/// Reads a file; only one that cannot be read at all is a failure here.
pub(super) fn load(path: &Path) -> Result<Config, Failure> {
    config::load(path, &|name| std::env::var(name).ok()).map_err(Failure::config)
}

/// Reads a file that must be usable.
pub(super) fn load_usable(path: &Path) -> Result<Config, Failure> {
    let config = load(path)?;
    if config.has_errors() {
        let problems: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!(
            "{} cannot be used\n{}",
            path.display(),
            problems.join("\n")
        )));
    }
    Ok(config)
}

/// Starts the servers that are on, or only `wanted`.
pub(super) fn start(
    config: &Config,
    wanted: Option<&str>,
) -> Result<(Hub, Vec<ServerHandle>), Failure> {
    if let Some(name) = wanted {
        let server = config.servers.get(name).ok_or_else(|| {
            let known: Vec<&str> = config.servers.keys().map(String::as_str).collect();
            Failure::usage(format!("no server is called {name:?}; there are: {}", known.join(", ")))
        })?;
        if let Some(reason) = &server.unusable {
            return Err(Failure::unavailable(format!("{name} cannot be used: {reason}")));
        }
    }
    let mut builder = Hub::builder();
    for (name, server) in &config.servers {
        let on = match wanted {
            // Asked for by name, it is wanted whatever the file says.
            Some(wanted) => wanted == name,
            None => !server.disabled && server.unusable.is_none(),
        };
        if on {
            builder = builder.server(name, server.settings.clone());
        }
    }
    let hub = builder.start().map_err(Failure::config)?;
    let handles = hub.servers().collect();
    Ok((hub, handles))
}
