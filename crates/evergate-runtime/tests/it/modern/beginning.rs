//! Which kind of server it is, found out whatever goes wrong meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evergate_runtime::{Protocol, ServerHandle, Settings, StateKind};
use evergate_testkit::{Eras, Fault, HttpServer, Server};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::raw_lines::{RawLines, Said, discovered, initialized};
use crate::raw_http::{NO_STREAM, RawHttp};
use crate::support::*;

fn revision(s: &ServerHandle) -> &'static str {
    s.protocol().map_or("", |version| version.as_str())
}

/// What a peer says to the question, the first, second, … time.
type Says = Arc<dyn Fn(usize) -> Said + Send + Sync>;

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap()
}

/// As the Python SDK: the first request decides for good.
fn pinned_by_the_probe(message: &Value) -> Said {
    match method(message) {
        "server/discover" => discovered(),
        "initialize" => Said::Error(-32022, json!({ "supported": ["2026-07-28"] })),
        _ => Said::Nothing,
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_slowly_is_not_taken_for_an_older_one() {
    let (peer, settings) = RawLines::start(8 * SECOND, pinned_by_the_probe);
    let (_hub, s) = hub(settings);
    connected(&s).await;
    assert_eq!(revision(&s), "2026-07-28");
    assert_eq!(peer.asked()[..2], ["server/discover", "initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lets_itself_be_shaken_by_the_hand_later_is_spoken_to_that_way_for_now() {
    let (peer, settings) = RawLines::start(8 * SECOND, |message| match method(message) {
        "server/discover" => discovered(),
        "initialize" => initialized(),
        _ => Said::Nothing,
    });
    let (_hub, s) = hub(settings);
    connected(&s).await;
    assert_eq!(revision(&s), "2025-11-25");
    s.restart();
    beyond(&s, 1).await;
    assert_eq!(peer.asked().iter().filter(|what| *what == "server/discover").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_handshake_has_a_server_asked_once_more() {
    let probes = AtomicUsize::new(0);
    let (peer, settings) = RawLines::start(Duration::ZERO, move |message| match method(message) {
        "server/discover" if probes.fetch_add(1, Ordering::SeqCst) == 0 => Said::Nothing,
        _ => pinned_by_the_probe(message),
    });
    let (_hub, s) = hub(settings);
    connected(&s).await;
    assert_eq!(revision(&s), "2026-07-28");
    // In one go, without a failed attempt in between.
    assert_eq!(peer.asked(), ["server/discover", "initialize", "server/discover"]);
    assert_eq!(s.status().generation.unwrap().get(), 1);
}

/// How often a peer was asked what it is.
fn probes(peer: &RawLines) -> usize {
    peer.asked().iter().filter(|what| *what == "server/discover").count()
}

/// Connects anew, and how long that took.
async fn again(s: &ServerHandle) -> Duration {
    let generation = s.status().generation.unwrap().get();
    let began = Instant::now();
    s.restart();
    beyond(s, generation).await;
    began.elapsed()
}

const AN_HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_to_the_question_is_spared_it_for_a_while() {
    let (peer, settings) = RawLines::start(Duration::ZERO, |message| match method(message) {
        "initialize" => initialized(),
        "server/discover" => Said::Nothing,
        _ => Said::Result(json!({})),
    });
    // Less than what a silent server is given otherwise.
    let (_hub, s) = hub(settings.connect_timeout(4 * SECOND));
    connected(&s).await;
    assert_eq!(revision(&s), "2025-11-25");
    for hour in 1..3 {
        for _ in 0..3 {
            let took = again(&s).await;
            assert!(took < SECOND, "a reconnect took {took:?}");
        }
        assert_eq!(probes(&peer), hour);
        tokio::time::sleep(AN_HOUR).await;
        again(&s).await;
        assert_eq!((probes(&peer), revision(&s)), (hour + 1, "2025-11-25"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_both_kinds_that_was_slow_once_is_found_out_later() {
    let slow = Arc::new(AtomicBool::new(true));
    let is_slow = slow.clone();
    let (_, settings) = RawLines::start(Duration::ZERO, move |message| match method(message) {
        "initialize" => initialized(),
        "server/discover" if is_slow.load(Ordering::SeqCst) => Said::Nothing,
        "server/discover" => discovered(),
        _ => Said::Result(json!({})),
    });
    let (_hub, s) = hub(settings);
    connected(&s).await;
    slow.store(false, Ordering::SeqCst);
    again(&s).await;
    assert_eq!(revision(&s), "2025-11-25");
    tokio::time::sleep(AN_HOUR).await;
    again(&s).await;
    assert_eq!(revision(&s), "2026-07-28");
    // Now that it is known to understand, one slow moment is forgiven.
    slow.store(true, Ordering::SeqCst);
    again(&s).await;
    assert_eq!(revision(&s), "2025-11-25");
    slow.store(false, Ordering::SeqCst);
    again(&s).await;
    assert_eq!(revision(&s), "2026-07-28");
}

#[tokio::test]
async fn a_refusal_that_is_not_about_revisions_is_no_verdict() {
    for status in [403, 404, 408, 429, 500, 503] {
        let server = Server::new();
        server.set_eras(Eras::Both);
        let http = HttpServer::start(server.clone()).await;
        server.inject(Fault::Status(status, String::new())).on("server/discover").times(1);
        let (hub, s) = hub(fast(Settings::http(http.url())));
        connected(&s).await;
        assert_eq!(revision(&s), "2025-11-25", "{status}");
        s.restart();
        beyond(&s, 1).await;
        assert_eq!(revision(&s), "2026-07-28", "{status}");
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn a_connection_that_breaks_at_the_question_is_no_verdict_either() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    server.inject(Fault::CutBeforeExecute).on("server/discover").forever();
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    connected(&s).await;
    assert_eq!((revision(&s), s.status().transport), ("2025-11-25", Some("streamable_http")));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_when_it_is_asked_is_shaken_by_the_hand_next_time() {
    let (peer, settings) = RawLines::start(Duration::ZERO, |message| match method(message) {
        "initialize" => initialized(),
        "server/discover" => Said::End,
        _ => Said::Result(json!({})),
    });
    let (_hub, s) = hub(settings);
    connected(&s).await;
    assert_eq!(peer.asked()[..2], ["server/discover", "initialize"]);
    for _ in 0..3 {
        let took = again(&s).await;
        assert!(took < SECOND, "a reconnect took {took:?}");
    }
    assert_eq!(probes(&peer), 1);
    // Nothing says that it must be so for ever.
    tokio::time::sleep(AN_HOUR).await;
    again(&s).await;
    assert_eq!(probes(&peer), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_when_it_has_got_round_to_the_question_is_shaken_by_the_hand_too() {
    // By then it has been sent a handshake as well, which it does not live to see.
    let (peer, settings) = RawLines::start(8 * SECOND, |message| match method(message) {
        "initialize" => initialized(),
        "server/discover" => Said::End,
        _ => Said::Nothing,
    });
    let (_hub, s) = hub(settings);
    connected(&s).await;
    assert_eq!(peer.asked()[..2], ["server/discover", "initialize"]);
}

#[tokio::test(start_paused = true)]
async fn where_no_handshake_is_allowed_a_slow_or_busy_server_is_waited_for() {
    let (peer, settings) = RawLines::start(12 * SECOND, pinned_by_the_probe);
    let (_hub, s) = hub(settings.protocol(Protocol::Modern));
    connected(&s).await;
    assert_eq!(peer.asked()[..1], ["server/discover"]);
}

#[tokio::test]
async fn where_no_handshake_is_allowed_a_server_being_deployed_is_tried_again() {
    for status in [403, 404, 429, 503] {
        let server = Server::new();
        server.set_eras(Eras::Modern);
        let http = HttpServer::start(server.clone()).await;
        server.inject(Fault::Status(status, String::new())).on("server/discover").times(2);
        let (hub, s) = hub(fast(Settings::http(http.url())).protocol(Protocol::Modern));
        connected(&s).await;
        assert_eq!(server.counters().requests.get("initialize"), None);
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_it_speaks_decides() {
    let refused = |supported: Value| move |_: usize| Said::Error(-32022, supported.clone());
    let all: Vec<(Says, StateKind, &str)> = vec![
        // The first request is refused by some, whatever it asks for.
        (
            Arc::new(|nth| match nth {
                0 => Said::Error(-32022, json!({ "supported": ["2026-07-28"], "requested": "" })),
                _ => discovered(),
            }),
            StateKind::Connected,
            "2026-07-28",
        ),
        (
            Arc::new(refused(json!({ "supported": ["2027-01-01"] }))),
            StateKind::PermanentlyFailed,
            "",
        ),
        (
            Arc::new(refused(json!({ "supported": ["2025-11-25"] }))),
            StateKind::Connected,
            "2025-11-25",
        ),
        (Arc::new(refused(Value::Null)), StateKind::Connected, "2025-11-25"),
        (
            Arc::new(|_| {
                Said::Result(json!({ "supportedVersions": ["2027-01-01"], "capabilities": {} }))
            }),
            StateKind::Connected,
            "2025-11-25",
        ),
        (Arc::new(|_| Said::Result(json!({}))), StateKind::Connected, "2025-11-25"),
    ];
    for (n, (says, state, date)) in all.into_iter().enumerate() {
        let probes = AtomicUsize::new(0);
        let (_, settings) = RawLines::start(Duration::ZERO, move |message| match method(message) {
            "server/discover" => says(probes.fetch_add(1, Ordering::SeqCst)),
            "initialize" => initialized(),
            _ => Said::Nothing,
        });
        let (_hub, s) = hub(settings);
        reach(&s, state).await;
        assert_eq!(revision(&s), date, "{n}");
    }
}

fn answered(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: none\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn an_old_server_that_comes_back_as_a_new_one_is_found_out_however_it_refuses() {
    for says_its_revision in [false, true] {
        let is_new = Arc::new(AtomicBool::new(false));
        let new = is_new.clone();
        let peer = RawHttp::start(move |asked, message| {
            let result = |result: Value| {
                Some(answered(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
            };
            match (asked.what.as_str(), new.load(Ordering::SeqCst)) {
                ("initialize", true) if says_its_revision => result(json!({
                    "protocolVersion": "2026-07-28", "capabilities": {}, "serverInfo": {},
                })),
                ("initialize", true) | ("server/discover", false) => Some(NO_STREAM.into()),
                ("server/discover", true) => {
                    result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} }))
                }
                _ => None,
            }
        })
        .await;
        let (hub, s) = hub(fast(Settings::http(&peer.url)));
        connected(&s).await;
        assert_eq!(revision(&s), "2025-11-25");
        is_new.store(true, Ordering::SeqCst);
        let generation = s.status().generation.unwrap().get();
        s.restart();
        beyond(&s, generation).await;
        assert_eq!(revision(&s), "2026-07-28");
        // An id that such a server gives out is none: it is not sent back.
        s.call_tool("any", json!({})).await.unwrap();
        let head = &peer.asked("tools/call")[0].head;
        assert!(head.contains("mcp-name: any") && !head.contains("mcp-session-id"), "{head}");
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn a_call_survives_that_its_server_comes_back_as_another_kind() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    for eras in [Eras::Legacy, Eras::Modern] {
        server.set_eras(eras);
        let (hub, s) = hub(fast(Settings::http(http.url())));
        connected(&s).await;
        let (then, date) = match eras {
            Eras::Legacy => (Eras::Modern, "2026-07-28"),
            _ => (Eras::Legacy, "2025-11-25"),
        };
        server.set_eras(then);
        let result = s.call_tool("bump", json!({ "call_id": date })).await.unwrap();
        assert!(!text(&result).is_empty());
        assert_eq!((revision(&s), server.executions(date)), (date, 1));
        hub.shutdown(SECOND).await;
    }
}
