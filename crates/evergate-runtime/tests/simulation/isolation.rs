//! One server out of reach among five.

use std::time::Duration;

use evergate_runtime::{Outcome, StateKind};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::*;

const HOSTS: [&str; 5] = ["a", "b", "c", "d", "lost"];

/// How the lost one is out of reach.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Connections are refused.
    Partition,
    /// Nothing ever comes back, not even a refusal.
    BlackHole,
}

/// Neither its absence from the start nor its loss under way delays the other four.
#[test]
fn one_lost_server_does_not_delay_four() {
    for cut in [Cut::Partition, Cut::BlackHole] {
        for from_the_start in [true, false] {
            one_lost(cut, from_the_start);
        }
    }
}

fn one_lost(cut: Cut, from_the_start: bool) {
    let mut sim = network(1);
    let servers = HOSTS.map(|host| serve(&mut sim, host));
    sim.client(CLIENT, async move {
        let cut_off = || match cut {
            Cut::Partition => turmoil::partition(CLIENT, "lost"),
            Cut::BlackHole => turmoil::hold(CLIENT, "lost"),
        };
        // All servers are up when the hub starts.
        sleep(SECOND).await;
        if from_the_start {
            cut_off();
        }
        let hub = hub(HOSTS.map(|host| (host.to_owned(), reach(host))));
        let lost = hub.server("lost").unwrap();
        if !from_the_start {
            let mut catalog = hub.watch_catalog();
            catalog.wait_for(|catalog| catalog.server("lost").is_some()).await?;
            cut_off();
        }
        let hopeless = lost.call_tool("bump", json!({})).deadline(20 * SECOND).into_future();
        let hopeless = tokio::task::spawn_local(hopeless);
        for round in 0..20 {
            for host in &HOSTS[..4] {
                let started = Instant::now();
                hub.server(host).unwrap().call_tool("bump", json!({})).await.unwrap();
                // The first call waits for its own server's handshake.
                let limit = Duration::from_millis(if round == 0 { 500 } else { 150 });
                assert!(
                    started.elapsed() < limit,
                    "{cut:?} {from_the_start} {round}: {host} took {:?}",
                    started.elapsed()
                );
            }
            hub.refresh();
            sleep(SECOND).await;
        }
        let error = hopeless.await?.unwrap_err();
        let sent = if from_the_start { Outcome::NotSent } else { error.outcome };
        assert_eq!(error.outcome, sent);
        assert_eq!(hub.catalog().servers.len(), if from_the_start { 4 } else { 5 });
        match cut {
            Cut::Partition => turmoil::repair(CLIENT, "lost"),
            Cut::BlackHole => turmoil::release(CLIENT, "lost"),
        }
        lost.call_tool("echo", json!({})).deadline(PATIENCE).await.unwrap();
        assert_eq!(lost.status().state, StateKind::Connected);
        Ok(())
    });
    run(&mut sim, 1);
    for server in &servers[..4] {
        assert_eq!((server.counters().handshakes, server.counters().calls), (1, 20));
    }
}
