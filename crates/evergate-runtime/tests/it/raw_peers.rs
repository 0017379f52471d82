//! Servers that do by the byte what no scripted server would.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evergate_runtime::{Outcome, Settings};
use serde_json::json;

use crate::raw_http::{NO_STREAM, RawHttp, stream};
use crate::support::*;

#[tokio::test]
async fn the_listening_stream_is_resumed_after_the_last_whole_event_and_when_the_server_says() {
    let peer = RawHttp::start(|asked, _| {
        // One whole event, and one that is cut short.
        let events = "retry: 1200\nid: whole\ndata:\n\nid: half\ndata: {\"jso";
        (asked.what == "GET").then(|| stream(events))
    })
    .await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    let gets = peer.wait_for("GET", 2).await;
    assert!(!gets[0].head.contains("last-event-id"), "{}", gets[0].head);
    assert!(gets[1].head.contains("last-event-id: whole"), "{}", gets[1].head);
    let gap = gets[1].at - gets[0].at;
    assert!(gap >= Duration::from_millis(1100), "came back after {gap:?}");
    // The cursor belongs to the session and goes with it.
    s.restart();
    beyond(&s, 1).await;
    let before = peer.asked("GET").len();
    let fresh = peer.wait_for("GET", before + 1).await;
    let first_of_new = fresh.iter().rev().find(|get| !get.head.contains("last-event-id"));
    assert!(first_of_new.is_some_and(|get| get.at > gets[1].at), "{fresh:?}");
}

#[tokio::test]
async fn a_server_cannot_make_us_hammer_its_listening_stream() {
    let peer =
        RawHttp::start(|asked, _| (asked.what == "GET").then(|| stream("retry: 0\n\n"))).await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    connected(&s).await;
    tokio::time::sleep(3 * SECOND).await;
    // 0.5, 1, 2, … seconds apart, and a listing only where one may have been missed.
    assert!(peer.asked("GET").len() <= 5, "{} GETs in 3 s", peer.asked("GET").len());
    assert!(peer.asked("tools/list").len() <= 5, "{} listings", peer.asked("tools/list").len());
}

#[tokio::test]
async fn a_session_id_on_a_failed_initialize_is_not_a_session() {
    let failures = AtomicUsize::new(0);
    let peer = RawHttp::start(move |asked, message| {
        if asked.what == "initialize" && failures.fetch_add(1, Ordering::SeqCst) == 0 {
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -1, "message": "no" } });
            let (body, length) = (body.to_string(), body.to_string().len());
            return Some(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: bogus\r\n\
                 connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
        }
        None
    })
    .await;
    let settings = Settings::http(&peer.url).http_kind(evergate_runtime::HttpKind::Streamable);
    let (_hub, s) = hub(fast(settings));
    s.call_tool("x", json!({})).await.unwrap();
    assert!(peer.asked("DELETE").is_empty(), "there was nothing to delete");
    assert!(peer.asked("tools/call")[0].head.contains("mcp-session-id: a-session"));
}

#[tokio::test]
async fn a_refusal_whose_body_stalls_still_refuses_and_holds_up_nothing() {
    let peer = RawHttp::start(|asked, _| match asked.what.as_str() {
        "tools/call" => {
            Some("HTTP/1.1 404 Gone\r\nx-hang: 1\r\ncontent-length: 100\r\n\r\nx".into())
        }
        "notifications/cancelled" => {
            Some("HTTP/1.1 400 Bad\r\nx-hang: 1\r\ncontent-length: 100\r\n\r\nx".into())
        }
        _ => None,
    })
    .await;
    let (_hub, s) = hub(fast(Settings::http(&peer.url)));
    let error = s.call_tool("x", json!({})).deadline(60 * SECOND).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Rejected, "{}", error.chain());
    // The first session is given back although something was still being said about it.
    peer.wait_for("DELETE", 1).await;
}

#[tokio::test]
async fn a_stream_with_a_keep_alive_that_is_no_json_still_answers() {
    let peer = RawHttp::start(|asked, message| match asked.what.as_str() {
        "tools/call" => {
            let answer =
                json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": [] } });
            Some(stream(&format!("data: ping\n\nevent: other\ndata: x\n\ndata: {answer}\n\n")))
        }
        "GET" => Some(NO_STREAM.into()),
        _ => None,
    })
    .await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    s.call_tool("x", json!({})).await.unwrap();
    assert_eq!(s.status().garbage, 1);
}

#[tokio::test]
async fn a_server_without_a_stream_is_left_alone() {
    let peer = RawHttp::start(|_, _| None).await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    s.call_tool("x", json!({})).await.unwrap();
    peer.wait_for("GET", 1).await;
    // Long enough for a second try to show, were there one.
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(peer.asked("GET").len(), 1);
    assert_eq!(s.status().generation.unwrap().get(), 1);
}

#[tokio::test]
async fn the_session_in_an_sse_address_is_shown_to_nobody() {
    let peer = RawHttp::start(|asked, _| {
        let events = "event: endpoint\ndata: /message?sessionId=a-secret-id\n\n";
        let refusal = "HTTP/1.1 404 Gone\r\nconnection: close\r\ncontent-length: 30\r\n\r\n";
        Some(match asked.what.as_str() {
            "GET" => stream(events).replace("connection: close", "x-hang: 1"),
            _ => format!("{refusal}no session a-secret-id is here"),
        })
    })
    .await;
    let settings = Settings::http(&peer.url).http_kind(evergate_runtime::HttpKind::Sse);
    let (_hub, s) = hub(steady(settings));
    reach(&s, evergate_runtime::StateKind::Reconnecting).await;
    let shown = format!("{s:?} {:?}", s.status());
    assert!(shown.contains("no session <secret> is here"), "{shown}");
    assert!(!shown.contains("a-secret-id"), "{shown}");
}

#[tokio::test]
async fn an_endless_listing_is_given_up() {
    let peer = RawHttp::start(|asked, message| {
        (asked.what == "tools/list").then(|| {
            let page = message["params"]["cursor"].as_str().map_or(0, str::len) + 1;
            let tool = json!({ "name": format!("t{page}"), "description": "x".repeat(1000), "inputSchema": {} });
            let result = json!({ "tools": [tool], "nextCursor": "n".repeat(page) });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
            let length = body.len();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )
        })
    })
    .await;
    let (hub, s) = hub(Settings::http(&peer.url).max_message_bytes(8 * 1024));
    s.wait_until(PATIENCE, |status| status.discovery_failures > 0).await.unwrap();
    assert!(s.status().last_error.unwrap().contains("pages are too large"));
    assert!(hub.catalog().servers.is_empty());
}

#[tokio::test]
async fn an_application_s_own_error_is_passed_on_whatever_a_later_revision_means_by_its_code() {
    let peer = RawHttp::start(|asked, message| {
        let error = json!({ "code": -32022, "message": "ran", "data": { "supported": ["x"] } });
        let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }).to_string();
        (asked.what == "tools/call").then(|| {
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
        })
    })
    .await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    connected(&s).await;
    let error = s.call_tool("x", json!({})).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Answered, "{}", error.chain());
    assert_eq!((peer.asked("tools/call").len(), peer.asked("initialize").len()), (1, 1));
}

#[tokio::test]
async fn a_refusal_for_want_of_rights_is_not_taken_for_an_answer() {
    let peer = RawHttp::start(|asked, _| {
        let body = r#"{"error":"insufficient_scope","error_description":"more"}"#;
        (asked.what == "tools/call").then(|| {
            format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
        })
    })
    .await;
    let (_hub, s) = hub(Settings::http(&peer.url));
    connected(&s).await;
    let error = s.call_tool("x", json!({})).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Rejected, "{}", error.chain());
    assert!(error.chain().contains("403"), "{}", error.chain());
    assert_eq!(peer.asked("tools/call").len(), 1);
}
