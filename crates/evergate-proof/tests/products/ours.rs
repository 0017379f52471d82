//! What needs no installation: the client alone, and Evergate.

use evergate_proof::product::{Leftover, Product};

use crate::support::{TRANSPORTS, behind, echo, started};

#[tokio::test]
async fn the_client_alone_calls_a_server_of_every_kind() {
    for transport in TRANSPORTS {
        let behind = behind("solo", transport).await;
        let running = started(Product::Direct, &[behind.upstream.clone()]).await;
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
    let mut running = started(Product::Evergate, &[behind.upstream.clone()]).await;
    let before = running.pids();
    running.restart().await.unwrap();
    assert_ne!(running.pids(), before);
    assert_eq!(echo(&running, "solo").await, "hello solo");
}

#[tokio::test]
async fn a_dropped_product_is_gone() {
    let behind = behind("solo", TRANSPORTS[2]).await;
    let running = started(Product::Evergate, &[behind.upstream.clone()]).await;
    assert_eq!(echo(&running, "solo").await, "hello solo");
    let pids = running.pids();
    drop(running);
    evergate_testkit::wait::until("all are gone", || pids.iter().all(|pid| !alive(*pid))).await;
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
