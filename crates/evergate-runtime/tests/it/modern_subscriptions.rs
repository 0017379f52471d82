//! Hearing of changes without a handshake: nothing is lost, nothing is heard that nobody asked for, and the server is not
//! asked more often than it must be.

use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{
    CallFailure, Catalog, Handlers, Hub, Notification, Outcome, ServerHandle, Settings, StateKind,
    SubscribeError,
};
use evergate_testkit::{Counters, Eras, Fault, HttpServer, ListKind, ListenEnd, Server};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const UPDATED: &str = "notifications/resources/updated";
const EVERYWHERE: [Over; 2] = [Over::Http, Over::Lines];

fn modern() -> Server {
    let server = Server::new();
    server.set_eras(Eras::Modern);
    server
}

/// Connected, listed and listening.
async fn start(over: Over, server: &Server) -> (Hub, ServerHandle) {
    let (hub, s) = hub_over(over, server, Handlers::new());
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
    server.wait_for(|counters| asked(counters, "subscriptions/listen") == 1).await;
    (hub, s)
}

fn asked(counters: &Counters, method: &str) -> u64 {
    counters.requests.get(method).copied().unwrap_or_default()
}

fn listens(server: &Server) -> u64 {
    asked(&server.counters(), "subscriptions/listen")
}

fn offers(name: &'static str) -> impl Fn(&Arc<Catalog>) -> bool {
    move |catalog| catalog.server("s").is_some_and(|server| server.tool(name).is_some())
}

fn add_tool(server: &Server, name: &str) {
    server.tool(name, Value::Null, |_| json!({ "content": [] }));
}

/// What was announced within this time: virtual, so that everything has happened by then.
async fn heard(news: &mut Receiver<Notification>, within: Duration) -> Vec<(String, Value)> {
    let until = Instant::now() + within;
    let mut heard = Vec::new();
    while let Ok(notification) = tokio::time::timeout_at(until, news.recv()).await {
        let notification = notification.unwrap();
        let params = notification.params.map(|params| params.parse().unwrap());
        heard.push((notification.method, params.unwrap_or_default()));
    }
    heard
}

fn update(uri: &str) -> (String, Value) {
    (UPDATED.to_owned(), json!({ "uri": uri }))
}

#[tokio::test(start_paused = true)]
async fn what_changes_between_the_listing_and_the_listen_is_found_out() {
    for over in EVERYWHERE {
        let server = modern();
        server.inject(Fault::DelayAnswer(20 * SECOND)).on("subscriptions/listen");
        let (hub, _) = start(over, &server).await;
        add_tool(&server, "new");
        let mut catalog = hub.watch_catalog();
        let found = timeout(PATIENCE, catalog.wait_for(offers("new"))).await;
        assert!(found.is_ok(), "{over:?}: nobody listed again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_up_the_listen_is_listed_once() {
    for over in EVERYWHERE {
        let server = modern();
        let (_hub, _) = start(over, &server).await;
        sleep(PATIENCE).await;
        let counters = server.counters();
        assert_eq!((asked(&counters, "tools/list"), listens(&server)), (1, 1), "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_that_change_nothing_are_not_sent() {
    for over in EVERYWHERE {
        let server = modern();
        let (_hub, s) = start(over, &server).await;
        for _ in 0..100 {
            s.subscribe("test://a").await.unwrap();
            s.unsubscribe("test://nobody").await.unwrap();
            sleep(SECOND).await;
        }
        let counters = server.counters();
        assert_eq!((listens(&server), asked(&counters, "tools/list")), (2, 1), "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_at_once_are_few_listens_and_no_listing() {
    for over in EVERYWHERE {
        let server = modern();
        let (_hub, s) = start(over, &server).await;
        let uris: Vec<_> = (0..100).map(|number| format!("test://{number}")).collect();
        join_all(uris.iter().map(|uri| s.subscribe(uri))).await;
        sleep(SECOND).await;
        let mut subscribed = server.counters().subscriptions;
        subscribed.sort();
        subscribed.dedup();
        assert_eq!(subscribed.len(), 100, "{over:?}");
        assert!(listens(&server) <= 3, "{over:?}: {} listens", listens(&server));
        assert_eq!(asked(&server.counters(), "tools/list"), 1, "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_with_the_server_when_it_is_confirmed_and_nothing_is_announced_for_it() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        let mut news = hub.notifications();
        s.subscribe("test://a").await.unwrap();
        server.update_resource("test://a");
        server.update_resource("test://b");
        assert_eq!(heard(&mut news, PATIENCE).await, [update("test://a")], "{over:?}");
        assert_eq!(server.counters().subscriptions, ["test://a"], "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_subscribed_is_no_longer_heard_of() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        s.subscribe("test://b").await.unwrap();
        let mut news = hub.notifications();
        s.unsubscribe("test://a").await.unwrap();
        server.wait_for(|counters| counters.subscriptions == ["test://b"]).await;
        server.update_resource("test://a");
        server.update_resource("test://b");
        assert_eq!(heard(&mut news, PATIENCE).await, [update("test://b")], "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_heard_of_stays_so_until_the_server_takes_up_more() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        let mut news = hub.notifications();
        server.inject(Fault::DelayAnswer(3 * SECOND)).on("subscriptions/listen");
        let (subscribed, ()) = tokio::join!(s.subscribe("test://b"), async {
            server.wait_for(|counters| asked(counters, "subscriptions/listen") == 3).await;
            sleep(SECOND).await;
            server.update_resource("test://a");
        });
        subscribed.unwrap();
        assert_eq!(heard(&mut news, PATIENCE).await, [update("test://a")], "{over:?}");
        assert_eq!(server.counters().subscriptions, ["test://a", "test://b"], "{over:?}");
        assert_eq!(asked(&server.counters(), "tools/list"), 1, "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_was_confirmed_too_early_is_made_good() {
    let server = modern();
    let (hub, s) = start(Over::Lines, &server).await;
    let mut news = hub.notifications();
    // Longer than anybody waits for a confirmation.
    server.inject(Fault::DelayAnswer(15 * SECOND)).on("subscriptions/listen");
    s.subscribe("test://a").await.unwrap();
    assert!(server.counters().subscriptions.is_empty());
    assert_eq!(heard(&mut news, PATIENCE).await, [update("test://a")]);
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_lists_are_listed_and_subscribed_resources_announced() {
    for over in EVERYWHERE {
        for how in [ListenEnd::Answered, ListenEnd::Cancelled] {
            let server = modern();
            let (hub, s) = start(over, &server).await;
            s.subscribe("test://a").await.unwrap();
            let mut news = hub.notifications();
            server.end_listens(how);
            add_tool(&server, "new");
            let mut catalog = hub.watch_catalog();
            let found = timeout(PATIENCE, catalog.wait_for(offers("new"))).await;
            assert!(found.is_ok(), "{over:?} {how:?}: nobody listened again");
            assert_eq!(heard(&mut news, SECOND).await, [update("test://a")], "{over:?} {how:?}");
            assert_eq!(listens(&server), 3, "{over:?} {how:?}");
            server.update_resource("test://a");
            assert_eq!(heard(&mut news, SECOND).await, [update("test://a")], "{over:?} {how:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_announces_each_subscribed_resource_once() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        let mut news = hub.notifications();
        s.restart();
        beyond(&s, 1).await;
        assert_eq!(heard(&mut news, PATIENCE).await, [update("test://a")], "{over:?}");
        assert_eq!(server.counters().subscriptions, ["test://a"], "{over:?}");
        assert_eq!(listens(&server), 3, "{over:?}");
    }
}

#[tokio::test]
async fn an_idle_server_that_died_is_noticed_without_any_call() {
    let server = modern();
    let http = HttpServer::start(server.clone()).await;
    let (_hub, s) = hub(fast(Settings::http(http.url())));
    server.wait_for(|counters| counters.listening == 1).await;
    http.kill().await;
    reach(&s, StateKind::Reconnecting).await;
    http.revive().await;
    beyond(&s, 1).await;
    server.wait_for(|counters| counters.listening == 1).await;
    assert_eq!(server.counters().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_that_wants_other_credentials_is_noticed_without_any_call() {
    let server = modern();
    let (_hub, s) = start(Over::Http, &server).await;
    server.set_bearer_token(Some("another"));
    server.end_listens(ListenEnd::Answered);
    reach(&s, StateKind::PermanentlyFailed).await;
}

#[tokio::test(start_paused = true)]
async fn a_listen_that_fails_is_tried_less_and_less_and_at_once_when_more_is_wanted() {
    for over in EVERYWHERE {
        let server = modern();
        server.inject(Fault::Status(500, "no".into())).on("subscriptions/listen").forever();
        let (_hub, s) = start(over, &server).await;
        sleep(PATIENCE).await;
        let tried = listens(&server);
        assert!((10..=30).contains(&tried), "{over:?}: {tried} listens in ten minutes");
        server.clear_faults();
        let began = Instant::now();
        s.subscribe("test://a").await.unwrap();
        assert!(began.elapsed() < SECOND, "{over:?}: it took {:?}", began.elapsed());
        assert_eq!(server.counters().subscriptions, ["test://a"], "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listen_that_brings_nothing_is_sent_again_only_for_something_else() {
    let server = modern();
    server.set_capabilities(json!({ "tools": {}, "resources": { "subscribe": true } }));
    let (hub, s) = hub_over(Over::Http, &server, Handlers::new());
    hub.watch_catalog().wait_for(|catalog| catalog.version == 1).await.unwrap();
    assert_eq!(listens(&server), 0);
    // It has changed its mind.
    server.set_capabilities(json!({ "tools": {}, "resources": {} }));
    s.subscribe("test://a").await.unwrap();
    sleep(PATIENCE).await;
    assert_eq!(listens(&server), 1);
    s.subscribe("test://b").await.unwrap();
    sleep(PATIENCE).await;
    assert_eq!(listens(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_listened_to_is_asked_once() {
    for over in EVERYWHERE {
        let server = modern();
        server.set_listening_stream(false);
        let (_hub, s) = start(over, &server).await;
        let began = Instant::now();
        s.subscribe("test://a").await.unwrap();
        assert!(began.elapsed() < SECOND, "{over:?}: it took {:?}", began.elapsed());
        sleep(PATIENCE).await;
        assert_eq!(listens(&server), 1, "{over:?}");
    }
}

/// What servers refuse a resource with: in words of their own, and as if they were in trouble.
const REFUSALS: [i64; 2] = [-32602, -32603];

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_server_refuses_is_refused_and_silences_nobody() {
    for (over, code) in EVERYWHERE.into_iter().flat_map(|over| REFUSALS.map(|code| (over, code))) {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        server.refuse_resources(&["test://bad"], code);
        let (bad, good) = tokio::join!(s.subscribe("test://bad"), s.subscribe("test://b"));
        good.unwrap();
        match bad.unwrap_err() {
            SubscribeError::Call(error) => {
                let said = matches!(&error.source, CallFailure::Rpc(error) if error.code == code);
                assert!(said && error.outcome == Outcome::Answered, "{over:?}: {error}");
            }
            other => panic!("{over:?}: {other}"),
        }
        let raw = Some(json!({ "uri": "test://bad" }).into());
        assert!(s.request("resources/subscribe", raw).await.is_err(), "{over:?}");
        sleep(SECOND).await;
        let (before, mut news) = (listens(&server), hub.notifications());
        for uri in ["test://a", "test://b", "test://bad"] {
            server.update_resource(uri);
        }
        add_tool(&server, "new");
        server.notify_list_changed(ListKind::Tools);
        let mut catalog = hub.watch_catalog();
        assert!(timeout(PATIENCE, catalog.wait_for(offers("new"))).await.is_ok(), "{over:?}");
        let heard: Vec<_> = heard(&mut news, PATIENCE).await;
        assert_eq!(heard, [update("test://a"), update("test://b")], "{over:?} {code}");
        assert_eq!(listens(&server), before, "{over:?}: it is asked for again and again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_resource_costs_those_who_listen_already_nothing() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        server.refuse_resources(&["test://bad"], -32602);
        let mut news = hub.notifications();
        for _ in 0..5 {
            s.subscribe("test://bad").await.unwrap_err();
        }
        // Neither a gap nor a listing.
        assert_eq!(heard(&mut news, PATIENCE).await, [], "{over:?}");
        assert_eq!(asked(&server.counters(), "tools/list"), 1, "{over:?}");
        assert_eq!(listens(&server), 7, "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_refused_only_after_a_reconnect_silences_nobody_either() {
    for (over, code) in EVERYWHERE.into_iter().flat_map(|over| REFUSALS.map(|code| (over, code))) {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        for number in 0..5 {
            s.subscribe(&format!("test://{number}")).await.unwrap();
        }
        server.refuse_resources(&["test://1", "test://4"], code);
        s.restart();
        beyond(&s, 1).await;
        sleep(PATIENCE).await;
        let all = |server: &Server| {
            let mut subscribed = server.counters().subscriptions;
            subscribed.sort();
            subscribed
        };
        assert_eq!(all(&server), ["test://0", "test://2", "test://3"], "{over:?} {code}");
        // It was promised, so it comes back when the server wants it again: at the latest with the next generation.
        server.refuse_resources(&["test://4"], code);
        s.subscribe("test://1").await.unwrap();
        assert_eq!(all(&server).len(), 4, "{over:?} {code}");
        server.refuse_resources(&[], code);
        let mut news = hub.notifications();
        s.restart();
        beyond(&s, 2).await;
        assert_eq!(heard(&mut news, PATIENCE).await.len(), 5, "{over:?} {code}");
        assert_eq!(all(&server).len(), 5, "{over:?} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_passed_on_says_nothing_of_our_own_subscription() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, s) = start(over, &server).await;
        let mut news = hub.notifications();
        s.subscribe("test://a").await.unwrap();
        server.update_resource("test://a");
        let task = json!({ "taskId": "t", "status": "working", "_meta": { "mine": 1 } });
        server.notify("notifications/tasks", task.clone());
        server.end_listens(ListenEnd::Answered);
        let news = heard(&mut news, PATIENCE).await;
        let tasks = ("notifications/tasks".to_owned(), task);
        assert_eq!(news, [update("test://a"), tasks, update("test://a")], "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_its_caller_gave_up_on_is_not_listened_for() {
    for over in EVERYWHERE {
        let server = modern();
        let (_hub, s) = start(over, &server).await;
        s.subscribe("test://a").await.unwrap();
        server.inject(Fault::DelayAnswer(3 * SECOND)).on("subscriptions/listen");
        assert!(timeout(SECOND, s.subscribe("test://b")).await.is_err());
        sleep(PATIENCE).await;
        assert_eq!(server.counters().subscriptions, ["test://a"], "{over:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_every_list_are_heard_of() {
    for over in EVERYWHERE {
        let server = modern();
        let (hub, _) = start(over, &server).await;
        for (version, kind) in
            [ListKind::Tools, ListKind::Prompts, ListKind::Resources].into_iter().enumerate()
        {
            match kind {
                ListKind::Tools => add_tool(&server, "new"),
                ListKind::Prompts => server.set_prompts(vec![json!({ "name": "new" })]),
                ListKind::Resources => {
                    server.set_resources(vec![json!({ "uri": "test://new", "name": "new" })]);
                }
            }
            server.notify_list_changed(kind);
            let wanted = version as u64 + 2;
            let mut catalog = hub.watch_catalog();
            let seen = timeout(PATIENCE, catalog.wait_for(|now| now.version == wanted)).await;
            assert!(seen.is_ok(), "{over:?} {kind:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_by_itself_gets_no_answer() {
    let server = modern();
    let (_hub, s) = start(Over::Lines, &server).await;
    let mut asked = server.request_client("ping", json!({}));
    sleep(SECOND).await;
    assert!(asked.try_recv().is_err());
    assert_eq!(s.status().last_garbage.unwrap(), "a request (ping), where there are none");
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_in_between_the_server_ends_up_with_what_is_subscribed() {
    for (seed, over) in (0..20).zip(EVERYWHERE.into_iter().cycle()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = modern();
        let (hub, s) = start(over, &server).await;
        let mut wanted = std::collections::BTreeSet::new();
        for _ in 0..60 {
            let uri = format!("test://{}", random.u8(..5));
            match random.u8(..10) {
                0..4 => {
                    s.subscribe(&uri).await.unwrap();
                    wanted.insert(uri);
                }
                4..6 => {
                    s.unsubscribe(&uri).await.unwrap();
                    wanted.remove(&uri);
                }
                6 => server.end_listens(ListenEnd::Answered),
                7 => server.end_listens(ListenEnd::Cancelled),
                8 => server.cut_listening(),
                _ => {
                    let fault = match random.u8(..3) {
                        0 => Fault::Status(500, "no".into()),
                        1 => Fault::HangBeforeHeaders,
                        _ => Fault::DelayAnswer(7 * SECOND),
                    };
                    server.inject(fault).on("subscriptions/listen");
                }
            }
            sleep(Duration::from_millis(random.u64(..500))).await;
        }
        server.clear_faults();
        sleep(PATIENCE).await;
        let mut news = hub.notifications();
        let mut subscribed = server.counters().subscriptions;
        subscribed.sort();
        let wanted: Vec<_> = wanted.into_iter().collect();
        assert_eq!(subscribed, wanted, "seed {seed}, {over:?}");
        for number in 0..5 {
            server.update_resource(&format!("test://{number}"));
        }
        let heard = heard(&mut news, SECOND).await;
        let expected: Vec<_> = wanted.iter().map(|uri| update(uri)).collect();
        assert_eq!(heard, expected, "seed {seed}, {over:?}");
        // However much went wrong, there is no storm.
        assert!(listens(&server) < 200, "seed {seed}, {over:?}: {}", listens(&server));
        assert_eq!(hub.shutdown(SECOND).await.unfinished_tasks, 0);
    }
}
