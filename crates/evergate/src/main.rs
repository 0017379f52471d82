//! `evergate`: MCP connections that do not break.

mod cli;
mod config;
mod demo;
mod exit_code;
mod front;
mod gateway;
mod logging;
mod output;
mod serve;
mod state;
mod tasks;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => exit_code::report(cli.run()),
        Err(error) => exit_code::usage(&error),
    }
}
