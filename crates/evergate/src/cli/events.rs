//! `evergate events`: what happens, as it happens.

use clap::Args;

use super::following::{Following, Next};
use super::running::{self, GatewayArgs};
use super::source::hint;
use super::terminal::{self, Colour, Style};
use super::words::{clean, moment, state_look};
use crate::admin::model::{Action, Happening, What};
use crate::exit_code::Failure;
use crate::output;

/// Follow what happens: servers that come and go, catalogs that change, reloads, what operators do.
///
/// A line for each event, until Ctrl-C. When the gateway restarts this says so on stderr, waits for it, and goes on where
/// it left off.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    evergate events                 from now on\n  \
    evergate events --after 0       what is still known of the past, too\n  \
    evergate events docs            of one server\n  \
    evergate events --json | jq -c 'select(.to == \"disconnected\")'")]
pub(crate) struct Events {
    /// Only what concerns this server.
    server: Option<String>,
    /// Begin after the event with this number; 0 for everything that is still known.
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// One JSON object a line, as the admin API sends them.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

// === impl Events ===

impl Events {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let mut following = Following::start(&self.gateway, self.after).await?;
        if let Some(server) = &self.server {
            // A name that nobody has would wait for ever.
            running::server(following.client(), server).await?;
        }
        let style = Style::of_stdout();
        let gone = terminal::reader_gone();
        tokio::pin!(gone);
        loop {
            let next = tokio::select! {
                next = following.next() => next?,
                () = &mut gone => return Ok(()),
            };
            match next {
                Next::Event { what, text } => self.print(what.as_deref(), &text, style)?,
                Next::Lost(why) => {
                    hint(&format!("evergate: the gateway is away ({why}); looking for it"));
                }
                Next::Back { restarted: true } => {
                    hint("evergate: the gateway was restarted; what it did since comes first");
                }
                Next::Back { restarted: false } => hint("evergate: the gateway is back"),
            }
        }
    }

    fn print(&self, what: Option<&Happening>, text: &str, style: Style) -> Result<(), Failure> {
        let concerned = what.is_none_or(|event| {
            self.server.as_deref().is_none_or(|server| concerns(&event.what, server))
        });
        match what {
            _ if !concerned => Ok(()),
            Some(event) if !self.json => output::line(&line(event, style)),
            // Nothing this version knows; whoever reads may know more.
            _ => output::line(text),
        }
    }
}

fn concerns(what: &What, name: &str) -> bool {
    match what {
        What::Hello | What::ReloadRejected { .. } => false,
        What::Transition { server, .. }
        | What::CatalogChanged { server, .. }
        | What::Action { server, .. } => server == name,
        What::Reloaded { added, removed, changed } => {
            [added, removed, changed].iter().any(|names| names.iter().any(|one| one == name))
        }
    }
}

fn line(event: &Happening, style: Style) -> String {
    let when = style.paint(Colour::Dim, &moment(event.at_unix_ms));
    let what = match &event.what {
        What::Hello => "the stream begins".to_owned(),
        What::Transition { server, from, to, reason, generation, .. } => {
            let (from, look) = (state_look(*from), state_look(*to));
            let to = style.paint(look.colour, &format!("{} {}", look.symbol, look.word));
            let generation = generation.map(|n| format!(", connection {n}")).unwrap_or_default();
            let reason = clean(reason).replace('_', " ");
            format!("{}: {} → {to} ({reason}{generation})", clean(server), from.word)
        }
        What::CatalogChanged { server, version } => {
            format!("{}: offers something else now (catalog {version})", clean(server))
        }
        What::Reloaded { added, removed, changed } => {
            let parts = [("added", added), ("removed", removed), ("changed", changed)];
            let parts = parts.iter().filter(|(_, names)| !names.is_empty());
            let parts: Vec<String> =
                parts.map(|(what, names)| format!("{what} {}", clean(&names.join(", ")))).collect();
            let what =
                if parts.is_empty() { "no server changed".to_owned() } else { parts.join("; ") };
            format!("configuration reloaded: {what}")
        }
        What::ReloadRejected { problem } => {
            format!("new configuration not taken: {}", clean(problem))
        }
        What::Action { action, server, by } => {
            let by = by.as_deref().map(|by| format!(" by {}", clean(by))).unwrap_or_default();
            let done = match action {
                Action::Restart => "restart",
                Action::Enable => "enable",
                Action::Disable => "disable",
                Action::Refresh => "refresh",
            };
            format!("{}: {done} was asked for{by}", clean(server))
        }
    };
    format!("{when} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { width: None, height: None, colour: false };

    fn event(json: &str) -> Happening {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_kind_is_a_line() {
        let events = [
            r#"{"n":1,"at_unix_ms":1785499424123,"kind":"transition","server":"docs","from":"connected","to":"reconnecting","reason":"session_lost","event":"lost","generation":4,"new":1}"#,
            r#"{"n":2,"at_unix_ms":1785499424123,"kind":"catalog_changed","server":"docs","version":7}"#,
            r#"{"n":3,"at_unix_ms":1785499424123,"kind":"reloaded","added":["a","b"],"removed":[],"changed":["docs"]}"#,
            r#"{"n":4,"at_unix_ms":1785499424123,"kind":"reloaded","added":[],"removed":[],"changed":[]}"#,
            r#"{"n":5,"at_unix_ms":1785499424123,"kind":"reload_rejected","problem":"error: x: wants a number"}"#,
            r#"{"n":6,"at_unix_ms":1785499424123,"kind":"action","action":"restart","server":"docs","by":"ops"}"#,
        ];
        let lines: Vec<String> = events.map(|text| line(&event(text), PLAIN)).into();
        insta::assert_snapshot!(lines.join("\n"), @r"
        2026-07-31T12:03:44.123Z docs: connected → ◐ reconnecting (session lost, connection 4)
        2026-07-31T12:03:44.123Z docs: offers something else now (catalog 7)
        2026-07-31T12:03:44.123Z configuration reloaded: added a, b; changed docs
        2026-07-31T12:03:44.123Z configuration reloaded: no server changed
        2026-07-31T12:03:44.123Z new configuration not taken: error: x: wants a number
        2026-07-31T12:03:44.123Z docs: restart was asked for by ops
        ");
        let concerned = events.map(|text| concerns(&event(text).what, "docs"));
        assert_eq!(concerned, [true, true, true, false, false, true]);
    }
}
