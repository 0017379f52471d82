//! What `/metrics` says of what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use evergate_testkit::{Fault, SessionLoss};
use http::StatusCode;
use serde_json::{Value, json};

use crate::kit::{
    at, at_with, begin, child, child_with, delete, kill, merged, pid_of, quick, servers, soon,
    until_listed, until_status, web,
};
use crate::support::{Gateway, Http, gateway, until};

/// Series and their values, as read from a page.
struct Page(BTreeMap<String, f64>);

impl Page {
    async fn of(gateway: &Gateway) -> Self {
        let answer = Http::new(&gateway.at("/metrics")).get(&[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let text = answer.text();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        };
        let page = Self(samples.map(sample).collect());
        page.adds_up();
        page
    }

    fn has(&self, series: &str) -> bool {
        self.0.contains_key(series)
    }

    #[track_caller]
    fn get(&self, series: &str) -> f64 {
        let found = self.0.get(series);
        *found.unwrap_or_else(|| panic!("no {series} among {:#?}", self.0.keys()))
    }

    /// A number without a fraction.
    #[track_caller]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is asserted")]
    fn count(&self, series: &str) -> u64 {
        let value = self.get(series);
        assert!(value >= 0.0 && value.fract() == 0.0, "{series} is {value}");
        value as u64
    }

    /// What must hold at any time: each histogram's last bucket is its count, and a shared server is in one state.
    fn adds_up(&self) {
        for (series, count) in self.0.iter().filter(|(name, _)| name.contains("_seconds_count")) {
            let bucket = series.replace("_count{", "_bucket{").replace('}', ",le=\"+Inf\"}");
            assert_eq!(Some(count), self.0.get(&bucket), "{series}");
        }
        for series in self.0.keys().filter(|name| name.starts_with("evergate_server_generation{")) {
            let labels = series.trim_start_matches("evergate_server_generation").trim_matches('}');
            let start = format!("evergate_server_state{labels},");
            let states = self.0.keys().filter(|name| name.starts_with(&start));
            assert_eq!(states.map(|state| self.count(state)).sum::<u64>(), 1, "{series}");
        }
    }
}

/// Waits until a series has at least that value.
async fn until_count(gateway: &Gateway, series: &str, wanted: u64) -> Page {
    let mut page = Page::of(gateway).await;
    until(&format!("{series} is {wanted}"), async || {
        page = Page::of(gateway).await;
        page.has(series) && page.count(series) >= wanted
    })
    .await;
    page
}

#[tokio::test]
async fn a_loss_its_recovery_and_the_calls_that_waited_are_counted() {
    let (web, other) = (web().await, web().await);
    let gateway = gateway(&servers(json!({ "web": at(&web), "other": at(&other) }))).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    let before = Page::of(&gateway).await;
    assert_eq!(before.count(r#"evergate_server_state{server="web",state="connected"}"#), 1);
    assert_eq!(before.count("evergate_sessions"), 1);
    assert_eq!(before.count("evergate_ready"), 1);
    assert_eq!(before.count(r#"evergate_server_recovery_seconds_count{server="web"}"#), 0);
    let lost = r#"evergate_server_connection_losses_total{server="web",reason="transport_lost"}"#;
    assert_eq!(before.count(lost), 0, "there before anything was lost");

    web.kill().await;
    until_count(&gateway, r#"evergate_server_state{server="web",state="reconnecting"}"#, 1).await;
    let call = begin(&client, "web__bump", json!({}));
    let down = until_count(&gateway, r#"evergate_calls_held{server="web"}"#, 1).await;
    assert_eq!(down.count(r#"evergate_server_reason{server="web",reason="transport_lost"}"#), 1);
    assert_eq!(down.count(r#"evergate_server_catalog_stale{server="web"}"#), 1);
    assert_eq!(down.count(r#"evergate_server_catalog_stale{server="other"}"#), 0);
    assert_eq!(down.count(lost), 1);
    client.tool_names().await;
    client.request("prompts/list", json!({})).await;
    let failed = r#"evergate_server_handshakes_total{server="web",outcome="unreachable"}"#;
    until_count(&gateway, failed, 2).await;
    web.revive().await;
    soon("an answer", call).await.unwrap();

    let wait = r#"evergate_call_wait_seconds_count{server="web"}"#;
    let after = until_count(&gateway, wait, 1).await;
    for (series, wanted) in [
        (r#"evergate_server_reconnects_total{server="web",reason="transport_lost"}"#, 1),
        (r#"evergate_server_recovery_seconds_count{server="web"}"#, 1),
        (r#"evergate_server_handshakes_total{server="web",outcome="ok"}"#, 2),
        (r#"evergate_calls_total{server="web",outcome="answered"}"#, 1),
        (r#"evergate_calls_held{server="web"}"#, 0),
        (r#"evergate_server_reconnects_total{server="other",reason="transport_lost"}"#, 0),
        (r#"evergate_server_handshakes_total{server="other",outcome="ok"}"#, 1),
        (r#"evergate_server_stale_serves_total{server="other"}"#, 0),
        (r#"evergate_call_wait_seconds_count{server="other"}"#, 0),
    ] {
        assert_eq!(after.count(series), wanted, "{series}");
    }
    let stale = after.count(r#"evergate_server_stale_serves_total{server="web"}"#);
    assert!(
        (1..=2).contains(&stale),
        "a list with its tools, and one with its prompts, if it has any: {stale}"
    );
    let generation = r#"evergate_server_generation{server="web"}"#;
    assert!(after.get(generation) > before.get(generation));
    let away = r#"evergate_server_state_seconds_total{server="web",state="reconnecting"}"#;
    let recovery = after.get(r#"evergate_server_recovery_seconds_sum{server="web"}"#);
    assert!((after.get(away) - recovery).abs() < 0.05, "{} {recovery}", after.get(away));
    let up = r#"evergate_server_state_seconds_total{server="other",state="connected"}"#;
    assert!(after.get(up) > before.get(up) + recovery);
}

#[tokio::test]
async fn calls_are_counted_by_outcome_with_their_time_and_their_bytes() {
    let http = web().await;
    let gateway = gateway(&servers(json!({ "web": at(&http) }))).start();
    let client = gateway.connect().await;
    let echo = json!({ "text": "x".repeat(1000) });
    assert_eq!(client.call_text("web__echo", echo).await.len(), 1000);
    client.call_text("web__slow", json!({ "ms": 60 })).await;
    // May have run, and may not run twice.
    http.server().inject(Fault::ExecuteThenCut).on_tool("bump").times(1);
    let unknown = client.call("web__bump", json!({})).await;
    assert_eq!(unknown["error"]["code"], -31003, "{unknown}");
    // Harmless, so it is sent again.
    http.server().inject(Fault::ExecuteThenCut).on_tool("read").times(1);
    client.call_text("web__read", json!({})).await;
    http.server().expire_sessions(SessionLoss::NotFound404);
    client.call_text("web__bump", json!({})).await;

    let page = Page::of(&gateway).await;
    for (series, wanted) in [
        (r#"evergate_calls_total{server="web",outcome="answered"}"#, 4),
        (r#"evergate_calls_total{server="web",outcome="unknown"}"#, 1),
        (r#"evergate_calls_total{server="web",outcome="cancelled"}"#, 0),
        (r#"evergate_calls_resent_total{server="web"}"#, 2),
        (r#"evergate_call_gateway_seconds_count{server="web"}"#, 5),
        (r#"evergate_call_upstream_seconds_count{server="web"}"#, 5),
        (r#"evergate_calls_in_flight{server="web"}"#, 0),
    ] {
        assert_eq!(page.count(series), wanted, "{series}");
    }
    let session = r#"evergate_server_reconnects_total{server="web",reason="session_lost"}"#;
    assert!(page.count(session) >= 1);
    let upstream = page.get(r#"evergate_call_upstream_seconds_sum{server="web"}"#);
    assert!((0.06..10.0).contains(&upstream), "{upstream}");
    assert!(page.get(r#"evergate_call_gateway_seconds_sum{server="web"}"#) > 0.0);
    assert!(page.get(r#"evergate_call_request_bytes_total{server="web"}"#) > 1000.0);
    assert!(page.get(r#"evergate_call_result_bytes_total{server="web"}"#) > 1000.0);
}

#[tokio::test]
async fn a_child_that_dies_is_counted_as_restarted_and_a_call_to_nobody_as_not_sent() {
    let nobody = json!({ "url": "http://127.0.0.1:9/mcp", "lifecycle": { "hold": "10ms" } });
    let config = servers(json!({ "child": child(&[]), "nobody": nobody }));
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let pid = pid_of(&client, "child__pid").await;
    kill(pid);
    // A call in the moment between would be with the process that is gone.
    let restarts = r#"evergate_server_process_restarts_total{server="child"}"#;
    until_count(&gateway, restarts, 1).await;
    assert_ne!(pid_of(&client, "child__pid").await, pid);
    let answer = client.call("nobody__x", json!({})).await;
    assert_eq!(answer["error"]["code"], -31001, "{answer}");
    let page = Page::of(&gateway).await;
    assert_eq!(page.count(restarts), 1);
    let exited =
        r#"evergate_server_connection_losses_total{server="child",reason="process_exited"}"#;
    assert_eq!(page.count(exited), 1);
    assert_eq!(page.count(r#"evergate_calls_total{server="nobody",outcome="not_sent"}"#), 1);
    assert_eq!(page.count(r#"evergate_call_upstream_seconds_count{server="nobody"}"#), 0);
    assert_eq!(page.count(r#"evergate_server_process_restarts_total{server="nobody"}"#), 0);
}

#[tokio::test]
async fn a_removed_server_takes_its_series_along_and_a_changed_one_counts_on() {
    let (stays, goes) = (web().await, web().await);
    let config = |more: Value| servers(merged(json!({ "stays": at(&stays) }), more));
    let gateway = gateway(&config(json!({ "goes": at(&goes) }))).start();
    let client = gateway.connect().await;
    client.call_text("stays__bump", json!({})).await;
    client.call_text("goes__bump", json!({})).await;
    let before = Page::of(&gateway).await;
    assert_eq!(before.count(r#"evergate_calls_total{server="goes",outcome="answered"}"#), 1);
    let changed = at_with(&stays, json!({ "headers": { "x-changed": "1" } }));
    gateway.write_config(&servers(json!({ "stays": changed })));
    let page = until_count(&gateway, r#"evergate_config_reloads_total{outcome="ok"}"#, 1).await;
    assert!(!page.0.keys().any(|series| series.contains("goes")), "{:#?}", page.0.keys());
    assert_eq!(page.count("evergate_config_revision"), 2);
    client.call_text("stays__bump", json!({})).await;
    let page = Page::of(&gateway).await;
    assert_eq!(page.count(r#"evergate_calls_total{server="stays",outcome="answered"}"#), 2);
    assert_eq!(page.count("evergate_config_reload_failed"), 0);

    std::fs::write(gateway.config_path(), "{ this is no JSON").unwrap();
    let page = until_count(&gateway, "evergate_config_reload_failed", 1).await;
    assert_eq!(page.count(r#"evergate_config_reloads_total{outcome="failed"}"#), 1);
    assert!(page.has(r#"evergate_server_state{server="stays",state="connected"}"#));
    gateway.write_config(&config(json!({})));
    until("it is fine again", async || {
        Page::of(&gateway).await.count("evergate_config_reload_failed") == 0
    })
    .await;
}

#[tokio::test]
async fn servers_of_clients_own_are_added_up_and_what_was_counted_stays() {
    let own = child_with(&[], json!({ "isolation": "per_client" }));
    let gateway = gateway(&servers(json!({ "own": own }))).start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    for client in [&one, &two] {
        pid_of(client, "own__pid").await;
    }
    let page = Page::of(&gateway).await;
    assert_eq!(page.count(r#"evergate_server_client_connections{server="own"}"#), 2);
    assert_eq!(page.count(r#"evergate_server_state{server="own",state="connected"}"#), 2);
    assert!(!page.has(r#"evergate_server_generation{server="own"}"#));
    let restarts = r#"evergate_server_process_restarts_total{server="own"}"#;
    assert_eq!(page.count(restarts), 0, "two clients are no restart");
    let pid = pid_of(&one, "own__pid").await;
    kill(pid);
    let exited = r#"evergate_server_reconnects_total{server="own",reason="process_exited"}"#;
    let page = until_count(&gateway, exited, 1).await;
    assert_eq!(page.count(restarts), 1);
    delete(&one).await;
    delete(&two).await;
    until("both are gone", async || {
        let page = Page::of(&gateway).await;
        let states = page.0.keys().filter(|name| name.starts_with("evergate_server_state{"));
        states.map(|state| page.count(state)).sum::<u64>() == 0
    })
    .await;
    let page = Page::of(&gateway).await;
    assert_eq!(page.count(exited), 1);
    assert_eq!(page.count(r#"evergate_server_handshakes_total{server="own",outcome="ok"}"#), 3);
    assert!(
        page.get(r#"evergate_server_state_seconds_total{server="own",state="connected"}"#) > 0.0
    );
}

#[tokio::test]
async fn a_server_that_limits_the_rate_shows() {
    let http = web().await;
    let lifecycle = merged(quick(), json!({ "rate_limit": { "threshold": 1, "pause": "90s" } }));
    let entry = at_with(&http, json!({ "lifecycle": lifecycle }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    client.call_text("web__bump", json!({})).await;
    let open = r#"evergate_server_breaker_open{server="web"}"#;
    assert_eq!(Page::of(&gateway).await.count(open), 0);
    http.server().inject(Fault::RateLimited { retry_after: None }).on_tool("bump").times(1);
    client.call("web__bump", json!({})).await;
    let page = until_count(&gateway, open, 1).await;
    assert_eq!(page.count(r#"evergate_calls_total{server="web",outcome="rejected"}"#), 1);
}

#[tokio::test]
async fn a_pause_that_is_over_is_over_although_nobody_calls() {
    let http = web().await;
    let lifecycle = merged(quick(), json!({ "rate_limit": { "threshold": 1, "pause": "1s" } }));
    let entry = at_with(&http, json!({ "lifecycle": lifecycle }));
    let gateway = gateway(&servers(json!({ "web": entry }))).start();
    let client = gateway.connect().await;
    http.server().inject(Fault::RateLimited { retry_after: None }).on_tool("bump").times(1);
    client.call("web__bump", json!({})).await;
    let api = Http::new(&gateway.at("/api/v1/servers/web"));
    until("the pause is over", async || api.get(&[]).await.json()["breaker"]["open"] == false)
        .await;
    let page = Page::of(&gateway).await;
    assert_eq!(page.count(r#"evergate_server_breaker_open{server="web"}"#), 0);
    assert_eq!(client.call_text("web__bump", json!({})).await, "1");
}

#[tokio::test]
async fn refused_requests_are_counted_by_reason() {
    let gateway = gateway(&servers(json!({}))).start();
    gateway.http().post(&[], "no json").await;
    gateway
        .http()
        .post(&[("mcp-session-id", "made up")], r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    gateway.http().post(&[("origin", "http://evil.example")], "{}").await;
    Http::new(&gateway.at("/nothing")).get(&[]).await;
    let page = Page::of(&gateway).await;
    for (reason, wanted) in [
        ("not_json", 1),
        ("unknown_session", 1),
        ("forbidden_origin", 1),
        ("unknown_path", 1),
        ("unauthorized", 0),
    ] {
        let series = format!(r#"evergate_refused_requests_total{{reason="{reason}"}}"#);
        assert_eq!(page.count(&series), wanted, "{reason}");
    }
}

#[tokio::test]
async fn a_scraper_gets_the_format_it_asks_for() {
    let gateway = gateway(&servers(json!({ "bad": { "url": "http://x/${NOT_SET}" } }))).start();
    let http = Http::new(&gateway.at("/metrics"));
    let plain = http.get(&[]).await;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.text().contains("# TYPE evergate_build_info gauge\n"));
    assert!(!plain.text().contains("# EOF"));
    let open = http.get(&[("accept", "application/openmetrics-text;version=1.0.0")]).await;
    let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.header("content-type"), Some(open_metrics));
    assert!(open.text().ends_with("\n# EOF\n"));
    assert!(open.text().contains("# TYPE evergate_build info\n"));
    let unusable = "evergate_server_state{server=\"bad\",state=\"unusable\"} 1\n";
    assert!(open.text().contains(unusable) && plain.text().contains(unusable));
    assert_eq!(http.delete(&[]).await.status, StatusCode::METHOD_NOT_ALLOWED);
    let foreign = http.get(&[("origin", "http://evil.example")]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn metrics_want_a_key_with_their_scope() {
    let keys = json!([
        { "name": "agent", "key": "long-enough-agent-secret" },
        { "name": "scraper", "key": "long-enough-scraper-secret", "scopes": ["metrics"] },
        { "name": "boss", "key": "long-enough-boss-secret", "scopes": ["admin"] },
    ]);
    let config = json!({ "mcpServers": {}, "gateway": { "auth": { "keys": keys } } });
    let gateway = gateway(&config).start();
    let status = async |key: &str| {
        let http = Http::new(&gateway.at("/metrics"));
        http.get(&[("authorization", &*format!("Bearer {key}"))]).await.status
    };
    assert_eq!(Http::new(&gateway.at("/metrics")).get(&[]).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(status("wrong").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("long-enough-agent-secret").await, StatusCode::FORBIDDEN);
    assert_eq!(status("long-enough-scraper-secret").await, StatusCode::OK);
    assert_eq!(status("long-enough-boss-secret").await, StatusCode::OK);
    let http = Http::new(&gateway.at("/api/v1/gateway"));
    let api = http.get(&[("authorization", "Bearer long-enough-scraper-secret")]).await;
    assert_eq!(api.status, StatusCode::FORBIDDEN);
}

/// Secrets are in the configuration, in its variables, in what clients send and in what servers say.
#[tokio::test]
async fn no_secret_is_ever_in_the_metrics() {
    const PLANTED: &str = "PLANTED";
    let http = web().await;
    let url = format!("{}?token=PLANTED-query", http.url());
    let web = json!({
        "url": url, "lifecycle": quick(),
        "headers": { "authorization": "Bearer PLANTED-header", "x-more": "${PLANTED_VAR}" },
        "headers_from_client": ["x-mine"],
    });
    let child = child_with(&["--PLANTED-arg"], json!({ "env": { "TOKEN": "PLANTED-env" } }));
    let nobody = json!({ "url": "http://127.0.0.1:9/PLANTED-path" });
    let config = json!({
        "mcpServers": { "web": web, "child": child, "nobody": nobody },
        "gateway": { "auth": { "keys": [
            { "name": "all", "key": "PLANTED-key-0123456789", "scopes": ["mcp", "admin"] },
        ]}},
    });
    let gateway = gateway(&config).env("PLANTED_VAR", "PLANTED-var").start();
    let key = ("authorization", "Bearer PLANTED-key-0123456789");
    let client = gateway.http().header(key.0, key.1).header("x-mine", "PLANTED-mine");
    let client = client.initialize().await;
    let arguments = json!({ "text": "PLANTED-argument", "call_id": "PLANTED-id" });
    client.call("web__echo", arguments.clone()).await;
    http.server().inject(Fault::Status(500, "PLANTED-answer".into())).on_tool("bump").times(1);
    client.call("web__bump", arguments.clone()).await;
    client.call("web__PLANTED-tool", arguments).await;
    http.kill().await;
    let scraper = Http::new(&gateway.at("/metrics")).header(key.0, key.1);
    until("it is gone", async || {
        scraper.get(&[]).await.text().contains("web\",reason=\"transport_lost\"} 1")
    })
    .await;
    for accept in ["*/*", "application/openmetrics-text"] {
        let page = scraper.get(&[("accept", accept)]).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.text().len() > 5000);
        let leaked = page.text().lines().find(|line| line.contains(PLANTED)).map(str::to_owned);
        assert_eq!(leaked, None);
        assert!(!page.text().contains(&client.id));
    }
}

/// However many scrape and call at once, nothing is lost and every page adds up.
#[tokio::test]
async fn scrapes_among_many_calls_are_consistent() {
    let http = web().await;
    let gateway = Arc::new(gateway(&servers(json!({ "web": at(&http) }))).start());
    until_status(&gateway, "web", "running").await;
    let client = gateway.connect().await;
    until_listed(&client, "web__bump").await;
    let callers = (0..4).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                client.call("web__bump", json!({})).await;
            }
        })
    });
    let callers = futures_util::future::join_all(callers);
    let mut last = 0;
    let scraping = async {
        while last < 100 {
            let page = Page::of(&gateway).await;
            let now = page.count(r#"evergate_calls_total{server="web",outcome="answered"}"#);
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    };
    let (called, ()) =
        soon("all calls are counted", async { tokio::join!(callers, scraping) }).await;
    assert!(called.iter().all(Result::is_ok));
    assert_eq!(last, 100);
}
