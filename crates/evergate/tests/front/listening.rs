//! The stream on which a client hears what it did not ask for.

use evergate_testkit::ListKind;
use http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{REVISIONS, blocks, identified, listened_to, one_server, one_server_with};
use crate::support::NEWEST;

fn log_message(text: &str) -> Value {
    json!({ "level": "info", "data": text })
}

#[tokio::test]
async fn changed_lists_and_log_messages_arrive_on_it() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        client.tool_names().await;
        let mut stream = client.listen().await;
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        http.server().tool(format!("new {revision}"), Value::Null, |_| json!({}));
        http.server().notify_list_changed(ListKind::Tools);
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed", "{revision}");
        http.server().notify("notifications/message", log_message(revision));
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/message");
        assert_eq!(told["params"]["data"], revision);
    }
}

#[tokio::test]
async fn it_is_primed_only_for_the_revision_that_knows_empty_events() {
    let (_http, gateway) = one_server_with(json!({ "keep_alive": "50ms" })).await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let mut stream = client.listen().await;
        let mut text = String::new();
        // Two signs of life: whatever opens the stream has come by then.
        while text.matches(": still here").count() < 2 {
            text.push_str(std::str::from_utf8(&stream.bytes().await.unwrap()).unwrap());
        }
        let events: Vec<_> = blocks(&text).into_iter().filter(|block| !block.comment).collect();
        if revision == NEWEST {
            assert_eq!(events.len(), 1, "{events:?}");
            assert!(events[0].id.is_some() && events[0].retry.is_some());
        } else {
            assert_eq!(events, [], "{revision}");
        }
    }
}

#[tokio::test]
async fn a_second_one_takes_over_and_the_first_ends() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    let client = gateway.connect().await;
    let mut first = client.listen().await;
    http.server().notify("notifications/message", log_message("one"));
    assert_eq!(first.message().await.unwrap()["params"]["data"], "one");
    let mut second = client.listen().await;
    assert_eq!(first.message().await, None);
    http.server().notify("notifications/message", log_message("two"));
    assert_eq!(second.message().await.unwrap()["params"]["data"], "two");
}

#[tokio::test]
async fn what_happened_before_anybody_listened_is_not_lost() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    let client = gateway.connect().await;
    http.server().notify("notifications/message", log_message("early"));
    assert_eq!(client.listen().await.message().await.unwrap()["params"]["data"], "early");
}

#[tokio::test]
async fn it_is_taken_up_where_it_broke() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    for revision in REVISIONS {
        let client = gateway.http().initialize_as(revision, json!({})).await;
        let mut stream = client.listen().await;
        for text in ["a", "b", "c"] {
            http.server().notify("notifications/message", log_message(text));
        }
        let (id, message) = identified(&mut stream).await.unwrap();
        assert_eq!(message["params"]["data"], "a");
        drop(stream);
        http.server().notify("notifications/message", log_message("d"));
        let mut again = client.listen_from(&id).await;
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last| last != "d") {
            heard.push(again.message().await.unwrap()["params"]["data"].clone());
        }
        assert_eq!(heard, ["b", "c", "d"], "{revision}");
    }
}

#[tokio::test]
async fn its_ids_of_an_earlier_run_are_good_for_a_new_start() {
    let (http, gateway) = one_server().await;
    listened_to(&http).await;
    let client = gateway.connect().await;
    let mut stream = client.listen().await;
    http.server().notify("notifications/message", log_message("before"));
    let (id, _) = identified(&mut stream).await.unwrap();
    let gateway = gateway.restart(rustix::process::Signal::KILL).await;
    let before = http.server().counters().handshakes;
    http.server().wait_for(|counters| counters.handshakes >= before.max(2)).await;
    listened_to(&http).await;
    let mut again = client.listen_from(&id).await;
    assert_eq!(again.status, StatusCode::OK);
    http.server().notify("notifications/message", log_message("after"));
    let heard = loop {
        let message = again.message().await.unwrap();
        if message["method"] == "notifications/message" {
            break message;
        }
    };
    assert_eq!(heard["params"]["data"], "after");
    drop(gateway);
}

#[tokio::test]
async fn it_ends_when_the_gateway_drains() {
    let (_http, mut gateway) = one_server().await;
    let client = gateway.connect().await;
    let mut stream = client.listen().await;
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(stream.message().await, None);
    assert!(gateway.ended().await.success());
}
