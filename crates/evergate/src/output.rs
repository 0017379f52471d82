//! Standard output: data only, line by line.

use std::io::Write as _;

use crate::exit_code::Failure;

pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::from)
}
