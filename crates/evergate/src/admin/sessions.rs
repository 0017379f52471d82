//! Who is there.

use super::model::{SessionList, SessionReport};
use crate::gateway::Gateway;
use crate::gateway::client::{Client, Kind, Scope};

/// More than anybody reads.
const MOST_LISTED: usize = 1000;

/// Clients with a session, the newest first.
pub(crate) fn sessions(gateway: &Gateway) -> SessionList {
    let mut clients = gateway.clients.all();
    clients.retain(|client| matches!(client.kind, Kind::Session));
    clients.sort_by_key(|client| client.age());
    let sessions = clients.iter().take(MOST_LISTED).map(|client| report(client)).collect();
    SessionList { count: clients.len(), sessions }
}

fn report(client: &Client) -> SessionReport {
    let ms =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    SessionReport {
        client: client.label().to_string(),
        key: client.caller().name().map(str::to_owned),
        protocol: client.introduction.version.clone(),
        scope: match &client.scope {
            Scope::All => "all".to_owned(),
            Scope::One(server) => server.to_string(),
        },
        age_ms: ms(client.age()),
        idle_ms: ms(client.quiet_for()),
        calls_in_flight: client.calls_under_way(),
    }
}
