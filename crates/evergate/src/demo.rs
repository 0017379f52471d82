//! The demonstration: real servers, real faults, and what became of every call. No figure in it is made up: the
//! servers count what they really executed.

mod printer;

use std::future::IntoFuture as _;
use std::time::Duration;

use anyhow::Context as _;
use evergate_runtime::{CallError, Hub, Outcome, RawJson, ServerHandle, Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, Server, SessionLoss, serve_lines};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::config::{self, Config};
use printer::Printer;

/// Longer than any step takes, so that a demonstration that fails says so instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);
const OUTAGE: Duration = Duration::from_millis(1500);
const CALLERS: usize = 8;

/// The demonstration's child process: the test kit's server on standard input and output.
pub(crate) async fn serve_stdio() {
    let server = Server::new();
    let pid = std::process::id();
    server.tool(
        "pid",
        json!({ "readOnlyHint": true }),
        move |_| json!({ "content": [{ "type": "text", "text": pid.to_string() }] }),
    );
    serve_lines(&server, tokio::io::stdin(), tokio::io::stdout()).await;
}

/// Two servers for a gateway without a configuration: one in this process, one a child of it.
pub(crate) struct Embedded {
    pub(crate) config: Config,
    _http: HttpServer,
}

// === impl Embedded ===

impl Embedded {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let http = HttpServer::start(Server::new()).await;
        let myself = std::env::current_exe().context("cannot find the program itself")?;
        let mut config = Config::default();
        let servers = [
            ("web", Settings::http(http.url())),
            ("child", Settings::stdio(myself, ["demo-server"])),
        ];
        for (name, settings) in servers {
            config.servers.insert(name.to_owned(), config::Server::plain(settings));
        }
        Ok(Self { config, _http: http })
    }
}

/// Plays all acts and sums up.
pub(crate) async fn run() -> anyhow::Result<()> {
    let web = Server::new();
    let http = HttpServer::start(web.clone()).await;
    let myself = std::env::current_exe().context("cannot find the program itself")?;
    let hub = Hub::builder()
        .server("web", Settings::http(http.url()))
        .server("child", Settings::stdio(myself, ["demo-server"]));
    let printer = Printer::new(hub.events());
    let hub = hub.start()?;
    let mut show = Show {
        printer,
        web: hub.server("web")?,
        child: hub.server("child")?,
        server: web,
        http,
        answered: 0,
        unknown: 0,
    };
    show.play().await?;
    hub.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

struct Show {
    printer: Printer,
    web: ServerHandle,
    child: ServerHandle,
    server: Server,
    http: HttpServer,
    answered: usize,
    unknown: usize,
}

// === impl Show ===

impl Show {
    async fn play(&mut self) -> anyhow::Result<()> {
        self.printer.title("Two MCP servers, and everything that usually goes wrong with them")?;
        for server in [&self.web, &self.child] {
            let connected = server.wait_until(PATIENCE, |s| s.state == StateKind::Connected).await;
            connected.with_context(|| format!("{} did not connect", server.name()))?;
        }
        self.call("web", "bump", "first").await?;
        self.session_expires().await?;
        self.server_is_away().await?;
        self.server_dies_mid_call().await?;
        self.child_is_killed().await?;
        self.sum_up()
    }

    async fn session_expires(&mut self) -> anyhow::Result<()> {
        self.printer
            .act(&format!("The server forgets the session while {CALLERS} callers are busy"))?;
        let before = self.server.counters().handshakes;
        self.server.expire_sessions(SessionLoss::NotFound404);
        let started = Instant::now();
        let calls = (0..CALLERS).map(|n| {
            self.web.call_tool("bump", json!({ "call_id": format!("busy-{n}") })).into_future()
        });
        for (n, result) in join_all(calls).await.into_iter().enumerate() {
            self.record("web", "bump", &format!("busy-{n}"), started, result)?;
        }
        let handshakes = self.server.counters().handshakes - before;
        self.printer.note(&format!(
            "{CALLERS} callers lost the session, {handshakes} new handshake served them all"
        ))
    }

    async fn server_is_away(&mut self) -> anyhow::Result<()> {
        self.printer.act(&format!("The server is gone for {:.1} s", OUTAGE.as_secs_f32()))?;
        self.http.kill().await;
        let down = self.web.wait_until(PATIENCE, |s| s.state != StateKind::Connected).await;
        down.context("nobody noticed that the server is gone")?;
        self.printer.note("the call is made while it is down")?;
        let http = &self.http;
        let (started, call) =
            (Instant::now(), self.web.call_tool("bump", json!({ "call_id": "held" })));
        let back = async {
            sleep(OUTAGE).await;
            http.revive().await;
        };
        let (result, ()) = tokio::join!(call.into_future(), back);
        self.record("web", "bump", "held", started, result)
    }

    async fn server_dies_mid_call(&mut self) -> anyhow::Result<()> {
        self.printer.act("The server runs a call and dies before it answers")?;
        self.server.inject(Fault::ExecuteThenCut).on("tools/call");
        self.call("web", "bump", "unsafe").await?;
        self.printer.note(
            "it may have run, and running it twice may do harm: the caller is told, at once",
        )?;
        self.server.inject(Fault::ExecuteThenCut).on("tools/call");
        self.call("web", "again", "idempotent").await?;
        self.printer.note("this tool is annotated idempotent: sent once more, answered")
    }

    async fn child_is_killed(&mut self) -> anyhow::Result<()> {
        let status = self.child.status();
        let pid = status.pid.context("the child has no process id")?;
        let generation = status.generation;
        self.printer.act(&format!("kill -9 {pid}, the child process"))?;
        kill(pid)?;
        let seen = self.child.wait_until(PATIENCE, |s| {
            s.generation != generation || s.state != StateKind::Connected
        });
        seen.await.context("nobody noticed that the child was killed")?;
        self.call("child", "pid", "after").await
    }

    fn sum_up(&self) -> anyhow::Result<()> {
        let counters = self.server.counters();
        let twice =
            counters.executions.iter().filter(|(id, n)| **n > 1 && *id != "idempotent").count();
        self.printer.act("In the end")?;
        self.printer.note(&format!("{} calls answered", self.answered))?;
        self.printer.note(&format!("{} with an unknown outcome, and told so", self.unknown))?;
        self.printer.note(&format!("{twice} run twice that must not be"))
    }

    async fn call(&mut self, server: &str, tool: &str, id: &str) -> anyhow::Result<()> {
        let handle = if server == "web" { &self.web } else { &self.child };
        let started = Instant::now();
        let call = handle.call_tool(tool, json!({ "call_id": id }));
        let result = timeout(PATIENCE, call.into_future()).await.context("a call hung")?;
        self.record(server, tool, id, started, result)
    }

    fn record(
        &mut self,
        server: &str,
        tool: &str,
        id: &str,
        started: Instant,
        result: Result<RawJson, CallError>,
    ) -> anyhow::Result<()> {
        let elapsed = started.elapsed();
        match result {
            Ok(_) => {
                self.answered += 1;
                self.printer.call(server, tool, id, "answered", elapsed)
            }
            Err(error) if error.outcome == Outcome::Unknown => {
                self.unknown += 1;
                self.printer.call(server, tool, id, "unknown", elapsed)
            }
            Err(error) => Err(anyhow::Error::new(error).context("a call failed that should not")),
        }
    }
}

#[cfg(unix)]
fn kill(pid: u32) -> anyhow::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not a process id")?;
    kill_process(pid, Signal::KILL).context("cannot kill the child")
}

#[cfg(not(unix))]
fn kill(_: u32) -> anyhow::Result<()> {
    anyhow::bail!("this act needs Unix signals")
}
