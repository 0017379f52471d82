//! `doctor` with servers that work, and with every way in which they do not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::importing::World;
use crate::{stderr, stdout};

/// Answers every request with one status; ends with the test's process.
fn answering(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno"
            );
        }
    });
    address
}

fn demo() -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_evergate"), "args": ["demo-server"] })
}

#[test]
fn what_works_is_said_and_every_failure_has_its_hint() {
    let world = World::new();
    let (auth, missing) = (answering("401 Unauthorized"), answering("404 Not Found"));
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sh = |script: &str| json!({ "command": "/bin/sh", "args": ["-c", script] });
    let servers = json!({ "mcpServers": {
        "auth": { "url": format!("http://{auth}/mcp"), "headers": { "Authorization": "Bearer ${DOCTOR_KEY}" } },
        "auth-without": { "url": format!("http://{auth}/mcp") },
        "cwd": { "command": "/bin/sh", "cwd": "/no/such/folder" },
        "demo": demo(),
        "ended": sh("echo 'Error: the API_KEY environment variable is missing' >&2; exit 3"),
        "missing": { "url": format!("http://{missing}/api") },
        "mute": sh("read x; read y; read z; sleep 60"),
        "npx": { "command": "npx", "args": ["-y", "@scope/files", "/home"] },
        "off": { "command": "x", "disabled": true },
        "off-unset": { "command": "x", "env": { "A": "${NOT_SET_HERE}" }, "disabled": true },
        "plain-http": { "url": format!("https://{missing}/mcp") },
        "refused": { "url": format!("http://{refused}/mcp") },
        "typo": { "command": "evergat" },
        "ftp": { "url": "ftp://h.example/" },
        "unset": { "command": "x", "env": { "A": "${NOT_SET_HERE}" } },
    }, "gateway": { "listen": "127.0.0.1:0" } });
    world.write("project/evergate.json", servers.to_string());
    // A neighbour of what was mistyped.
    world.write("bin/evergate", "");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.path("bin/evergate"), executable).unwrap();
    }
    let mut command = world.command(&["doctor", "--timeout", "2"]);
    let output = command.env("DOCTOR_KEY", "hunter2").output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    let said = stdout(&output) + &stderr(&output);
    assert!(!said.contains("hunter2") && !said.contains('\u{1b}'), "{said}");
    insta::with_settings!({ filters => [
        (r"in \d+ ms", "in N ms"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    ] }, {
        insta::assert_snapshot!(world.shown(&said));
    });
}

#[test]
fn all_is_well_is_zero_and_json_says_the_same() {
    let world = World::new();
    let servers =
        json!({ "mcpServers": { "demo": demo(), "off": { "command": "x", "disabled": true } } });
    world.write("project/evergate.json", servers.to_string());
    let output = world.run(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["servers"][0]["name"], "demo");
    assert!(report["servers"][0]["tools"].as_u64().unwrap() > 0);
    assert_eq!(report["servers"][1]["state"], "off");
    // By name, one that is off is tried.
    let output = world.run(&["doctor", "off"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(stdout(&output).contains("not on the PATH"), "{}", stdout(&output));
    let output = world.run(&["doctor", "dem"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("no server is called \"dem\""), "{}", stderr(&output));
}

#[test]
fn a_gateway_that_could_not_start_is_said_too() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let config = |gateway: Value| {
        json!({ "mcpServers": { "demo": demo() }, "gateway": gateway }).to_string()
    };
    world.write("project/evergate.json", config(json!({ "listen": listen })));
    let output = world.run(&["doctor"]);
    // Somebody listens there, perhaps the gateway itself: no failure.
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("something listens on"), "{}", stdout(&output));
    world.write("project/evergate.json", config(json!({ "listen": "0.0.0.0:0", "separator": "" })));
    let output = world.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(69), "{}", stdout(&output));
    let said = stdout(&output);
    assert!(
        said.contains("error: gateway.separator") && said.contains("error: gateway.listen"),
        "{said}"
    );
    assert!(said.contains("ok    demo"), "{said}");
}
