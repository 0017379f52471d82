//! What the process tells its caller, after `sysexits.h`.

use std::process::ExitCode;

/// Bad usage or bad configuration.
const USAGE: u8 = 64;
/// Something failed that should not.
const INTERNAL: u8 = 70;

/// Prints the error with everything that caused it, once.
pub(crate) fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("evergate: {error:#}"));
            ExitCode::from(INTERNAL)
        }
    }
}

/// `--help` and `--version` come this way too, and are no errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // If even that cannot be printed there is nobody to tell.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// The reader went away, as `head` does: not our failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[expect(clippy::print_stderr, reason = "the one place where the program complains")]
fn say(line: &str) {
    eprintln!("{line}");
}
