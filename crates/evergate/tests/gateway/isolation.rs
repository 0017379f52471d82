//! `isolation = "per_client"`: each client has a server of its own, for as long as it uses it.

use serde_json::{Value, json};

use crate::kit::{
    at_with, begin, child_with, connect_to, delete, pid_of, servers, soon, status, text,
    until_listed, web,
};
use crate::support::{NEWEST, exists, gateway, until};

fn own(more: Value) -> Value {
    crate::kit::merged(child_with(&[], json!({ "isolation": "per_client" })), more)
}

#[tokio::test]
async fn two_clients_have_two_processes_that_share_nothing() {
    let gateway = gateway(&servers(json!({ "c": own(json!({})) }))).start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    let pids = [pid_of(&one, "c__pid").await, pid_of(&two, "c__pid").await];
    assert_ne!(pids[0], pids[1]);
    assert_eq!(one.call_text("c__bump", json!({})).await, "1");
    assert_eq!(one.call_text("c__bump", json!({})).await, "2");
    assert_eq!(two.call_text("c__bump", json!({})).await, "1");
    assert_eq!(status(&gateway, "c").await["connections"], 2);
    delete(&one).await;
    until("its process ends", async || !exists(pids[0])).await;
    assert!(exists(pids[1]));
    assert_eq!(pid_of(&two, "c__pid").await, pids[1]);
}

#[tokio::test]
async fn the_server_sees_the_client_behind_the_gateway() {
    let http = web().await;
    let entry = at_with(&http, json!({ "isolation": "per_client" }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let capabilities =
        json!({ "elicitation": { "form": {} }, "experimental": { "x": { "y": 1 } } });
    let client = gateway.http().initialize_as(NEWEST, capabilities.clone()).await;
    client.tool_names().await;
    let seen: Value = serde_json::from_str(&http.server().received("initialize")[0]).unwrap();
    assert_eq!(seen["capabilities"], capabilities);
    assert_eq!(seen["clientInfo"]["name"], "test");
    assert_eq!(seen["clientInfo"]["version"], "1");
}

#[tokio::test]
async fn a_client_that_leaves_leaves_no_session_in_the_server() {
    let http = web().await;
    let entry = at_with(&http, json!({ "isolation": "per_client" }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let clients = [gateway.connect().await, connect_to(&gateway, "web").await];
    for client in &clients {
        client.tool_names().await;
    }
    assert_eq!(http.server().counters().sessions_open, 2);
    for client in &clients {
        delete(client).await;
    }
    soon("both are told", http.server().wait_for(|now| now.sessions_deleted == 2)).await;
    assert_eq!(http.server().counters().sessions_open, 0);
}

#[tokio::test]
async fn an_idle_server_is_closed_and_the_next_call_starts_it_again() {
    let config = json!({
        "gateway": { "per_client_idle": "500ms" },
        "mcpServers": { "c": own(json!({})) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    let names = client.tool_names().await;
    let pid = pid_of(&client, "c__pid").await;
    // What there was to say when it started is said.
    client.call("c__log", json!({})).await;
    crate::kit::next_of(&mut events, "notifications/message").await;
    until("it is closed", async || status(&gateway, "c").await["connections"] == 0).await;
    until("the process is gone", async || !exists(pid)).await;
    assert_eq!(client.tool_names().await, names, "the list stays");
    client.request("logging/setLevel", json!({ "level": "debug" })).await;
    let next = pid_of(&client, "c__pid").await;
    assert_ne!(next, pid);
    assert_eq!(client.tool_names().await, names);
    // Nothing changed, so nothing was announced: the first message is the one the tool makes the server send.
    client.call("c__log", json!({})).await;
    assert_eq!(events.message().await.unwrap()["method"], "notifications/message");
}

#[tokio::test]
async fn a_server_with_a_call_in_flight_is_not_idle() {
    let config = json!({
        "gateway": { "per_client_idle": "200ms" },
        "mcpServers": { "c": own(json!({})) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let slow = begin(&client, "c__slow", json!({ "ms": 1200 }));
    assert_eq!(text(&slow.await.unwrap()), "slow but done");
}

#[tokio::test]
async fn a_server_with_a_subscription_is_not_idle() {
    let http = web().await;
    let config = json!({
        "gateway": { "per_client_idle": "200ms" },
        "mcpServers": { "web": at_with(&http, json!({ "isolation": "per_client" })) },
    });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    client.request("resources/subscribe", json!({ "uri": "test://a" })).await;
    // Several times as long as it takes an unused one to be closed.
    tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
    http.server().update_resource("test://a");
    crate::kit::next_of(&mut events, "notifications/resources/updated").await;
    client.request("resources/unsubscribe", json!({ "uri": "test://a" })).await;
    soon("now it is closed", http.server().wait_for(|now| now.sessions_deleted == 1)).await;
}

#[tokio::test]
async fn a_changed_entry_gives_every_client_a_new_server_while_calls_finish_on_the_old_one() {
    let gateway = gateway(&servers(json!({ "c": own(json!({})) }))).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "c__pid").await;
    let slow = begin(&client, "c__slow", json!({ "ms": 1500 }));
    until("in flight", async || client.call("c__echo", json!({ "text": "x" })).await.is_object())
        .await;
    gateway.write_config(&servers(json!({ "c": own(json!({ "env": { "X": "1" } })) })));
    until("a new process", async || pid_of(&client, "c__pid").await != pid).await;
    assert_eq!(text(&slow.await.unwrap()), "slow but done");
    until("the old one is gone", async || !exists(pid)).await;
}

#[tokio::test]
async fn a_server_that_a_reload_adds_is_there_for_clients_who_were_there_before() {
    let gateway = gateway(&servers(json!({}))).start();
    let client = gateway.connect().await;
    let mut events = client.listen().await;
    assert!(client.tool_names().await.is_empty());
    gateway.write_config(&servers(json!({ "c": own(json!({})) })));
    crate::kit::next_of(&mut events, "notifications/tools/list_changed").await;
    until_listed(&client, "c__pid").await;
    pid_of(&client, "c__pid").await;
}

#[tokio::test]
async fn isolation_is_switched_by_a_reload_without_a_blink() {
    let http = web().await;
    let shared = servers(json!({ "web": at_with(&http, json!({})) }));
    let private = servers(json!({ "web": at_with(&http, json!({ "isolation": "per_client" })) }));
    let gateway = gateway(&shared).start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    let names = one.tool_names().await;
    assert_eq!(names.len(), 15);
    assert_eq!(http.server().counters().sessions_open, 1);
    gateway.write_config(&private);
    until("each has its own", async || {
        assert_eq!(one.tool_names().await, names);
        status(&gateway, "web").await["connections"] == 2
    })
    .await;
    one.call_text("web__bump", json!({})).await;
    two.call_text("web__bump", json!({})).await;
    until("the shared session is given back", async || http.server().counters().sessions_open == 2)
        .await;
    gateway.write_config(&shared);
    until("they share again", async || {
        assert_eq!(one.tool_names().await, names);
        status(&gateway, "web").await["status"] == "running"
    })
    .await;
    until("their own sessions are given back", async || {
        http.server().counters().sessions_open == 1
    })
    .await;
    assert_eq!(two.call_text("web__bump", json!({})).await, "3");
}

#[tokio::test]
async fn a_disabled_server_is_closed_for_everybody_and_comes_back() {
    let gateway = gateway(&servers(json!({ "c": own(json!({})) }))).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "c__pid").await;
    gateway.write_config(&servers(json!({ "c": own(json!({ "disabled": true })) })));
    until("its process ends", async || !exists(pid)).await;
    assert!(client.tool_names().await.is_empty());
    gateway.write_config(&servers(json!({ "c": own(json!({})) })));
    until_listed(&client, "c__pid").await;
    pid_of(&client, "c__pid").await;
}
