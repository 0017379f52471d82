//! `evergate check`: what a configuration would do, without starting anything.

use clap::Args;

use super::source::{self, ConfigArgs};
use crate::config::{self, Config, Gateway, Isolation, Key, Naming, Pattern, Server};
use crate::exit_code::Failure;
use crate::output;

/// Validate a configuration and say how it was understood; nothing is started.
///
/// Every problem is listed with its place in the file. Exits with 0 if the file can be used, with 64 if not.
#[derive(Debug, Args)]
#[command(after_long_help = config::help())]
pub(crate) struct Check {
    #[command(flatten)]
    config: ConfigArgs,
}

// === impl Check ===

impl Check {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let sources = self.config.required_sources()?;
        let config = source::load(&sources)?;
        for finding in &config.findings {
            output::line(&finding.to_string())?;
        }
        if config.has_errors() {
            return Err(Failure::usage(format!("{} cannot be used", sources.names())));
        }
        for line in understood(&config) {
            output::line(line.trim_end())?;
        }
        Ok(())
    }
}

/// How it was understood, in a few lines without secrets.
fn understood(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &config.servers {
        let state = match (&server.unusable, server.disabled) {
            (Some(reason), _) => format!("off: {reason}"),
            (None, true) => "off: disabled".to_owned(),
            (None, false) => "on".to_owned(),
        };
        lines.push(format!("{name:<20} {:<40} {state}", server.place()));
        lines.extend(details(server).map(|detail| format!("  {detail}")));
    }
    lines.push(String::new());
    lines.extend(gateway(&config.gateway));
    lines
}

/// What is not as usual about a server.
fn details(server: &Server) -> impl Iterator<Item = String> {
    let forwarded: Vec<&str> = server.headers_from_client.iter().map(AsRef::as_ref).collect();
    let token_file = server.bearer_token_file.as_ref();
    let per_client = server.isolation == Isolation::PerClient;
    [
        server.required.then(|| "required".to_owned()),
        per_client.then(|| "a connection for each client".to_owned()),
        server.tools.summary().map(|summary| format!("tools: {summary}")),
        (!forwarded.is_empty())
            .then(|| format!("headers from the client: {}", forwarded.join(", "))),
        token_file.map(|file| format!("token from {}", file.display())),
    ]
    .into_iter()
    .flatten()
}

fn gateway(gateway: &Gateway) -> Vec<String> {
    let listen = gateway.listen.map_or_else(|| "127.0.0.1:8080".to_owned(), |at| at.to_string());
    let names = match gateway.naming {
        Naming::Prefix => format!("SERVER{}TOOL", gateway.separator),
        Naming::Bare => "TOOL".to_owned(),
    };
    let mut lines = vec!["gateway".to_owned()];
    let mut say = |what: &str, value: String| lines.push(format!("  {what:<18} {value}"));
    say("listen", listen);
    say("names", names);
    if gateway.auth.is_empty() {
        let open = if gateway.allow_unauthenticated { ", at any address" } else { "" };
        say("keys", format!("none: whoever can reach the address may come in{open}"));
    }
    for key in &gateway.auth {
        say("key", key_summary(key));
    }
    if !gateway.session_keys.is_empty() {
        say("session keys", gateway.session_keys.len().to_string());
    }
    for (what, values) in
        [("allowed hosts", &gateway.allowed_hosts), ("allowed origins", &gateway.allowed_origins)]
    {
        if !values.is_empty() {
            say(what, values.join(", "));
        }
    }
    if let Some(folder) = &gateway.payload_dir {
        let threshold = gateway.payload_threshold;
        say("payloads", format!("results above {threshold} bytes go to {}", folder.display()));
    }
    if gateway.lenient {
        say("lenient", "clients may skip initialize".to_owned());
    }
    lines
}

fn key_summary(key: &Key) -> String {
    let only = |what: &str, patterns: &Option<Vec<Pattern>>| match patterns {
        Some(patterns) => {
            let patterns: Vec<&str> = patterns.iter().map(Pattern::as_str).collect();
            format!("; only {what} {}", patterns.join(", "))
        }
        None => String::new(),
    };
    format!("{}{}{}", key.name, only("servers", &key.servers), only("tools", &key.tools))
}
