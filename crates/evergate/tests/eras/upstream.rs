//! A server of any revision behind any transport, whose mind is in the test.

use evergate_testkit::{Counters, Eras, HttpServer, Server, serve_lines, stdio_server_path};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::kit::{at, kill, merged, quick, servers, soon, status};
use crate::support::{Gateway, Starting, gateway, until};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Http,
    /// A child process of the gateway, which is only the pipe to the server in the test.
    Stdio,
}

pub(crate) const EVERYWHERE: [Over; 2] = [Over::Http, Over::Stdio];

pub(crate) struct Upstream {
    pub(crate) server: Server,
    pub(crate) over: Over,
    face: Face,
}

enum Face {
    Http(HttpServer),
    Stdio { address: String, _accepting: AbortOnDropHandle<()> },
}

// === impl Upstream ===

impl Upstream {
    pub(crate) async fn start(eras: Eras, over: Over) -> Self {
        Self::of(Server::new(), eras, over).await
    }

    /// One with the fixtures of the conformance suite.
    pub(crate) async fn with_fixtures(eras: Eras, over: Over) -> Self {
        Self::of(Server::conformance(), eras, over).await
    }

    pub(crate) async fn of(server: Server, eras: Eras, over: Over) -> Self {
        server.set_eras(eras);
        let face = match over {
            Over::Http => Face::Http(HttpServer::start(server.clone()).await),
            Over::Stdio => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap().to_string();
                let accepting = tokio::spawn(accept(listener, server.clone()));
                Face::Stdio { address, _accepting: AbortOnDropHandle::new(accepting) }
            }
        };
        Self { server, over, face }
    }

    /// A gateway's entry for it; it reconnects without delay.
    pub(crate) fn entry(&self) -> Value {
        match &self.face {
            Face::Http(http) => at(http),
            Face::Stdio { address, .. } => {
                let program = stdio_server_path().expect("cargo build -p evergate-testkit");
                json!({ "command": program, "args": ["--relay", address], "lifecycle": quick() })
            }
        }
    }

    pub(crate) fn entry_with(&self, more: Value) -> Value {
        merged(self.entry(), more)
    }

    /// A gateway in front of it alone, where it is called `up`.
    pub(crate) fn behind(&self) -> Starting {
        gateway(&servers(json!({ "up": self.entry() })))
    }

    /// The same, running and connected.
    pub(crate) async fn gateway(&self) -> Gateway {
        let gateway = self.behind().start();
        connected(&gateway, "up").await;
        gateway
    }

    /// It dies in the middle of whatever it does, and comes back at once.
    pub(crate) async fn crash(&self, gateway: &Gateway) {
        match &self.face {
            Face::Http(http) => {
                http.kill().await;
                http.revive().await;
            }
            Face::Stdio { .. } => {
                let children = children_of(gateway.pid());
                assert!(!children.is_empty());
                // Whichever of them a client begins with that has met it before.
                let begun = |counters: &Counters| {
                    let begin = ["initialize", "server/discover", "subscriptions/listen"];
                    begin.iter().filter_map(|method| counters.requests.get(*method)).sum::<u64>()
                };
                let before = begun(&self.server.counters());
                children.into_iter().for_each(kill);
                soon("there is another", self.server.wait_for(|now| begun(now) > before)).await;
            }
        }
    }

    /// Requests that it was told to forget, whichever way its revision has.
    pub(crate) fn cancelled(&self) -> u64 {
        let counters = self.server.counters();
        counters.cancelled.len() as u64 + counters.abandoned
    }
}

async fn accept(listener: TcpListener, server: Server) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true).unwrap();
        let server = server.clone();
        tokio::spawn(async move {
            let (reader, writer) = stream.into_split();
            serve_lines(&server, reader, writer).await;
        });
    }
}

pub(crate) async fn connected(gateway: &Gateway, server: &str) {
    until("it is connected", async || status(gateway, server).await["status"] == "running").await;
}

fn children_of(pid: u32) -> Vec<u32> {
    let mut children = Vec::new();
    // A process has a list of children for each of its threads.
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let path = thread.unwrap().path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        children.extend(text.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    children
}
