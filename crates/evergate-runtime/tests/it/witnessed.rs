//! A witness is told of everything that happens to servers.

use std::sync::{Arc, Mutex};

use evergate_runtime::Happening::{Attempted, Began, Connected, Ended, Lost, Moved};
use evergate_runtime::{AttemptEnd, Happening, Hub, Reason, Settings, StateKind};
use evergate_testkit::{HttpServer, Server, SessionLoss};
use serde_json::json;

use crate::support::*;

/// What was told, and of whom.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(String, Happening)>>>);

impl Told {
    fn hub(&self, settings: Settings) -> Hub {
        let told = self.clone();
        let builder = Hub::builder().server("s", settings).seed(1);
        builder.witness(move |server| told.of(server)).start().unwrap()
    }

    fn of(&self, server: &str) -> impl Fn(Happening) + Send + Sync + use<> {
        let (told, server) = (self.clone(), server.to_owned());
        move |what| told.0.lock().unwrap().push((server.clone(), what))
    }

    fn take(&self) -> Vec<Happening> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|(_, what)| what).collect()
    }
}

fn moved(from: StateKind, to: StateKind) -> Happening {
    Moved { from, to }
}

const FIRST: Happening = Connected { process: false, since_loss: None };

#[tokio::test(start_paused = true)]
async fn a_loss_and_every_attempt_to_recover_from_it_are_told() {
    let (_server, memory, settings) = memory();
    let told = Told::default();
    let hub = told.hub(settings);
    let s = hub.server("s").unwrap();
    connected(&s).await;
    let begun = told.take();
    assert_eq!(
        begun,
        [
            Began(StateKind::Disabled),
            moved(StateKind::Disabled, StateKind::Connecting),
            Attempted(AttemptEnd::Ok),
            moved(StateKind::Connecting, StateKind::Connected),
            FIRST,
        ]
    );
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    memory.refuse_next(2);
    memory.revive();
    connected(&s).await;
    let recovered = Some((Reason::TransportLost, 7 * SECOND));
    assert_eq!(
        told.take(),
        [
            Lost(Reason::TransportLost),
            moved(StateKind::Connected, StateKind::Reconnecting),
            Attempted(AttemptEnd::Unreachable),
            Attempted(AttemptEnd::Unreachable),
            Attempted(AttemptEnd::Ok),
            moved(StateKind::Reconnecting, StateKind::Connected),
            Connected { process: false, since_loss: recovered },
        ]
    );
    // Whoever is switched off has not lost anything.
    s.disable();
    reach(&s, StateKind::Disabled).await;
    s.enable();
    connected(&s).await;
    let told = told.take();
    assert!(told.contains(&Lost(Reason::Requested)), "{told:?}");
    assert!(told.contains(&FIRST), "{told:?}");
}

#[tokio::test]
async fn a_session_that_is_renewed_beside_the_old_one_is_told_as_lost_and_recovered() {
    for shape in [SessionLoss::NotFound404, SessionLoss::BadRequest400Opaque] {
        let server = Server::new();
        server.set_listening_stream(false);
        let http = HttpServer::start(server.clone()).await;
        let told = Told::default();
        let hub = told.hub(Settings::http(http.url()));
        let s = hub.server("s").unwrap();
        connected(&s).await;
        told.take();
        server.expire_sessions(shape.clone());
        s.call_tool("bump", json!({})).await.unwrap();
        beyond(&s, 1).await;
        let told = told.take();
        assert!(told.contains(&Lost(Reason::SessionLost)), "{shape:?} {told:?}");
        let recovered = told.iter().any(|what| {
            matches!(what, Connected { since_loss: Some((Reason::SessionLost, took)), .. } if !took.is_zero())
        });
        assert!(recovered, "{shape:?} {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_replaced_or_removed_ends() {
    let (_server, _memory, settings) = memory();
    let told = Told::default();
    let hub = told.hub(settings.clone());
    connected(&hub.server("s").unwrap()).await;
    told.take();
    connected(&hub.replace("s", settings).unwrap()).await;
    let count = |told: &[Happening], wanted: fn(&Happening) -> bool| {
        told.iter().filter(|what| wanted(what)).count()
    };
    hub.remove("s").unwrap();
    hub.shutdown(SECOND).await;
    let told = told.take();
    assert_eq!(count(&told, |what| matches!(what, Began(_))), 1, "{told:?}");
    assert_eq!(count(&told, |what| matches!(what, Ended(StateKind::Disabled))), 2, "{told:?}");
}
