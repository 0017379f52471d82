//! `evergate schema`: what may be written in a configuration, for editors.

use crate::config;
use crate::exit_code::Failure;
use crate::output;

pub(super) fn run() -> Result<(), Failure> {
    output::line(&serde_json::to_string_pretty(&config::schema())?)
}
