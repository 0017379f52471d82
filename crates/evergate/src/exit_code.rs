//! What the process tells its caller, after `sysexits.h`.

use std::io;
use std::process::ExitCode;

/// Why a command failed, and the exit code for it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

/// Bad usage or bad configuration.
const USAGE: u8 = 64;
/// A server could not be reached, or a call could not be completed.
const UNAVAILABLE: u8 = 69;
/// Something failed that should not.
const INTERNAL: u8 = 70;

/// Prints the error with everything that caused it, once.
pub(crate) fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("evergate: {:#}", failure.error));
            ExitCode::from(failure.code)
        }
    }
}

/// `--help` and `--version` come this way too, and are no errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // If even that cannot be printed there is nobody to tell.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

#[expect(clippy::print_stderr, reason = "the one place where the program complains")]
fn say(line: &str) {
    eprintln!("{line}");
}

// === impl Failure ===

impl Failure {
    pub(crate) fn usage(message: String) -> Self {
        Self { code: USAGE, error: anyhow::Error::msg(message) }
    }

    /// A configuration that cannot be used, with what caused it.
    pub(crate) fn config(error: impl Into<anyhow::Error>) -> Self {
        Self { code: USAGE, error: error.into() }
    }

    pub(crate) fn unavailable(message: String) -> Self {
        Self { code: UNAVAILABLE, error: anyhow::Error::msg(message) }
    }

    pub(crate) fn internal(message: &'static str) -> Self {
        Self { code: INTERNAL, error: anyhow::Error::msg(message) }
    }

    /// The reader went away, as `head` does: not our failure.
    fn is_closed_pipe(&self) -> bool {
        let io = self.error.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: INTERNAL, error: error.into() }
    }
}
