//! `evergate doctor`: starts each server in turn and says what works, and how to mend what does not.
//!
//! Nothing is shared with a gateway that may be running: each server gets a connection, or a process, of its own for the
//! moment. One failed attempt is enough to know; the gateway would go on trying.

mod hints;
mod screen;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use evergate_runtime::{Hub, Settings, StateKind, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::source::{self, ConfigArgs};
use crate::config::{Config, Server, Severity, Sources};
use crate::exit_code::Failure;
use crate::gateway::server_settings;
use crate::output;
use crate::serve::DEFAULT_LISTEN;
use hints::Patient;
use screen::Screen;

/// Try every server, one after the other, and say what works and how to mend what does not.
///
/// Servers are started or dialled as the gateway would do it, asked what they offer, and closed again. It may be done
/// while a gateway runs. Exits with 0 if everything works, with 69 if something does not.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only these servers, whether they are switched on or not.
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// How long each server may take, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print one JSON object instead.
    #[arg(long)]
    json: bool,
}

/// How one server is.
#[derive(Debug)]
struct Finding {
    server: String,
    target: String,
    result: Diagnosis,
}

#[derive(Debug)]
enum Diagnosis {
    Works {
        after: Duration,
        protocol: String,
        tools: usize,
        prompts: usize,
        resources: usize,
    },
    /// Off by the file's own word.
    Off,
    Fails {
        problem: String,
        hint: Option<String>,
        last_words: Vec<String>,
    },
}

/// Why a trial failed.
#[derive(Debug)]
enum Trouble {
    /// It could not even begin.
    Settings(String),
    /// How it was at the end.
    Status(Box<Status>),
}

/// How many of the last lines of a child are shown.
const LAST_WORDS: usize = 5;

/// A child that does not go is killed by then.
const CLOSING: Duration = Duration::from_secs(5);

// === impl Doctor ===

impl Doctor {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let sources = self.config.required_sources()?;
        let config = source::load(&sources)?;
        for name in &self.servers {
            if !config.servers.contains_key(name) {
                return Err(source::unknown_server(&config, name));
            }
        }
        let screen = Screen::new(self.json);
        let problems = gateway_problems(&config).await;
        for problem in &problems {
            screen.problem(problem)?;
        }
        let mut findings = Vec::new();
        let chosen = config.servers.iter().filter(|(name, _)| {
            self.servers.is_empty() || self.servers.iter().any(|wanted| wanted == *name)
        });
        for (name, server) in chosen {
            let finding = self.examine(name, server, &sources, &screen).await;
            screen.finding(&finding)?;
            findings.push(finding);
        }
        let failing = findings.iter().filter(|finding| finding.fails()).count();
        let wrong = problems.iter().any(|problem| problem.starts_with("error"));
        if self.json {
            let servers: Vec<Value> = findings.iter().map(Finding::as_json).collect();
            let ok = failing == 0 && !wrong;
            output::line(
                &json!({ "ok": ok, "gateway": problems, "servers": servers }).to_string(),
            )?;
        }
        match (failing, wrong) {
            (0, false) => Ok(()),
            (0, true) => Err(Failure::unavailable("the configuration cannot be served".to_owned())),
            (n, _) => {
                let off = findings.iter().filter(|finding| finding.is_off()).count();
                let apart = match off {
                    0 => String::new(),
                    1 => "; 1 is disabled".to_owned(),
                    off => format!("; {off} are disabled"),
                };
                let tried = findings.len() - off;
                Err(Failure::unavailable(format!("{n} of {tried} servers failed{apart}")))
            }
        }
    }

    async fn examine(
        &self,
        name: &str,
        server: &Server,
        sources: &Sources,
        screen: &Screen,
    ) -> Finding {
        let finding = |result| Finding { server: name.to_owned(), target: server.place(), result };
        // Also if something is missing for it: nobody misses a server that is off.
        if server.disabled && self.servers.is_empty() {
            return finding(Diagnosis::Off);
        }
        if let Some(reason) = &server.unusable {
            let problem = reason.clone();
            let hint = hints::unset(reason);
            return finding(Diagnosis::Fails { problem, hint, last_words: Vec::new() });
        }
        // Asked for by name, it is wanted whatever the file says.
        let wanted = Server { disabled: false, ..server.clone() };
        let settings = server_settings::of(&wanted);
        let within = Duration::from_secs(self.timeout);
        let trial = trial(name, settings, within);
        let outcome = screen.while_waiting(name, trial).await;
        finding(match outcome {
            Ok(works) => works,
            Err(Trouble::Settings(problem)) => {
                let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
                let hint = Some("correct its entry; evergate check says what is wrong".to_owned());
                Diagnosis::Fails { problem, hint, last_words: Vec::new() }
            }
            Err(Trouble::Status(status)) => {
                let patient = Patient::new(name, server, &status, sources, within);
                let from = status.stderr_tail.len().saturating_sub(LAST_WORDS);
                Diagnosis::Fails {
                    problem: patient.problem(),
                    hint: patient.hint(),
                    last_words: status.stderr_tail[from..].to_vec(),
                }
            }
        })
    }
}

/// Connects, lists and closes; the status at the end if that was not possible.
async fn trial(name: &str, settings: Settings, within: Duration) -> Result<Diagnosis, Trouble> {
    let started = Instant::now();
    let hub = Hub::builder().server(name, settings).start();
    let hub = hub.map_err(|error| Trouble::Settings(error.to_string()))?;
    let server = hub.server(name).map_err(|error| Trouble::Settings(error.to_string()))?;
    let (mut catalog, mut status) = (hub.watch_catalog(), server.watch_status());
    let listed = async {
        let entry = catalog.wait_for(|catalog| catalog.server(name).is_some()).await.ok()?;
        let listed = entry.server(name)?;
        Some((listed.tools.len(), listed.prompts.len(), listed.resources.len()))
    };
    let failed = status.wait_for(|status| {
        let gone = !matches!(status.state, StateKind::Connecting | StateKind::Connected);
        gone && status.last_error.is_some() || status.discovery_failures > 0
    });
    let listed = tokio::select! {
        biased;
        listed = listed => listed,
        _ = failed => None,
        () = tokio::time::sleep(within) => None,
    };
    let (after, last) = (started.elapsed(), server.status());
    hub.shutdown(CLOSING).await;
    match listed {
        Some((tools, prompts, resources)) => {
            let protocol = last.protocol.map(|version| version.to_string()).unwrap_or_default();
            Ok(Diagnosis::Works { after, protocol, tools, prompts, resources })
        }
        None => Err(Trouble::Status(Box::new(last))),
    }
}

/// What is wrong with the file, and with the gateway that it describes.
async fn gateway_problems(config: &Config) -> Vec<String> {
    let said = config.findings.iter().filter(|finding| finding.severity != Severity::Note);
    let mut problems: Vec<String> = said.map(ToString::to_string).collect();
    let address = config.gateway.listen.unwrap_or(DEFAULT_LISTEN);
    if let Err(problem) = config.gateway.may_listen_on(address) {
        problems.push(format!("error: gateway.listen: {problem}"));
    }
    problems.extend(taken("gateway.listen", address).await);
    if let Some(address) = config.gateway.admin_listen {
        problems.extend(taken("gateway.admin_listen", address).await);
    }
    if let Some(folder) = &config.gateway.payload_dir
        && folder.exists()
        && !folder.is_dir()
    {
        problems.push(format!("error: gateway.payload_dir: {} is not a folder", folder.display()));
    }
    problems
}

/// What keeps a gateway from listening there, if anything does.
async fn taken(key: &str, address: SocketAddr) -> Option<String> {
    let error = tokio::net::TcpListener::bind(address).await.err()?;
    Some(if error.kind() == std::io::ErrorKind::AddrInUse {
        format!(
            "note: {key}: something listens on {address} already: a gateway that is running, or serve needs \
             another address"
        )
    } else {
        format!("error: {key}: cannot listen on {address}: {error}")
    })
}

// === impl Finding ===

impl Finding {
    fn fails(&self) -> bool {
        matches!(self.result, Diagnosis::Fails { .. })
    }

    fn is_off(&self) -> bool {
        matches!(self.result, Diagnosis::Off)
    }

    fn as_json(&self) -> Value {
        let mut value = json!({ "name": self.server, "target": self.target, "ok": !self.fails() });
        let more = match &self.result {
            Diagnosis::Works { after, protocol, tools, prompts, resources } => json!({
                "state": "works", "connected_ms": millis(*after), "protocol": protocol, "tools": tools,
                "prompts": prompts, "resources": resources,
            }),
            Diagnosis::Off => json!({ "state": "off" }),
            Diagnosis::Fails { problem, hint, last_words } => json!({
                "state": "fails", "problem": problem, "hint": hint, "stderr_tail": last_words,
            }),
        };
        if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
            value.extend(more);
        }
        value
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
