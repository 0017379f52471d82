//! `evergate status --watch`: the table, drawn anew when something happens and once a second; or a line for each change.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::table::{self, Snapshot};
use super::{Raw, Status};
use crate::admin::model::{Health, ServerReport};
use crate::admin_client::AdminClient;
use crate::cli::following::{Following, Next};
use crate::cli::running;
use crate::cli::terminal::{self, Colour, Screen, Style};
use crate::cli::words::{clean, look, moment, span};
use crate::exit_code::Failure;
use crate::output;

/// What was seen last, and what to say about it.
struct Watching<'a> {
    status: &'a Status,
    screen: Option<Screen>,
    last: Option<Snapshot>,
    /// Since when the gateway has been away, and why.
    lost: Option<(Instant, String)>,
    seen: Seen,
}

/// What counts as a change.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    health: Option<Health>,
    servers: BTreeMap<String, (&'static str, Option<u64>)>,
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What happens together is drawn together.
const TOGETHER: Duration = Duration::from_millis(50);

pub(super) async fn run(status: &Status) -> Result<(), Failure> {
    let mut following = Following::start(&status.gateway, None).await?;
    let drawn = terminal::is_terminal() && !status.json;
    let mut watching = Watching {
        status,
        // Only once it is known that there is something to show.
        screen: if drawn { Some(Screen::enter()?) } else { None },
        last: None,
        lost: None,
        seen: Seen::default(),
    };
    let told = terminal::told_to_end();
    tokio::pin!(told);
    loop {
        if watching.lost.is_none() {
            watching.look(following.client()).await?;
        }
        watching.draw()?;
        let next = tokio::select! {
            next = following.next() => Some(next?),
            () = sleep(LOOK_EVERY) => None,
            () = &mut told => break,
            () = terminal::reader_gone(), if !drawn => break,
        };
        match next {
            Some(Next::Event { .. }) => sleep(TOGETHER).await,
            Some(Next::Lost(why)) => watching.lost(why)?,
            Some(Next::Back { restarted }) => watching.back(restarted)?,
            None => {}
        }
    }
    watching.end()
}

// === impl Watching ===

impl Watching<'_> {
    async fn look(&mut self, client: &AdminClient) -> Result<(), Failure> {
        let raw = match self.status.raw(client).await {
            Ok(raw) => raw,
            // The stream will say so too.
            Err(error) if error.may_pass() => return Ok(()),
            Err(error) => return Err(running::explained(client, error).await),
        };
        let snapshot = self.status.understood(&raw, client)?;
        if self.screen.is_none() {
            self.tell(&raw, &snapshot)?;
        }
        self.last = Some(snapshot);
        Ok(())
    }

    fn draw(&self) -> Result<(), Failure> {
        let (Some(screen), Some(snapshot)) = (&self.screen, &self.last) else { return Ok(()) };
        let style = Style::of_stdout();
        let mut lines = Vec::new();
        if let Some((since, why)) = &self.lost {
            let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let text = format!("the gateway is away for {}, and is looked for: {why}", span(ms));
            lines.push(style.paint(Colour::Red, &text));
            lines.push("this is how it was:".to_owned());
        }
        lines.extend(table::lines(snapshot, style));
        screen.draw(&lines, style)
    }

    fn lost(&mut self, why: String) -> Result<(), Failure> {
        if self.screen.is_none() && !self.status.json {
            output::line(&format!("{} the gateway is away: {why}", now()))?;
        }
        self.lost = Some((Instant::now(), why));
        Ok(())
    }

    fn back(&mut self, restarted: bool) -> Result<(), Failure> {
        self.lost = None;
        if self.screen.is_none() && !self.status.json {
            let how = if restarted { ", restarted" } else { "" };
            output::line(&format!("{} the gateway is back{how}", now()))?;
        }
        Ok(())
    }

    /// For readers that are no terminal: whatever changed.
    fn tell(&mut self, raw: &Raw, snapshot: &Snapshot) -> Result<(), Failure> {
        let seen = Seen::of(snapshot);
        if self.status.json && seen != self.seen {
            output::line(&serde_json::to_string(raw)?)?;
        }
        if !self.status.json {
            for server in &snapshot.servers {
                let before = self.seen.servers.get(&server.name);
                if before != seen.servers.get(&server.name) {
                    output::line(&change(before.map(|(word, _)| *word), server))?;
                }
            }
            for gone in self.seen.servers.keys().filter(|name| !seen.servers.contains_key(*name)) {
                output::line(&format!("{} {}: removed", now(), clean(gone)))?;
            }
        }
        self.seen = seen;
        Ok(())
    }

    /// Leaves the last table where it can still be read.
    fn end(mut self) -> Result<(), Failure> {
        let drawn = self.screen.take().is_some();
        if let Some(snapshot) = self.last.filter(|_| drawn) {
            for line in table::lines(&snapshot, Style::of_stdout()) {
                output::line(&line)?;
            }
        }
        Ok(())
    }
}

// === impl Seen ===

impl Seen {
    fn of(snapshot: &Snapshot) -> Self {
        let state =
            |server: &ServerReport| (server.name.clone(), (look(server).word, server.generation));
        Self {
            health: Some(snapshot.gateway.status),
            servers: snapshot.servers.iter().map(state).collect(),
        }
    }
}

fn change(before: Option<&str>, server: &ServerReport) -> String {
    let (name, word) = (clean(&server.name), look(server).word);
    let how = match before {
        Some(before) if before != word => format!("{before} → {word}"),
        _ => word.to_owned(),
    };
    format!("{} {name}: {how}. {}", now(), clean(&server.why))
}

fn now() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    moment(now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0)))
}
