//! News of resources comes to those who asked for it, and to nobody else.

use evergate_testkit::HttpServer;
use serde_json::json;

use crate::kit::{at, at_with, delete, next_of, none_before_mark, servers, soon, web};
use crate::support::{Gateway, Session, gateway, until};

const UPDATED: &str = "notifications/resources/updated";

async fn subscribe(client: &Session, uri: &str) {
    let answer = client.request("resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

async fn unsubscribe(client: &Session, uri: &str) {
    let answer = client.request("resources/unsubscribe", json!({ "uri": uri })).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

async fn start(http: &HttpServer) -> Gateway {
    let gateway = gateway(&servers(json!({ "web": at(http) }))).start();
    soon("it listens", http.server().wait_for(|now| now.listening == 1)).await;
    gateway
}

#[tokio::test]
async fn only_subscribers_hear_of_a_resource() {
    let http = web().await;
    let gateway = start(&http).await;
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    let (mut to_one, mut to_two) = (one.listen().await, two.listen().await);
    subscribe(&one, "test://a").await;
    http.server().update_resource("test://a");
    assert_eq!(next_of(&mut to_one, UPDATED).await["params"]["uri"], "test://a");
    none_before_mark(&mut to_two, http.server(), UPDATED).await;
    // Both, then the first leaves: the second still hears of it.
    subscribe(&two, "test://a").await;
    unsubscribe(&one, "test://a").await;
    assert_eq!(http.server().counters().subscriptions, ["test://a"]);
    http.server().update_resource("test://a");
    next_of(&mut to_two, UPDATED).await;
    none_before_mark(&mut to_one, http.server(), UPDATED).await;
}

#[tokio::test]
async fn news_that_comes_with_a_call_reaches_the_subscribers_and_not_the_caller() {
    let http = web().await;
    for more in [json!({}), json!({ "isolation": "per_client" })] {
        let shared = more.get("isolation").is_none();
        let gateway = gateway(&servers(json!({ "web": at_with(&http, more) }))).start();
        let (caller, subscriber) = (gateway.connect().await, gateway.connect().await);
        let mut to_subscriber = subscriber.listen().await;
        subscribe(&subscriber, "test://a").await;
        let news = json!({ "method": UPDATED, "params": { "uri": "test://a" } });
        let call = json!({ "name": "web__log", "arguments": news });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
        let post = async |client: &Session| {
            client.http.post(&client.headers(), call.to_string()).await.json()
        };
        assert_eq!(crate::kit::text(&post(&caller).await), "logged", "nothing but the answer");
        if shared {
            next_of(&mut to_subscriber, UPDATED).await;
        }
        post(&subscriber).await;
        next_of(&mut to_subscriber, UPDATED).await;
    }
}

#[tokio::test]
async fn the_last_subscriber_that_leaves_ends_the_subscription() {
    let http = web().await;
    let gateway = start(&http).await;
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    subscribe(&one, "test://a").await;
    subscribe(&two, "test://a").await;
    delete(&one).await;
    until("only one client is left", async || gateway.health().await["sessions"] == 1).await;
    assert_eq!(http.server().counters().subscriptions, ["test://a"]);
    delete(&two).await;
    soon("it ends", http.server().wait_for(|now| now.subscriptions.is_empty())).await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_subscribed_again_and_the_client_is_told_to_look() {
    let http = web().await;
    let gateway = start(&http).await;
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    subscribe(&client, "test://a").await;
    http.kill().await;
    http.revive().await;
    soon("subscribed again", http.server().wait_for(|now| now.subscriptions == ["test://a"])).await;
    assert_eq!(next_of(&mut events, UPDATED).await["params"]["uri"], "test://a");
}

#[tokio::test]
async fn a_refused_subscription_is_none() {
    let http = web().await;
    let gateway = start(&http).await;
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    let fault = evergate_testkit::Fault::Status(500, "no".into());
    http.server().inject(fault).on("resources/subscribe").forever();
    let answer = client.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    assert!(answer.get("error").is_some(), "{answer}");
    http.server().clear_faults();
    http.server().notify(UPDATED, json!({ "uri": "test://a" }));
    none_before_mark(&mut events, http.server(), UPDATED).await;
}

#[tokio::test]
async fn with_a_connection_of_its_own_a_client_unsubscribes_for_itself() {
    let http = web().await;
    let entry = at_with(&http, json!({ "isolation": "per_client" }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    for client in [&one, &two] {
        client.tool_names().await;
    }
    soon("both listen", http.server().wait_for(|now| now.listening == 2)).await;
    let mut to_one = one.listen().await;
    subscribe(&one, "test://a").await;
    subscribe(&two, "test://a").await;
    assert_eq!(http.server().counters().subscriptions.len(), 2);
    unsubscribe(&one, "test://a").await;
    assert_eq!(http.server().counters().subscriptions.len(), 1);
    http.server().notify(UPDATED, json!({ "uri": "test://a" }));
    none_before_mark(&mut to_one, http.server(), UPDATED).await;
}

#[tokio::test]
async fn a_changed_entry_keeps_subscriptions_and_log_level() {
    let http = web().await;
    let gateway = start(&http).await;
    let client = gateway.connect().await;
    subscribe(&client, "test://a").await;
    client.request("logging/setLevel", json!({ "level": "debug" })).await;
    http.server().wait_for(|now| now.requests.contains_key("logging/setLevel")).await;
    let handshakes = http.server().counters().handshakes;
    let levels = http.server().received("logging/setLevel").len();
    gateway.write_config(&servers(json!({ "web": at_with(&http, json!({ "timeout": "20s" })) })));
    soon("a new connection", http.server().wait_for(|now| now.handshakes > handshakes)).await;
    soon("the level", async {
        until("told again", async || http.server().received("logging/setLevel").len() > levels)
            .await;
    })
    .await;
    until("subscribed again", async || http.server().received("resources/subscribe").len() >= 2)
        .await;
}
