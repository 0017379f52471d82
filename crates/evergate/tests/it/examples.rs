//! Every example configuration can be used as it is, and is described.

use std::path::Path;
use std::process::Command;

use crate::{stderr, stdout};

/// What the examples take from the environment.
const VARIABLES: &[&str] = &[
    "EVERGATE_DEVELOPERS_KEY",
    "EVERGATE_CI_KEY",
    "ISSUES_TOKEN",
    "GITHUB_TOKEN",
    "MCP_GATEWAY_API_KEY",
    "SEARCH_KEY",
];

#[test]
fn every_example_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/configs");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut all = String::new();
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        assert!(readme.contains(&format!("[{name}]({name})")), "{name} is not in the README");
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command.current_dir(&folder).args(["check", "--config", &name]).env_remove("RUST_LOG");
        for variable in VARIABLES {
            command.env(variable, format!("secret-of-{variable}"));
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stdout(&output) + &stderr(&output));
        all.extend(["# ", &name, "\n", &stdout(&output), "\n"]);
    }
    assert!(!all.contains("secret-of-"), "{all}");
    insta::assert_snapshot!(all);
}
