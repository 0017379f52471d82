//! Which version of a product is there.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Places, Program};

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

/// The version of an npm package, or how to get it.
pub(super) fn npm(places: &Places, package: &str) -> Result<String, String> {
    let file = places.product(format!("npm/node_modules/{package}/package.json"));
    let version = std::fs::read(file).ok().and_then(|text| {
        let package: serde_json::Value = serde_json::from_slice(&text).ok()?;
        package["version"].as_str().map(str::to_owned)
    });
    version.ok_or_else(|| format!("no npm package {package}: ./scripts/install-products npm"))
}

/// The version of a Python package in the environment of this name, or how to get it.
pub(super) fn pypi(places: &Places, environment: &str, package: &str) -> Result<String, String> {
    let found = dist_info(&places.product(environment), &package.replace('-', "_"));
    found.ok_or_else(|| {
        format!("no Python package {package}: ./scripts/install-products {environment}")
    })
}

/// A program of an npm package, run by the Node that was installed with it.
pub(super) fn node_program(places: &Places, script: &str) -> Program {
    let mut program = Program::new(places.product("npm/node_modules/.bin/node"));
    program.arg(places.product("npm/node_modules").join(script).display());
    program
}

/// A program of the Python environment of this name.
pub(super) fn python_program(places: &Places, environment: &str, program: &str) -> Program {
    Program::new(places.product(environment).join("bin").join(program))
}

/// The version of a crate that `cargo install` put into the folder of this name, or how to get it.
pub(super) fn crates_io(places: &Places, folder: &str, name: &str) -> Result<String, String> {
    let installed = std::fs::read_to_string(places.product(folder).join(".crates.toml"));
    let version = installed.ok().and_then(|text| {
        let (_, rest) = text.split_once(&format!("\"{name} "))?;
        rest.split(' ').next().map(str::to_owned)
    });
    version.ok_or_else(|| format!("no crate {name}: ./scripts/install-products {folder}"))
}

fn dist_info(environment: &Path, package: &str) -> Option<String> {
    let python = std::fs::read_dir(environment.join("lib")).ok()?.flatten().next()?;
    let packages = std::fs::read_dir(python.path().join("site-packages")).ok()?;
    packages.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix(package)?.strip_prefix('-')?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    })
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
