//! What `deploy/` says of the program is true: its options, keys, paths, variables and times.
//!
//! Formats are checked by their own tools (`scripts/check-deploy`); here only what those cannot know.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{evergate, stderr, stdout};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../deploy", name].iter().collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The configuration in the `ConfigMap`: what is further to the right than its key.
fn mapped_config() -> String {
    let text = read("kubernetes/configmap.yaml");
    let (_, block) = text.split_once("  evergate.json: |\n").unwrap();
    block.lines().map(|line| line.strip_prefix("    ").unwrap().to_owned() + "\n").collect()
}

/// `NAME: value` lines below `stringData`.
fn secrets() -> BTreeMap<String, String> {
    let text = read("kubernetes/secret.example.yaml");
    let (_, block) = text.split_once("\nstringData:\n").unwrap();
    let pairs = block.lines().map(|line| line.trim().split_once(": ").unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// All `${NAME}` of a configuration.
fn variables(config: &str) -> Vec<&str> {
    config.split("${").skip(1).map(|rest| rest.split_once('}').unwrap().0).collect()
}

fn check(config: &str, variables: &BTreeMap<String, String>) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evergate.json");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(["check", "--config"]).arg(&file).env_remove("RUST_LOG").envs(variables);
    command.output().unwrap()
}

/// The value of a key that stands alone on its line.
fn value_of<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key}")).trim()
}

fn drain_of(config: &str) -> u64 {
    let config: Value = serde_json::from_str(config).unwrap();
    let drain = config["gateway"]["drain"].as_str().unwrap();
    drain.strip_suffix('s').unwrap().parse().unwrap()
}

#[test]
fn the_configurations_can_be_used_with_the_variables_that_are_there() {
    let secrets = secrets();
    let mapped = mapped_config();
    for name in variables(&mapped) {
        assert!(secrets.contains_key(name), "{name} is not in the Secret");
    }
    let output = check(&mapped, &secrets);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output) + &stderr(&output));
    assert!(stdout(&output).contains("0.0.0.0:8080"), "{}", stdout(&output));

    let composed = read("docker/evergate.json");
    let compose_file = read("docker/compose.yaml");
    for name in variables(&composed) {
        assert!(compose_file.contains(&format!("      {name}: ")), "{name} is not in compose.yaml");
    }
    let key = BTreeMap::from([("EVERGATE_KEY".to_owned(), "a".repeat(64))]);
    let output = check(&composed, &key);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output) + &stderr(&output));
}

#[test]
fn every_option_in_deploy_exists() {
    let help = stdout(&evergate(&["serve", "--help"]));
    let sources =
        ["docker/Dockerfile", "kubernetes/deployment.yaml", "systemd/evergate.service"].map(read);
    let mut seen = 0;
    for text in &sources {
        let lines = text.lines().filter(|line| {
            let line = line.trim();
            line.starts_with("CMD ") || line.starts_with("ExecStart=") || line.starts_with("- --")
        });
        let words = lines.flat_map(|line| line.split([' ', '"', ',', '[', ']']));
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(&format!("{option} ")), "{option}");
            seen += 1;
        }
    }
    assert!(seen >= 13, "{seen}");
}

#[test]
fn nobody_is_killed_while_calls_may_finish() {
    let deployment = read("kubernetes/deployment.yaml");
    let seconds = |text: &str| -> u64 { text.trim_end_matches('s').parse().unwrap() };
    let grace = seconds(value_of(&deployment, "terminationGracePeriodSeconds:"));
    let pause = seconds(value_of(&deployment, "seconds:"));
    assert!(grace >= pause + drain_of(&mapped_config()) + 10, "{grace}");
    let compose = seconds(value_of(&read("docker/compose.yaml"), "stop_grace_period:"));
    assert!(compose >= drain_of(&read("docker/evergate.json")) + 10, "{compose}");
    let unit = seconds(value_of(&read("systemd/evergate.service"), "TimeoutStopSec="));
    assert!(unit >= 30 + 10, "{unit}");
}

/// What Kubernetes would ask, of a gateway with the configuration it would have.
#[test]
#[cfg(unix)]
fn the_probes_are_answered() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evergate.json");
    std::fs::write(
        &file,
        mapped_config().replace("docs-mcp.default.svc.cluster.local", "127.0.0.1:1"),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.arg("--state-dir").arg(folder.path().join("state")).env_remove("RUST_LOG");
    let mut gateway =
        command.envs(secrets()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let status = |path: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let ask =
            format!("GET {path} HTTP/1.1\r\nhost: 10.1.2.3:8080\r\nconnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let deployment = read("kubernetes/deployment.yaml");
    let paths: Vec<&str> =
        deployment.lines().filter_map(|line| line.trim().strip_prefix("path: ")).collect();
    assert_eq!(paths, ["/livez", "/livez", "/readyz"]);
    assert_eq!(status("/livez"), "200");
    assert_eq!(status("/readyz"), "503", "a required server is down");
    let _ = gateway.kill();
    gateway.wait().unwrap();
}

#[test]
fn the_ports_fit_together() {
    let deployment = read("kubernetes/deployment.yaml");
    assert_eq!(value_of(&deployment, "containerPort:"), "8080");
    assert!(read("docker/Dockerfile").matches("EXPOSE 8080").count() == 2);
    assert!(read("systemd/evergate.socket").contains("\nListenStream=127.0.0.1:8080\n"));
    assert!(read("systemd/evergate.socket").contains("\nFileDescriptorName=mcp\n"));
    let version = format!("image: evergate:{}", env!("CARGO_PKG_VERSION"));
    assert!(deployment.contains(&version), "{version}");
}

/// With the program where it will be; what is said of other units of this machine does not count.
#[test]
fn systemd_understands_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let service = read("systemd/evergate.service");
    let service = service.replace("/usr/local/bin/evergate", env!("CARGO_BIN_EXE_evergate"));
    std::fs::write(folder.path().join("evergate.service"), service).unwrap();
    std::fs::write(folder.path().join("evergate.socket"), read("systemd/evergate.socket")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "evergate.service", "evergate.socket"]);
    let output = match verify.current_dir(&folder).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        output => output.unwrap(),
    };
    let said = stderr(&output);
    assert!(!said.contains("evergate."), "{said}");
}
