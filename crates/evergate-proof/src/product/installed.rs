//! Which version of a product is there.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// What a program says of its version, if there is such a program.
pub(super) fn says(program: impl AsRef<OsStr>, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    version_in(&String::from_utf8_lossy(&said))
}

/// The first word that looks like a version.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || c == '/');
    let word = words
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    word.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version_in("nginx version: nginx/1.22.1\n").as_deref(), Some("1.22.1"));
        let haproxy = "HAProxy version 2.6.12-1+deb12u3 2025/10/03 - https://haproxy.org/";
        assert_eq!(version_in(haproxy).as_deref(), Some("2.6.12-1+deb12u3"));
        assert_eq!(version_in("evergate 0.1.0").as_deref(), Some("0.1.0"));
        assert_eq!(version_in("v22.1.0").as_deref(), Some("22.1.0"));
        assert_eq!(version_in("no idea"), None);
    }
}
