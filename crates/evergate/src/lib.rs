//! `evergate`: MCP connections that do not break.
//!
//! The program, as a library, so that its parts can be driven without a process: by fuzz targets. Embedders want
//! `evergate-runtime`.

mod admin;
mod admin_client;
mod audit;
mod cancelled;
mod cli;
mod config;
mod connect;
mod dashboard;
mod demo;
mod exit_code;
mod found_here;
mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod hash;
mod hex;
mod import;
mod json_text;
mod logging;
mod metrics;
mod observed;
mod on_path;
mod output;
mod random;
mod remedy;
mod safe_write;
mod sealed;
mod serve;
mod state;
mod tasks;
mod telemetry;
mod timestamp;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;

/// The whole program: reads the command line, runs the command, and says how it went.
pub fn run() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => exit_code::report(cli.run()),
        Err(error) => exit_code::usage(&error),
    }
}
