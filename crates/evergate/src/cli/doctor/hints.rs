//! Why a server does not work, and what to do about it.

use std::path::Path;
use std::time::Duration;

use evergate_runtime::{Reason, StateKind, Status};
use serde_json::Value;

use crate::config::{Server, Sources};
use crate::import::Syntax;
use crate::on_path;
use crate::remedy;

/// A server that failed, with everything that may explain it.
pub(super) struct Patient<'a> {
    server: &'a Server,
    status: &'a Status,
    /// The entry as it is written, for the names of its headers and variables; never for their values.
    entry: Option<Value>,
    name: &'a str,
    within: Duration,
    error: String,
}

/// Where programs that servers are started with come from.
const INSTALLERS: &[(&[&str], &str)] = &[
    (&["npx", "node", "npm"], "install Node.js, which brings it: https://nodejs.org"),
    (&["uvx", "uv"], "install uv, which brings it: https://docs.astral.sh/uv"),
    (&["bunx", "bun"], "install Bun, which brings it: https://bun.sh"),
    (&["docker"], "install Docker: https://docs.docker.com/get-docker"),
    (&["python", "python3", "pipx"], "install Python: https://www.python.org"),
    (&["deno"], "install Deno: https://deno.com"),
];

/// For a server that is off because of a variable.
pub(super) fn unset(reason: &str) -> Option<String> {
    let name = remedy::unset_variable(reason)?;
    Some(format!("set {name} where Evergate runs, as in: export {name}=…"))
}

// === impl Patient ===

impl<'a> Patient<'a> {
    pub(super) fn new(
        name: &'a str,
        server: &'a Server,
        status: &'a Status,
        sources: &Sources,
        within: Duration,
    ) -> Self {
        let error = status.last_error.clone().unwrap_or_default();
        Self { server, status, entry: entry_of(name, sources), name, within, error }
    }

    /// In one line.
    pub(super) fn problem(&self) -> String {
        if self.error.is_empty() {
            let doing = match self.status.state {
                StateKind::Connected => "connected, but did not list what it offers",
                _ => "no handshake",
            };
            return format!("{doing} within {} s", self.within.as_secs());
        }
        let error = self.error.replace('\n', " ");
        // One line for three attempts that failed in the same way.
        let Some(all) = error.strip_prefix("no transport fits: ") else { return error };
        let mut each: Vec<&str> =
            all.split("; ").map(|one| one.split_once(": ").map_or(one, |(_, why)| why)).collect();
        each.dedup();
        each.join("; ")
    }

    /// What to do about it.
    pub(super) fn hint(&self) -> Option<String> {
        let is = |words: &[&str]| {
            let error = self.error.to_ascii_lowercase();
            words.iter().any(|word| error.contains(word))
        };
        let child = self.server.summary.starts_with("stdio");
        if is(&["the working directory does not exist"]) {
            return Some("create the folder that cwd names, or correct it".to_owned());
        }
        match self.status.reason {
            Reason::CommandNotFound => return Some(self.missing_command()),
            Reason::AuthRequired => return Some(self.credentials()),
            Reason::UnsupportedProtocol => {
                return Some(
                    "upgrade the server: it speaks no revision that Evergate speaks".to_owned(),
                );
            }
            _ => {}
        }
        if is(&["the process ended"]) || (child && is(&["closed", "ended"])) {
            return Some(self.ended());
        }
        if is(&["permission denied"]) && child {
            return Some("make it executable: chmod +x".to_owned() + " the command");
        }
        if let Some(hint) = remedy::of_address(&self.error, &self.server.summary) {
            return Some(hint);
        }
        if self.error.is_empty() || is(&["no handshake within", "no response within", "timed out"])
        {
            return Some(self.slow(child));
        }
        if child && is(&["unusable", "not json"]) {
            return Some("it writes something else than MCP to standard output: logs belong on standard error".to_owned());
        }
        self.status.reason.revival().map(str::to_owned)
    }

    fn missing_command(&self) -> String {
        let command = self.server.summary.trim_start_matches("stdio: ");
        let program =
            Path::new(command).file_name().unwrap_or_default().to_string_lossy().into_owned();
        if Path::new(command).is_file() {
            return format!(
                "{command} is there but cannot be started: chmod +x, and check its first line"
            );
        }
        let near = on_path::near(command);
        let installer = INSTALLERS.iter().find(|(names, _)| names.contains(&program.as_str()));
        let also = if near.is_empty() {
            String::new()
        } else {
            format!("; the PATH has {}", near.join(", "))
        };
        match installer {
            Some((_, how)) => format!("{how}{also}"),
            None if command.contains('/') => {
                format!("there is no {command}: correct the command{also}")
            }
            None => {
                format!("{command} is not on the PATH: install it, or write its whole path{also}")
            }
        }
    }

    fn credentials(&self) -> String {
        let entry = self.entry.as_ref();
        let headers = entry.and_then(|entry| entry.get("headers")).and_then(Value::as_object);
        let sent = headers.into_iter().flatten().find(|(name, _)| {
            let name = name.to_ascii_lowercase();
            name == "authorization" || name.contains("key") || name.contains("token")
        });
        if let Some(file) = &self.server.bearer_token_file {
            return format!("the token in {} is not accepted: renew it", file.display());
        }
        if let Some((name, value)) = sent {
            let variables = variables(value.as_str().unwrap_or_default());
            return match variables.as_slice() {
                [] => format!("what headers.{name} has is not accepted: renew it"),
                names => {
                    format!("what headers.{name} has is not accepted: renew {}", names.join(", "))
                }
            };
        }
        if !self.server.headers_from_client.is_empty() {
            return "clients bring their own credentials (headers_from_client), and the doctor has none; if its \
                    handshake needs them, set isolation to per_client"
                .to_owned();
        }
        let name: String = self.name.to_ascii_uppercase().replace(['-', '.'], "_");
        format!(
            "give it a token: \"headers\": {{ \"Authorization\": \"Bearer ${{{name}_TOKEN}}\" }}, or bearer_token_file"
        )
    }

    fn ended(&self) -> String {
        let words = self.status.stderr_tail.join("\n").to_ascii_lowercase();
        let said = |texts: &[&str]| texts.iter().any(|text| words.contains(text));
        if said(&[
            "e404",
            "404 not found",
            "no matching distribution",
            "could not determine executable",
        ]) {
            return "the package cannot be had: check its name in args".to_owned();
        }
        if said(&[
            "cannot find module",
            "no module named",
            "modulenotfounderror",
            "err_module_not_found",
        ]) {
            return "something it needs is not installed: install it where the command looks"
                .to_owned();
        }
        if said(&[
            "api key",
            "api_key",
            "token",
            "credential",
            "environment variable",
            "unauthorized",
        ]) {
            return "it misses something, as its last words say: set it in env".to_owned();
        }
        if said(&[
            "usage:",
            "missing argument",
            "required argument",
            "unrecognized",
            "unknown option",
        ]) {
            return "it does not understand its arguments: correct args".to_owned();
        }
        if self.status.stderr_tail.is_empty() {
            return "it ended without a word: run the command in a shell and see".to_owned();
        }
        "its last words are above; run the command in a shell to see more".to_owned()
    }

    fn slow(&self, child: bool) -> String {
        let command = self.server.summary.trim_start_matches("stdio: ");
        if child && ["npx", "uvx", "bunx", "docker"].contains(&command) {
            return "the first start downloads it: try again, with a longer --timeout (and lifecycle.connect_timeout)"
                .to_owned();
        }
        if child {
            return "it runs but does not speak MCP: check that its arguments make it use standard input and output"
                .to_owned();
        }
        "it accepts connections but does not answer: look at its logs; a longer --timeout if it is only slow".to_owned()
    }
}

/// The entry as it is written.
pub(super) fn entry_of(name: &str, sources: &Sources) -> Option<Value> {
    let files = sources.files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        Syntax::of(file, &text).parse(&text).ok()
    });
    let stdin =
        sources.stdin.iter().filter_map(|text| Syntax::of(Path::new("-"), text).parse(text).ok());
    files.chain(stdin).find_map(|document| document.get("mcpServers")?.get(name).cloned())
}

/// The variables that a text refers to.
fn variables(text: &str) -> Vec<String> {
    let all = text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next());
    all.map(str::to_owned).collect()
}
