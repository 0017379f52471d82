//! Headers of one call, and headers that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evergate_runtime::{CallFailure, HttpKind, Outcome, Settings, StateKind};
use evergate_testkit::{Fault, HttpServer, Server};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use crate::raw_http::{RawHttp, stream};
use crate::support::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let parse = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    pairs.iter().map(parse).collect()
}

#[tokio::test]
async fn the_headers_of_a_call_are_on_its_own_request_only() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    let own = headers(&[
        ("authorization", "Bearer theirs"),
        ("x-trace", "7"),
        ("mcp-session-id", "made-up"),
        ("content-type", "text/plain"),
    ]);
    for url in [http.url(), http.sse_url(), http.rpc_url()] {
        let settings =
            Settings::http(url).header("authorization", "Bearer ours").refresh_every(None);
        let (hub, s) = hub(settings.header("x-fixed", "1"));
        hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
        // An answer means that the session and the type of the body were left alone.
        s.call_tool("bump", json!({})).headers(own.clone()).await.unwrap();
        let seen = server.counters().last_headers;
        assert_eq!(seen["authorization"], "Bearer theirs");
        assert_eq!((&*seen["x-trace"], &*seen["x-fixed"]), ("7", "1"));
        assert_eq!(seen["content-type"], "application/json");
        s.call_tool("bump", json!({})).await.unwrap();
        let seen = server.counters().last_headers;
        assert_eq!(seen["authorization"], "Bearer ours");
        assert!(!seen.contains_key("x-trace"));
        hub.shutdown(SECOND).await;
    }
    let (_server, _memory, settings) = memory();
    let (_hub, s) = hub(settings);
    s.call_tool("bump", json!({})).headers(own).await.unwrap();
}

#[tokio::test]
async fn a_source_of_headers_is_asked_before_every_request() {
    let peer = RawHttp::start(|_, _| None).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let settings = Settings::http(&peer.url)
        .http_kind(HttpKind::Streamable)
        .header("x-token", "fixed")
        .header("x-kept", "yes")
        .header_source(move || {
            let n = counter.fetch_add(1, Ordering::SeqCst);
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            vec![
                pair("X-Token", &format!("t{n}")),
                pair("bad name", "x"),
                pair("x-bad", "a\nb"),
                pair("mcp-session-id", "made-up"),
            ]
        });
    assert!(!format!("{settings:?}").contains("x-token"));
    let (hub, s) = hub(settings);
    s.call_tool("x", json!({})).await.unwrap();
    s.call_tool("x", json!({})).headers(headers(&[("x-token", "own")])).await.unwrap();
    peer.wait_for("GET", 1).await;
    peer.wait_for("tools/list", 1).await;
    hub.shutdown(SECOND).await;
    let mut tokens = Vec::new();
    for what in [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
        "tools/list",
        "GET",
        "DELETE",
    ] {
        let requests = peer.asked(what);
        assert!(!requests.is_empty(), "no {what}");
        for request in requests {
            let value = |name: &str| {
                let lines = request.head.lines();
                let found: Vec<_> = lines.filter_map(|line| line.strip_prefix(name)).collect();
                found.join(",")
            };
            assert_eq!((&*value("x-kept: "), &*value("x-bad: ")), ("yes", ""), "{what}");
            assert_ne!(value("mcp-session-id: "), "made-up", "{what}");
            tokens.push(value("x-token: "));
        }
    }
    let total = tokens.len();
    assert!(!tokens.iter().any(|token| token == "fixed"));
    assert!(tokens.iter().any(|token| token == "own"));
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!((tokens.len(), asked.load(Ordering::SeqCst)), (total, total), "asked once for each");
}

#[tokio::test]
async fn a_server_that_repeats_them_does_not_make_them_known() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    for url in [http.url(), http.sse_url(), http.rpc_url()] {
        let settings = Settings::http(format!("{url}?key=in-the-query"))
            .header_source(|| vec![("authorization".to_owned(), "Bearer from-source".to_owned())]);
        let (hub, s) = hub(settings);
        connected(&s).await;
        let secrets = "no Bearer from-source, nor from-source, nor of-the-call, nor in-the-query";
        server.inject(Fault::Status(403, secrets.to_owned())).on("tools/call");
        let own = headers(&[("x-token", "of-the-call")]);
        let error = s.call_tool("bump", json!({})).headers(own.clone()).await.unwrap_err();
        let shown = format!("{} {error:?}", error.chain());
        let hidden = "no <secret>, nor <secret>, nor <secret>, nor <secret>";
        assert!(shown.contains(hidden), "{shown}");
        assert!(!shown.contains("from-source") && !shown.contains("of-the-call"), "{shown}");
        // An answer is the caller's as it is; what is written down of it is not.
        let answer =
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 7, "message": secrets } });
        server.inject(Fault::Status(403, answer.to_string())).on("tools/call");
        let error = s.call_tool("bump", json!({})).headers(own).await.unwrap_err();
        assert!(error.chain().contains(hidden), "{}", error.chain());
        let CallFailure::Rpc(rpc) = &error.source else { panic!("{error:?}") };
        assert_eq!(rpc.message, secrets);
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn bad_credentials_of_one_call_do_not_park_the_server_of_all() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    for url in [http.url(), http.sse_url(), http.rpc_url()] {
        let (hub, s) = hub(Settings::http(&url).refresh_every(None));
        hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
        server.inject(Fault::Status(401, "no such user".into())).on("tools/call");
        let own = headers(&[("authorization", "Bearer wrong")]);
        let error = s.call_tool("bump", json!({})).headers(own).await.unwrap_err();
        assert_eq!((error.outcome, error.retryable), (Outcome::Rejected, false), "{url}");
        assert!(error.chain().contains("401") && error.chain().contains("no such user"), "{error}");
        // The same connection serves the others.
        s.call_tool("bump", json!({})).await.unwrap();
        assert_eq!(s.status().generation.unwrap().get(), 1);
        // Headers that name nothing are nobody's own: this refusal is of the server's credentials.
        server.inject(Fault::Status(401, "no such user".into())).on("tools/call");
        s.call_tool("bump", json!({})).headers(headers(&[])).await.unwrap_err();
        reach(&s, StateKind::PermanentlyFailed).await;
        hub.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn the_headers_of_a_call_go_with_its_stream_and_what_is_answered_on_it() {
    let called = AtomicUsize::new(0);
    let peer = RawHttp::start(move |asked, message| match &*asked.what {
        "tools/call" => {
            let id = message["id"].as_u64().unwrap();
            called.store(usize::try_from(id).unwrap(), Ordering::SeqCst);
            let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
            Some(stream(&format!("id: 1\nretry: 100\ndata: {ping}\n\n")))
        }
        "GET" if asked.head.contains("last-event-id") => {
            let id = called.load(Ordering::SeqCst);
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
            Some(stream(&format!("data: {answer}\n\n")))
        }
        _ => None,
    })
    .await;
    let settings = Settings::http(&peer.url).http_kind(HttpKind::Streamable);
    let (hub, s) = hub(settings.header("x-token", "ours"));
    s.call_tool("x", json!({})).headers(headers(&[("x-token", "own")])).await.unwrap();
    // What has no method is the answer to the ping.
    peer.wait_for("POST", 1).await;
    peer.wait_for("GET", 2).await;
    hub.shutdown(SECOND).await;
    for asked in ["GET", "POST", "DELETE"].into_iter().flat_map(|what| peer.asked(what)) {
        let of_the_call = asked.what == "POST" || asked.head.contains("last-event-id");
        let token = if of_the_call { "x-token: own" } else { "x-token: ours" };
        assert!(asked.head.lines().any(|line| line == token), "{} {}", asked.what, asked.head);
    }
}
