//! How the gateway and its servers are. Truthful: what is stale says so, what is down says why.

use std::sync::Arc;

use evergate_runtime::StateKind;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::keys::Caller;
use super::request::Headers;
use super::{Face, Front, Reply, body};
use crate::admin::per_client;
use crate::config::Isolation;
use crate::gateway::Gateway;

/// `200` if every required server is connected and requests are taken, else `503`, and why. Which servers those are is told
/// to those who may know.
pub(super) fn ready(front: &Front, face: Face, headers: &Headers) -> Reply {
    let gateway = &front.gateway;
    if gateway.draining.has_begun() {
        return body::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "ready": false, "why": "draining" }),
        );
    }
    let waiting = gateway.waiting_for();
    let ready = waiting.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut report = json!({ "ready": ready });
    let policy = front.policy();
    if !ready
        && policy.guard_of(face).check(headers).is_ok()
        && let Ok(caller) = policy.keyring.identify(headers)
    {
        let known = waiting.iter().filter(|server| caller.may_use_server(server));
        report["waiting_for"] = json!(known.collect::<Vec<_>>());
    }
    body::json(status, &report)
}

/// Everything, as JSON, or what becomes of calls, for those who only make them. Always `200`: that the report could be made is
/// not the same as that all is well.
pub(super) fn report(front: &Arc<Front>, caller: &Caller, sees_all: bool) -> Reply {
    let gateway = &front.gateway;
    let config = gateway.config();
    let servers: Map<String, Value> = config
        .servers
        .iter()
        .filter(|(name, _)| caller.may_use_server(name))
        .map(|(name, server)| (name.clone(), server_report(gateway, name, server)))
        .collect();
    let troubled = servers.values().any(|server| {
        !matches!(server["status"].as_str(), Some("running" | "disabled" | "per_client"))
    });
    let status = if gateway.draining.has_begun() {
        "draining"
    } else if !gateway.waiting_for().is_empty() {
        "unhealthy"
    } else if troubled {
        "degraded"
    } else {
        "healthy"
    };
    let mut report = json!({
        "status": status,
        "gatewayVersion": env!("CARGO_PKG_VERSION"),
        "uptime": gateway.uptime().as_secs(),
    });
    if sees_all {
        report["sessions"] = json!(gateway.clients.sessions());
        report["catalogVersion"] = json!(gateway.hub().catalog().version);
        report["warnings"] = json!(gateway.name_warnings());
        report["servers"] = servers.into();
    } else {
        report["servers"] =
            servers.into_iter().map(|(name, server)| (name, brief(&server))).collect();
    }
    body::json(StatusCode::OK, &report)
}

/// Of a server's report, what says whether a call to it will do, and why not.
fn brief(server: &Value) -> Value {
    let known = |field: &&str| !server[*field].is_null();
    let fields = ["status", "state", "reason", "isolation"].into_iter().filter(known);
    fields.map(|field| (field.to_owned(), server[field].clone())).collect()
}

fn server_report(gateway: &Gateway, name: &str, server: &crate::config::Server) -> Value {
    if let Some(why) = &server.unusable {
        return json!({ "status": "unusable", "why": why });
    }
    if server.isolation == Isolation::PerClient {
        let connections: usize =
            gateway.clients.with_servers().iter().map(|client| client.private.count(name)).sum();
        let status = match () {
            () if server.disabled => "disabled",
            () if per_client::is_in_trouble(gateway, name, server) => "degraded",
            () => "per_client",
        };
        return json!({ "status": status, "isolation": "per_client", "connections": connections });
    }
    let Ok(handle) = gateway.hub().server(name) else {
        return json!({ "status": "unusable", "why": "not started" });
    };
    let now = handle.status();
    let status = match now.state {
        StateKind::Connected if now.degraded || now.refuses_calls() => "degraded",
        StateKind::Connected => "running",
        StateKind::Connecting => "starting",
        StateKind::Disabled | StateKind::Disabling => "disabled",
        _ => "error",
    };
    let catalog = gateway.hub().catalog();
    let entry = catalog.server(name);
    let catalog = entry.map(|entry| {
        json!({
            "tools": entry.tools.len(),
            "prompts": entry.prompts.len(),
            "resources": entry.resources.len(),
            // Of an earlier connection, or an earlier run: the last good one.
            "stale": now.state != StateKind::Connected || entry.generation != now.generation,
        })
    });
    // Serialization of a status cannot fail: its maps have text keys.
    let mut report = serde_json::to_value(&now).unwrap_or_default();
    report["status"] = json!(status);
    report["required"] = json!(server.required);
    report["catalog"] = json!(catalog);
    report["hint"] = json!(now.reason.revival());
    report
}
