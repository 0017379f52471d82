//! Servers that ask something back in the middle of a call: whoever called is asked, and nobody else.

use serde_json::json;

use crate::support::*;

async fn is_asked(kind: ClientKind) {
    let (http, stdio) = (Upstream::everything_http(), Upstream::everything_stdio());
    let gateway = Gateway::start(&[("http", &http), ("stdio", &stdio)]).await;
    let client = Client::connect(kind, &gateway.all()).await;
    for server in ["http", "stdio"] {
        client.events().await;
        let sampling = format!("{server}__trigger-sampling-request");
        let answer = client.call_text(&sampling, json!({ "prompt": "anything" })).await;
        assert!(answer.contains("sampled"), "{server}: {answer}");
        let elicitation = format!("{server}__trigger-elicitation-request");
        let answer = client.call(&elicitation, json!({})).await.unwrap();
        assert!(answer.to_string().contains("Ada"), "{server}: {answer}");
        let events = client.events().await;
        assert_eq!(
            (&events["sampling"], &events["elicitation"]),
            (&json!(1), &json!(1)),
            "{server}"
        );
    }
    client.close().await;
    gateway.stop().await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v1() {
    is_asked(ClientKind::TsV1).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn typescript_v2() {
    is_asked(ClientKind::TsV2).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn python_mcp() {
    is_asked(ClientKind::PythonMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn fastmcp() {
    is_asked(ClientKind::FastMcp).await;
}

#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn rmcp() {
    is_asked(ClientKind::Rmcp).await;
}

/// Two clients share one connection to the server and call at the same time.
#[tokio::test]
#[ignore = "needs npm peers; ./scripts/test runs it"]
async fn two_clients_are_asked_each_for_its_own_call() {
    const CALLS: usize = 5;
    let http = Upstream::everything_http();
    let gateway = Gateway::start(&[("http", &http)]).await;
    let target = gateway.all();
    let (one, other) = tokio::join!(
        Client::connect(ClientKind::TsV1, &target),
        Client::connect(ClientKind::PythonMcp, &target),
    );
    let ask = async |client: &Client| {
        for _ in 0..CALLS {
            let arguments = json!({ "prompt": "anything" });
            client.call_text("http__trigger-sampling-request", arguments).await;
        }
        client.events().await["sampling"].clone()
    };
    let (asked, other_asked) = tokio::join!(ask(&one), ask(&other));
    assert_eq!((asked, other_asked), (json!(CALLS), json!(CALLS)));
    one.close().await;
    other.close().await;
    gateway.stop().await;
}
