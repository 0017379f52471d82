//! Which gateway a command means.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shell::{child, on, run, run_in, serving, serving_with, signal};
use crate::support::until;

/// Gateways that find their state directories by themselves, in a home of their own.
struct Home {
    folder: tempfile::TempDir,
    gateways: Vec<Child>,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), gateways: Vec::new() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, args: &[&str]) -> crate::shell::Said {
        run_in(self.path(), args, &[])
    }

    /// One with a configuration of this name; gives back its file and its process.
    async fn start(&mut self, name: &str) -> (String, u32) {
        let file = self.path().join(name).display().to_string();
        std::fs::write(&file, json!({ "mcpServers": { "docs": child(&[]) } }).to_string()).unwrap();
        let pid = self.launch(&file);
        until("it can be found", async || {
            self.run(&["status", "docs", "--config", &file]).code == 0
        })
        .await;
        (file, pid)
    }

    fn launch(&mut self, file: &str) -> u32 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command.args(["--listen", "127.0.0.1:0", "--config", file]).env("HOME", self.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        let gateway = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = gateway.id();
        self.gateways.push(gateway);
        pid
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for gateway in &mut self.gateways {
            // It may have ended.
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
    }
}

#[tokio::test]
async fn the_only_one_needs_no_introduction_and_of_several_one_must_be_named() {
    let mut home = Home::new();
    let (one, pid) = home.start("one.json").await;
    let alone = home.run(&["status", "--json"]);
    assert_eq!(alone.code, 0, "{}", alone.err);
    let said: Value = serde_json::from_str(&alone.out).unwrap();
    assert_eq!(said["gateway"]["pid"], pid);

    let (two, _) = home.start("two.json").await;
    let several = home.run(&["status"]);
    assert_eq!(several.code, 64, "{}", several.out);
    assert!(several.err.contains("2 gateways are running: say which one"), "{}", several.err);
    assert!(several.err.contains(&one) && several.err.contains(&two), "{}", several.err);
    let named = home.run(&["status", "--json", "--config", &one]);
    let said: Value = serde_json::from_str(&named.out).unwrap();
    assert_eq!(said["gateway"]["pid"], pid);

    // One that ends in an orderly way takes its file along, and one that is killed is recognised.
    signal(pid, Signal::KILL);
    home.gateways[0].wait().unwrap();
    assert_eq!(home.run(&["status"]).code, 0, "the other one is the only one now");
    let killed = home.run(&["status", "--config", &one]);
    assert_eq!(killed.code, 69, "{}", killed.out);
    assert!(killed.err.contains(&format!("(process {pid}) is gone")), "{}", killed.err);
    signal(home.gateways[1].id(), Signal::TERM);
    home.gateways[1].wait().unwrap();
    let ended = home.run(&["status", "--config", &two]);
    assert_eq!(ended.code, 69);
    assert!(ended.err.contains("no gateway is running with"), "{}", ended.err);
}

#[tokio::test]
async fn a_second_gateway_with_the_same_configuration_does_not_hide_the_first() {
    let mut home = Home::new();
    let (file, first) = home.start("one.json").await;
    let second = home.launch(&file);
    let by_config = ["status", "--json", "--config", &file];
    until("both are named", async || home.run(&by_config).code == 64).await;
    let both = home.run(&by_config);
    assert!(both.err.contains("2 gateways are running: say which one with --url"), "{}", both.err);
    for pid in [first, second] {
        assert!(both.err.contains(&format!("process {pid}")), "{}", both.err);
    }
    let url = both.err.lines().find(|line| line.contains(&format!("process {second}"))).unwrap();
    let named = home.run(&["status", "--json", "--url", url.split_whitespace().next().unwrap()]);
    let said: Value = serde_json::from_str(&named.out).unwrap();
    assert_eq!(said["gateway"]["pid"], second, "{}", named.err);

    signal(second, Signal::TERM);
    home.gateways[1].wait().unwrap();
    let said: Value = serde_json::from_str(&home.run(&by_config).out).unwrap();
    assert_eq!(said["gateway"]["pid"], first);
}

#[tokio::test]
async fn the_configuration_of_the_current_folder_decides_among_several() {
    let mut home = Home::new();
    let (_, pid) = home.start("evergate.json").await;
    home.start("other.json").await;
    let output = Command::new(env!("CARGO_BIN_EXE_evergate"))
        .args(["status", "--json"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["gateway"]["pid"], pid);
}

#[tokio::test]
async fn no_gateway_is_69_and_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none").display().to_string();
    for command in
        [&["status"][..], &["why", "docs"], &["restart", "docs"], &["events"], &["logs", "docs"]]
    {
        let nobody = run(&[command, &["--url", "http://127.0.0.1:9"]].concat());
        assert_eq!(nobody.code, 69, "{command:?}: {}", nobody.err);
        assert!(nobody.err.contains("is the gateway running?"), "{}", nobody.err);
        let nobody = run(&[command, &["--state-dir", &missing]].concat());
        assert_eq!(nobody.code, 69, "{command:?}: {}", nobody.err);
        assert!(
            nobody.err.contains("no gateway is running with the state directory"),
            "{}",
            nobody.err
        );
    }
    for wrong in
        [&["--url", "ftp://x"][..], &["--url", "a", "--state-dir", "b"], &["--key", "short"]]
    {
        let said = run(&[&["status"][..], wrong].concat());
        assert_eq!(said.code, 64, "{wrong:?}: {}", said.err);
    }
}

#[tokio::test]
async fn the_file_is_for_the_owner_alone_and_gone_after_an_orderly_end() {
    use std::os::unix::fs::PermissionsExt as _;

    let mut gateway = serving(json!({ "docs": child(&[]) }), &[]).await;
    let file = gateway.state_dir().join(format!("control-{}.json", gateway.pid()));
    let text = std::fs::read_to_string(&file).unwrap();
    let control: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(control["pid"], gateway.pid());
    assert_eq!(format!("{}/mcp", control["url"].as_str().unwrap()), gateway.url);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert!(!file.exists());
}

#[tokio::test]
async fn an_address_for_operators_is_the_one_that_is_found() {
    let section = json!({ "admin_listen": "127.0.0.1:0" });
    let gateway = serving_with(json!({ "docs": child(&[]) }), section, &["docs"]).await;
    assert_eq!(on(&gateway, &["status"]).code, 0);
    let public = run(&["status", "--url", &gateway.url]);
    assert_eq!(public.code, 69, "{}", public.out);
    assert!(public.err.contains("admin_listen"), "{}", public.err);

    let key = json!([{ "name": "a", "key": "hunter2-0123456789abcdef", "scopes": ["admin"] }]);
    let section = json!({ "admin_listen": "127.0.0.1:0", "auth": { "keys": key } });
    let gateway = serving_with(json!({ "docs": child(&[]) }), section, &["docs"]).await;
    let public = run(&["status", "--url", &gateway.url]);
    assert_eq!(public.code, 69, "not a key is wanted, but another address: {}", public.err);
    assert!(public.err.contains("admin_listen"), "{}", public.err);
}
