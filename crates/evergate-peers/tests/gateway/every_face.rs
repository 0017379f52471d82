//! The other ways into the gateway: one server, the 2024 transport, standard input and output, `wrap`.

use serde_json::json;
use tempfile::TempDir;

use crate::support::*;

/// Calls, kills the server, calls again.
async fn calls_across_a_kill(client: &Client, echo: &str, server: &mut Upstream) {
    let call = async || client.call_text(echo, json!({ "message": "hi" })).await;
    assert_eq!(call().await, "Echo: hi");
    server.kill_and_restart().await;
    assert_eq!(call().await, "Echo: hi");
}

/// A server's own address has its own names.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn one_server() {
    let (mut http, other) = (Upstream::everything_http(), Upstream::rmcp_http());
    let gateway = Gateway::start(&[("http", &http), ("other", &other)]).await;
    for kind in ClientKind::ALL {
        let client = Client::connect(kind, &gateway.only("http")).await;
        let tools = client.tools().await;
        assert!(tools.iter().any(|tool| tool == "get-sum"), "{tools:?}");
        assert!(tools.iter().all(|tool| tool != "add"), "of the other server: {tools:?}");
        calls_across_a_kill(&client, "echo", &mut http).await;
        client.close().await;
    }
    gateway.stop().await;
}

/// The transport of 2024-11-05. The Rust SDK has no client for it.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn legacy_sse() {
    let mut http = Upstream::everything_http();
    let gateway = Gateway::start(&[("http", &http)]).await;
    for kind in ClientKind::ALL.into_iter().filter(|kind| *kind != ClientKind::Rmcp) {
        let client = Client::connect(kind, &gateway.legacy_sse()).await;
        calls_across_a_kill(&client, "http__echo", &mut http).await;
        let answer =
            client.call_text("http__trigger-sampling-request", json!({ "prompt": "x" })).await;
        assert!(answer.contains("sampled"), "{answer}");
        client.close().await;
    }
    gateway.stop().await;
}

/// The gateway as a command that the client starts.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn stdio() {
    let mut servers =
        [("http", Upstream::everything_http()), ("stdio", Upstream::everything_stdio())];
    let directory = tempfile::tempdir().unwrap();
    let shown = servers.each_ref().map(|(name, server)| (*name, server));
    let config = Gateway::write_config(&directory, &shown);
    for kind in ClientKind::ALL {
        let arguments = ["stdio".into(), "--config".into(), config.clone().into_os_string()];
        let client = Client::connect(kind, &Gateway::as_command(arguments)).await;
        for (name, server) in &mut servers {
            calls_across_a_kill(&client, &format!("{name}__echo"), server).await;
        }
        let answer =
            client.call_text("stdio__trigger-sampling-request", json!({ "prompt": "x" })).await;
        assert!(answer.contains("sampled"), "{answer}");
        client.close().await;
        let [_, (_, child)] = &servers;
        until("no orphan", async || child.children().is_empty()).await;
    }
}

/// Before the command of an existing client configuration.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn wrap_a_command() {
    let mut server = Upstream::everything_stdio();
    for kind in ClientKind::ALL {
        let arguments = ["wrap".into(), "--".into()].into_iter().chain(server.command_line());
        let client = Client::connect(kind, &Gateway::as_command(arguments)).await;
        calls_across_a_kill(&client, "echo", &mut server).await;
        client.close().await;
        until("no orphan", async || server.children().is_empty()).await;
    }
}

/// Instead of a bridge before the address in an existing client configuration.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn wrap_an_address() {
    for mut server in [Upstream::everything_http(), Upstream::everything_sse()] {
        let url = server.entry()["url"].as_str().unwrap().to_owned();
        for kind in ClientKind::ALL {
            let client =
                Client::connect(kind, &Gateway::as_command(["wrap".into(), url.clone().into()]))
                    .await;
            calls_across_a_kill(&client, "echo", &mut server).await;
            client.close().await;
        }
    }
}

/// A client that goes away without a goodbye takes the gateway and its children with it.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn no_orphan_when_the_client_is_killed() {
    let server = Upstream::everything_stdio();
    let directory: TempDir = tempfile::tempdir().unwrap();
    let config = Gateway::write_config(&directory, &[("stdio", &server)]);
    let arguments = ["stdio".into(), "--config".into(), config.into_os_string()];
    let client = Client::connect(ClientKind::Rmcp, &Gateway::as_command(arguments)).await;
    assert_eq!(client.call_text("stdio__echo", json!({ "message": "hi" })).await, "Echo: hi");
    assert!(!server.children().is_empty());
    drop(client);
    until("no orphan", async || server.children().is_empty()).await;
}
