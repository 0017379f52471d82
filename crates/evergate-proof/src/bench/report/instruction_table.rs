//! Instructions of the gateway for one call, beside those of the last time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::tables::number;

/// By kind of call.
pub type Counts = BTreeMap<String, Kind>;

/// What one call of some kind takes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Kind {
    /// Instructions, the kernel's not counted.
    pub instructions: f64,
    /// Blocks of memory asked for.
    pub allocations: Option<f64>,
    /// Bytes of them.
    pub allocated_bytes: Option<f64>,
}

pub(super) fn table(counts: &Counts) -> String {
    let mut text = String::from(
        "| call | instructions | allocations | bytes allocated |\n|---|---|---|---|\n",
    );
    for (name, kind) in counts {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} |",
            number(kind.instructions),
            shown(kind.allocations),
            shown(kind.allocated_bytes)
        );
    }
    text
}
