//! A small MCP server made with the official Rust SDK, on standard input and output or over streamable HTTP.
//!
//! `rmcp-server stdio LOG` or `rmcp-server http PORT LOG`. Every executed call appends its `call_id` to the file LOG,
//! which outlives the process.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt as _, schemars, tool, tool_handler, tool_router};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone)]
struct Peer {
    log: PathBuf,
    tool_router: ToolRouter<Self>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
    call_id: String,
    /// How long it takes.
    #[serde(default)]
    ms: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
    call_id: String,
    /// How long it takes.
    #[serde(default)]
    ms: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stdio", log] => {
            let running = Peer::new(log.into()).serve(rmcp::transport::stdio()).await?;
            running.waiting().await?;
            Ok(())
        }
        ["http", port, log] => serve_http(port.parse()?, log.into()).await,
        _ => bail!("usage: rmcp-server stdio LOG | rmcp-server http PORT LOG"),
    }
}

async fn serve_http(port: u16, log: PathBuf) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.context("cannot listen")?;
    // Sessions as every client up to 2025-11-25 gets them.
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(true);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Peer::new(log.clone())), sessions, config);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(async move {
            // A client that hangs up is no event here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

// === impl Peer ===

#[tool_router]
impl Peer {
    fn new(log: PathBuf) -> Self {
        Self { log, tool_router: Self::tool_router() }
    }

    #[tool(description = "Returns the text", annotations(read_only_hint = true))]
    async fn echo(&self, Parameters(Echo { text, call_id, ms }): Parameters<Echo>) -> String {
        self.execute(&call_id, ms).await;
        text
    }

    #[tool(description = "Adds, and makes no promise about being asked twice")]
    async fn add(&self, Parameters(Add { a, b, call_id, ms }): Parameters<Add>) -> String {
        self.execute(&call_id, ms).await;
        (a + b).to_string()
    }

    async fn execute(&self, call_id: &str, ms: u64) {
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        // One write per line, so that concurrent calls do not mix theirs.
        let written = file.and_then(|mut file| file.write_all(format!("{call_id}\n").as_bytes()));
        assert!(written.is_ok(), "the log cannot be written");
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}
