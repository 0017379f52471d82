//! What needs no installation: the client alone, and Evergate.

use std::process::Stdio;
use std::slice::from_ref;

use evergate_proof::product::{Leftover, Product};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{TRANSPORTS, behind, echo, started};

/// Set for the run that waits to be killed: whoever runs all ignored tests does not want to wait with it.
const VICTIM: &str = "EVERGATE_PROOF_VICTIM";

#[tokio::test]
async fn the_client_alone_calls_a_server_of_every_kind() {
    for transport in TRANSPORTS {
        let behind = behind("solo", transport).await;
        let running = started(Product::Direct, from_ref(&behind.upstream)).await;
        assert_eq!(echo(&running, "solo").await, "hello solo");
        assert!(running.pids().is_empty());
        assert_eq!(running.stop().await, Leftover::default());
    }
}

#[tokio::test]
async fn evergate_calls_servers_of_every_kind_and_leaves_nothing() {
    let mut servers = Vec::new();
    for (name, transport) in ["first", "second", "third"].into_iter().zip(TRANSPORTS) {
        servers.push(behind(name, transport).await);
    }
    let upstreams: Vec<_> = servers.iter().map(|server| server.upstream.clone()).collect();
    let running = started(Product::Evergate, &upstreams).await;
    for name in ["first", "second", "third"] {
        assert_eq!(echo(&running, name).await, format!("hello {name}"));
    }
    assert_eq!(running.pids().len(), 3, "the gateway, the stdio server and its guardian");
    assert!(running.resident_bytes() > 1 << 20);
    assert!(running.cpu_seconds() < 60.0);
    assert_eq!(running.stop().await, Leftover::default());
}

#[tokio::test]
async fn evergate_comes_back_on_its_port() {
    let behind = behind("solo", TRANSPORTS[0]).await;
    let mut running = started(Product::Evergate, from_ref(&behind.upstream)).await;
    let before = running.pids();
    running.restart().await.unwrap();
    assert_ne!(running.pids(), before);
    assert_eq!(echo(&running, "solo").await, "hello solo");
}

#[tokio::test]
async fn a_dropped_product_is_gone() {
    let behind = behind("solo", TRANSPORTS[2]).await;
    let running = started(Product::Evergate, from_ref(&behind.upstream)).await;
    assert_eq!(echo(&running, "solo").await, "hello solo");
    let pids = running.pids();
    drop(running);
    evergate_testkit::wait::until("all are gone", || pids.iter().all(|pid| !alive(*pid))).await;
}

/// The part of the test below that is killed.
#[tokio::test]
#[ignore = "waits to be killed by another test"]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let behind = behind("solo", TRANSPORTS[2]).await;
    let running = started(Product::Evergate, from_ref(&behind.upstream)).await;
    assert_eq!(echo(&running, "solo").await, "hello solo");
    println!("\npids {:?}", running.pids());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_run_leaves_no_process() {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", "ours::victim", "--ignored", "--nocapture"]);
    let mut run = run.env(VICTIM, "1").stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let pids = loop {
        let line = lines.next_line().await.unwrap().expect("the run ended");
        if let Some(pids) = line.strip_prefix("pids ") {
            break serde_json::from_str::<Vec<u32>>(pids).unwrap();
        }
    };
    assert!(!pids.is_empty() && pids.iter().all(|pid| alive(*pid)));
    run.kill().await.unwrap();
    evergate_testkit::wait::until("all are gone", || pids.iter().all(|pid| !alive(*pid))).await;
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
