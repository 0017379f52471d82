//! `evergate restart`, `enable`, `disable` and `refresh`: what a person does to servers, and what came of it.

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use super::running::{self, Found, GatewayArgs};
use super::terminal::{Colour, Style};
use super::words::{clean, count, look, span};
use crate::admin::model::{Action, CatalogReport, Done, ServerReport, ServerState, What};
use crate::admin_client::{AdminClient, ClientError, EventStream};
use crate::config::parse_duration;
use crate::exit_code::Failure;
use crate::output;

/// Which servers, and how long to wait for them.
#[derive(Debug, Args)]
pub(crate) struct OnServers {
    /// The servers, as the configuration names them.
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
    /// How long to wait until the effect shows.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_value = "30s",
          default_missing_value = "30s", value_parser = parse_duration)]
    wait: Duration,
    /// Return as soon as the gateway has understood.
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// One server on which something was begun.
struct Begun {
    name: String,
    /// As it was before.
    before: ServerReport,
    at: Instant,
    /// To see what is found when it is listed anew.
    events: Option<EventStream>,
    /// Something was.
    found: bool,
}

/// How far it is.
enum Progress {
    Done(String),
    Failed(String),
    Underway,
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A listing that finds nothing new says nothing, and connections of clients are not told one by one. Most take less.
const LISTING: Duration = Duration::from_secs(2);

// === impl OnServers ===

impl OnServers {
    pub(crate) async fn run(&self, action: Action) -> Result<(), Failure> {
        let Found { client, .. } = self.gateway.find().await?;
        // Names are checked before anything is done to any of them.
        for name in &self.servers {
            running::server(&client, name).await?;
        }
        let (mut begun, mut refused) = (Vec::new(), Vec::new());
        for name in &self.servers {
            match begin(&client, action, name, !self.no_wait).await {
                Ok(one) => begun.push(one),
                // What is told of one server must not keep the others from their share.
                Err(error @ ClientError::Refused(_)) => refused.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        if self.no_wait {
            for one in &begun {
                output::line(&format!("{}: {}", clean(&one.name), asked(action)))?;
            }
        } else {
            refused.extend(self.wait_for(&client, action, begun).await?);
        }
        if refused.is_empty() { Ok(()) } else { Err(Failure::trouble(refused.join("\n"))) }
    }

    /// Says of each server what came of it; gives back what went wrong.
    async fn wait_for(
        &self,
        client: &AdminClient,
        action: Action,
        mut begun: Vec<Begun>,
    ) -> Result<Vec<String>, Failure> {
        let style = Style::of_stdout();
        let deadline = Instant::now() + self.wait;
        let mut failed = Vec::new();
        while !begun.is_empty() {
            let mut underway = Vec::with_capacity(begun.len());
            for mut one in begun {
                let server: ServerReport = client.get(&["servers", &one.name]).await?;
                let name = clean(&one.name);
                match one.progress(action, &server, self.wait.min(LISTING)).await {
                    Progress::Done(how) => {
                        output::line(&format!(
                            "{} {name}: {how}",
                            style.paint(Colour::Green, "✔")
                        ))?;
                    }
                    Progress::Failed(why) => failed.push(format!("{name}: {why}")),
                    Progress::Underway if Instant::now() >= deadline => {
                        failed.push(format!(
                            "{name} is {} after {} of waiting: {}",
                            look(&server).word,
                            span(millis(self.wait)),
                            clean(&server.why)
                        ));
                    }
                    Progress::Underway => underway.push(one),
                }
            }
            begun = underway;
            if !begun.is_empty() {
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(failed)
    }
}

async fn begin(
    client: &AdminClient,
    action: Action,
    name: &str,
    watched: bool,
) -> Result<Begun, ClientError> {
    let listens = watched && action == Action::Refresh;
    let events = if listens { Some(client.events(None).await?) } else { None };
    // Not what the answer says: by then it may be over.
    let before = client.get(&["servers", name]).await?;
    let _: Done = client.post(&["servers", name, verb(action)]).await?;
    Ok(Begun { name: name.to_owned(), before, at: Instant::now(), events, found: false })
}

// === impl Begun ===

impl Begun {
    async fn progress(
        &mut self,
        action: Action,
        server: &ServerReport,
        patience: Duration,
    ) -> Progress {
        let after = took(self.at.elapsed());
        let given_up = server.state == ServerState::PermanentlyFailed;
        match action {
            Action::Restart | Action::Enable if given_up && !self.is_still_as_before(server) => {
                Progress::Failed(clean(&server.why))
            }
            Action::Restart if self.is_new_connection(server) => {
                Progress::Done(format!("restarted, connected again after {after}"))
            }
            Action::Restart if server.state == ServerState::PerClient => {
                self.all_anew(server, patience)
            }
            Action::Enable if server.state == ServerState::Connected => {
                Progress::Done(format!("switched on, connected after {after}"))
            }
            Action::Disable if server.state == ServerState::Disabled => {
                Progress::Done("switched off".to_owned())
            }
            Action::Refresh => self.listed(server, patience).await,
            _ => Progress::Underway,
        }
    }

    /// One that had been given up already is so for another moment.
    fn is_still_as_before(&self, server: &ServerReport) -> bool {
        (server.state, server.since_unix_ms) == (self.before.state, self.before.since_unix_ms)
    }

    fn is_new_connection(&self, server: &ServerReport) -> bool {
        server.state == ServerState::Connected && server.generation > self.before.generation
    }

    /// Each client has its own; whether one of them fails again is not known at once.
    fn all_anew(&self, server: &ServerReport, patience: Duration) -> Progress {
        if self.at.elapsed() < patience {
            return Progress::Underway;
        }
        if server.degraded {
            return Progress::Failed(clean(&server.why));
        }
        let connections = count(server.connections.unwrap_or(0), "connection");
        Progress::Done(format!("{connections} of clients restarted"))
    }

    async fn listed(&mut self, server: &ServerReport, patience: Duration) -> Progress {
        let now = offers(server.catalog);
        if self.found {
            let before = offers(self.before.catalog);
            return Progress::Done(format!("listed anew, {now} (before: {before})"));
        }
        // What `server` says is from before that.
        self.found = self.heard_of_change().await;
        if !self.found && self.at.elapsed() >= patience {
            return Progress::Done(format!("asked to list anew, nothing new so far: {now}"));
        }
        Progress::Underway
    }

    /// Whether what it offers has changed, as far as is known by now.
    async fn heard_of_change(&mut self) -> bool {
        let Some(events) = &mut self.events else { return false };
        while let Ok(Ok(Some(event))) = tokio::time::timeout(LOOK_EVERY, events.next()).await {
            let what = serde_json::from_slice::<crate::admin::model::Happening>(&event.data);
            if let Ok(What::CatalogChanged { server, .. }) = what.map(|happening| happening.what)
                && server == self.name
            {
                return true;
            }
        }
        false
    }
}

fn offers(catalog: Option<CatalogReport>) -> String {
    let Some(catalog) = catalog else { return "nothing known".to_owned() };
    let mut parts = vec![count(catalog.tools, "tool")];
    let others = [(catalog.prompts, "prompt"), (catalog.resources, "resource")];
    parts.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, name)| count(*n, name)));
    parts.join(", ")
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Restart => "restart",
        Action::Enable => "enable",
        Action::Disable => "disable",
        Action::Refresh => "refresh",
    }
}

fn asked(action: Action) -> &'static str {
    match action {
        Action::Restart => "is being restarted",
        Action::Enable => "is being switched on",
        Action::Disable => "is being switched off",
        Action::Refresh => "is being listed anew",
    }
}

/// To the tenth of a second while that matters.
fn took(elapsed: Duration) -> String {
    if elapsed < Duration::from_secs(10) {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        span(millis(elapsed))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
