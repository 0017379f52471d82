//! A server that limits our rate is left alone for a while.

use evergate_runtime::{
    CallError, CallFailure, Handlers, Hub, HubEvent, Outcome, RateLimited, ServerHandle,
};
use evergate_testkit::{Fault, Server};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::support::*;

const LIMITED: Fault = Fault::RateLimited { retry_after: None };

async fn start(over: Over) -> (Hub, ServerHandle, Server) {
    let server = Server::new();
    let (hub, handle) = hub_over(over, &server, Handlers::new());
    connected(&handle).await;
    (hub, handle, server)
}

async fn bump(s: &ServerHandle) -> Result<String, CallError> {
    s.call_tool("bump", json!({})).await.map(|result| text(&result))
}

/// How long the breaker says to wait.
fn retry_in(error: &CallError) -> Duration {
    assert_eq!(error.outcome, Outcome::NotSent, "{error:?}");
    assert!(error.retryable, "{error:?}");
    let CallFailure::RateLimited { retry_in } = error.source else { panic!("{error:?}") };
    retry_in
}

async fn paused(s: &ServerHandle) -> RateLimited {
    let seen = s.wait_until(PATIENCE, |status| status.rate_limited.is_some()).await.unwrap();
    seen.rate_limited.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn three_refusals_in_a_row_and_nothing_is_sent_for_a_minute() {
    for over in [Over::Http, Over::Lines] {
        let (hub, s, server) = start(over).await;
        let mut events = hub.events();
        server.inject(LIMITED).on_tool("bump").times(3);
        for n in 0..3 {
            assert!(s.status().rate_limited.is_none(), "{n}");
            let error = bump(&s).await.unwrap_err();
            // As it came.
            match over {
                Over::Http => {
                    assert_eq!((error.outcome, error.retryable), (Outcome::Rejected, true));
                }
                Over::Lines => assert_eq!(error.outcome, Outcome::Answered),
            }
        }
        let began = Instant::now();
        let shown = paused(&s).await;
        assert_eq!(shown.until - began, 60 * SECOND);
        assert!(shown.because.starts_with("3 rate-limit"), "{}", shown.because);
        let json = serde_json::to_value(s.status()).unwrap();
        assert_eq!(json["rate_limited"]["probe_in_ms"], 60_000, "{json}");

        let before = server.counters();
        assert_eq!(retry_in(&bump(&s).await.unwrap_err()), 60 * SECOND);
        sleep(59 * SECOND).await;
        assert_eq!(retry_in(&bump(&s).await.unwrap_err()), SECOND);
        assert_eq!(server.counters().calls, before.calls, "nothing was sent");

        sleep(SECOND).await;
        assert_eq!(bump(&s).await.unwrap(), "1");
        assert_eq!(bump(&s).await.unwrap(), "2");
        assert!(s.status().rate_limited.is_none());
        s.wait_until(PATIENCE, |status| status.rate_limited.is_none()).await.unwrap();

        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            if let HubEvent::RateLimit { server, paused } = event {
                assert_eq!(&*server, "s");
                told.push(paused.is_some());
            }
        }
        assert_eq!(told, [true, false], "once each");
    }
}

#[tokio::test(start_paused = true)]
async fn one_refusal_is_passed_on_and_changes_nothing() {
    let (_hub, s, server) = start(Over::Http).await;
    for _ in 0..5 {
        server.inject(LIMITED).on_tool("bump").times(2);
        assert_eq!(bump(&s).await.unwrap_err().outcome, Outcome::Rejected);
        assert_eq!(bump(&s).await.unwrap_err().outcome, Outcome::Rejected);
        bump(&s).await.unwrap();
    }
    assert_eq!(s.status().generation.unwrap().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_time_counts_within_reason() {
    for (asked, pause) in [(5, 5), (300, 300), (0, 1), (1_000_000, 3600)] {
        let (_hub, s, server) = start(Over::Http).await;
        server.inject(Fault::RateLimited { retry_after: Some(asked) }).on_tool("bump").times(3);
        for _ in 0..3 {
            bump(&s).await.unwrap_err();
        }
        assert_eq!(retry_in(&bump(&s).await.unwrap_err()), pause * SECOND, "{asked}");
        sleep(pause * SECOND).await;
        bump(&s).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn results_that_say_so_pass_unchanged_and_count() {
    let (_hub, s, _server) = start(Over::Http).await;
    let said = r#"{"isError": true, "content":[{"type":"text","text":"403 API rate limit exceeded [rate reset in 2m05s]"}]}"#;
    for _ in 0..3 {
        let result = s.call_tool("raw", json!({ "json": said })).await.unwrap();
        assert_eq!(result.as_str(), said);
    }
    assert_eq!(retry_in(&bump(&s).await.unwrap_err()), 125 * SECOND);
    // The same from something that is no tool says nothing, and neither does a tool that fails otherwise.
    sleep(125 * SECOND).await;
    for _ in 0..5 {
        s.call_tool("fail", json!({})).await.unwrap();
    }
    bump(&s).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_call_finds_out_and_the_others_are_refused_meanwhile() {
    let (_hub, s, server) = start(Over::Http).await;
    server.inject(LIMITED).on_tool("bump").times(4);
    for _ in 0..3 {
        bump(&s).await.unwrap_err();
    }
    sleep(60 * SECOND).await;
    // It fares no better.
    assert_eq!(bump(&s).await.unwrap_err().outcome, Outcome::Rejected);
    assert_eq!(retry_in(&bump(&s).await.unwrap_err()), 60 * SECOND);
    sleep(60 * SECOND).await;
    let probe = tokio::spawn(s.call_tool("slow", json!({ "ms": 2000 })).into_future());
    sleep(SECOND).await;
    let refused = retry_in(&bump(&s).await.unwrap_err());
    assert_eq!(refused, 29 * SECOND, "it may take so long and no longer");
    probe.await.unwrap().unwrap();
    bump(&s).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_gets_no_answer_leaves_it_to_the_next() {
    let (_hub, s, server) = start(Over::Http).await;
    server.inject(LIMITED).on_tool("bump").times(3);
    for _ in 0..3 {
        bump(&s).await.unwrap_err();
    }
    sleep(60 * SECOND).await;
    server.inject(Fault::ExecuteThenCut).on_tool("bump").arm();
    assert_eq!(bump(&s).await.unwrap_err().outcome, Outcome::Unknown);
    assert!(s.status().rate_limited.is_some());
    let cancelled = s.call_tool("hold", json!({})).timeout(SECOND).await.unwrap_err();
    assert_eq!(cancelled.outcome, Outcome::Unknown);
    bump(&s).await.unwrap();
    assert!(s.status().rate_limited.is_none());
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_when_it_begins_are_refused_in_their_turn() {
    let server = Server::new();
    let memory = evergate_testkit::MemoryServer::new(server.clone());
    let (_hub, s) = hub(steady(evergate_runtime::Settings::memory(connector(&memory)))
        .max_in_flight(1)
        .rate_limit(1, 10 * SECOND));
    connected(&s).await;
    let first = tokio::spawn(s.call_tool("slow", json!({ "ms": 1000 })).into_future());
    sleep(SECOND / 10).await;
    server.inject(LIMITED).on_tool("bump").arm();
    let limited = tokio::spawn(s.call_tool("bump", json!({})).into_future());
    sleep(SECOND / 10).await;
    let waiting = tokio::spawn(s.call_tool("bump", json!({})).into_future());
    first.await.unwrap().unwrap();
    assert_eq!(limited.await.unwrap().unwrap_err().outcome, Outcome::Answered);
    assert_eq!(retry_in(&waiting.await.unwrap().unwrap_err()), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn switched_off_every_refusal_is_passed_on() {
    let server = Server::new();
    let memory = evergate_testkit::MemoryServer::new(server.clone());
    let settings = steady(evergate_runtime::Settings::memory(connector(&memory)));
    let (_hub, s) = hub(settings.rate_limit(0, SECOND));
    connected(&s).await;
    server.inject(LIMITED).on_tool("bump").times(20);
    for _ in 0..20 {
        assert_eq!(bump(&s).await.unwrap_err().outcome, Outcome::Answered);
    }
    bump(&s).await.unwrap();
}
