//! `connect` with the files of clients as people have them.

use crate::importing::World;
use crate::{stderr, stdout};

const CLIENTS: [&str; 9] = [
    "claude",
    "claude-desktop",
    "cursor",
    "vscode",
    "codex",
    "zed",
    "gemini",
    "gh-aw",
    "docker-agent",
];

/// Those with a file of their own, and where it is.
const FILES: [(&str, &str); 7] = [
    ("claude", "home/.claude.json"),
    ("claude-desktop", "home/.config/Claude/claude_desktop_config.json"),
    ("cursor", "home/.cursor/mcp.json"),
    ("vscode", "home/.config/Code/User/mcp.json"),
    ("codex", "home/.codex/config.toml"),
    ("zed", "home/.config/zed/settings.json"),
    ("gemini", "home/.gemini/settings.json"),
];

fn plain(world: &World, text: &str) -> String {
    world.shown(text).replace(env!("CARGO_BIN_EXE_evergate"), "/bin/evergate")
}

#[test]
fn every_client_has_its_entry() {
    let world = World::new();
    world.write(
        "project/evergate.json",
        r#"{"mcpServers": {}, "gateway": {"listen": "0.0.0.0:9000"}}"#,
    );
    let mut all = String::new();
    for client in CLIENTS {
        let key: &[&str] =
            if client == "claude-desktop" { &[] } else { &["--key-env", "EVERGATE_KEY"] };
        let output = world.run(&[&["connect", client], key].concat());
        assert_eq!(output.status.code(), Some(0), "{client}: {}", stderr(&output));
        all.extend(["# ", client, "\n", &stdout(&output), &stderr(&output)]);
    }
    insta::assert_snapshot!(plain(&world, &all));
}

#[test]
fn a_written_entry_is_there_once_and_is_known_as_our_own() {
    for (client, file) in FILES {
        let world = World::new();
        world.write("project/evergate.json", r#"{"mcpServers": {}}"#);
        let output = world.run(&["connect", client, "--write"]);
        assert_eq!(output.status.code(), Some(0), "{client}: {}", stderr(&output));
        assert!(stdout(&output).contains("which is new"), "{client}: {}", stdout(&output));
        let first = world.text(file);
        let output = world.run(&["connect", client, "--write"]);
        assert_eq!(output.status.code(), Some(0), "{client}: {}", stderr(&output));
        assert!(stdout(&output).contains("has it already: nothing was changed"), "{client}");
        assert_eq!(world.text(file), first, "{client}");
        // What an import makes of it would be a circle.
        let output = world.run(&["import", client, "--dry-run"]);
        assert!(stdout(&output).contains("is Evergate itself"), "{client}: {}", stdout(&output));
    }
}

#[test]
fn everything_else_stays_and_a_copy_is_kept() {
    let world = World::new();
    let before = "// mine\n{\n    \"theme\": \"dark\", // best\n    \"mcpServers\": {\n        \"a\": { \"url\": \"http://a/\" }, // keep\n    },\n}\n";
    let path = world.write("home/.cursor/mcp.json", before);
    let output = world.run(&["connect", "cursor", "--write", "--name", "gate"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("its other servers are still there"), "{}", stderr(&output));
    insta::assert_snapshot!(world.text("home/.cursor/mcp.json"));
    let copies = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let copies: Vec<_> = copies
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "bak"))
        .collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(std::fs::read_to_string(&copies[0]).unwrap(), before);
    // Another place: the entry is replaced, and a second copy kept.
    let output = world.run(&[
        "connect",
        "cursor",
        "--write",
        "--name",
        "gate",
        "--url",
        "https://gate.example/mcp",
    ]);
    assert!(
        stdout(&output).contains("gate was replaced in ~/.cursor/mcp.json"),
        "{}",
        stdout(&output)
    );
    assert!(world.text("home/.cursor/mcp.json").contains("// keep"));
}

#[test]
fn the_file_of_a_project_can_be_meant() {
    let world = World::new();
    let output = world.run(&["connect", "claude", "--write", "--project"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(world.text("project/.mcp.json").contains("http://127.0.0.1:8080/mcp"));
    let output =
        world.run(&["connect", "claude-desktop", "--write", "--project", "--url", "http://h/mcp"]);
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let world = World::new();
    world.write("home/.cursor/mcp.json", "{ \"mcpServers\": { \"a\" 1 } }");
    world.write("home/.gemini/settings.json", b"{ \"k\": \"\xff\" }");
    world.write("home/.codex/config.toml", "mcp_servers = {}\n");
    world.write("home/.config/zed/settings.json", "[]");
    let mut said = String::new();
    let cases: &[&[&str]] = &[
        &["connect", "cursor", "--write"],
        &["connect", "gemini", "--write"],
        &["connect", "codex", "--write"],
        &["connect", "zed", "--write"],
        &["connect", "zed", "--write", "--key-env", "K"],
        &["connect", "claude-desktop"],
        &["connect", "claude-desktop", "--key-env", "K", "--url", "http://h/"],
        &["connect", "claude-desktop", "--project", "--url", "http://h/mcp"],
        &["connect", "docker-agent", "--write"],
        &["connect", "cursor", "--url", "ftp://h/"],
        &["connect", "cursor", "--url", "http://me:hunter2@h/"],
        &["connect", "cursor", "--key-env", "hunter2-is-no-name"],
        &["connect", "cursor", "--name", "a b"],
    ];
    for args in cases {
        let output = world.run(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {}", stdout(&output));
        said.push_str(&stderr(&output));
    }
    assert!(!said.contains("hunter2"), "{said}");
    insta::assert_snapshot!(world.shown(&said));
    assert_eq!(world.text("home/.cursor/mcp.json"), "{ \"mcpServers\": { \"a\" 1 } }");
    let homeless =
        world.command(&["connect", "cursor", "--write"]).env_remove("HOME").output().unwrap();
    assert!(stderr(&homeless).contains("HOME is not set"), "{}", stderr(&homeless));
}

#[test]
fn an_address_is_where_clients_go() {
    let world = World::new();
    for (url, expected) in [
        ("http://10.0.0.1:9000", "\"http://10.0.0.1:9000/mcp\""),
        ("https://gate.example/", "\"https://gate.example/mcp\""),
        ("https://gate.example/team/mcp", "\"https://gate.example/team/mcp\""),
    ] {
        let output = world.run(&["connect", "cursor", "--url", url]);
        assert!(stdout(&output).contains(expected), "{}", stdout(&output));
        let output = world.run(&["connect", "claude-desktop", "--url", url]);
        assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    }
}

#[test]
fn a_gateway_with_keys_gets_no_entry_without_one() {
    let world = World::new();
    let auth = r#"{"mcpServers": {}, "gateway": {"auth": {"keys": [{"name": "a", "key": "sixteen-characters"}]}}}"#;
    world.write("project/evergate.json", auth);
    let output = world.run(&["connect", "cursor", "--write"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("--key-env"), "{}", stderr(&output));
    assert!(!world.path("home/.cursor/mcp.json").exists());
    let output = world.run(&["connect", "cursor", "--write", "--key-env", "K"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(world.text("home/.cursor/mcp.json").contains("Bearer ${env:K}"));
}

#[test]
#[cfg(unix)]
fn a_gateway_that_runs_is_where_it_runs() {
    use std::io::BufRead as _;
    use std::process::Stdio;

    let world = World::new();
    world.write("project/evergate.json", r#"{"mcpServers": {}}"#);
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut gateway = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    std::io::BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let output = world.run(&["connect", "cursor"]);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    assert!(stdout(&output).contains(url.trim()), "{url}: {}", stdout(&output));
    // It left its file behind.
    let output = world.run(&["connect", "cursor"]);
    assert!(stdout(&output).contains("http://127.0.0.1:8080/mcp"), "{}", stdout(&output));
}

#[test]
fn what_a_menu_starts_is_told_to_have_no_variables() {
    let world = World::new();
    world.write(
        "project/evergate.json",
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "${A_TOKEN}", "B": "${B:-b}", "C": "${env:C}"}}}}"#,
    );
    for args in [&["connect", "claude-desktop"][..], &["connect", "claude-desktop", "--write"]] {
        let said = stderr(&world.run(args));
        assert!(
            said.contains("evergate.json needs A_TOKEN, C: give the entry an \"env\""),
            "{said}"
        );
    }
    let said = stderr(&world.run(&["connect", "cursor"]));
    assert!(!said.contains("A_TOKEN"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new();
    let real = world.write("home/dotfiles/mcp.json", "{}");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir(world.path("home/.cursor")).unwrap();
    std::os::unix::fs::symlink(&real, world.path("home/.cursor/mcp.json")).unwrap();
    let output = world.run(&["connect", "cursor", "--write"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(world.path("home/.cursor/mcp.json").is_symlink());
    assert!(world.text("home/dotfiles/mcp.json").contains("evergate"));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
}
