//! What operators do to servers. What makes no sense is refused, and says why.

use std::time::SystemTime;

use evergate_runtime::{ServerHandle, StateKind};

use super::model::{Action, Done, Problem, ServerState, What};
use super::servers;
use crate::config::Isolation;
use crate::front::keys::Caller;
use crate::gateway::Gateway;

/// Begins it; what it leads to shows in the server's status.
pub(crate) fn act(
    gateway: &Gateway,
    name: &str,
    action: Action,
    by: &Caller,
) -> Result<Done, Problem> {
    let config = gateway.config();
    let server = config.servers.get(name);
    let server = server.ok_or_else(|| Problem::unknown_server(name, &config))?;
    if let Some(why) = &server.unusable {
        return Err(Problem::conflict(format!(
            "{name} is left out because of its configuration: {why}"
        )));
    }
    let handles = if server.isolation == Isolation::PerClient {
        of_clients(gateway, name, action)?
    } else {
        let Ok(handle) = gateway.hub().server(name) else {
            return Err(Problem::conflict(format!("{name} is not started")));
        };
        if let Some(why) = senseless(name, action, handle.status().state) {
            return Err(Problem::conflict(why));
        }
        vec![handle]
    };
    gateway.observed.audit.acted(by, action, name);
    // First what was asked for, then what came of it.
    let by = by.name().map(str::to_owned);
    tracing::info!(server = name, ?action, by, "asked by an operator");
    let what = What::Action { action, server: name.to_owned(), by };
    gateway.observed.feed.add(SystemTime::now(), what);
    for handle in handles {
        match action {
            Action::Restart => handle.restart(),
            Action::Enable => handle.enable(),
            Action::Disable => handle.disable(),
            Action::Refresh => handle.refresh(),
        }
    }
    Ok(Done { done: action, server: servers::server(gateway, name)? })
}

/// The connections of all clients. They can be made anew, but not be switched off: the next client would have one again.
fn of_clients(gateway: &Gateway, name: &str, action: Action) -> Result<Vec<ServerHandle>, Problem> {
    if matches!(action, Action::Enable | Action::Disable) {
        return Err(Problem::conflict(format!(
            "each client has a connection to {name} of its own: change its entry in the configuration instead"
        )));
    }
    let clients = gateway.clients.with_servers();
    let handles = clients.iter().filter_map(|client| client.private.handle(name));
    let handles: Vec<ServerHandle> = handles.collect();
    if handles.is_empty() {
        let none =
            format!("each client has a connection to {name} of its own, and none has one now");
        return Err(Problem::conflict(none));
    }
    Ok(handles)
}

/// Why an action makes no sense in this state, if it does not.
fn senseless(name: &str, action: Action, state: StateKind) -> Option<String> {
    let word = ServerState::from(state).word();
    let off = matches!(state, StateKind::Disabled | StateKind::Disabling);
    match action {
        Action::Restart if off => Some(format!("{name} is switched off: enable it instead")),
        Action::Enable if !off && state != StateKind::PermanentlyFailed => {
            Some(format!("{name} is switched on already ({word})"))
        }
        Action::Disable if off => Some(format!("{name} is switched off already")),
        Action::Refresh if state != StateKind::Connected => {
            Some(format!("{name} is not connected ({word}): it is listed when it is"))
        }
        _ => None,
    }
}
