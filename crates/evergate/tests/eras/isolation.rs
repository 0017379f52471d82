//! `isolation = "per_client"` for clients without sessions: a server for each key and endpoint.

use evergate_testkit::{Eras, ListKind};
use serde_json::{Value, json};

use crate::caller::everything_listed;
use crate::kit::{child_with, next_of, servers, soon, status};
use crate::parked_call::ParkedCall;
use crate::stateless_client::Stateless;
use crate::support::{Gateway, Http, gateway, until};
use crate::upstream::{EVERYWHERE, Over, Upstream};

const UPDATED: &str = "notifications/resources/updated";

fn with_keys(entries: Value) -> Value {
    let key = |name: &str| json!({ "name": name, "key": key_of(name) });
    let mut config = servers(entries);
    config["gateway"] = json!({ "auth": { "keys": [key("alice"), key("bob")] } });
    config
}

fn key_of(name: &str) -> String {
    format!("key-of-{name}-0123456789")
}

fn client(gateway: &Gateway, path: &str, name: &str) -> Stateless {
    Stateless::new(Http::new(&gateway.at(path))).with_key(&key_of(name))
}

fn own(up: &Upstream) -> Value {
    up.entry_with(json!({ "isolation": "per_client" }))
}

#[tokio::test]
async fn each_key_and_endpoint_has_a_process_of_its_own() {
    let entry = child_with(&[], json!({ "isolation": "per_client" }));
    let gateway = gateway(&with_keys(json!({ "up": entry }))).start();
    let mut pids = Vec::new();
    for (path, tool) in [("/mcp", "up__pid"), ("/mcp/up", "pid")] {
        for name in ["alice", "bob"] {
            let client = client(&gateway, path, name);
            let pid = client.call_text(tool, json!({})).await;
            assert_eq!(client.call_text(tool, json!({})).await, pid, "the same each time");
            assert!(!pids.contains(&pid), "{path} {name}");
            pids.push(pid);
        }
    }
    // What they keep, they keep for themselves.
    let alice = client(&gateway, "/mcp", "alice");
    let bob = client(&gateway, "/mcp", "bob");
    assert_eq!(alice.call_text("up__bump", json!({})).await, "1");
    assert_eq!(alice.call_text("up__bump", json!({})).await, "2");
    assert_eq!(bob.call_text("up__bump", json!({})).await, "1");
    // Somebody with a session has one more.
    let session = Http::new(&gateway.at("/mcp"))
        .header("authorization", &format!("Bearer {}", key_of("alice")))
        .initialize()
        .await;
    assert!(!pids.contains(&session.call_text("up__pid", json!({})).await));
}

#[tokio::test]
async fn two_callers_with_questions_in_pipes_of_their_own_are_told_apart() {
    for eras in [Eras::Legacy, Eras::Modern] {
        let up = Upstream::start(eras, Over::Stdio).await;
        let gateway = gateway(&with_keys(json!({ "up": own(&up) }))).start();
        let mut parked = Vec::new();
        for name in ["alice", "bob"] {
            parked.push(ParkedCall::of(&client(&gateway, "/mcp", name), name).await);
        }
        for call in parked.iter().rev() {
            call.finish().await.complete();
        }
        if eras == Eras::Legacy {
            assert_eq!((up.server.executions("alice"), up.server.executions("bob")), (1, 1));
        }
    }
}

#[tokio::test]
async fn news_of_ones_own_server_is_heard_and_that_of_others_is_not() {
    for (eras, over) in [Eras::Legacy, Eras::Modern]
        .into_iter()
        .flat_map(|eras| EVERYWHERE.map(|over| (eras, over)))
    {
        let up = Upstream::start(eras, over).await;
        let gateway = gateway(&with_keys(json!({ "up": own(&up) }))).start();
        let alice = client(&gateway, "/mcp", "alice");
        let bob = client(&gateway, "/mcp", "bob");
        let wanted = json!({ "resourceSubscriptions": ["test://a"] });
        let (mut to_alice, agreed) = alice.listen(wanted.clone()).await;
        assert_eq!(agreed, wanted, "{eras:?} {over:?}");
        soon("hers", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        let wanted = json!({ "resourceSubscriptions": ["test://b"] });
        let (mut to_bob, _) = bob.listen(wanted).await;
        soon("his", up.server.wait_for(|now| now.subscriptions.len() == 2)).await;
        up.server.update_resource("test://b");
        up.server.update_resource("test://a");
        assert_eq!(next_of(&mut to_alice, UPDATED).await["params"]["uri"], "test://a");
        assert_eq!(next_of(&mut to_bob, UPDATED).await["params"]["uri"], "test://b");
    }
}

#[tokio::test]
async fn a_listener_that_leaves_ends_its_subscription_in_its_own_server() {
    for (eras, over) in [Eras::Legacy, Eras::Modern]
        .into_iter()
        .flat_map(|eras| EVERYWHERE.map(|over| (eras, over)))
    {
        let up = Upstream::start(eras, over).await;
        let gateway = gateway(&with_keys(json!({ "up": own(&up) }))).start();
        let alice = client(&gateway, "/mcp", "alice");
        alice.tool_names().await;
        let (one, _) = alice.listen(json!({ "resourceSubscriptions": ["test://a"] })).await;
        let (two, _) =
            alice.listen(json!({ "resourceSubscriptions": ["test://a", "test://b"] })).await;
        soon("both", up.server.wait_for(|now| now.subscriptions.len() == 2)).await;
        drop(two);
        soon("one stays", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        drop(one);
        soon("none stays", up.server.wait_for(|now| now.subscriptions.is_empty())).await;
        assert_eq!(alice.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
    }
}

#[tokio::test]
async fn whoever_listens_later_hears_too_though_the_first_listener_has_left() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let gateway = gateway(&with_keys(json!({ "up": own(&up) }))).start();
        let alice = client(&gateway, "/mcp", "alice");
        // It is this one for whom the server is started.
        let mut wanted = everything_listed();
        wanted["resourceSubscriptions"] = json!(["test://a"]);
        let (first, _) = alice.listen(wanted.clone()).await;
        soon("it listens", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        drop(first);
        alice.tool_names().await;
        let (mut second, _) = alice.listen(wanted).await;
        soon("it listens", up.server.wait_for(|now| now.subscriptions.len() == 1)).await;
        if over == Over::Http {
            soon("it listens", up.server.wait_for(|now| now.listening == 1)).await;
        }
        up.server.update_resource("test://a");
        next_of(&mut second, UPDATED).await;
        up.server.tool("new", Value::Null, |_| json!({ "content": [] }));
        up.server.notify_list_changed(ListKind::Tools);
        next_of(&mut second, "notifications/tools/list_changed").await;
    }
}

#[tokio::test]
async fn an_unused_server_is_closed_but_not_while_a_call_waits_for_its_caller() {
    let up = Upstream::start(Eras::Legacy, Over::Stdio).await;
    let mut config = servers(json!({ "up": own(&up) }));
    config["gateway"] = json!({ "per_client_idle": "300ms" });
    let gateway = gateway(&config).start();
    let client = Stateless::of(&gateway);
    let parked = ParkedCall::of(&client, "waits").await;
    // Several times as long as it takes an unused one to be closed.
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    parked.finish().await.complete();
    assert_eq!(up.server.executions("waits"), 1);
    until("now it is closed", async || status(&gateway, "up").await["connections"] == 0).await;
    assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
}

#[tokio::test]
async fn a_changed_entry_keeps_what_is_listened_to() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let config = |more: Value| servers(json!({ "up": crate::kit::merged(own(&up), more) }));
    let gateway = gateway(&config(json!({}))).start();
    let client = Stateless::of(&gateway);
    let mut wanted = everything_listed();
    wanted["resourceSubscriptions"] = json!(["test://a"]);
    let (mut events, _) = client.listen(wanted.clone()).await;
    soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
    let handshakes = up.server.counters().handshakes;
    gateway.write_config(&config(json!({ "headers": { "x-new": "1" } })));
    soon("a new connection", up.server.wait_for(|now| now.handshakes > handshakes)).await;
    soon("the old one ends", up.server.wait_for(|now| now.sessions_deleted == 1)).await;
    soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
    soon("it listens", up.server.wait_for(|now| now.listening == 1)).await;
    up.server.update_resource("test://a");
    next_of(&mut events, UPDATED).await;
    // Another listener takes the place of the first.
    let (mut second, _) = client.listen(wanted).await;
    drop(events);
    up.server.tool("new", Value::Null, |_| json!({ "content": [] }));
    up.server.notify_list_changed(ListKind::Tools);
    next_of(&mut second, "notifications/tools/list_changed").await;
}
