//! Starts everything, uses everything, and looks at the gateway's memory in between.

use std::io::Write as _;
use std::time::{Duration, Instant};

use evergate_testkit::{HttpServer, ListKind, Server};
use futures_util::StreamExt as _;
use futures_util::stream::iter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::support::{Events, Gateway, Session, gateway, until};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) servers: usize,
    pub(crate) tools: usize,
    pub(crate) sessions: usize,
}

/// A session that listens.
struct Listening {
    number: usize,
    session: Session,
    events: Events,
}

/// Requests at once: many clients, each of which waits for its answers.
const AT_ONCE: usize = 64;

/// Many times what either takes in a debug build: only what grows without bounds gets there.
const MOST_PER_SESSION: usize = 512 * 1024;
const MOST_PER_SERVER: usize = 4 * 1024 * 1024;

pub(crate) async fn run(load: Load) {
    allow_many_files();
    let mut clock = Clock::start();
    let upstreams = upstreams(load).await;
    clock.lap("upstream servers started", None);

    let alone = gateway(&config(&upstreams[..1])).start();
    until("one server is listed", async || {
        alone.connect().await.tool_names().await.len() == load.tools
    })
    .await;
    let base = resident(&alone);
    drop(alone);

    let gateway = gateway(&config(&upstreams)).start();
    let all = load.servers * load.tools;
    until("every tool is listed", async || gateway.connect().await.tool_names().await.len() == all)
        .await;
    clock.lap("every tool listed", Some(&gateway));
    let with_servers = resident(&gateway);
    let per_server = with_servers.saturating_sub(base) / (load.servers - 1);

    let first = gateway.http();
    let opening = iter(0..load.sessions).map(|number| {
        let http = first.clone();
        async move {
            let session = http.initialize().await;
            let mut events = session.listen().await;
            events.next().await.unwrap();
            Listening { number, session, events }
        }
    });
    let mut sessions: Vec<Listening> = opening.buffer_unordered(AT_ONCE).collect().await;
    clock.lap("sessions opened, each with a stream", Some(&gateway));
    let with_sessions = resident(&gateway);
    let per_session = with_sessions.saturating_sub(with_servers) / load.sessions;

    let calls = iter(&sessions).map(|Listening { number, session, .. }| async move {
        let (server, tool) = (number % load.servers, number % load.tools);
        let text =
            session.call_text(&format!("s{server}__tool-{tool}"), json!({ "text": number })).await;
        assert_eq!(text, format!("tool-{tool} of s{server}: {number}"));
    });
    calls.buffer_unordered(AT_ONCE).collect::<()>().await;
    clock.lap("a call from each session", Some(&gateway));

    for upstream in &upstreams {
        upstream.server().add_tools([tool("new")]);
        upstream.server().notify_list_changed(ListKind::Tools);
    }
    for Listening { events, .. } in &mut sessions {
        while events.message().await.unwrap()["method"] != "notifications/tools/list_changed" {}
    }
    let grown = all + load.servers;
    until("every change is listed", async || sessions[0].session.tool_names().await.len() == grown)
        .await;
    clock.lap("a change of every server announced to each session", Some(&gateway));
    let after_use = resident(&gateway);

    let ending = iter(sessions).map(|Listening { session, .. }| async move {
        let ended = session.http.send(http::Method::DELETE, &session.headers(), "").await;
        assert_eq!(ended.status(), http::StatusCode::OK);
    });
    ending.buffer_unordered(AT_ONCE).collect::<()>().await;
    clock.lap("every session ended", Some(&gateway));

    say(&format!(
        "{load:?}: {} KiB with one server, {} KiB per further server, {} KiB per session; {} KiB in all, {} KiB at the end",
        base / 1024,
        per_server / 1024,
        per_session / 1024,
        after_use / 1024,
        resident(&gateway) / 1024,
    ));
    assert!(per_session < MOST_PER_SESSION, "{per_session} bytes per session");
    assert!(per_server < MOST_PER_SERVER, "{per_server} bytes per server");
    let stderr = gateway.stderr();
    assert!(!stderr.contains("WARN") && !stderr.contains("ERROR"), "{stderr}");
}

async fn upstreams(load: Load) -> Vec<HttpServer> {
    let mut servers = Vec::new();
    for number in 0..load.servers {
        let server = Server::new();
        server.set_tools(Vec::new());
        for tool in 0..load.tools {
            let name = format!("tool-{tool}");
            server.tool(name.clone(), json!({ "readOnlyHint": true }), move |arguments| {
                let text = format!("{name} of s{number}: {}", arguments["text"]);
                json!({ "content": [{ "type": "text", "text": text }] })
            });
        }
        servers.push(HttpServer::start(server).await);
    }
    servers
}

fn config(upstreams: &[HttpServer]) -> Value {
    let servers: serde_json::Map<String, Value> = upstreams
        .iter()
        .enumerate()
        .map(|(number, server)| {
            (format!("s{number}"), json!({ "type": "http", "url": server.url() }))
        })
        .collect();
    json!({ "mcpServers": servers, "gateway": { "startup_wait": "15s" } })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// The memory of the process, in bytes.
fn resident(gateway: &Gateway) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Every session has a connection of its own, at both ends. The gateway inherits the limit.
fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum })
        .unwrap();
}

/// How long things take, and how much of that the gateway was at work: to be read, not checked.
struct Clock {
    since: Instant,
    worked: Duration,
}

// === impl Clock ===

impl Clock {
    fn start() -> Self {
        Self { since: Instant::now(), worked: Duration::ZERO }
    }

    fn lap(&mut self, what: &str, gateway: Option<&Gateway>) {
        let worked = gateway.map(worked).unwrap_or_default();
        say(&format!(
            "{:>10.3?} {:>10.3?}  {what}",
            self.since.elapsed(),
            worked.saturating_sub(self.worked)
        ));
        *self = Self { since: Instant::now(), worked };
    }
}

/// The processor time of the process.
fn worked(gateway: &Gateway) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks =
        |field: usize| -> u64 { fields.split_whitespace().nth(field).unwrap().parse().unwrap() };
    // User and system, in hundredths of a second.
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

fn say(line: &str) {
    // Nobody reads it if this fails.
    let _ = writeln!(std::io::stderr(), "{line}");
}
