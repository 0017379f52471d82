//! What every simulation needs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use evergate_runtime::{
    CallError, Dialer, HttpKind, Hub, Outcome, RawJson, ServerHandle, Settings, StateKind,
};
use evergate_testkit::{Server, serve_http_io};
use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Sim};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Longer than anything a simulation waits for.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// The host that the runtime lives on.
pub(crate) const CLIENT: &str = "client";

const PORT: u16 = 80;

/// How calls ended, and whether the server agrees.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Rc<RefCell<BTreeMap<String, Result<(), Outcome>>>>);

/// How many calls ended in which way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) answered: usize,
    pub(crate) unknown: usize,
    pub(crate) untouched: usize,
}

/// A simulated network. `seed` decides every latency and the order of hosts.
pub(crate) fn network(seed: u64) -> Sim<'static> {
    Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .tick_duration(Duration::from_millis(2))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(20))
        .simulation_duration(3 * PATIENCE)
        .build()
}

/// A scripted server on a host of its own. A crash of the host makes it forget its sessions.
pub(crate) fn serve(sim: &mut Sim<'_>, host: &str) -> Server {
    let server = Server::new();
    let mind = server.clone();
    sim.host(host, move || {
        let server = mind.clone();
        server.forget_sessions();
        async move {
            let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                let server = server.clone();
                tokio::task::spawn_local(async move { serve_http_io(&server, stream).await });
            }
        }
    });
    server
}

/// How to reach it. Without jitter: the seed of the network is the only chance involved.
pub(crate) fn reach(host: &str) -> Settings {
    Settings::http(format!("http://{host}/mcp")).http_kind(HttpKind::Streamable).backoff(
        SECOND,
        8 * SECOND,
        2.0,
        0.0,
    )
}

/// A hub whose servers are at hosts of the same name. To be called on [`CLIENT`].
pub(crate) fn hub(servers: impl IntoIterator<Item = (String, Settings)>) -> Hub {
    let dialer = Dialer::new(|uri| {
        let host = uri.host().unwrap_or_default().to_owned();
        TcpStream::connect((host, PORT))
    });
    let mut builder = Hub::builder().dialer(dialer).seed(1);
    for (host, settings) in servers {
        builder = builder.server(host, settings);
    }
    builder.start().unwrap()
}

pub(crate) fn hub_of_one(host: &str, settings: Settings) -> (Hub, ServerHandle) {
    let hub = hub([(host.to_owned(), settings)]);
    let server = hub.server(host).unwrap();
    (hub, server)
}

pub(crate) async fn connected(server: &ServerHandle) {
    let reached = server.wait_until(PATIENCE, |status| status.state == StateKind::Connected).await;
    assert!(reached.is_ok(), "never connected: {:?}", server.status());
}

/// The text of the first content block.
pub(crate) fn text(result: &RawJson) -> String {
    let value: serde_json::Value = result.parse().unwrap();
    value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Runs the network until every client is done.
pub(crate) fn run(sim: &mut Sim<'_>, seed: u64) {
    if let Err(error) = sim.run() {
        panic!("seed {seed}: {error}");
    }
}

/// Runs the network for a while.
pub(crate) fn step_for(sim: &mut Sim<'_>, duration: Duration) {
    let until = sim.elapsed() + duration;
    while sim.elapsed() < until {
        assert!(!sim.step().unwrap(), "the client ended early");
    }
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn note<T>(&self, call_id: &str, result: &Result<T, CallError>) {
        let ended = result.as_ref().map(|_| ()).map_err(|error| error.outcome);
        let twice = self.0.borrow_mut().insert(call_id.to_owned(), ended);
        assert!(twice.is_none(), "call {call_id} ended twice");
    }

    /// Checks each outcome against what the server did: nothing ran twice, what was answered ran, what is said not
    /// to have been sent did not. Non-idempotent tools only.
    pub(crate) fn settle(&self, server: &Server, calls: usize) -> Tally {
        let ended = self.0.borrow();
        assert_eq!(ended.len(), calls, "every call has an outcome");
        let mut tally = Tally::default();
        for (call_id, ended) in &*ended {
            let executions = server.executions(call_id);
            match ended {
                Ok(()) => {
                    assert_eq!(executions, 1, "{call_id} was answered");
                    tally.answered += 1;
                }
                Err(Outcome::Unknown) => {
                    assert!(executions <= 1, "{call_id} ran {executions} times");
                    tally.unknown += 1;
                }
                Err(Outcome::NotSent | Outcome::Rejected) => {
                    assert_eq!(executions, 0, "{call_id} is said not to have run");
                    tally.untouched += 1;
                }
                Err(outcome) => panic!("{call_id} ended as {outcome}"),
            }
        }
        tally
    }
}
