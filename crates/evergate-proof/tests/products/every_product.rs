//! Whatever is installed. What is not, is named by `./scripts/install-products`.

use std::slice::from_ref;

use evergate_proof::product::{Leftover, Product, Upstream};

use crate::support::{TRANSPORTS, behind, echo, places, started};

#[tokio::test]
#[ignore = "needs scripts/install-products; ./scripts/test runs it with what is there"]
async fn every_product_stands_in_front_of_one_server_of_each_kind() {
    for product in chosen() {
        for transport in TRANSPORTS {
            let behind = behind("alpha", transport).await;
            let upstreams = from_ref(&behind.upstream);
            try_out(product, &format!("{transport:?}"), upstreams).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs scripts/install-products; ./scripts/test runs it with what is there"]
async fn every_product_that_can_stands_in_front_of_several_servers() {
    for product in chosen() {
        for transport in TRANSPORTS {
            let (first, second) =
                (behind("alpha", transport).await, behind("beta", transport).await);
            let upstreams = [first.upstream.clone(), second.upstream.clone()];
            try_out(product, &format!("two {transport:?}"), &upstreams).await;
        }
    }
}

async fn try_out(product: Product, what: &str, upstreams: &[Upstream]) {
    if let Err(reason) = product.supports(upstreams) {
        println!("{product}, {what}: n/a, {reason}");
        return;
    }
    let mut running = started(product, upstreams).await;
    for upstream in upstreams {
        assert_eq!(echo(&running, &upstream.name).await, format!("hello {}", upstream.name));
    }
    if !running.pids().is_empty() {
        let restarted = running.restart().await;
        restarted.unwrap_or_else(|error| panic!("{product}, {what}: {error:#}"));
        for upstream in upstreams {
            assert_eq!(echo(&running, &upstream.name).await, format!("hello {}", upstream.name));
        }
    }
    let pids = running.pids();
    let left = running.stop().await;
    if left != Leftover::default() {
        println!("{product}, {what}: left behind {left:?}");
    }
    for pid in pids {
        let file = format!("/proc/{pid}/stat");
        let gone = std::fs::read_to_string(file).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(!gone, "{product}, {what}: {pid} is still there");
    }
}

/// Those that are installed, or the ones that `EVERGATE_PRODUCT` names.
fn chosen() -> Vec<Product> {
    let wanted = std::env::var("EVERGATE_PRODUCT").ok();
    let known = Product::ALL.iter().copied();
    let chosen = known.filter(|product| match (&wanted, product.installed(&places())) {
        (Some(wanted), _) => wanted.split(',').any(|name| name == product.name()),
        (None, Ok(version)) => {
            println!("{product} {version}");
            true
        }
        (None, Err(missing)) => {
            println!("{product} is left out: {missing}");
            false
        }
    });
    chosen.collect()
}
