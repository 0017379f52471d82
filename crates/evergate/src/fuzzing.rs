//! A way in for the fuzz targets in `fuzz/`: the HTTP front over servers in memory, on virtual time. Not part of the API.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evergate_runtime::{MemoryConnector, Settings};
use evergate_testkit::{MemoryServer, Server};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::StreamBody;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use crate::config::Scopes;
use crate::config::{self, Config, Isolation};
use crate::front::body::ReplyBody;
use crate::front::http1::echo;
use crate::front::keys::{KeyEntry, Keyring};
use crate::front::origin_guard::OriginGuard;
use crate::front::request;
use crate::front::session_id::SessionKeys;
use crate::front::sessions::Sessions;
use crate::front::{Face, Front, Place, Policy};
use crate::gateway::Gateway;
use crate::state::StoredSessions;

/// A gateway without a listener.
#[derive(Debug)]
pub struct World {
    runtime: Runtime,
    front: Arc<Front>,
    servers: Vec<Server>,
    /// Responses that go on.
    open: Vec<ReplyBody>,
    /// Tasks that are there while nobody is.
    idle_tasks: usize,
}

/// What came back.
#[derive(Debug)]
pub struct Seen {
    /// Of the response.
    pub status: StatusCode,
    /// Of the response.
    pub headers: HeaderMap,
    /// The beginning of the body; all of it, unless it is a stream.
    pub body: Vec<u8>,
}

/// Sends these bytes to a connection, as they are and in pieces of such sizes.
///
/// # Panics
///
/// If that makes a difference.
pub fn http1(text: &[u8], sizes: &[u8]) {
    assert_eq!(echo::heard(text, &[]), echo::heard(text, sizes));
}

/// The address of the gateway, for `Host` headers.
pub const AUTHORITY: &str = "127.0.0.1:8080";
/// What the gateway with keys knows.
pub const KEYS: [&str; 2] = ["first-key-of-the-fuzzer", "second-key-of-the-fuzzer"];
/// Sessions at once.
pub const MAX_SESSIONS: usize = 16;
/// The largest body.
pub const MAX_BODY: usize = 4096;

/// However long a call may take: its response has begun by then, as a stream if need be.
const BEGUN: Duration = Duration::from_secs(60);
/// How long a stream is read.
const GLANCE: Duration = Duration::from_secs(1);
/// Streams that are kept open at once.
const MAX_OPEN: usize = 8;
/// After this everything a client left behind is gone.
const FORGOTTEN: Duration = Duration::from_secs(3600);

// === impl World ===

impl World {
    /// With keys, or lenient and open to all.
    ///
    /// # Panics
    ///
    /// If the gateway does not start.
    pub fn new(with_keys: bool) -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let servers: Vec<Server> = (0..3).map(|_| server()).collect();
        let front = runtime.block_on(async {
            let config = configuration(&servers, with_keys);
            let gateway = Gateway::start(config, std::collections::BTreeMap::new());
            let (gateway, _) = gateway.expect("valid settings");
            let keys = SessionKeys::new(&["the fuzzer's own session key"]).expect("a usable key");
            let sessions = Sessions::new(keys, StoredSessions::default());
            let front = Arc::new(Front::new(gateway, sessions, policy(with_keys), place()));
            while front.gateway.hub().catalog().version < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            front
        });
        let idle_tasks = front.gateway.tasks.running();
        Self { runtime, front, servers, open: Vec::new(), idle_tasks }
    }

    /// Sends a request whose body comes in these pieces, and reads what comes back; `keep` leaves a stream open.
    ///
    /// # Panics
    ///
    /// If a promise is broken.
    pub fn send(&mut self, request: Request<Vec<Bytes>>, keep: bool) -> Seen {
        let (parts, pieces) = request.into_parts();
        let frames =
            pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(http_body::Frame::data(piece)));
        let request = request::Request {
            method: parts.method,
            uri: parts.uri,
            is_old: false,
            headers: parts.headers.iter().collect(),
            body: StreamBody::new(futures_util::stream::iter(frames)),
        };
        let front = self.front.clone();
        let (seen, rest) = self.runtime.block_on(async move {
            let reply = timeout(BEGUN, front.answer(Face::Public, Box::new(request)))
                .await
                .expect("a request is never answered");
            let mut headers = HeaderMap::from_iter(reply.headers);
            headers.extend(
                reply.content_type.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))),
            );
            let mut rest = reply.body;
            let (body, ended) = glance(&mut rest).await;
            (Seen { status: reply.status, headers, body }, (!ended).then_some(rest))
        });
        assert_ne!(
            seen.status,
            StatusCode::INTERNAL_SERVER_ERROR,
            "{}",
            String::from_utf8_lossy(&seen.body)
        );
        assert!(
            self.front.gateway.clients.count() <= 2 * MAX_SESSIONS,
            "more sessions than allowed"
        );
        self.open.extend(rest.filter(|_| keep));
        if self.open.len() > MAX_OPEN {
            self.open.remove(0);
        }
        seen
    }

    /// Lets time pass, and reads what has come on the streams that are open.
    pub fn wait(&mut self, time: Duration) -> Vec<u8> {
        let open = std::mem::take(&mut self.open);
        let (seen, open) = self.runtime.block_on(async {
            tokio::time::sleep(time).await;
            self.front.sessions.sweep(&self.front.gateway);
            let (mut all, mut still_open) = (Vec::new(), Vec::new());
            for mut body in open {
                let (seen, ended) = glance(&mut body).await;
                all.extend(seen);
                still_open.extend((!ended).then_some(body));
            }
            (all, still_open)
        });
        self.open = open;
        seen
    }

    /// Servers lose their connections; they come back at once.
    pub fn disturb(&mut self) {
        for server in &self.servers {
            server.release_held();
        }
        self.runtime.block_on(async {
            for handle in self.front.gateway.hub().servers() {
                handle.restart();
            }
        });
    }

    /// All clients are gone, and so is everything they had.
    ///
    /// # Panics
    ///
    /// If something is left of them.
    pub fn leave(&mut self) {
        self.open.clear();
        let front = self.front.clone();
        let idle_tasks = self.idle_tasks;
        self.runtime.block_on(async {
            let until = Instant::now() + FORGOTTEN;
            loop {
                for server in &self.servers {
                    server.release_held();
                }
                front.sessions.sweep(&front.gateway);
                let (clients, tasks) =
                    (front.gateway.clients.count(), front.gateway.tasks.running());
                if clients == 0 && tasks <= idle_tasks {
                    return;
                }
                assert!(Instant::now() < until, "{clients} clients and {tasks} tasks are left");
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
    }
}

/// Reads what comes soon; `true` if that is all.
async fn glance(body: &mut ReplyBody) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let until = Instant::now() + GLANCE;
    loop {
        let next = std::future::poll_fn(|context| body.poll_next(context));
        match tokio::time::timeout_at(until, next).await {
            Ok(Some(Ok(piece))) => all.extend(piece),
            // Only large results break off, and these servers have none.
            Ok(Some(Err(broke_off))) => panic!("{broke_off}"),
            Ok(None) => return (all, true),
            Err(_) => return (all, false),
        }
    }
}

/// Without the tools that do as much as their caller likes: their limits are not what is looked into.
fn server() -> Server {
    let server = Server::new();
    for tool in ["big", "progress", "raw"] {
        server.remove_tool(tool);
    }
    server
}

/// Two shared servers, and one that each client has for itself.
fn configuration(servers: &[Server], with_keys: bool) -> Config {
    let mut config = Config::default();
    for (name, server) in ["a", "b", "own"].into_iter().zip(servers) {
        let memory = MemoryServer::new(server.clone());
        let settings = Settings::memory(MemoryConnector::new(move || memory.connect()));
        let settings =
            settings.timeout(Duration::from_secs(30)).max_timeout(Duration::from_secs(60));
        let mut server = config::Server::plain(settings);
        if name == "own" {
            server.isolation = Isolation::PerClient;
        }
        config.servers.insert(name.to_owned(), server);
    }
    config.gateway.lenient = !with_keys;
    config.gateway.max_sessions = MAX_SESSIONS;
    config.gateway.max_body_bytes = MAX_BODY;
    config.gateway.session_idle = Duration::from_secs(60);
    config.gateway.per_client_idle = Duration::from_secs(20);
    config
}

fn policy(with_keys: bool) -> Policy {
    let keys = KEYS.iter().enumerate().take(if with_keys { KEYS.len() } else { 0 });
    let entries = keys.map(|(number, secret)| KeyEntry {
        name: format!("key {number}"),
        secret: (*secret).to_owned(),
        servers: (number == 1).then(|| vec!["a".to_owned()]),
        tools: (number == 1).then(|| vec!["a__e*".to_owned()]),
        scopes: Scopes { mcp: true, ..Scopes::default() },
        rate_limit: None,
    });
    Policy {
        keyring: Keyring::new(entries),
        guard: OriginGuard::new(place().address, false, &[], &[]),
        admin_guard: None,
    }
}

fn place() -> Place {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    Place { address, admin_address: None, config_files: Vec::new(), local_key: None }
}
