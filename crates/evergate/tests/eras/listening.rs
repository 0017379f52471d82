//! Clients of 2026-07-28 that listen: what they hear of, and what not.

use evergate_testkit::{Eras, Fault, ListKind, ListenEnd};
use serde_json::{Value, json};

use crate::caller::everything_listed;
use crate::kit::{next_of, servers, soon};
use crate::stateless_client::{SUBSCRIPTION, Stateless};
use crate::support::{Events, gateway, until};
use crate::upstream::{EVERYWHERE, Over, Upstream, connected};

const UPDATED: &str = "notifications/resources/updated";
const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";

const BOTH: [Eras; 2] = [Eras::Legacy, Eras::Modern];

fn everywhere() -> impl Iterator<Item = (Eras, Over)> {
    BOTH.into_iter().flat_map(|eras| EVERYWHERE.map(|over| (eras, over)))
}

/// The next message, which must be of this subscription.
async fn heard(events: &mut Events, id: &Value) -> Value {
    let message = events.message().await.expect("the stream ended");
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION], *id, "{message}");
    assert_eq!(message.get("id"), None, "{message}");
    message
}

/// Changes every list, in this order: tools, prompts, resources.
async fn change_all(up: &Upstream, name: &str, witness: &mut Events) {
    up.server.tool(name, Value::Null, |_| json!({ "content": [] }));
    up.server.notify_list_changed(ListKind::Tools);
    next_of(witness, TOOLS).await;
    up.server.set_prompts(vec![json!({ "name": name })]);
    up.server.notify_list_changed(ListKind::Prompts);
    next_of(witness, PROMPTS).await;
    up.server.set_resources(vec![json!({ "uri": format!("new://{name}"), "name": name })]);
    up.server.notify_list_changed(ListKind::Resources);
    next_of(witness, RESOURCES).await;
}

#[tokio::test]
async fn only_what_was_asked_for_is_heard() {
    for (eras, over) in everywhere() {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let mut listeners = Vec::new();
        for (field, method) in [
            ("toolsListChanged", TOOLS),
            ("promptsListChanged", PROMPTS),
            ("resourcesListChanged", RESOURCES),
        ] {
            let wanted = json!({ field: true });
            let draft = client.draft("subscriptions/listen", json!({ "notifications": wanted }));
            let mut events = draft.open().await;
            assert_eq!(events.headers["content-type"], "text/event-stream");
            assert!(!events.headers.contains_key("mcp-session-id"));
            let id = draft.body["id"].clone();
            let first = heard(&mut events, &id).await;
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
            assert_eq!(first["params"]["notifications"], wanted);
            listeners.push((events, id, method));
        }
        let (mut witness, _) = client.listen(everything_listed()).await;
        soon(
            "news are heard of",
            up.server.wait_for(|now| {
                now.listening == 1
                    || now.requests.contains_key("subscriptions/listen")
                    || over == Over::Stdio
            }),
        )
        .await;
        for name in ["one", "two"] {
            change_all(&up, name, &mut witness).await;
        }
        for (events, id, method) in &mut listeners {
            for _ in 0..2 {
                let message = heard(events, id).await;
                assert_eq!(message["method"], *method, "{eras:?} {over:?}");
            }
        }
    }
}

#[tokio::test]
async fn who_wants_nothing_is_told_so_and_hears_nothing() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    for wanted in [
        json!({}),
        json!({ "toolsListChanged": false }),
        json!({ "resourceSubscriptions": [] }),
        json!({ "somethingNew": true, "taskIds": ["x"] }),
    ] {
        let (_events, agreed) = client.listen(wanted).await;
        assert_eq!(agreed, json!({}));
    }
}

#[tokio::test]
async fn filters_that_are_none_are_refused() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    let many: Vec<_> = (0..1025).map(|number| format!("test://{number}")).collect();
    for wrong in [
        json!(null),
        json!([]),
        json!("all"),
        json!({ "toolsListChanged": "yes" }),
        json!({ "toolsListChanged": 1 }),
        json!({ "promptsListChanged": null }),
        json!({ "resourceSubscriptions": "test://a" }),
        json!({ "resourceSubscriptions": [1] }),
        json!({ "resourceSubscriptions": { "test://a": true } }),
        json!({ "resourceSubscriptions": many }),
    ] {
        let draft = client.draft("subscriptions/listen", json!({ "notifications": wrong }));
        let replied = draft.send().await;
        replied.error(200, -32602);
        assert_eq!(replied.headers["content-type"], "application/json");
    }
    client.request("subscriptions/listen", json!({})).await.error(200, -32602);
    let listen = client.draft("subscriptions/listen", json!({ "notifications": {} }));
    listen.clone().without("mcp-method").send().await.error(400, -32020);
    assert!(up.server.counters().subscriptions.is_empty());
    let (_events, agreed) = client.listen(everything_listed()).await;
    assert_eq!(agreed, everything_listed());
}

#[tokio::test]
async fn of_resources_that_nobody_has_there_will_be_no_news() {
    for eras in BOTH {
        let up = Upstream::start(eras, Over::Http).await;
        let other = Upstream::start(eras, Over::Http).await;
        other.server.set_capabilities(json!({ "tools": {} }));
        let config = servers(json!({ "up": up.entry(), "other": other.entry() }));
        let gateway = gateway(&config).start();
        connected(&gateway, "up").await;
        connected(&gateway, "other").await;
        let client = Stateless::of(&gateway);
        let uris = json!(["test://a", "nobody://knows", "", "not a uri at all"]);
        let (mut events, agreed) = client.listen(json!({ "resourceSubscriptions": uris })).await;
        assert_eq!(agreed, json!({ "resourceSubscriptions": ["test://a"] }), "{eras:?}");
        up.server.update_resource("test://a");
        assert_eq!(next_of(&mut events, UPDATED).await["params"]["uri"], "test://a");
    }
}

#[tokio::test]
async fn a_subscription_that_the_server_refuses_is_none() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    client.tool_names().await;
    up.server.inject(Fault::Status(500, "no".into())).on("resources/subscribe").forever();
    let (_events, agreed) = client.listen(json!({ "resourceSubscriptions": ["test://a"] })).await;
    assert_eq!(agreed, json!({}));
}

#[tokio::test]
async fn two_listeners_with_the_same_id_are_two() {
    for (eras, over) in everywhere() {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let mut both = Vec::new();
        for uri in ["test://a", "test://b"] {
            let wanted = json!({ "resourceSubscriptions": [uri] });
            let draft = client.draft("subscriptions/listen", json!({ "notifications": wanted }));
            let mut events = draft.id(json!("the same")).open().await;
            heard(&mut events, &json!("the same")).await;
            both.push((events, uri));
        }
        soon("both", up.server.wait_for(|now| now.subscriptions.len() == 2)).await;
        for uri in ["test://b", "test://a", "test://b"] {
            up.server.update_resource(uri);
        }
        for (events, uri) in &mut both {
            let message = heard(events, &json!("the same")).await;
            assert_eq!(message["params"]["uri"], *uri, "{eras:?} {over:?}");
        }
        // One leaves, the other stays.
        let (one, _) = both.remove(0);
        drop(one);
        soon("it is told", up.server.wait_for(|now| now.subscriptions == ["test://b"])).await;
        up.server.update_resource("test://b");
        let (events, _) = &mut both[0];
        for _ in 0..2 {
            assert_eq!(heard(events, &json!("the same")).await["params"]["uri"], "test://b");
        }
    }
}

#[tokio::test]
async fn two_listeners_of_the_same_resource_are_told_once_each() {
    for (eras, over) in everywhere() {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let (client, session) = (Stateless::of(&gateway), gateway.connect().await);
        client.tool_names().await;
        let wanted = json!({ "resourceSubscriptions": ["test://a", "test://b"] });
        let (mut one, _) = client.listen(wanted.clone()).await;
        let (mut two, _) = client.listen(wanted).await;
        let mut old = session.listen().await;
        session.request("resources/subscribe", json!({ "uri": "test://a" })).await;
        up.server.update_resource("test://a");
        up.server.update_resource("test://b");
        for events in [&mut one, &mut two] {
            assert_eq!(next_of(events, UPDATED).await["params"]["uri"], "test://a");
            assert_eq!(
                next_of(events, UPDATED).await["params"]["uri"],
                "test://b",
                "{eras:?} {over:?}"
            );
        }
        let message = next_of(&mut old, UPDATED).await;
        assert_eq!(message["params"]["uri"], "test://a");
        assert!(message["params"]["_meta"].get(SUBSCRIPTION).is_none(), "{message}");
        // The last to leave ends it.
        drop(one);
        drop(two);
        soon("one is left", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        session.request("resources/unsubscribe", json!({ "uri": "test://a" })).await;
        soon("none is left", up.server.wait_for(|now| now.subscriptions.is_empty())).await;
    }
}

#[tokio::test]
async fn a_server_that_dies_is_listened_to_again() {
    for (eras, over) in everywhere() {
        let up = Upstream::start(eras, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let mut wanted = everything_listed();
        wanted["resourceSubscriptions"] = json!(["test://a"]);
        let (mut events, _) = client.listen(wanted).await;
        for round in 0..3 {
            soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
            up.crash(&gateway).await;
            // What a server of the older kind says unasked is lost while nobody holds a stream open for it.
            let heard =
                |listening: u64| eras == Eras::Modern || over == Over::Stdio || listening > 0;
            let back =
                up.server.wait_for(|now| now.subscriptions == ["test://a"] && heard(now.listening));
            soon("subscribed", back).await;
            // It may have changed meanwhile, so there is news already; and then there is news again.
            up.server.update_resource("test://a");
            assert_eq!(next_of(&mut events, UPDATED).await["params"]["uri"], "test://a");
            up.server.tool(format!("new{round}"), Value::Null, |_| json!({ "content": [] }));
            up.server.notify_list_changed(ListKind::Tools);
            next_of(&mut events, TOOLS).await;
            assert_eq!(client.tool_names().await.len(), 16 + round, "{eras:?} {over:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_what_is_listened_on_is_listened_to_again() {
    for (over, how) in [
        (Over::Http, ListenEnd::Answered),
        (Over::Stdio, ListenEnd::Answered),
        (Over::Stdio, ListenEnd::Cancelled),
    ] {
        let up = Upstream::start(Eras::Modern, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let (mut events, _) = client.listen(json!({ "resourceSubscriptions": ["test://a"] })).await;
        soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        up.server.end_listens(how);
        soon("again", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
        up.server.update_resource("test://a");
        next_of(&mut events, UPDATED).await;
    }
}

#[tokio::test]
async fn a_server_that_comes_back_as_another_revision_is_listened_to_in_its_way() {
    for over in EVERYWHERE {
        let up = Upstream::start(Eras::Legacy, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let (mut events, _) = client.listen(json!({ "resourceSubscriptions": ["test://a"] })).await;
        for eras in [Eras::Modern, Eras::Legacy] {
            soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
            up.server.set_eras(eras);
            up.crash(&gateway).await;
            // Where connections come and go, a call finds out.
            client.call("up__echo", json!({ "text": "hi" })).send().await;
            soon("subscribed", up.server.wait_for(|now| now.subscriptions == ["test://a"])).await;
            up.server.update_resource("test://a");
            next_of(&mut events, UPDATED).await;
        }
    }
}

#[tokio::test]
async fn a_listener_of_one_server_hears_of_that_only() {
    let (one, two) = (
        Upstream::start(Eras::Legacy, Over::Http).await,
        Upstream::start(Eras::Modern, Over::Http).await,
    );
    let gateway = gateway(&servers(json!({ "one": one.entry(), "two": two.entry() }))).start();
    for server in ["one", "two"] {
        connected(&gateway, server).await;
    }
    let (all, only) = (Stateless::of(&gateway), Stateless::of_server(&gateway, "two"));
    all.tool_names().await;
    let (mut to_all, _) = all.listen(everything_listed()).await;
    let (mut to_only, agreed) = only.listen(everything_listed()).await;
    assert_eq!(agreed, everything_listed());
    soon("it listens", one.server.wait_for(|now| now.listening == 1)).await;
    soon("it listens", two.server.wait_for(|now| now.listening == 1)).await;
    one.server.tool("new", Value::Null, |_| json!({ "content": [] }));
    one.server.notify_list_changed(ListKind::Tools);
    next_of(&mut to_all, TOOLS).await;
    two.server.set_prompts(vec![]);
    two.server.notify_list_changed(ListKind::Prompts);
    next_of(&mut to_all, PROMPTS).await;
    assert_eq!(to_only.message().await.unwrap()["method"], PROMPTS, "nothing of the other");
}

#[tokio::test]
async fn what_is_not_offered_is_not_agreed_to() {
    for eras in BOTH {
        let up = Upstream::start(eras, Over::Http).await;
        up.server.set_capabilities(json!({ "tools": { "listChanged": true } }));
        let gateway = up.gateway().await;
        let client = Stateless::of_server(&gateway, "up");
        let (_events, agreed) = client.listen(everything_listed()).await;
        assert_eq!(agreed, json!({ "toolsListChanged": true }), "{eras:?}");
        client.request("prompts/list", json!({})).await.error(404, -32601);
        let discovered = client.result("server/discover", json!({})).await;
        assert_eq!(discovered["capabilities"].get("prompts"), None, "{discovered}");
    }
}

#[tokio::test]
async fn calls_and_logs_are_not_heard_by_who_listens() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let gateway = up.gateway().await;
    let client = Stateless::of(&gateway);
    client.tool_names().await;
    let (mut events, _) = client.listen(everything_listed()).await;
    soon("it listens", up.server.wait_for(|now| now.listening == 1)).await;
    up.server.notify("notifications/message", json!({ "level": "emergency", "data": "loud" }));
    up.server.notify("notifications/other", json!({ "x": 1 }));
    let call = client.call("up__progress", json!({ "steps": 2 })).meta("progressToken", json!(1));
    assert_eq!(call.send().await.notes.len(), 2);
    up.server.tool("new", Value::Null, |_| json!({ "content": [] }));
    up.server.notify_list_changed(ListKind::Tools);
    assert_eq!(events.message().await.unwrap()["method"], TOOLS);
}

#[tokio::test]
async fn there_are_as_many_listeners_as_there_may_be_sessions() {
    let up = Upstream::start(Eras::Legacy, Over::Http).await;
    let mut config = servers(json!({ "up": up.entry() }));
    config["gateway"] = json!({ "max_sessions": 2 });
    let gateway = gateway(&config).start();
    let client = Stateless::of(&gateway);
    let (one, _) = client.listen(everything_listed()).await;
    let (_two, _) = client.listen(everything_listed()).await;
    let third = client.draft("subscriptions/listen", json!({ "notifications": {} }));
    third.send().await.error(200, -32603);
    drop(one);
    until("there is room again", async || {
        let events = third.open().await;
        events.headers["content-type"] == "text/event-stream"
    })
    .await;
    assert_eq!(client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
}
