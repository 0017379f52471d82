//! The manual pages are made of the help, and `man` has nothing to say against them.

use std::io::ErrorKind;
use std::process::Command;

use crate::{commands, evergate, stdout};

/// How `man` shows a page, without complaints; `None` without it.
fn shown(path: &std::path::Path) -> Option<String> {
    let mut man = Command::new("man");
    man.args(["--warnings", "--local-file"])
        .arg(path)
        .env("MANWIDTH", "120")
        .env("LC_ALL", "C.UTF-8");
    let output = match man.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", path.display());
    assert!(output.status.success(), "{}", path.display());
    Some(stdout(&output))
}

#[test]
fn the_page_lists_every_command_and_each_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("made").join("man1");
    let output = evergate(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let whole = std::fs::read_to_string(dir.join("evergate.1")).unwrap();
    assert_eq!(whole, stdout(&evergate(&["man"])));
    let commands = commands();
    for command in &commands {
        let name = format!("evergate\\-{command}(1)");
        assert!(whole.contains(&name), "{name}");
        let path = dir.join(format!("evergate-{command}.1"));
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.contains(&format!(".TH evergate-{command} 1 ")), "{page}");
        shown(&path);
    }
    assert!(!whole.contains("demo\\-server"), "it is not for people");
    let files = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(files, commands.len() + 1);
    assert_eq!(stdout(&output).lines().count(), files);
    if let Some(text) = shown(&dir.join("evergate.1")) {
        // Lines are filled up with blanks.
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("Exit codes: 0 ok,"), "{text}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let dir = file.path().join("man1");
    let output = evergate(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(69));
    assert!(crate::stderr(&output).contains(dir.to_str().unwrap()));
}
