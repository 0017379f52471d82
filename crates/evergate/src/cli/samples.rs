//! Reports for tests: a healthy server and a healthy gateway, and whatever a test says differently.

use serde_json::{Value, json};

use crate::admin::model::{GatewayReport, ServerReport};

/// The gateway's clock in all of them.
pub(super) const NOW: u64 = 1_785_499_424_123;

pub(super) fn gateway(more: Value) -> GatewayReport {
    let usual = json!({
        "version": "0.1.0", "pid": 4711, "started_unix_ms": NOW - 7_380_000, "uptime_ms": 7_380_000,
        "draining": false, "ready": true, "status": "healthy", "listen": "127.0.0.1:8080", "admin_listen": null,
        "config_files": ["/etc/servers.json"], "config_revision": 1, "sessions": 1, "calls_in_flight": 0,
        "calls_held": 0, "buffered_bytes": 0, "max_buffered_bytes": 0, "catalog_version": 7, "warnings": [], "servers": {},
    });
    serde_json::from_value(with(usual, more)).unwrap()
}

pub(super) fn server(more: Value) -> ServerReport {
    let budget = json!({ "failures": 0, "threshold": 3 });
    let usual = json!({
        "name": "docs", "state": "connected", "degraded": false, "since_unix_ms": NOW - 7_380_000,
        "reason": "handshake_done", "why": "Connected for 2 h 3 min.", "hint": null, "generation": 4,
        "session_age_ms": 7_380_000, "attempts": 0, "next_retry_ms": null, "last_error": null,
        "last_error_unix_ms": null, "reconnects": 0, "budgets": { "discovery": budget, "rpc": budget },
        "in_flight": 0, "held": 0, "queued": 0, "catalog": null, "pid": 4712, "stderr_tail": [], "protocol": "2025-11-25",
        "era": "handshake", "transport": "stdio", "target": "stdio: npx", "config_digest": "1f2e", "required": false,
        "isolation": "shared", "enabled": true, "connections": null, "history": [],
        "calls": { "answered": 0, "not_sent": 0, "rejected": 0, "unknown": 0, "cancelled": 0, "resent": 0 },
        "max_in_flight": 64, "max_held": 1024, "breaker": null,
    });
    serde_json::from_value(with(usual, more)).unwrap()
}

fn with(mut usual: Value, more: Value) -> Value {
    if let (Value::Object(usual), Value::Object(more)) = (&mut usual, more) {
        usual.extend(more);
    }
    usual
}
