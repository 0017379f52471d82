//! x
use anyhow::Result;
use crate::bench::{Bench, Results};
pub(super) async fn servers(_: &Bench, _: &mut Results) -> Result<()> { Ok(()) }
pub(super) async fn sessions(_: &Bench, _: &mut Results) -> Result<()> { Ok(()) }
pub const SERVERS: [usize; 4] = [1, 10, 100, 500];
pub const SESSIONS: [usize; 4] = [10, 100, 1000, 5000];
