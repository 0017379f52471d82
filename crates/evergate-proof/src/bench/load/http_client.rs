//! A client over streamable HTTP: one session, a connection for each of its callers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use tokio::time::Instant;
use url::Url;

use super::connection::Connection;
use super::expected::{Incoming, response};
use super::{Expected, FIRST_ID, Question, Sample, put_id};

/// A session and its connections.
#[derive(Debug)]
pub struct HttpClient {
    to: SocketAddr,
    host: String,
    path: String,
    session: Option<String>,
    version: String,
    connections: Vec<Connection>,
    known: HashMap<String, Expected>,
    next_id: Cell<u64>,
    any_id: bool,
}

/// A listening stream that is open.
#[derive(Debug)]
pub struct Listening(#[expect(dead_code, reason = "it is open as long as it is there")] Connection);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

// === impl HttpClient ===

impl HttpClient {
    /// Shakes hands.
    pub async fn connect(url: &str) -> Result<Self> {
        let mut client = Self::new(url).await?;
        let (session, hello) = client.post(INITIALIZE).await?;
        client.session = session;
        let hello = response(&hello)?;
        let version = hello["result"]["protocolVersion"].as_str();
        version.context("a handshake without a version")?.clone_into(&mut client.version);
        client.post(INITIALIZED).await?;
        Ok(client)
    }

    /// For something that is no MCP server: it always answers the same, whatever the id.
    pub async fn without_session(url: &str) -> Result<Self> {
        Ok(Self { any_id: true, ..Self::new(url).await? })
    }

    async fn new(url: &str) -> Result<Self> {
        let url = Url::parse(url)?;
        let host = url.host_str().context("a URL without a host")?;
        let port = url.port_or_known_default().context("a URL without a port")?;
        let to = tokio::net::lookup_host((host, port)).await?.next().context("no such host")?;
        Ok(Self {
            to,
            host: format!("{host}:{port}"),
            path: url.path().to_owned(),
            session: None,
            version: "2025-11-25".to_owned(),
            connections: vec![Connection::new(to)],
            known: HashMap::new(),
            next_id: Cell::new(FIRST_ID),
            any_id: false,
        })
    }

    /// The id of its session.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Opens the session's listening stream.
    pub async fn listen(&self) -> Result<Listening> {
        let mut connection = Connection::new(self.to);
        let head = connection.listen(&self.request("GET", "text/event-stream", "")).await?;
        ensure!(head.status == 200, "status {} for a listening stream", head.status);
        Ok(Listening(connection))
    }

    /// Ends the session.
    pub async fn end(mut self) -> Result<()> {
        let request = self.request("DELETE", "*/*", "");
        self.connections[0].exchange(&request, |_| {}).await?;
        Ok(())
    }

    /// Closes its connections; the session lives on, and new ones are opened when needed.
    pub fn hang_up(&mut self) {
        self.connections = vec![Connection::new(self.to)];
    }

    /// The answer to a question as it comes.
    pub async fn raw(&mut self, question: &Question) -> Result<Vec<u8>> {
        let (message, _) = question.message();
        Ok(self.post(&String::from_utf8_lossy(&message)).await?.1)
    }

    async fn post(&mut self, message: &str) -> Result<(Option<String>, Vec<u8>)> {
        let request = self.request("POST", ACCEPTED, message);
        let mut body = Vec::new();
        let exchange =
            self.connections[0].exchange(&request, |bytes| body.extend_from_slice(bytes));
        let head = exchange.await?;
        let text = || String::from_utf8_lossy(&body).chars().take(300).collect::<String>();
        ensure!(matches!(head.status, 200 | 202 | 204), "status {}: {}", head.status, text());
        Ok((head.session, body))
    }

    fn request(&self, method: &str, accept: &str, body: &str) -> Vec<u8> {
        let Self { path, host, version, session, .. } = self;
        let length = body.len();
        let session = session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n"));
        let session = session.unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: {accept}\r\n\
             mcp-protocol-version: {version}\r\n{session}content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    pub(super) async fn run(
        &mut self,
        questions: &[Question],
        callers: usize,
        how_long: Duration,
    ) -> Result<Sample> {
        let requests = questions.iter().map(|question| self.asked(question)).collect();
        self.exchange(&questions[0], requests, callers, how_long).await
    }

    /// The same question again and again, each time from the next of these sessions.
    pub async fn run_sessions(
        &mut self,
        question: &Question,
        sessions: &[String],
        callers: usize,
        how_long: Duration,
    ) -> Result<Sample> {
        let mine = self.session.take();
        let mut requests = Vec::with_capacity(sessions.len());
        for session in sessions {
            self.session = Some(session.clone());
            requests.push(self.asked(question));
        }
        self.session = mine;
        self.exchange(question, requests, callers, how_long).await
    }

    /// The request, and where its id stands.
    fn asked(&self, question: &Question) -> (Vec<u8>, usize) {
        let (message, at) = question.message();
        let request = self.request("POST", ACCEPTED, &String::from_utf8_lossy(&message));
        let at = request.len() - message.len() + at;
        (request, at)
    }

    async fn exchange(
        &mut self,
        question: &Question,
        requests: Vec<(Vec<u8>, usize)>,
        callers: usize,
        how_long: Duration,
    ) -> Result<Sample> {
        let key = question.key();
        let expected = RefCell::new(self.known.remove(&key).unwrap_or(question.expected.clone()));
        while self.connections.len() < callers {
            self.connections.push(Connection::new(self.to));
        }
        let (latencies, in_time) = (RefCell::new(Vec::new()), Cell::new(0));
        let started = Instant::now();
        let all: FuturesUnordered<_> = self.connections[..callers]
            .iter_mut()
            .enumerate()
            .map(|(caller, connection)| {
                let (next_id, expected, latencies) = (&self.next_id, &expected, &latencies);
                let (any_id, in_time) = (self.any_id, &in_time);
                let following = requests.iter().cycle().skip(caller % requests.len());
                async move {
                    let (mut incoming, mut request) = (Incoming::default(), Vec::new());
                    let mut begun = Instant::now();
                    for (prepared, at) in following {
                        let id = next_id.get();
                        next_id.set(id + 1);
                        request.clear();
                        request.extend_from_slice(prepared);
                        put_id(&mut request, *at, id);
                        let exchange = connection
                            .exchange(&request, |bytes| incoming.take(&expected.borrow(), bytes));
                        let head = exchange.await?;
                        let answered = incoming.finish(&mut expected.borrow_mut());
                        ensure!(head.status == 200, "status {}: {answered:?}", head.status);
                        let answered = answered?;
                        ensure!(
                            any_id || answered == id,
                            "the answer to {answered} instead of {id}"
                        );
                        let now = Instant::now();
                        let nanos = u64::try_from((now - begun).as_nanos()).unwrap_or(u64::MAX);
                        latencies.borrow_mut().push(nanos);
                        if now - started >= how_long {
                            break;
                        }
                        in_time.set(in_time.get() + 1);
                        begun = now;
                    }
                    anyhow::Ok(())
                }
            })
            .collect();
        all.try_collect::<()>().await?;
        self.known.insert(key, expected.into_inner());
        Ok(Sample::new(how_long, in_time.get(), started.elapsed(), latencies.into_inner()))
    }
}

const ACCEPTED: &str = "application/json, text/event-stream";
