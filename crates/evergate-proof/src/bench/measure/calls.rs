//! Calls: how many a second, how long each takes, and what they cost.

use anyhow::Result;

use super::Measure;
use super::rounds::{Case, compare, start};
use crate::bench::upstream::{FastServer, NAME, child};
use crate::bench::{Bench, Results};
use crate::product::Product;

/// Bytes of a result.
pub const SIZES: [usize; 3] = [100, 10 * 1024, 1024 * 1024];

/// Calls at once.
pub const CALLERS: [usize; 4] = [1, 16, 64, 256];

pub(super) async fn run(measure: Measure, bench: &Bench, results: &mut Results) -> Result<()> {
    let plain = FastServer::start(&[]).await?;
    let streams = FastServer::start(&["--sse"]).await?;
    let lines = child(&[])?;
    let upstreams = |product: Product| match measure {
        // What a server over HTTP would answer by itself is what a gateway to a child process stands beside.
        Measure::Stdio if product != Product::Direct => vec![lines.clone()],
        Measure::Sse => streams.servers(1),
        _ => plain.servers(1),
    };
    let mut contestants = start(bench, measure.name(), results, upstreams).await;
    let at_once: &[usize] = if bench.short { &[1, 64] } else { &CALLERS };
    for bytes in SIZES {
        // How fast it is says nothing about other sizes.
        for contestant in &mut contestants {
            contestant.rate = 0.0;
        }
        for &callers in at_once {
            let case = Case { measure: measure.name(), name: case(bytes, callers), callers };
            compare(bench, results, &case, &mut contestants, |contestant| {
                vec![contestant.call(NAME, bytes)]
            })
            .await;
        }
    }
    Ok(())
}

/// The name of a case.
pub fn case(bytes: usize, callers: usize) -> String {
    let s = if callers == 1 { "" } else { "s" };
    format!("{}, {callers} caller{s}", size_name(bytes))
}

/// In the unit people use.
pub fn size_name(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}
