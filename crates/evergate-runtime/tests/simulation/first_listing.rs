//! What a server says before anybody listens is said to nobody.

use std::time::Duration;

use evergate_runtime::Hub;
use evergate_testkit::Fault;
use tokio::time::Instant;

use crate::support::*;

async fn listed(hub: &Hub) {
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
}

#[test]
fn nothing_is_listed_before_somebody_listens() {
    for seed in 1..=4 {
        let mut sim = network(seed);
        let server = serve(&mut sim, "s");
        server.inject(Fault::DelayAnswer(Duration::from_millis(200))).on("GET");
        sim.client(CLIENT, async move {
            let (hub, _s) = hub_of_one("s", reach("s"));
            listed(&hub).await;
            assert_eq!(server.counters().listening, 1, "seed {seed}");
            Ok(())
        });
        run(&mut sim, seed);
    }
}

/// Some servers answer only when they have something to say.
#[test]
fn a_stream_that_does_not_open_is_not_waited_for_long() {
    let mut sim = network(1);
    let server = serve(&mut sim, "s");
    server.inject(Fault::HangBeforeHeaders).on("GET");
    sim.client(CLIENT, async move {
        let (hub, s) = hub_of_one("s", reach("s"));
        connected(&s).await;
        let connected = Instant::now();
        listed(&hub).await;
        assert!(connected.elapsed() < SECOND, "took {:?}", connected.elapsed());
        assert_eq!(server.counters().listening, 0);
        Ok(())
    });
    run(&mut sim, 1);
}
