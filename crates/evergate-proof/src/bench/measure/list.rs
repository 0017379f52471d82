//! x
use anyhow::Result;
use crate::bench::{Bench, Results};
pub(super) async fn run(_: &Bench, _: &mut Results) -> Result<()> { Ok(()) }
pub const CASE: &str = "20 servers, 50 tools each";
