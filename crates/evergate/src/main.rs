//! `evergate`: MCP connections that do not break.

use std::process::ExitCode;

fn main() -> ExitCode {
    evergate::run()
}
