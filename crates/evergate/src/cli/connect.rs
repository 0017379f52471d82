//! `evergate connect`: the entry that points a client at Evergate.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::source::{hint, usual_file};
use crate::config::{Config, Sources};
use crate::connect::{self, Change, Target, Way};
use crate::exit_code::Failure;
use crate::import::{self, Client, Machine};
use crate::serve::DEFAULT_LISTEN;
use crate::{output, safe_write, state};

/// Print the entry that points a client at Evergate, or write it into the client's file.
///
/// What else is in the file stays as it is, comments included, and a copy of the file is kept beside it. Done twice, it
/// changes nothing the second time. Clients that take a URL get the one of the gateway; Claude Desktop starts
/// `evergate stdio` itself.
#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Which client.
    #[arg(value_enum)]
    client: Client,
    /// Write the entry into the client's file instead of printing it.
    #[arg(long)]
    write: bool,
    /// Into the file of the project in the current folder, not the user's own.
    #[arg(long)]
    project: bool,
    /// Where the gateway is; /mcp is added if there is no path. [default: where the gateway with this configuration runs,
    /// else what its gateway.listen says, else port 8080 of this machine]
    #[arg(long)]
    url: Option<String>,
    /// What the client calls the server.
    #[arg(long, default_value = "evergate")]
    name: String,
    /// The variable that has the key for the gateway, for clients that fill in variables. Needed if the gateway has keys.
    #[arg(long, value_name = "VAR")]
    key_env: Option<String>,
    /// The configuration of the gateway. [default: evergate.toml, evergate.json or .mcp.json of the current folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

// === impl Connect ===

impl Connect {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.check()?;
        let machine = Machine::this();
        let target = Target { name: self.name.clone(), way: self.way()? };
        let Some(file) = self.file(&machine) else {
            if self.write {
                return Err(Failure::usage(self.nowhere(&machine)));
            }
            output::line(target.shown(self.client).trim_end())?;
            hint(&format!("\nevergate: {}", self.belongs()));
            self.mention_variables();
            return Ok(());
        };
        if self.write {
            return self.write(&machine, &file, &target);
        }
        output::line(target.shown(self.client).trim_end())?;
        let by_hand = self.client == Client::Zed && self.key_env.is_some();
        let writes = if by_hand { "" } else { "; with --write it is put there" };
        hint(&format!("\nevergate: this belongs into {}{writes}", machine.shown(&file)));
        self.mention_variables();
        self.mention_environment();
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let usage = |text: String| Err(Failure::usage(text));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            return usage("--name must be 1 to 64 characters of A-Z a-z 0-9 - _ .".to_owned());
        }
        if self.project && self.client == Client::ClaudeDesktop {
            return usage(
                "Claude Desktop has no file for a project: leave --project out".to_owned(),
            );
        }
        if let Some(key) = &self.key_env {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !key.chars().all(word)
                || key.is_empty()
                || key.starts_with(|c: char| c.is_ascii_digit())
            {
                return usage("--key-env is the name of a variable, not a key".to_owned());
            }
            if self.client == Client::ClaudeDesktop {
                return usage(
                    "Claude Desktop starts Evergate itself, which needs no key".to_owned(),
                );
            }
            if self.client == Client::Zed && self.write {
                return usage(
                    "Zed fills in no variables: print the entry without --write, and put the key into it yourself"
                        .to_owned(),
                );
            }
        }
        if let Some(url) = &self.url {
            match url::Url::parse(url) {
                Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => {
                    return usage("--url must be http or https".to_owned());
                }
                Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
                    return usage("--url must have no user: a key goes into --key-env".to_owned());
                }
                Ok(_) => {}
                Err(error) => return usage(format!("--url is not a URL: {error}")),
            }
        }
        Ok(())
    }

    fn way(&self) -> Result<Way, Failure> {
        if self.client == Client::ClaudeDesktop {
            let program = std::env::current_exe()?;
            let args = if let Some(url) = &self.url {
                // To the gateway that all clients share.
                vec!["wrap".to_owned(), with_path(url)]
            } else {
                let config = self.config();
                let config = std::fs::canonicalize(&config).map_err(|error| {
                    let shown = config.display();
                    Failure::usage(format!(
                        "Claude Desktop starts Evergate itself, and needs its configuration: {shown}: {error}; \
                         give --config FILE, or --url of a gateway that runs"
                    ))
                })?;
                vec!["stdio".to_owned(), "--config".to_owned(), config.display().to_string()]
            };
            return Ok(Way::Process { program, args });
        }
        let url = match &self.url {
            Some(url) => with_path(url),
            None => self.known_url()?,
        };
        Ok(Way::Url { url, key: self.key_env.clone() })
    }

    fn config(&self) -> PathBuf {
        let usual = || usual_file().unwrap_or(Path::new("evergate.json")).to_owned();
        self.config.clone().unwrap_or_else(usual)
    }

    /// Where the gateway with this configuration runs, or would.
    fn known_url(&self) -> Result<String, Failure> {
        let files = vec![self.config()];
        let running = running_at(&files);
        let sources = Sources { files, stdin: None };
        let config = sources.load(&|name| std::env::var(name).ok()).unwrap_or_default();
        if !config.gateway.auth.is_empty() && self.key_env.is_none() {
            let text =
                "this gateway wants a key: say with --key-env which variable of the client has it";
            if self.write {
                return Err(Failure::usage(text.to_owned()));
            }
            hint(&format!("evergate: {text}"));
        }
        Ok(running.filter(|_| is_alone(&config)).unwrap_or_else(|| configured_url(&config)))
    }

    /// The file to change; none if the client gets it on its command line.
    fn file(&self, machine: &Machine) -> Option<PathBuf> {
        if matches!(self.client, Client::GhAw | Client::DockerAgent) {
            return None;
        }
        let places = self.client.places(machine).into_iter();
        let mut chosen = places.filter(|place| place.of_project == self.project);
        chosen.next().map(|place| place.file)
    }

    /// Where the entry goes if that is no file of the client's own.
    fn belongs(&self) -> String {
        let title = self.client.title();
        match self.client {
            Client::DockerAgent => {
                "this belongs into the file of your agent (agent.yaml), below agents.NAME"
                    .to_owned()
            }
            Client::GhAw => {
                "this belongs into the configuration that the gateway of gh-aw is started with"
                    .to_owned()
            }
            _ => format!("no file of {title} is known here: HOME is not set"),
        }
    }

    fn nowhere(&self, machine: &Machine) -> String {
        let title = self.client.title();
        match self.client {
            Client::GhAw | Client::DockerAgent => {
                format!(
                    "{title} has no file of its own: print the entry without --write, and add it to yours"
                )
            }
            _ if self.project => format!("{title} has no file for a project"),
            _ if machine.home.is_none() => {
                "HOME is not set, so there is no file of the user".to_owned()
            }
            _ => format!("no file is known for {title}"),
        }
    }

    fn write(&self, machine: &Machine, file: &Path, target: &Target) -> Result<(), Failure> {
        let shown = machine.shown(file);
        let there = file.symlink_metadata().is_ok();
        let before = if there {
            import::text_of(file, &shown).map_err(Failure::config)?
        } else {
            String::new()
        };
        let entry = target.entry(self.client);
        let change =
            connect::changed(self.client, &before, &target.name, &entry).map_err(|error| {
                let place = error.position().map(|(line, column)| format!("{line}:{column}:"));
                let place = place.unwrap_or_default();
                Failure::usage(format!(
                    "nothing was changed
{shown}:{place} {error}"
                ))
            })?;
        let (text, done) = match change {
            Change::Nothing => {
                output::line(&format!("{shown} has it already: nothing was changed"))?;
                return Ok(());
            }
            Change::Added(text) => (text, "added to"),
            Change::Replaced(text) => (text, "replaced in"),
        };
        let cannot =
            |error: std::io::Error| Failure::usage(format!("cannot write {shown}: {error}"));
        if there {
            let copy = keep_copy(file, &before).map_err(cannot)?;
            if let Err(error) = safe_write::replace_unchanged(file, &before, &text) {
                // What it is a copy of is still there.
                let _ = std::fs::remove_file(&copy);
                return Err(cannot(error));
            }
            output::line(&format!("{} was {done} {shown}", target.name))?;
            output::line(&format!("what it was before is in {}", machine.shown(&copy)))?;
        } else {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder).map_err(cannot)?;
            }
            safe_write::create(file, &text).map_err(cannot)?;
            output::line(&format!("{} was written to {shown}, which is new", target.name))?;
        }
        self.mention_variables();
        self.mention_environment();
        if connect::others(self.client, &text, &target.name) > 0 {
            hint(
                "evergate: its other servers are still there: remove those that come through Evergate now",
            );
        }
        hint(&format!(
            "evergate: restart {}, or have it read its servers again",
            self.client.title()
        ));
        Ok(())
    }

    /// What is started from a menu has not seen the user's shell.
    fn mention_environment(&self) {
        if self.client != Client::ClaudeDesktop || self.url.is_some() {
            return;
        }
        let text = std::fs::read_to_string(self.config()).unwrap_or_default();
        let names = variables(&text);
        if !names.is_empty() {
            hint(&format!(
                "evergate: Claude Desktop starts programs without the variables of your shell, and {} needs {}: give \
                 the entry an \"env\" with them, or run `evergate serve` as a service that has them (EnvironmentFile= of \
                 systemd) and connect with --url",
                self.config().display(),
                names.join(", ")
            ));
        }
    }

    fn mention_variables(&self) {
        if let Some(key) = &self.key_env {
            if self.client == Client::Zed {
                hint(&format!(
                    "evergate: Zed fills in no variables: put the key in place of ${{{key}}}"
                ));
                return;
            }
            hint(&format!("evergate: {} must find {key} in its environment", self.client.title()));
        }
    }
}

/// Where a gateway with these files says that it runs.
fn running_at(files: &[PathBuf]) -> Option<String> {
    let controls = state::read_controls(&state::default_dir(files)?).ok()?;
    let alive = controls.iter().find(|control| !control.is_of_a_dead_process())?;
    Some(format!("{}/mcp", alive.url))
}

/// What operators use is where clients are, so that what is known of one tells of the other.
fn is_alone(config: &Config) -> bool {
    config.gateway.admin_listen.is_none()
}

/// Where the configuration says that the gateway listens.
fn configured_url(config: &Config) -> String {
    let mut address = config.gateway.listen.unwrap_or(DEFAULT_LISTEN);
    if address.ip().is_unspecified() {
        // Everywhere includes here.
        address.set_ip(DEFAULT_LISTEN.ip());
    }
    format!("http://{address}/mcp")
}

/// People give the address, which is a page for operators.
fn with_path(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if parsed.path() == "/" => {
            parsed.set_path("/mcp");
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

/// The variables that a configuration cannot do without.
fn variables(text: &str) -> Vec<&str> {
    let inner = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(i, _)| i);
    let names = inner.map(|inner| inner.strip_prefix("env:").unwrap_or(inner));
    let mut names: Vec<&str> = names.filter(|name| !name.contains(":-")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A copy beside the file, with the time in its name.
fn keep_copy(file: &Path, text: &str) -> std::io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let base = format!("{name}.{}.bak", stamp(now));
    let numbered = (2..100).map(|n| format!("{base}-{n}"));
    for name in std::iter::once(base.clone()).chain(numbered) {
        let copy = file.with_file_name(name);
        match safe_write::create(&copy, text) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Ok(()) => return Ok(copy),
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are too many copies of it"))
}

/// Seconds since 1970 as `20261116T004530Z`.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days since 1 March 0000, as 400 years are 146097 days and March begins the year that leap days end.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_sort_them() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(stamp(1_794_789_930), "20261116T004530Z");
        assert_eq!(stamp(4_107_542_399), "21000228T235959Z");
    }
}
