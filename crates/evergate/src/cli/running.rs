//! Which running gateway a command is about, and the key that opens it.
//!
//! A gateway with a state directory says there where it is (`control-PID.json`). So it is found by its `--state-dir`, by its
//! `--config`, or, if it is the only one of this user, without a word. `--url` leads to all others, and to those on other
//! machines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::source;
use super::words::clean;
use crate::admin::model::{ProblemCode, ServerList};
use crate::admin_client::{self, AdminClient, ClientError};
use crate::config::Secret;
use crate::exit_code::Failure;
use crate::state::{self, Control};

/// Which gateway is meant.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which gateway")]
pub(crate) struct GatewayArgs {
    /// Where it is, as in `http://127.0.0.1:8080`; the address of its `admin_listen` if it has one.
    #[arg(long, value_name = "URL", value_parser = admin_client::parse_url, conflicts_with_all = ["config", "state_dir"])]
    url: Option<Url>,
    /// The file it was started with, if several gateways run here.
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    config: Vec<PathBuf>,
    /// The folder it was started with.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// A key of the gateway that has the scope `admin`. Others on this machine can see it here, so better set
    /// `EVERGATE_KEY`. Gateways that run as you need none.
    #[arg(long, value_name = "KEY", value_parser = Secret::new)]
    key: Option<Secret>,
}

/// A gateway.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) client: AdminClient,
    /// Leads to the same one after a restart, and to no other that may have been started meanwhile.
    pub(super) again: GatewayArgs,
}

/// A gateway that says so in its folder.
#[derive(Debug, Clone)]
struct Known {
    folder: PathBuf,
    control: Control,
}

/// What one folder says of a gateway.
#[derive(Debug)]
enum Said {
    Runs(Control),
    /// It ended without taking its file away.
    Died(Control),
    Nothing,
}

const USUAL_URL: &str = "http://127.0.0.1:8080";
/// Where a service of the system keeps its state.
const SYSTEM_DIR: &str = "/var/lib/evergate";
/// Long enough for a gateway on this machine.
const PROBE: Duration = Duration::from_secs(1);
const KEY_VARIABLE: &str = "EVERGATE_KEY";

/// One server, as the gateway says it.
pub(super) async fn server(client: &AdminClient, name: &str) -> Result<Box<RawValue>, Failure> {
    match client.get_raw(&["servers", name]).await {
        Ok(server) => Ok(server),
        Err(error) => Err(explained(client, error).await),
    }
}

/// With the names that there are, if the gateway knows none that was probably meant.
pub(super) async fn explained(client: &AdminClient, error: ClientError) -> Failure {
    let ClientError::Refused(mut problem) = error else { return error.into() };
    if problem.code == ProblemCode::UnknownServer
        && problem.nearest.is_none()
        && let Ok(all) = client.get::<ServerList>(&["servers"]).await
    {
        let names: Vec<&str> = all.servers.iter().map(|server| server.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        problem.message = format!("{}; there are: {}", problem.message, clean(&names));
    }
    ClientError::Refused(problem).into()
}

// === impl GatewayArgs ===

impl GatewayArgs {
    /// Finds it. To be asked again when it went away: the next one has another key, and may be elsewhere.
    pub(super) async fn find(&self) -> Result<Found, Failure> {
        let key = self.given_key()?;
        if let Some(url) = &self.url {
            let key = key.or_else(|| known_key(url));
            return Ok(Found { client: AdminClient::new(url.clone(), key)?, again: self.clone() });
        }
        if let Some(dir) = &self.state_dir {
            let what = format!("the state directory {}", dir.display());
            let client = opened(in_folder(dir).await?, key, &what)?;
            return Ok(Found { client, again: self.clone() });
        }
        if !self.config.is_empty() {
            let names: Vec<String> =
                self.config.iter().map(|file| file.display().to_string()).collect();
            let names = names.join(", ");
            let Some(dir) = state::default_dir(&self.config) else {
                let what =
                    format!("cannot tell where a gateway with {names} keeps its state: give --url");
                return Err(Failure::usage(what));
            };
            let client = opened(in_folder(&dir).await?, key, &names)?;
            return Ok(Found { client, again: self.clone() });
        }
        self.only_one(key).await
    }

    /// The only one of this user; the one of this folder if there are more; or whoever is at the usual address.
    async fn only_one(&self, key: Option<Secret>) -> Result<Found, Failure> {
        let all = everywhere();
        let mut running = all.running;
        if running.len() > 1 {
            running = distinct(running).await;
        }
        if running.len() > 1
            && let Some(here) = of_this_folder(&running)
        {
            running = vec![here];
        }
        if running.len() > 1 {
            return Err(several(&running));
        }
        if let Some(Known { folder, control }) = running.pop() {
            let client = opened(Said::Runs(control), key, "")?;
            return Ok(Found { client, again: Self { state_dir: Some(folder), ..self.clone() } });
        }
        let url = Url::parse(USUAL_URL).map_err(Failure::from)?;
        match self.unnamed(url).await? {
            Some(found) => Ok(found),
            None => Err(nobody(&all.died, &all.closed)),
        }
    }

    /// Whoever is at an address that nobody named. It gets no key: it may be anybody.
    async fn unnamed(&self, url: Url) -> Result<Option<Found>, Failure> {
        let client = AdminClient::new(url, None)?;
        match client.get_raw(&["gateway"]).await {
            Err(error) if error.is_nobody_there() => Ok(None),
            Err(ClientError::NotTheApi { .. }) => Ok(None),
            Err(ClientError::KeyNeeded { url, .. }) => Err(Failure::no_permission(format!(
                "whoever is at {url} wants a key, and nobody said that it may have yours: give --url {url}"
            ))),
            // Whatever else it has to say it will say again.
            _ => Ok(Some(Found { client, again: self.clone() })),
        }
    }

    fn given_key(&self) -> Result<Option<Secret>, Failure> {
        if self.key.is_some() {
            return Ok(self.key.clone());
        }
        let Some(text) = std::env::var_os(KEY_VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let key = Secret::new(&text.to_string_lossy());
        key.map(Some).map_err(|why| Failure::usage(format!("{KEY_VARIABLE} {why}")))
    }
}

/// Everything that says it is a gateway of this user.
#[derive(Debug, Default)]
struct Everywhere {
    running: Vec<Known>,
    died: Vec<Control>,
    /// What may be one, but is not for our eyes.
    closed: Vec<String>,
}

fn everywhere() -> Everywhere {
    let mut found = Everywhere::default();
    let home = state::home().and_then(|home| std::fs::read_dir(home).ok());
    let mut folders: Vec<PathBuf> =
        home.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.push(PathBuf::from(SYSTEM_DIR));
    for folder in folders {
        match state::read_controls(&folder) {
            Ok(controls) => found.add(&folder, controls),
            Err(error) => found.closed.push(error.to_string()),
        }
    }
    found
}

// === impl Everywhere ===

impl Everywhere {
    fn add(&mut self, folder: &Path, controls: Vec<Control>) {
        for control in controls {
            if control.is_of_a_dead_process() {
                self.died.push(control);
            } else {
                self.running.push(Known { folder: folder.to_owned(), control });
            }
        }
    }
}

async fn in_folder(folder: &Path) -> Result<Said, Failure> {
    let controls = state::read_controls(folder);
    let controls = controls.map_err(|error| Failure::unavailable(error.to_string()))?;
    let mut found = Everywhere::default();
    found.add(folder, controls);
    if found.running.len() > 1 {
        found.running = distinct(found.running).await;
    }
    match found.running.pop() {
        Some(last) if !found.running.is_empty() => {
            found.running.push(last);
            Err(several(&found.running))
        }
        Some(only) => Ok(Said::Runs(only.control)),
        None => Ok(found.died.into_iter().next().map_or(Said::Nothing, Said::Died)),
    }
}

fn opened(said: Said, key: Option<Secret>, where_: &str) -> Result<AdminClient, Failure> {
    match said {
        Said::Runs(control) => Ok(AdminClient::known(control, key)?),
        Said::Died(control) => Err(Failure::unavailable(died(&control))),
        Said::Nothing => Err(Failure::unavailable(format!(
            "no gateway is running with {where_}; if one runs with other files or another folder, give those, or its --url"
        ))),
    }
}

fn died(control: &Control) -> String {
    format!(
        "the gateway at {} (process {}) is gone, and did not end in an orderly way: start it again",
        control.url, control.pid
    )
}

/// The key of a gateway of this user that says it is there.
fn known_key(url: &Url) -> Option<Secret> {
    let same = |known: &Known| {
        admin_client::parse_url(&known.control.url)
            .is_ok_and(|there| there.origin() == url.origin())
    };
    let there = everywhere().running.into_iter().filter(same);
    there.max_by_key(|known| known.control.since_unix_ms).map(|known| known.control.key)
}

/// Those that are really there. Process ids are given to others after a crash, so whoever does not listen is not it; and of
/// two at the same address the later has taken it over from the other, which is about to end.
async fn distinct(running: Vec<Known>) -> Vec<Known> {
    let mut running = listening(running).await;
    let all = running.clone();
    running.retain(|known| {
        let later = |other: &Known| other.control.since_unix_ms > known.control.since_unix_ms;
        !all.iter().any(|other| other.control.url == known.control.url && later(other))
    });
    running
}

async fn listening(running: Vec<Known>) -> Vec<Known> {
    let mut there = Vec::with_capacity(running.len());
    for known in running {
        let Ok(url) = admin_client::parse_url(&known.control.url) else { continue };
        let Ok(addresses) = url.socket_addrs(|| None) else { continue };
        if let Ok(Ok(_)) = timeout(PROBE, TcpStream::connect(&addresses[..])).await {
            there.push(known);
        }
    }
    there
}

/// The one that was started with the configuration of the current folder.
fn of_this_folder(running: &[Known]) -> Option<Known> {
    let file = std::path::absolute(source::usual_file()?).ok()?.display().to_string();
    let mut with_it = running.iter().filter(|known| known.control.config_files.contains(&file));
    let first = with_it.next()?;
    with_it.next().is_none().then(|| first.clone())
}

fn several(running: &[Known]) -> Failure {
    let line = |Known { control, .. }: &Known| {
        let files = control.config_files.join(", ");
        format!("\n  {}  process {}  {files}", control.url, control.pid)
    };
    let lines: String = running.iter().map(line).collect();
    let apart = running.windows(2).all(|two| two[0].folder != two[1].folder);
    let with = if apart { "--config or --url" } else { "--url" };
    Failure::usage(format!(
        "{} gateways are running: say which one with {with}{lines}",
        running.len()
    ))
}

fn nobody(died: &[Control], closed: &[String]) -> Failure {
    let first = format!(
        "no gateway is running here, nor is one at {USUAL_URL}: start one with `evergate --config FILE`, or say where \
         it is with --url, --config or --state-dir"
    );
    let died = died.iter().map(self::died);
    let lines: Vec<String> =
        std::iter::once(first).chain(died).chain(closed.iter().cloned()).collect();
    Failure::unavailable(lines.join("\n  "))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn whoever_is_at_an_address_that_nobody_named_gets_no_key() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stranger = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = socket.read(&mut request).await.unwrap();
            let answer = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..read]).to_ascii_lowercase()
        };
        let key = Secret::new("hunter2-0123456789abcdef").unwrap();
        let args = GatewayArgs { url: None, config: Vec::new(), state_dir: None, key: Some(key) };
        let (found, request) = tokio::join!(args.unnamed(Url::parse(&url).unwrap()), stranger);
        assert!(request.starts_with("get /api/v1/gateway"), "{request}");
        assert!(!request.contains("authorization") && !request.contains("hunter2"), "{request}");
        let said = format!("{:?}", found.unwrap_err());
        assert!(said.contains(&format!("give --url {url}")), "{said}");
    }
}
