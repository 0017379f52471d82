//! `status`, `why` and `logs`.

use evergate_testkit::{HttpServer, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shell::{child, on, quick, reaches, server, serving, signal, start_on};
use crate::support::until;

#[tokio::test]
async fn a_healthy_gateway_is_a_table_and_exit_code_0() {
    let gateway =
        serving(json!({ "docs": child(&[]), "files": child(&[]) }), &["docs", "files"]).await;
    let said = on(&gateway, &["status"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    assert!(said.out.contains("healthy: all 2 servers are well"), "{}", said.out);
    for name in ["docs", "files"] {
        assert!(said.out.contains(&format!("● {name}")), "{}", said.out);
    }
    assert!(!said.out.contains('\x1b'), "no colours in a pipe: {:?}", said.out);
}

#[tokio::test]
async fn status_as_json_is_what_the_gateway_says() {
    let gateway = serving(
        json!({ "docs": child(&[]), "off": { "command": "x", "disabled": true } }),
        &["docs"],
    )
    .await;
    let said = on(&gateway, &["status", "--json"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "{}", said.out);
    let status: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(status["gateway"]["pid"], gateway.pid());
    assert_eq!(status["gateway"]["status"], "healthy");
    let names: Vec<&str> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["docs", "off"]);
    let one: Value = serde_json::from_str(&on(&gateway, &["status", "--json", "off"]).out).unwrap();
    assert_eq!(one["servers"][0]["state"], "disabled");
}

#[tokio::test]
async fn a_server_that_dies_is_seen_and_explained_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    let args = ["--crash-while", broken.to_str().unwrap(), "--stderr", "\x1b[31mhere I am\x1b[0m"];
    let gateway =
        serving(json!({ "docs": child(&[]), "files": child(&args) }), &["docs", "files"]).await;
    std::fs::write(&broken, "").unwrap();
    let pid = server(&gateway, "files")["pid"].as_u64().unwrap();
    signal(u32::try_from(pid).unwrap(), Signal::KILL);
    reaches(&gateway, "files", "reconnecting").await;

    let said = on(&gateway, &["status"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{}", said.out);
    assert!(said.out.contains("degraded: 1 of 2 servers in trouble"), "{}", said.out);
    let place =
        |text: &str| said.out.find(text).unwrap_or_else(|| panic!("no {text}: {}", said.out));
    assert!(place("◐ files") < place("● docs"), "trouble comes first: {}", said.out);
    assert_eq!(on(&gateway, &["status", "docs"]).code, 0, "of that one all is well");
    assert_eq!(on(&gateway, &["status", "files"]).code, 1);

    let why = on(&gateway, &["why", "files"]);
    assert_eq!(why.code, 0, "{}", why.err);
    assert!(why.out.starts_with("files  ◐ reconnecting\nLost "), "{}", why.out);
    for part in ["Last error", "  | here I am", "What you can do", "`evergate restart files`"] {
        assert!(why.out.contains(part), "no {part}: {}", why.out);
    }

    std::fs::remove_file(&broken).unwrap();
    reaches(&gateway, "files", "connected").await;
    assert_eq!(on(&gateway, &["status"]).code, 0);
    assert!(on(&gateway, &["why", "files"]).out.contains("earlier connection"));
}

#[tokio::test]
async fn an_unknown_server_gets_the_nearest_name_or_all_of_them() {
    let gateway = serving(json!({ "docs": child(&[]), "files": child(&[]) }), &[]).await;
    for command in ["status", "why", "restart", "enable", "disable", "refresh", "events", "logs"] {
        let near = on(&gateway, &[command, "dosc"]);
        assert_eq!(near.code, 64, "{command}: {}", near.err);
        assert!(near.err.contains("did you mean \"docs\"?"), "{command}: {}", near.err);
        let far = on(&gateway, &[command, "nothing/like it"]);
        assert_eq!(far.code, 64, "{command}: {}", far.err);
        assert!(far.err.contains("there are: docs, files"), "{command}: {}", far.err);
    }
}

#[tokio::test]
async fn logs_show_what_a_process_writes_and_follow_it() {
    let gateway =
        serving(json!({ "docs": child(&["--stderr", "hello from docs"]) }), &["docs"]).await;
    until("it has written", async || on(&gateway, &["logs", "docs"]).out.contains("hello")).await;
    let once = on(&gateway, &["logs", "docs"]);
    assert_eq!((once.code, once.out.as_str()), (0, "hello from docs\n"));
    let following = start_on(&gateway, &["logs", "docs", "--follow", "--lines", "0"]);
    // Whoever began now needs a moment to be there.
    until("what it writes then is shown", async || {
        assert_eq!(on(&gateway, &["restart", "docs"]).code, 0);
        following.lines().iter().any(|line| line == "hello from docs")
    })
    .await;
    assert!(on(&gateway, &["logs", "docs"]).out.lines().count() >= 2);
    assert_eq!(on(&gateway, &["logs", "docs", "-n", "1"]).out.lines().count(), 1);
}

#[tokio::test]
async fn logs_of_a_server_elsewhere_are_elsewhere() {
    let http = HttpServer::start(Server::new()).await;
    let entry = json!({ "url": http.url(), "lifecycle": quick() });
    let gateway = serving(json!({ "web": entry }), &["web"]).await;
    let said = on(&gateway, &["logs", "web"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(said.err.contains("not a process of the gateway"), "{}", said.err);
}

#[tokio::test]
async fn watching_without_a_terminal_is_a_line_for_each_change() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let mut watching = start_on(&gateway, &["status", "--watch"]);
    watching.says("docs: connected").await;
    assert_eq!(on(&gateway, &["disable", "docs"]).code, 0);
    watching.says("→ disabled").await;
    assert_eq!(on(&gateway, &["enable", "docs"]).code, 0);
    watching.says("→ connected").await;
    watching.interrupt();
    assert_eq!(watching.ended().await, 0);
    let json = start_on(&gateway, &["status", "--watch", "--json"]);
    json.says("\"status\":\"healthy\"").await;
    assert!(serde_json::from_str::<Value>(&json.lines()[0]).is_ok());
}

#[tokio::test]
async fn a_gateway_that_drains_says_so() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let client = gateway.connect().await;
    // Longer than anybody looks on.
    let slow = client.call("docs__slow", json!({ "ms": 25_000 }));
    let looking = async {
        until("the call is there", async || server(&gateway, "docs")["in_flight"] == 1).await;
        gateway.signal(Signal::TERM);
        until("it drains", async || on(&gateway, &["status"]).out.contains("draining: ")).await;
    };
    tokio::select! {
        answer = slow => panic!("it was over too soon: {answer}"),
        () = looking => {}
    }
}

#[tokio::test]
async fn connections_of_clients_that_fail_are_seen_while_they_are_there_and_after() {
    let gateway = serving(json!({ "own": own("no-such-command-anywhere") }), &[]).await;
    let session = gateway.connect().await;
    session.tool_names().await;
    until("it failed", async || server(&gateway, "own")["degraded"] == true).await;
    let report = server(&gateway, "own");
    assert_eq!(report["state"], "per_client");
    assert_eq!(report["reason"], "command_not_found");
    assert_eq!(report["connections"], 1);

    let status = on(&gateway, &["status"]);
    assert_eq!(status.code, 1, "{}", status.out);
    assert!(status.out.contains("◐ own"), "{}", status.out);
    assert!(status.out.contains("connection of the only client is in trouble"), "{}", status.out);
    assert_eq!(on(&gateway, &["status", "own"]).code, 1);
    let why = on(&gateway, &["why", "own"]).out;
    assert!(!why.contains("it works") && !why.contains("enable"), "{why}");
    assert!(why.contains("Last error") && why.contains("`evergate restart own`"), "{why}");
    let restarted = on(&gateway, &["restart", "own"]);
    assert_eq!(restarted.code, 1, "{}", restarted.out);
    assert!(restarted.err.contains("is in trouble"), "{}", restarted.err);

    session.http.delete(&session.headers()).await;
    until("it is gone", async || server(&gateway, "own")["connections"] == 0).await;
    let report = server(&gateway, "own");
    assert_eq!(report["degraded"], true, "{report}");
    let why = on(&gateway, &["why", "own"]).out;
    assert!(why.contains("none has one now. The last one that failed did so"), "{why}");

    // Another configuration is another story.
    gateway.write_config(&json!({ "mcpServers": { "own": own("no-such-either") } }));
    until("it is forgotten", async || server(&gateway, "own")["degraded"] == false).await;
}

#[tokio::test]
async fn a_connection_of_a_client_that_was_put_right_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("server");
    let entry = own(command.to_str().unwrap());
    let gateway = serving(json!({ "own": entry }), &[]).await;
    let session = gateway.connect().await;
    session.tool_names().await;
    until("it failed", async || server(&gateway, "own")["degraded"] == true).await;
    std::os::unix::fs::symlink(evergate_testkit::stdio_server_path().unwrap(), &command).unwrap();
    let restarted = on(&gateway, &["restart", "own"]);
    assert_eq!(restarted.code, 0, "{}", restarted.err);
    assert!(restarted.out.contains("1 connection of clients restarted"), "{}", restarted.out);
    until("its tools are there", async || !session.tool_names().await.is_empty()).await;
    assert_eq!(on(&gateway, &["status", "own"]).code, 0);
    for action in ["enable", "disable"] {
        let refused = on(&gateway, &[action, "own"]);
        assert_eq!(refused.code, 1, "{}", refused.out);
        assert!(refused.err.contains("of its own"), "{}", refused.err);
    }
}

#[tokio::test]
async fn logs_of_clients_processes_are_those_of_the_one_that_failed_last() {
    let mut entry = child(&["--stderr", "my last words", "--crash-while", "/"]);
    entry["isolation"] = json!("per_client");
    let gateway = serving(json!({ "own": entry }), &[]).await;
    let none = on(&gateway, &["logs", "own"]);
    assert!(none.err.contains("each client has a process of own of its own"), "{}", none.err);
    let session = gateway.connect().await;
    session.tool_names().await;
    until("it has spoken", async || on(&gateway, &["logs", "own"]).out.contains("my last")).await;
    let logs = on(&gateway, &["logs", "own"]);
    assert!(logs.err.contains("of the one that failed last"), "{}", logs.err);
    let followed = on(&gateway, &["logs", "own", "--follow"]);
    assert_eq!(followed.code, 64, "{}", followed.err);
    assert!(followed.err.contains("there is no one log to follow"), "{}", followed.err);
}

#[tokio::test]
async fn a_process_that_ends_before_it_is_ready_is_told_as_that() {
    let args = ["--crash-on-start", "--exit-code", "3", "--stderr", "no such database"];
    let gateway = serving(json!({ "docs": child(&args) }), &[]).await;
    reaches(&gateway, "docs", "reconnecting").await;
    assert_eq!(server(&gateway, "docs")["reason"], "process_exited");
    let why = on(&gateway, &["why", "docs"]).out;
    assert!(why.contains("Not connected yet: its process failed"), "{why}");
    assert!(!why.contains("Lost") && !why.contains("can be reached"), "{why}");
    for part in ["  | no such database", "look at its last words on standard error"] {
        assert!(why.contains(part), "no {part}: {why}");
    }
}

#[tokio::test]
async fn an_address_without_an_mcp_server_is_told_as_the_doctor_tells_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/app", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\
                          connection: close\r\n\r\nhi";
            let mut request = vec![0; 65536];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    let gateway = serving(json!({ "docs": { "url": url } }), &[]).await;
    reaches(&gateway, "docs", "reconnecting").await;
    let why = on(&gateway, &["why", "docs"]).out;
    let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = format!("there is no MCP server at this path of url: try {url}/mcp or {url}/sse");
    assert!(why.contains(&hint), "{why}");
}

#[tokio::test]
async fn a_configuration_that_was_not_taken_is_told_until_a_good_one_is() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let bad = json!({ "mcpServers": { "docs": child(&[]) }, "gateway": { "hold": "hunter2" } });
    gateway.write_config(&bad);
    let told = "! the new configuration was not taken at 2";
    until("it is told", async || on(&gateway, &["status"]).out.contains(told)).await;
    let status = on(&gateway, &["status"]).out;
    assert!(status.contains("gateway.hold"), "the first problem: {status}");
    let events = start_on(&gateway, &["events", "--after", "0"]);
    events.says("new configuration not taken: error: gateway.hold").await;
    gateway.write_config(&json!({ "mcpServers": { "docs": child(&[]) } }));
    until("it is over", async || !on(&gateway, &["status"]).out.contains("not taken")).await;
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_to_be_set_or_given_a_default() {
    let entry = json!({ "command": "x", "env": { "A": "${SURELY_NOBODY_SETS_THIS}" } });
    let gateway = serving(json!({ "unset": entry }), &[]).await;
    let why = on(&gateway, &["why", "unset"]).out;
    let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = "set SURELY_NOBODY_SETS_THIS in the gateway's environment and restart it, or give it a default \
                (`${SURELY_NOBODY_SETS_THIS:-…}`)";
    assert!(why.contains(hint), "{why}");
}

#[tokio::test]
async fn states_have_the_same_words_in_refusals_as_in_status() {
    let gateway = serving(json!({ "gone": { "command": "no-such-command" } }), &[]).await;
    reaches(&gateway, "gone", "permanently_failed").await;
    let refused = on(&gateway, &["refresh", "gone"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("gone is not connected (failed)"), "{}", refused.err);
    assert!(on(&gateway, &["status"]).out.contains("✖ gone    failed"));
    assert!(on(&gateway, &["why", "gone"]).out.contains("Lately"));
}

#[tokio::test]
async fn what_a_launcher_starts_is_shown() {
    let off = json!({ "command": "npx", "args": ["-y", "@a/server", "--token", "hunter2"], "disabled": true });
    let gateway = serving(json!({ "off": off }), &[]).await;
    assert_eq!(server(&gateway, "off")["target"], "stdio: npx @a/server");
    let why = on(&gateway, &["why", "off"]).out;
    assert!(why.contains("stdio: npx @a/server") && !why.contains("hunter2"), "{why}");
}

/// A server of which each client has its own.
fn own(command: &str) -> Value {
    json!({ "command": command, "isolation": "per_client" })
}
