//! What the process tells its caller, after `sysexits.h`.

use std::io;
use std::process::ExitCode;

use crate::admin::model::ProblemCode;
use crate::admin_client::ClientError;

/// Why a command failed, and the exit code for it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
    /// Whoever asked knows already: it is what was printed.
    said: bool,
}

/// The question was answered, and the answer is not good: a server is down, an action was refused or had no effect.
const TROUBLE: u8 = 1;
/// Bad usage or bad configuration.
const USAGE: u8 = 64;
/// A server could not be reached, or a call could not be completed.
const UNAVAILABLE: u8 = 69;
/// Something failed that should not.
const INTERNAL: u8 = 70;
/// A key is missing, or not good enough.
const NO_PERMISSION: u8 = 77;

/// Prints the error with everything that caused it, once.
pub(crate) fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.said {
                say(&format!("evergate: {:#}", failure.error));
            }
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
        Self { code: USAGE, error: anyhow::Error::msg(message), said: false }
    }

    /// A configuration that cannot be used, with what caused it.
    pub(crate) fn config(error: impl Into<anyhow::Error>) -> Self {
        Self { code: USAGE, error: error.into(), said: false }
    }

    pub(crate) fn no_permission(message: String) -> Self {
        Self { code: NO_PERMISSION, error: anyhow::Error::msg(message), said: false }
    }

    pub(crate) fn unavailable(message: String) -> Self {
        Self { code: UNAVAILABLE, error: anyhow::Error::msg(message), said: false }
    }

    /// The question was answered, and the answer is not good.
    pub(crate) fn trouble(message: String) -> Self {
        Self { code: TROUBLE, error: anyhow::Error::msg(message), said: false }
    }

    /// The same, and the output says it all.
    pub(crate) fn shown_trouble() -> Self {
        Self { said: true, ..Self::trouble("not everything is well".to_owned()) }
    }

    pub(crate) fn internal(message: &'static str) -> Self {
        Self { code: INTERNAL, error: anyhow::Error::msg(message), said: false }
    }

    /// The reader went away, as `head` does: not our failure.
    fn is_closed_pipe(&self) -> bool {
        let io = self.error.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let code = error.downcast_ref().map_or(INTERNAL, of_client_error);
        Self { code, error, said: false }
    }
}

/// What a gateway did not answer, or answered badly, is rarely this program's fault.
fn of_client_error(error: &ClientError) -> u8 {
    match error {
        ClientError::KeyNeeded { .. } | ClientError::Forbidden { .. } => NO_PERMISSION,
        ClientError::KeyCannotBeSent => USAGE,
        ClientError::Refused(problem) => match problem.code {
            ProblemCode::Conflict => TROUBLE,
            ProblemCode::UnknownServer => USAGE,
            _ => UNAVAILABLE,
        },
        _ => UNAVAILABLE,
    }
}
