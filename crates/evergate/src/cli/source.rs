//! From the configuration of the command line to servers that can be started.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use evergate_runtime::{Hub, ServerHandle};

use crate::config::{Config, Sources};
use crate::exit_code::Failure;
use crate::gateway::server_settings;

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// A JSON or TOML file with an `mcpServers` section. May be given more than once: together they are one.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Read one more document from standard input, JSON or TOML.
    #[arg(long)]
    config_stdin: bool,
}

/// Looked for in this order when nothing was said. The last is what Claude Code keeps in a project.
const USUAL: &[&str] = &["evergate.toml", "evergate.json", ".mcp.json"];

/// No configuration that people write comes near this.
const LARGEST_STDIN: u64 = 16 << 20;

// === impl ConfigArgs ===

impl ConfigArgs {
    /// What was given, or nothing. Reads standard input if that was asked for.
    fn given(&self) -> Result<Option<Sources>, Failure> {
        if self.config.is_empty() && !self.config_stdin {
            return Ok(None);
        }
        let stdin = if self.config_stdin { Some(standard_input()?) } else { None };
        Ok(Some(Sources { files: self.config.clone(), stdin }))
    }

    /// What was given, or else a file in the current folder that has one of the usual names, or nothing.
    pub(crate) fn sources(&self) -> Result<Option<Sources>, Failure> {
        let given = self.given()?;
        Ok(given.or_else(|| {
            let found = usual_file()?;
            hint(&format!("evergate: using {} of the current folder", found.display()));
            Some(Sources { files: vec![found.to_owned()], stdin: None })
        }))
    }

    /// For commands that need standard input for something else.
    pub(super) fn files(config: Vec<PathBuf>) -> Self {
        Self { config, config_stdin: false }
    }

    /// What must be there; says what was looked for if it is not.
    pub(super) fn required_sources(&self) -> Result<Sources, Failure> {
        self.sources()?.ok_or_else(|| {
            Failure::usage(format!(
                "no configuration: give --config FILE or --config-stdin, or have one of {} in the current folder",
                USUAL.join(", ")
            ))
        })
    }

    /// Reads a configuration that must be usable.
    pub(super) fn load_usable(&self) -> Result<Config, Failure> {
        load_usable(&self.required_sources()?)
    }
}

/// A file in the current folder that has one of the usual names.
pub(super) fn usual_file() -> Option<&'static Path> {
    USUAL.iter().map(Path::new).find(|path| path.is_file())
}

/// Reads a configuration; only one that cannot be read at all is a failure here.
pub(super) fn load(sources: &Sources) -> Result<Config, Failure> {
    sources.load(&|name| std::env::var(name).ok()).map_err(Failure::config)
}

/// Reads a configuration that must be usable, and lists every problem if it is not.
pub(crate) fn load_usable(sources: &Sources) -> Result<Config, Failure> {
    let config = load(sources)?;
    if config.has_errors() {
        let problems: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!(
            "{} cannot be used\n{}",
            sources.names(),
            problems.join("\n")
        )));
    }
    Ok(config)
}

/// Nobody has that name.
pub(super) fn unknown_server(config: &Config, name: &str) -> Failure {
    let known: Vec<&str> = config.servers.keys().map(String::as_str).collect();
    Failure::usage(format!("no server is called {name:?}; there are: {}", known.join(", ")))
}

/// Starts the servers that are on, or only `wanted`.
pub(super) fn start(
    config: &Config,
    wanted: Option<&str>,
) -> Result<(Hub, Vec<ServerHandle>), Failure> {
    if let Some(name) = wanted {
        let server = config.servers.get(name).ok_or_else(|| unknown_server(config, name))?;
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
            // Without its token it will be refused, and reported like any server that cannot be reached.
            let settings = server_settings::of(server);
            builder = builder.server(name, settings);
        }
    }
    let hub = builder.start().map_err(Failure::config)?;
    let handles = hub.servers();
    Ok((hub, handles))
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LARGEST_STDIN + 1).read_to_string(&mut text);
    let size =
        read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    if size as u64 > LARGEST_STDIN {
        return Err(Failure::usage("standard input is larger than 16 MiB".to_owned()));
    }
    Ok(text)
}

/// Tells people something beside the output. If nobody listens, nothing is lost.
pub(super) fn hint(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
