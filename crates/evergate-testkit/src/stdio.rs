//! Finding the programs of this crate.

use std::path::PathBuf;

/// The path of the `scripted-stdio-server` program, if it was built.
///
/// It is looked for in the directory of the running program and the two above it, which is where
/// Cargo puts it relative to tests, examples and benchmarks. Cargo builds it for
/// `cargo test --workspace`; a crate that is tested alone needs `cargo build -p evergate-testkit`
/// first.
pub fn stdio_server_path() -> Option<PathBuf> {
    program_path("scripted-stdio-server")
}

pub(crate) fn program_path(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = std::env::current_exe().ok()?;
    program
        .ancestors()
        .skip(1)
        .take(3)
        .map(|directory| directory.join(&name))
        .find(|path| path.is_file())
}
