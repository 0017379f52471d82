//! Servers to stand in front of, and where things are.

use std::path::PathBuf;

use evergate_proof::product::{Address, Places, Product, Program, Running, Transport, Upstream};
use evergate_testkit::{HttpServer, Server, stdio_server_path};

use crate::client::Client;

/// The kinds of servers.
pub(crate) const TRANSPORTS: [Transport; 3] = [Transport::Http, Transport::Sse, Transport::Stdio];

/// A server of the test kit. It stops when dropped.
pub(crate) struct Behind {
    pub(crate) upstream: Upstream,
    _server: Option<HttpServer>,
}

pub(crate) fn places() -> Places {
    let name = format!("evergate{}", std::env::consts::EXE_SUFFIX);
    let test = std::env::current_exe().unwrap();
    let mut candidates = test.ancestors().skip(1).take(3).map(|folder| folder.join(&name));
    let evergate = candidates.find(|path| path.is_file());
    let peers = std::env::var_os("EVERGATE_PEERS_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers")),
        PathBuf::from,
    );
    Places {
        evergate: evergate.expect("evergate is not built: run `cargo build -p evergate` first"),
        peers: std::path::absolute(peers).unwrap(),
    }
}

/// A server that runs, or will be run.
pub(crate) async fn behind(name: &str, transport: Transport) -> Behind {
    let server = match transport {
        Transport::Stdio => None,
        _ => Some(HttpServer::start(Server::new()).await),
    };
    let at = match (&server, transport) {
        (Some(server), Transport::Http) => Address::Http(server.url()),
        (Some(server), _) => Address::Sse(server.sse_url()),
        (None, _) => Address::Stdio(Program::new(
            stdio_server_path().expect("run `cargo build -p evergate-testkit` first"),
        )),
    };
    Behind { upstream: Upstream { name: name.to_owned(), at }, _server: server }
}

/// Starts a product, or says what it printed.
pub(crate) async fn started(product: Product, upstreams: &[Upstream]) -> Running {
    let running = product.start(upstreams, &places()).await;
    running.unwrap_or_else(|error| panic!("{product}: {error:#}"))
}

/// What `echo` of this server answers through the product.
pub(crate) async fn echo(running: &Running, server: &str) -> String {
    let mut client = Client::connect(&running.address()).await;
    let tool = running.tool_name(server, "echo");
    let listed = client.tool_names().await;
    assert!(listed.contains(&tool), "{tool} is not among {listed:?}\n{}", running.log_tail());
    client.call(&tool, serde_json::json!({ "text": format!("hello {server}") })).await
}
