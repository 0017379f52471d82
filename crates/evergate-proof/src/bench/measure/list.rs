//! `tools/list` of many servers.
//!
//! Products that know MCP collect the lists of twenty servers. Those that only pass bytes on have one server behind them
//! that has as many tools. And there is what nobody can beat: nginx that sends a file with the very bytes of Evergate's
//! answer, without asking anybody. A file is normally not to be had with POST; nginx answers 405, and is told to answer
//! with the file instead, which costs it nothing.

use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::rounds::{Case, compare, start};
use crate::bench::contestant::Contestant;
use crate::bench::group::Group;
use crate::bench::load::{Client, HttpClient, Question};
use crate::bench::upstream::FastServer;
use crate::bench::{Bench, Results, Row, say};
use crate::product::{Product, Program};

const SERVERS: usize = 20;
const TOOLS: usize = 50;
const ALL: usize = SERVERS * TOOLS;

/// How nginx with the file is called in tables.
pub const FILE: &str = "nginx, a file";

/// The names of the cases.
pub const CASES: [(&str, usize); 2] = [("1 caller", 1), ("16 callers", 16)];

pub(super) async fn run(bench: &Bench, results: &mut Results) -> Result<()> {
    let many = FastServer::start(&["--tools", &TOOLS.to_string()]).await?;
    let one = FastServer::start(&["--tools", &ALL.to_string()]).await?;
    let upstreams = |product: Product| {
        if product != Product::Direct && product.understands_mcp() {
            many.servers(SERVERS)
        } else {
            one.servers(1)
        }
    };
    let started = start(bench, "list", results, upstreams).await;
    let mut contestants = Vec::new();
    for mut contestant in started {
        match contestant.lists(ALL).await {
            Ok(()) => contestants.push(contestant),
            Err(problem) => {
                say(&format!("   {}: {problem:#}", contestant.name));
                let mut row = Row::new("list", "", &contestant.name);
                row.note = Some(format!("{problem:#}"));
                results.put(row);
            }
        }
    }
    let folder = TempDir::with_prefix("evergate-bench-")?;
    match file(&mut contestants, folder.path()).await {
        Ok(contestant) => contestants.push(contestant),
        Err(problem) => say(&format!("   {FILE}: {problem:#}")),
    }
    for (name, callers) in CASES {
        let case = Case { measure: "list", name: name.to_owned(), callers };
        compare(bench, results, &case, &mut contestants, |_| vec![Question::list(ALL)]).await;
    }
    Ok(())
}

async fn file(contestants: &mut [Contestant], folder: &Path) -> Result<Contestant> {
    let model = contestants.iter_mut().max_by_key(|contestant| contestant.name == "evergate");
    let Some(Contestant { client: Client::Http(client), .. }) = model else {
        anyhow::bail!("nobody to have the same bytes as")
    };
    std::fs::write(folder.join("list.json"), client.raw(&Question::list(ALL)).await?)?;
    let port = crate::product::Port::free()?;
    let shown = folder.display();
    let config = folder.join("nginx.conf");
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let text = format!(
        "{user} daemon off; worker_processes auto; pid {shown}/pid; error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off; default_type application/json; sendfile on; tcp_nopush on;
    client_body_temp_path {shown}; proxy_temp_path {shown}; fastcgi_temp_path {shown};
    uwsgi_temp_path {shown}; scgi_temp_path {shown};
    keepalive_requests 1000000000; open_file_cache max=10;
    server {{
        listen 127.0.0.1:{port};
        root {shown};
        error_page 405 =200 /list.json;
    }}
}}
"
    );
    std::fs::write(&config, text)?;
    let args = ["-e", "stderr", "-c"].map(str::to_owned).into_iter();
    let args = args.chain([config.display().to_string()]).collect();
    let group = Group::start(&Program { command: "nginx".into(), args, env: Vec::new() })?;
    let mut client =
        HttpClient::without_session(&format!("http://127.0.0.1:{port}/list.json")).await?;
    let deadline = Instant::now() + std::time::Duration::from_secs(5);
    while let Err(problem) = client.raw(&Question::list(ALL)).await {
        if Instant::now() > deadline {
            return Err(problem).context("nginx does not send the file");
        }
        sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(Contestant::other(FILE, group, client))
}
