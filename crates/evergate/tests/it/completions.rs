//! The scripts for shells name everything there is, and their shells can read them.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

use crate::{commands, evergate, stdout};

/// Whether the shell can read it; `None` without that shell.
fn is_read(shell: &str, script: &str) -> Option<bool> {
    let mut child = match Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Some(child.wait().unwrap().success())
}

#[test]
fn every_shell_is_told_every_command() {
    let commands = commands();
    assert!(commands.len() >= 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = evergate(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = stdout(&output);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("state-dir"), "{shell}");
        assert_ne!(is_read(shell, &script), Some(false), "{shell}");
    }
}

/// Not only valid, but of use.
#[test]
fn bash_completes_commands_and_options() {
    let script = stdout(&evergate(&["completions", "bash"]));
    let ask = "COMP_WORDS=(evergate); COMP_CWORD=1\n_evergate evergate '' evergate\necho \"${COMPREPLY[*]}\"\n\
               COMP_WORDS=(evergate serve --li); COMP_CWORD=2\n_evergate evergate --li serve\necho \"${COMPREPLY[*]}\"\n";
    let output = match Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        output => output.unwrap(),
    };
    let text = stdout(&output);
    let mut lines = text.lines();
    let offered = lines.next().unwrap_or_default();
    for command in commands() {
        assert!(offered.split(' ').any(|word| word == command), "{command}: {offered}");
    }
    assert_eq!(lines.next(), Some("--listen"), "{text}");
}

#[test]
fn an_unknown_shell_is_a_mistake() {
    let output = evergate(&["completions", "cmd"]);
    assert_eq!(output.status.code(), Some(64));
}
