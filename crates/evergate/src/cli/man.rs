//! `evergate man`: what `--help` says, as pages for `man`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man as Page;

use super::Cli;
use crate::exit_code::Failure;
use crate::output;

/// Print the manual page, or write one for every command.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Write evergate.1 and a page for each command into this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

// === impl Man ===

impl Man {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut program = Cli::command().disable_help_subcommand(true);
        // Only now does each command know the name of the program it is a part of.
        program.build();
        let Some(dir) = &self.dir else {
            return Ok(std::io::stdout().lock().write_all(&rendered(&page(&program))?)?);
        };
        let cannot = |path: &Path, error| {
            Failure::unavailable(format!("cannot write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(dir).map_err(|error| cannot(dir, error))?;
        let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
        for command in std::iter::once(&program).chain(commands) {
            let page = page(command);
            let path = dir.join(page.get_filename());
            std::fs::write(&path, rendered(&page)?).map_err(|error| cannot(&path, error))?;
            output::line(&path.display().to_string())?;
        }
        Ok(())
    }
}

fn page(command: &Command) -> Page {
    let source = concat!("evergate ", env!("CARGO_PKG_VERSION"));
    // No date, so that the same program always makes the same page; written out, or the rest would move up.
    Page::new(command.clone()).date("\"\"").source(source).manual("Evergate")
}

/// In memory: what is written then is whole.
fn rendered(page: &Page) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(text)
}
