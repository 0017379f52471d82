//! What every test needs.

use std::time::Duration;

use evergate_runtime::{
    Dialer, Handlers, HttpKind, Hub, MemoryConnector, RawJson, ServerHandle, Settings, StateKind,
};
use evergate_testkit::{MemoryServer, Server, serve_http_io};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Longer than anything a test waits for. On virtual time it costs nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A scripted server in memory, and settings that reach it without jitter.
pub(crate) fn memory() -> (Server, MemoryServer, Settings) {
    let server = Server::new();
    let memory = MemoryServer::new(server.clone());
    (server, memory.clone(), steady(Settings::memory(connector(&memory))))
}

pub(crate) fn connector(memory: &MemoryServer) -> MemoryConnector {
    let memory = memory.clone();
    MemoryConnector::new(move || memory.connect())
}

/// The default backoff without jitter: 1, 2, 4, 8, 16 s.
pub(crate) fn steady(settings: Settings) -> Settings {
    settings.backoff(SECOND, 32 * SECOND, 2.0, 0.0)
}

/// How a server is reached, in memory both ways: so that time is virtual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Streamable HTTP.
    Http,
    /// One message per line, as on the pipes of a child.
    Lines,
}

/// A hub with `server` called `s`, reached like that.
pub(crate) fn hub_over(over: Over, server: &Server, handlers: Handlers) -> (Hub, ServerHandle) {
    let settings = match over {
        Over::Http => Settings::http("http://s/mcp").http_kind(HttpKind::Streamable),
        Over::Lines => Settings::memory(connector(&MemoryServer::new(server.clone()))),
    };
    let server = server.clone();
    let dialer = Dialer::new(move |_| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server = server.clone();
        tokio::spawn(async move { serve_http_io(&server, theirs).await });
        std::future::ready(Ok(ours))
    });
    let builder = Hub::builder()
        .server("s", steady(settings).refresh_every(None))
        .handlers(handlers)
        .dialer(dialer);
    let hub = builder.seed(1).start().unwrap();
    let handle = hub.server("s").unwrap();
    (hub, handle)
}

/// A hub with one server called `s`.
pub(crate) fn hub(settings: Settings) -> (Hub, ServerHandle) {
    // RUST_LOG shows what happened in a test that fails.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
    let hub = Hub::builder().server("s", settings).seed(1).start().unwrap();
    let handle = hub.server("s").unwrap();
    (hub, handle)
}

pub(crate) async fn connected(server: &ServerHandle) {
    reach(server, StateKind::Connected).await;
}

pub(crate) async fn reach(server: &ServerHandle, state: StateKind) {
    let reached = server.wait_until(PATIENCE, |status| status.state == state).await;
    assert!(reached.is_ok(), "never {state}: {:?}", server.status());
}

/// Waits for a connection newer than `generation`.
pub(crate) async fn beyond(server: &ServerHandle, generation: u64) {
    let reached = server
        .wait_until(PATIENCE, |status| {
            status.state == StateKind::Connected
                && status.generation.is_some_and(|now| now.get() > generation)
        })
        .await;
    assert!(reached.is_ok(), "no generation beyond {generation}: {:?}", server.status());
}

/// The text of the first content block.
pub(crate) fn text(result: &RawJson) -> String {
    let value: serde_json::Value = result.parse().unwrap();
    value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Hardly any backoff: for real sockets, where time is real.
pub(crate) fn fast(settings: Settings) -> Settings {
    settings.backoff(Duration::from_millis(20), SECOND / 10, 2.0, 0.0).max_attempts(None)
}
