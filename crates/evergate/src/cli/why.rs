//! `evergate why`: what is the matter with one server.

use clap::Args;

use super::running::{self, Found, GatewayArgs};
use super::terminal::{COMFORTABLE, Colour, Style};
use super::words::{clean, count, is_troubled, look, moment, span, state_look, wrap};
use crate::admin::model::{GatewayReport, ServerReport, ServerState};
use crate::exit_code::Failure;
use crate::output;

/// Explain why a server is in the state it is in, and what you can do.
///
/// In plain words: since when, what went wrong, what it said last on its standard error, when the next attempt is due.
///
/// Exits with 0 if there is such a server, however it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    evergate why docs\n  \
    evergate why docs --json | jq -r .last_error")]
pub(crate) struct Why {
    /// The server, as the configuration names it.
    server: String,
    /// Everything the admin API says about it, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// How many of its last states are shown.
const LATELY: usize = 6;
/// How many of its last words.
const LAST_WORDS: usize = 10;

// === impl Why ===

impl Why {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Found { client, .. } = self.gateway.find().await?;
        let raw = running::server(&client, &self.server).await?;
        if self.json {
            return output::line(raw.get());
        }
        let gateway: GatewayReport = client.get(&["gateway"]).await?;
        let server: ServerReport = client.parsed(raw.get().as_bytes())?;
        for line in lines(&server, &gateway, Style::of_stdout()) {
            output::line(&line)?;
        }
        Ok(())
    }
}

fn lines(server: &ServerReport, gateway: &GatewayReport, style: Style) -> Vec<String> {
    let width = style.width.unwrap_or(COMFORTABLE).min(COMFORTABLE);
    let look = look(server);
    let name = style.paint(Colour::Bold, &clean(&server.name));
    let state = style.paint(look.colour, &format!("{} {}", look.symbol, look.word));
    let mut lines = vec![format!("{name}  {state}")];
    lines.extend(wrap(&clean(&server.why), width));
    lines.push(String::new());
    for (label, value) in facts(server, gateway) {
        let value = wrap(&value, width.saturating_sub(12).max(20));
        for (n, part) in value.iter().enumerate() {
            let label = if n == 0 { label } else { "" };
            lines.push(format!("{}{part}", style.paint(Colour::Dim, &format!("{label:12}"))));
        }
    }
    let section = |title: &str| [String::new(), style.paint(Colour::Bold, title)];
    let words = &server.stderr_tail[server.stderr_tail.len().saturating_sub(LAST_WORDS)..];
    if !words.is_empty() {
        lines.extend(section("What it said last on its standard error"));
        lines.extend(words.iter().map(|line| format!("  | {}", clean(line)).trim_end().to_owned()));
    }
    let lately = &server.history[server.history.len().saturating_sub(LATELY)..];
    // One that was always well has nothing to tell.
    if lately.len() > 1 || (lately.len() == 1 && is_troubled(server)) {
        lines.extend(section("Lately"));
        lines.extend(lately.iter().map(|then| {
            let word = state_look(then.state).word;
            format!("  {}  {word:12}  {}", moment(then.at_unix_ms), clean(&then.reason))
        }));
    }
    lines.extend(section("What you can do"));
    let advice = server.hint.as_deref().map(clean).into_iter().chain(advice(server));
    for item in advice {
        for (n, part) in wrap(&item, width - 4).iter().enumerate() {
            lines.push(format!("  {} {part}", if n == 0 { '-' } else { ' ' }));
        }
    }
    lines
}

fn facts(server: &ServerReport, gateway: &GatewayReport) -> Vec<(&'static str, String)> {
    let now = gateway.started_unix_ms + gateway.uptime_ms;
    let ago = |then: u64| format!("{} ago", span(now.saturating_sub(then)));
    let mut facts = Vec::new();
    let mut add = |label, value: String| facts.push((label, value));
    let since = server.since_unix_ms;
    add("Since", format!("{} ({})", moment(since), ago(since)));
    if let Some(error) = &server.last_error {
        let when = server.last_error_unix_ms.map(|then| format!("{}: ", ago(then)));
        add("Last error", format!("{}{}", when.unwrap_or_default(), clean(error)));
    }
    add("Where", place(server, gateway));
    if let Some(connection) = connection(server) {
        add("Connection", connection);
    }
    add("Calls", calls(server));
    if let Some(catalog) = server.catalog {
        let mut offers = vec![count(catalog.tools, "tool")];
        let others = [
            (catalog.prompts, "prompt"),
            (catalog.resources, "resource"),
            (catalog.resource_templates, "resource template"),
        ];
        offers.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, name)| count(*n, name)));
        let stale = if catalog.stale { ", as of when it was last listed" } else { "" };
        add("Offers", format!("{}{stale}", offers.join(", ")));
    }
    facts
}

fn place(server: &ServerReport, gateway: &GatewayReport) -> String {
    let mut parts = vec![clean(&server.target)];
    let off = server.state == ServerState::Disabled;
    if server.required && off && gateway.ready {
        // Off by the configuration: nobody waits for it.
        parts.push("required once it is switched on".to_owned());
    } else if server.required {
        parts.push("required: nothing is ready without it".to_owned());
    }
    parts.join("; ")
}

fn connection(server: &ServerReport) -> Option<String> {
    let generation = server.generation?;
    let mut parts = vec![format!("generation {generation}")];
    parts.extend(server.session_age_ms.map(|ms| format!("{} old", span(ms))));
    parts.extend(server.protocol.as_deref().map(|version| format!("MCP {}", clean(version))));
    parts.extend(server.pid.map(|pid| format!("process {pid}")));
    Some(parts.join(", "))
}

/// Now, and since the gateway started.
fn calls(server: &ServerReport) -> String {
    let counts = &server.calls;
    let past = [
        (counts.answered, "answered"),
        (counts.not_sent, "not sent"),
        (counts.rejected, "rejected"),
        (counts.unknown, "with an unknown outcome"),
        (counts.cancelled, "cancelled"),
        (counts.resent, "sent again"),
    ];
    let past = past.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let past: Vec<String> = past.collect();
    let past = if past.is_empty() { "none so far".to_owned() } else { past.join(", ") };
    format!("{} with it, {} held; {past}", server.in_flight, server.held)
}

/// Commands that make sense now.
fn advice(server: &ServerReport) -> Vec<String> {
    let name = clean(&server.name);
    let restart = |why: &str| format!("`evergate restart {name}` {why}");
    let logs =
        format!("`evergate logs {name} --follow` shows what it writes to its standard error");
    let has_logs = server.transport.as_deref() == Some("stdio") || !server.stderr_tail.is_empty();
    let logs = has_logs.then_some(logs);
    let mut advice = Vec::new();
    match server.state {
        ServerState::Connected if server.degraded => {
            advice.push(restart("makes a new connection, if it does not get better by itself"));
            advice.extend(logs);
        }
        ServerState::PerClient if server.degraded => {
            if server.connections.is_some_and(|connections| connections > 0) {
                advice.push(restart("makes the connections of all clients anew"));
            }
            advice
                .push("or wait for the next client, which gets a connection of its own".to_owned());
        }
        ServerState::Connected | ServerState::PerClient if server.hint.is_some() => {}
        ServerState::Connected | ServerState::PerClient => {
            advice.push("nothing: it works".to_owned());
        }
        ServerState::Connecting | ServerState::Reconnecting | ServerState::Disconnected => {
            if server.hint.is_none() {
                advice.push("wait: it is tried again by itself, and calls wait for it".to_owned());
            }
            advice.push(restart("tries at once"));
            advice.extend(logs);
            advice.push(format!(
                "`evergate disable {name}` gives it up for now, so that nobody waits for it"
            ));
        }
        ServerState::PermanentlyFailed => {
            advice.push(restart("tries again, once what is wrong is put right"));
            advice.extend(logs);
        }
        ServerState::Disabled | ServerState::Disabling => {
            advice.push(format!("`evergate enable {name}` switches it on"));
        }
        ServerState::Unknown => advice
            .push("use `evergate` of the gateway's own version, which knows this state".to_owned()),
        ServerState::Unusable => {
            advice.push("`evergate check` says how the configuration is understood".to_owned());
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::samples;

    fn shown(more: Value, width: usize) -> String {
        let style = Style { width: Some(width), height: None, colour: false };
        let text = lines(&samples::server(more), &samples::gateway(json!({})), style);
        assert!(text.iter().all(|line| line.chars().count() <= width), "{text:#?}");
        text.join("\n")
    }

    fn reconnecting() -> Value {
        let then = |ago: u64, state: &str, reason: &str| json!({ "at_unix_ms": samples::NOW - ago, "state": state, "reason": reason, "generation": 4 });
        json!({
            "name": "search", "state": "reconnecting", "since_unix_ms": samples::NOW - 12_000, "required": true,
            "why": "Lost 12 s ago because its process failed (could not connect: the process ended (exit status: 1)). \
                    Attempt 4 follows in 2.1 s. 2 calls wait.",
            "hint": "look at its last words on standard error, and fix what it died of; it is started again by itself",
            "attempts": 3, "next_retry_ms": 2_100, "session_age_ms": null, "pid": null, "held": 2,
            "last_error": "could not connect: the process ended (exit status: 1)",
            "last_error_unix_ms": samples::NOW - 1_000,
            "stderr_tail": ["\u{1b}[31mpanic\u{1b}[0m: out of patience", "  at line 3"],
            "catalog": { "version": 7, "tools": 12, "prompts": 1, "resources": 0, "resource_templates": 0, "stale": true },
            "calls": { "answered": 10, "not_sent": 1, "rejected": 0, "unknown": 1, "cancelled": 0, "resent": 2 },
            "history": [
                then(7_380_000, "connecting", "requested"), then(7_379_000, "connected", "handshake_done"),
                then(12_000, "reconnecting", "process_exited"),
            ],
        })
    }

    #[test]
    fn a_server_that_is_away() {
        insta::assert_snapshot!("away_80", shown(reconnecting(), 80));
        insta::assert_snapshot!("away_120", shown(reconnecting(), 120));
    }

    #[test]
    fn a_required_server_that_is_off_is_not_waited_for() {
        let off = json!({ "state": "disabled", "enabled": false, "required": true });
        assert!(shown(off.clone(), 80).contains("required once it is switched on"));
        let waits = lines(
            &samples::server(off),
            &samples::gateway(json!({ "ready": false })),
            Style { width: Some(80), height: None, colour: false },
        );
        assert!(waits.join("\n").contains("nothing is ready without it"));
    }

    #[test]
    fn the_only_moment_of_a_server_that_never_worked_is_told() {
        let moment = json!({ "at_unix_ms": samples::NOW, "state": "permanently_failed", "reason": "invalid_config", "generation": null });
        let text = shown(json!({ "state": "permanently_failed", "history": [moment] }), 80);
        assert!(text.contains("Lately\n") && text.contains("invalid_config"), "{text}");
    }

    #[test]
    fn every_state_says_what_can_be_done() {
        let states = [
            json!({}),
            json!({ "degraded": true }),
            json!({ "breaker": { "open": true, "probe_in_ms": 1, "because": "of it" }, "hint": "nothing now" }),
            json!({ "state": "connecting", "transport": "http" }),
            json!({ "state": "disconnected" }),
            json!({ "state": "permanently_failed" }),
            json!({ "state": "disabled" }),
            json!({ "state": "per_client" }),
            json!({ "state": "per_client", "degraded": true, "connections": 2 }),
            json!({ "state": "unusable" }),
        ];
        let advice = states.map(|more| {
            let server = samples::server(more);
            format!("{}\n  {}", look(&server).word, advice(&server).join("\n  "))
        });
        insta::assert_snapshot!(advice.join("\n"));
    }
}
