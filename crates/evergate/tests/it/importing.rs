//! `import` with files as other clients write them, and with files as nobody should.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{stderr, stdout};

/// A home and a project of its own.
pub(crate) struct World {
    root: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    /// With the files of a fixture.
    fn of(fixture: &str) -> Self {
        let world = Self::new();
        let from =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/import").join(fixture);
        copy(&from, world.root.path());
        world
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command.args(args).current_dir(self.root.path().join("project")).env_clear();
        command
            .env("HOME", self.root.path().join("home"))
            .env("PATH", self.root.path().join("bin"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Without the names that differ from run to run.
    pub(crate) fn shown(&self, text: &str) -> String {
        let root = self.root.path().canonicalize().unwrap();
        text.replace(root.to_str().unwrap(), "/ROOT")
            .replace(self.root.path().to_str().unwrap(), "/ROOT")
    }

    fn wrote(&self) -> bool {
        let names = std::fs::read_dir(self.root.path().join("project")).unwrap();
        let names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().all(|name| !name.contains(".tmp")), "{names:?}");
        names.iter().any(|name| name == "evergate.json")
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Imports a fixture, has the result checked by the real thing, and shows both.
fn imported(client: &str, more: &[(&str, &str)]) -> String {
    imported_with(client, &[], more)
}

fn imported_with(client: &str, args: &[&str], more: &[(&str, &str)]) -> String {
    let world = World::of(client);
    let output = world.run(&[&["import", client], args].concat());
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let written = world.text("project/evergate.json");
    for text in [&said, &written] {
        assert!(!text.contains("hunter2"), "{client} leaks: {text}");
    }
    let mut check = world.command(&["check", "--config", "evergate.json"]);
    // Everything that it wants has some value.
    for (name, _) in
        written.match_indices("${").map(|(at, _)| written[at + 2..].split_once('}').unwrap())
    {
        check.env(name.split(":-").next().unwrap(), "https://sixteen.example/");
    }
    check.envs(more.iter().copied());
    let check = check.output().unwrap();
    let checked = stdout(&check) + &stderr(&check);
    assert_eq!(check.status.code(), Some(0), "{written}\n{checked}");
    assert!(!checked.contains("error") && !checked.contains("warning"), "{checked}");
    world.shown(&format!("{said}\n--- evergate.json\n{written}"))
}

#[test]
fn claude_code_is_understood() {
    insta::assert_snapshot!(imported("claude", &[]));
}

#[test]
fn claude_code_has_servers_of_single_projects() {
    insta::assert_snapshot!(imported_with("claude", &["--project", "/work/shop"], &[]));
}

#[test]
fn of_single_projects_only_this_one_counts() {
    let world = World::new();
    let project = world.path("project").canonicalize().unwrap();
    std::fs::create_dir_all(world.path("project/.git")).unwrap();
    std::fs::create_dir_all(world.path("project/inside")).unwrap();
    let servers = |name: &str| json!({ "mcpServers": { name: { "command": "x" } } });
    let document = json!({ "projects": {
        project.to_str().unwrap(): servers("mine"), "/elsewhere": servers("other"),
        world.path("home").to_str().unwrap(): servers("home"),
    } });
    world.write("home/.claude.json", document.to_string());
    for folder in ["project", "project/inside"] {
        let output = world
            .command(&["import", "claude", "--json", "--dry-run"])
            .current_dir(world.path(folder))
            .output();
        let report: Value = serde_json::from_str(&stdout(&output.unwrap())).unwrap();
        assert_eq!(report["servers"].as_array().unwrap().len(), 1, "{report}");
        assert_eq!(report["servers"][0]["name"], "mine");
        assert_eq!(report["not_taken"].as_array().unwrap().len(), 2, "{report}");
    }
    let said = stdout(&world.run(&["import", "claude", "--dry-run"]));
    assert!(said.contains("evergate import claude --project /elsewhere takes it"), "{said}");
}

#[test]
fn what_is_written_has_the_format_that_its_name_says() {
    let world = World::of("cursor");
    let output = world.run(&["import", "cursor", "--output", "x.yaml"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("a configuration is JSON or TOML"), "{}", stderr(&output));
    assert!(!world.path("project/x.yaml").exists());
    let output = world.run(&["import", "cursor", "--output", "x.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let toml = world.run(&["check", "--json", "--config", "x.toml"]);
    world.run(&["import", "cursor"]);
    let json = world.run(&["check", "--json", "--config", "evergate.json"]);
    assert_eq!(stdout(&toml).replace("x.toml", "evergate.json"), stdout(&json));
    assert!(world.text("project/x.toml").starts_with("[mcpServers."));
}

#[test]
fn claude_desktop_is_understood() {
    insta::assert_snapshot!(imported("claude-desktop", &[]));
}

#[test]
fn cursor_is_understood() {
    insta::assert_snapshot!(imported("cursor", &[]));
}

#[test]
fn vscode_is_understood() {
    insta::assert_snapshot!(imported("vscode", &[]));
}

#[test]
fn codex_is_understood() {
    insta::assert_snapshot!(imported("codex", &[]));
}

#[test]
fn zed_is_understood() {
    insta::assert_snapshot!(imported("zed", &[]));
}

#[test]
fn gemini_is_understood() {
    insta::assert_snapshot!(imported("gemini", &[]));
}

#[test]
fn gh_aw_is_understood() {
    insta::assert_snapshot!(imported("gh-aw", &[]));
}

#[test]
fn docker_agent_is_understood() {
    insta::assert_snapshot!(imported("docker-agent", &[]));
}

#[test]
fn a_file_tells_whose_it_is() {
    for (fixture, path, title) in [
        ("codex", "home/.codex/config.toml", "(Codex)"),
        ("zed", "home/.config/zed/settings.json", "(Zed)"),
        ("gemini", "home/.gemini/settings.json", "(Gemini CLI)"),
        ("gh-aw", "project/gh-aw.json", "(gh-aw)"),
        ("docker-agent", "project/agent.yaml", "(docker-agent)"),
        ("vscode", "project/.vscode/mcp.json", "(VS Code)"),
        ("claude", "home/.claude.json", "(Claude Code)"),
        ("cursor", "home/.cursor/mcp.json", "(an MCP client)"),
    ] {
        let world = World::of(fixture);
        let path = world.path(path);
        let output = world.run(&["import", path.to_str().unwrap(), "--dry-run"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(title), "{fixture}: {}", stdout(&output));
        assert!(!world.wrote());
    }
}

#[test]
fn everything_is_found_without_being_named() {
    let world = World::new();
    for client in ["claude", "cursor", "codex", "zed", "docker-agent", "gh-aw", "vscode"] {
        let from =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/import").join(client);
        copy(&from, &world.path(""));
    }
    let output = world.run(&["import", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let all = report["servers"].as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|server| server["name"].as_str().unwrap()).collect();
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique, "two servers have one name");
    assert!(names.contains(&"github") && names.contains(&"github-vscode"), "{names:?}");
    assert!(
        !stdout(&output).contains("hunter2")
            && !world.text("project/evergate.json").contains("hunter2")
    );
    let written: Value = serde_json::from_str(&world.text("project/evergate.json")).unwrap();
    assert_eq!(written["mcpServers"].as_object().unwrap().len(), names.len());
}

#[test]
fn a_file_that_is_both_the_users_and_the_projects_is_read_once() {
    let world = World::new();
    world.write("home/.cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let mut command = world.command(&["import", "--dry-run"]);
    let output = command.current_dir(world.path("home")).output().unwrap();
    assert_eq!(stdout(&output).matches("read ").count(), 1, "{}", stdout(&output));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(world.path("home/.cursor"), world.path("project/.cursor"))
            .unwrap();
        let output = world.run(&["import", "--dry-run"]);
        assert_eq!(stdout(&output).matches("read ").count(), 1, "{}", stdout(&output));
    }
}

#[test]
fn an_existing_file_is_only_replaced_when_asked() {
    let world = World::of("cursor");
    world.write("project/evergate.json", "mine");
    let output = world.run(&["import"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        stderr(&output).contains("evergate.json is there already: --force replaces it"),
        "{}",
        stderr(&output)
    );
    assert_eq!(world.text("project/evergate.json"), "mine");
    let output = world.run(&["import", "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(world.text("project/evergate.json").contains("mcpServers"));
    let output = world.run(&["import", "--output", "no/such/folder/x.json"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
}

#[test]
fn an_import_that_finds_nothing_says_where_it_looked() {
    let world = World::new();
    let output = world.run(&["import"]);
    assert_eq!(output.status.code(), Some(64));
    insta::assert_snapshot!(world.shown(&stderr(&output)));
    let output = world.command(&["import", "codex"]).env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("HOME is not set"), "{}", stderr(&output));
    let output = world.run(&["import", "curser"]);
    assert!(
        stderr(&output)
            .contains("\"curser\" is neither a file nor a client (did you mean cursor?)"),
        "{}",
        stderr(&output)
    );
    world.write("project/x.json", r#"{ "servrs": {} }"#);
    let output = world.run(&["import", "x.json"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        stderr(&output).contains("x.json: expected mcpServers at its top"),
        "{}",
        stderr(&output)
    );
}

/// Each of these stops the import, says where and what was expected, shows no value and writes nothing.
#[test]
fn malformed_files_are_reported_with_their_position_and_nothing_is_written() {
    let deep = format!("{{\"mcpServers\": {}", "[".repeat(100_000));
    let mut said = String::new();
    let cases: &[(&str, &[u8])] = &[
        ("cut.json", b"{ // x\n  \"mcpServers\": { \"a\": { \"env\": { \"T\": \"hunter2"),
        ("comma.json", b"{ \"mcpServers\": { \"a\": { \"command\": \"hunter2\" \"args\": [] } } }"),
        ("types.json", b"{ \"mcpServers\": {\n  \"a\": { \"command\": 7, \"args\": \"hunter2\" },\n  \"b\": \"hunter2\",\n  \"c\": { \"command\": \"x\", \"env\": { \"K\": [\"hunter2\"] }, \"disabled\": \"no\" } } }"),
        ("list.json", b"[]"),
        ("twice.json", b"{ \"mcpServers\": {\n  \"a\": { \"command\": \"x\" }, // one\n  \"a\": { \"command\": \"hunter2\" } } }"),
        ("deep.json", deep.as_bytes()),
        ("latin.json", b"{ \"mcpServers\": {\n \"caf\xe9\": {} } }"),
        ("cut.toml", b"[mcp_servers.a]\ncommand = \"hunter2"),
        ("types.toml", b"[mcp_servers.a]\ncommand = \"x\"\nargs = [1,\n  2]\ntool_timeout_sec = \"hunter2\""),
        ("cut.yaml", b"agents:\n  root:\n    toolsets: [ { type: mcp, command: \"hunter2"),
        ("types.yaml", b"agents:\n  root:\n    toolsets:\n      - type: mcp\n        command: [hunter2]\n"),
        ("none.json", b""),
    ];
    for (name, text) in cases {
        let world = World::new();
        world.write(&format!("project/{name}"), text);
        let output = world.run(&["import", name]);
        assert_eq!(output.status.code(), Some(64), "{name}: {}", stdout(&output));
        assert!(!world.wrote(), "{name}");
        let text = stderr(&output);
        assert!(!text.contains("hunter2") && stdout(&output).is_empty(), "{name}: {text}");
        said.push_str(&text);
    }
    insta::assert_snapshot!(said);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let world = World::new();
    std::fs::create_dir_all(world.path("home/.cursor/mcp.json")).unwrap();
    let output = world.run(&["import", "cursor"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("~/.cursor/mcp.json is not a file"), "{}", stderr(&output));
    #[cfg(unix)]
    {
        let output = world.run(&["import", "/dev/zero"]);
        assert!(stderr(&output).contains("/dev/zero is not a file"), "{}", stderr(&output));
        std::os::unix::fs::symlink("nowhere", world.path("project/.mcp.json")).unwrap();
        assert!(stderr(&world.run(&["import", "claude"])).contains("no servers were found"));
    }
}

/// Cut anywhere, a file is either understood or refused; nothing else happens.
#[test]
fn a_file_cut_anywhere_is_understood_or_refused() {
    for (fixture, path) in
        [("cursor", "home/.cursor/mcp.json"), ("codex", "home/.codex/config.toml")]
    {
        let world = World::of(fixture);
        let whole = world.text(path);
        for at in (0..whole.len()).step_by(37) {
            world.write(path, &whole.as_bytes()[..at]);
            let output = world.run(&["import", fixture, "--dry-run"]);
            assert!(matches!(output.status.code(), Some(0 | 64)), "{at}: {}", stderr(&output));
            assert!(!(stdout(&output) + &stderr(&output)).contains("hunter2"), "{fixture} at {at}");
        }
    }
}

#[test]
fn a_server_that_our_loader_refuses_is_left_out_with_the_reason() {
    let world = World::new();
    let servers = json!({ "mcpServers": {
        "good": { "command": "x", "args": [] },
        "ftp": { "url": "ftp://x.example/" },
        "both": { "url": "http://x.example/", "command": "x" },
        "neither": {},
        "broken": { "command": "${" },
        "a.b": { "url": "http://" },
        "a": { "command": "x" },
    } });
    world.write("project/x.json", servers.to_string());
    let output = world.run(&["import", "x.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output) + &world.text("project/evergate.json"));
}

#[test]
fn a_token_in_the_place_of_a_variable_is_not_shown() {
    let world = World::new();
    let text = "[mcp_servers.a]\nurl = \"http://a.example/\"\nbearer_token_env_var = \"ghp_hunter2hunter2hunter2\"\n\n\
                [mcp_servers.b]\ncommand = \"b\"\n";
    world.write("home/.codex/config.toml", text);
    let output = world.run(&["import", "codex"]);
    let said = stdout(&output) + &stderr(&output) + &world.text("project/evergate.json");
    assert!(!said.contains("hunter2"), "{said}");
    assert!(
        said.contains("a of ~/.codex/config.toml: what it has for Authorization is not the name"),
        "{said}"
    );
}

#[test]
fn a_file_elsewhere_keeps_its_own_folder() {
    let world = World::new();
    world.write("other/.cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "./run"}}}"#);
    let output = world.run(&["import", "../other/.cursor/mcp.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let written: Value = serde_json::from_str(&world.text("project/evergate.json")).unwrap();
    let cwd = written["mcpServers"]["a"]["cwd"].as_str().unwrap().to_owned();
    assert_eq!(
        Path::new(&cwd).canonicalize().unwrap(),
        world.path("other").canonicalize().unwrap()
    );
}
