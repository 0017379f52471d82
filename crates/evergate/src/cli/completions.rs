//! `evergate completions`: the commands and options, for a shell that completes them.

use std::io::Write as _;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::exit_code::Failure;

/// Print a script with which a shell completes commands and options.
///
/// For bash: evergate completions bash >~/.local/share/bash-completion/completions/evergate
///
/// For zsh: evergate completions zsh >"${fpath[1]}/_evergate"
///
/// For fish: evergate completions fish >~/.config/fish/completions/evergate.fish
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

// === impl Completions ===

impl Completions {
    pub(super) fn run(&self) -> Result<(), Failure> {
        // Into memory first: a reader that goes away is no reason to panic, and there it cannot.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "evergate", &mut script);
        Ok(std::io::stdout().lock().write_all(&script)?)
    }
}
