//! `ContextForge` (IBM): a registry of servers with one endpoint for all of their tools.
//!
//! Servers are registered through its API after the start, and kept in its database. With its asynchronous registration
//! one that is down then is tried again until it is there. It reaches stdio servers through its own bridge,
//! `mcpgateway.translate`, a process for each. Tools get the server's name and `-` in front, and every `_` becomes `-`.
//!
//! Sessions are stateful, as its makers advise for more than one call: a call takes 14 ms instead of 52 ms. Without them
//! it would keep nothing of a client that its own restart could lose. One worker, since several need Redis to share
//! sessions.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::adapter::{Adapter, Choice, Naming, Plan, Service, Site};
use super::http::{get, post};
use super::installed::{pypi, python_program};
use super::{Address, Port, Program};

const SETTINGS: &str = "https://ibm.github.io/mcp-context-forge/latest/manage/configuration/";

/// How long servers that are up may take to be registered.
const REGISTRATION: Duration = Duration::from_secs(60);

pub(super) const ADAPTER: Adapter = Adapter {
    name: "contextforge",
    understands_mcp: true,
    docs: &[
        Choice {
            setting: "USE_STATEFUL_SESSIONS=true",
            why: "sessions with the server are used again, instead of one for each call",
            url: "https://github.com/IBM/mcp-context-forge/discussions/870",
        },
        Choice {
            setting: "RATE_LIMITING_ENABLED=false",
            why: "by default it refuses more than 100 requests a minute",
            url: SETTINGS,
        },
        Choice {
            setting: "GATEWAY_ASYNC_LIFECYCLE_ENABLED=true, GATEWAY_ASYNC_LIFECYCLE_POLL_INTERVAL=0.5",
            why: "a server that is down when it is registered is tried again, soon",
            url: SETTINGS,
        },
        Choice {
            setting: "AUTO_REFRESH_SERVERS=true, GATEWAY_AUTO_REFRESH_INTERVAL=60",
            why: "tools that change are noticed, as soon as it allows",
            url: SETTINGS,
        },
        Choice {
            setting: "AUTH_REQUIRED=false, MCP_REQUIRE_AUTH=false, ALLOW_UNAUTHENTICATED_ADMIN=true",
            why: "no product here asks for a token",
            url: SETTINGS,
        },
        Choice {
            setting: "SSRF_ALLOW_LOCALHOST=true",
            why: "the servers are on this machine",
            url: SETTINGS,
        },
        Choice {
            setting: "TOOL_TIMEOUT",
            why: "how long a call may take; in the fault matrix, where every product has the same deadline",
            url: SETTINGS,
        },
        Choice {
            setting: "CACHE_TYPE=memory",
            why: "one worker needs no cache in the database",
            url: SETTINGS,
        },
        Choice {
            setting: "--no-access-log",
            why: "no line is written for each call",
            url: "https://www.uvicorn.org/settings/#logging",
        },
        Choice {
            setting: "mcpgateway.translate --stdio … --expose-streamable-http",
            why: "its own bridge to stdio servers",
            url: "https://ibm.github.io/mcp-context-forge/using/mcpgateway-translate",
        },
    ],
    supports: |_| Ok(()),
    installed: |places| pypi(places, "contextforge", "mcp-contextforge-gateway"),
    plan,
};

fn plan(site: &Site<'_>) -> anyhow::Result<Plan> {
    let mut environment = environment(site.folder);
    if let Some(timeout) = site.call_timeout {
        environment.push(("TOOL_TIMEOUT".to_owned(), timeout.as_secs().to_string()));
    }
    let mut services = Vec::new();
    let mut servers = Vec::new();
    for upstream in site.upstreams {
        let (url, transport) = match &upstream.at {
            Address::Http(url) => (url.clone(), "STREAMABLEHTTP"),
            Address::Sse(url) => (url.clone(), "SSE"),
            Address::Stdio(server) => {
                let bridge = bridge(site, server, &environment)?;
                let url = format!("http://127.0.0.1:{}/mcp", bridge.port);
                services.push(bridge);
                (url, "STREAMABLEHTTP")
            }
        };
        servers.push(json!({ "name": upstream.name, "url": url, "transport": transport }));
    }
    let port = Port::free()?;
    let mut program = python_program(site.places, "contextforge", "mcpgateway");
    program.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    program.args(["--no-access-log", "--log-level", "warning"]);
    program.env = environment;
    let address = Address::Http(format!("http://127.0.0.1:{port}/mcp"));
    let base = format!("http://127.0.0.1:{port}");
    services.push(Service::new(program, port).healthy_at("/health", "healthy"));
    Ok(Plan {
        services,
        address,
        naming: Naming::Slug("-"),
        setup: Some(Box::pin(async move { register(&base, &servers).await })),
    })
}

fn bridge(
    site: &Site<'_>,
    server: &Program,
    environment: &[(String, String)],
) -> anyhow::Result<Service> {
    let port = Port::free()?;
    let mut program = python_program(site.places, "contextforge", "python");
    program.args(["-m", "mcpgateway.translate", "--stdio"]).arg(server.as_shell_command());
    program.args(["--expose-streamable-http", "--host", "127.0.0.1"]);
    program.args(["--port", &port.to_string(), "--logLevel", "warning"]);
    program.env = [environment, &server.env].concat();
    Ok(Service::new(program, port))
}

fn environment(folder: &Path) -> Vec<(String, String)> {
    let database = format!("sqlite:///{}/contextforge.db", folder.display());
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        set("DATABASE_URL", &database),
        set("USE_STATEFUL_SESSIONS", "true"),
        set("RATE_LIMITING_ENABLED", "false"),
        set("GATEWAY_ASYNC_LIFECYCLE_ENABLED", "true"),
        set("GATEWAY_ASYNC_LIFECYCLE_POLL_INTERVAL", "0.5"),
        set("AUTO_REFRESH_SERVERS", "true"),
        set("GATEWAY_AUTO_REFRESH_INTERVAL", "60"),
        set("AUTH_REQUIRED", "false"),
        set("MCP_REQUIRE_AUTH", "false"),
        set("ALLOW_UNAUTHENTICATED_ADMIN", "true"),
        set("SSRF_ALLOW_LOCALHOST", "true"),
        set("CACHE_TYPE", "memory"),
        // It insists on secrets, though nobody is asked for one.
        set("JWT_SECRET_KEY", &secret()),
        set("AUTH_ENCRYPTION_SECRET", &secret()),
        set("BASIC_AUTH_PASSWORD", &secret()),
        set("PLATFORM_ADMIN_PASSWORD", &secret()),
        set("DEFAULT_USER_PASSWORD", &secret()),
    ]
}

/// Long, with letters of both kinds, digits and more. It lives as long as the run.
fn secret() -> String {
    let part = || RandomState::new().hash_one(0);
    format!("Run-{:016x}{:016x}{:016x}", part(), part(), part())
}

/// Registers all servers and waits until each was tried.
async fn register(base: &str, servers: &[Value]) -> anyhow::Result<()> {
    let url = format!("{base}/gateways");
    for server in servers {
        let (status, body) = post(&url, server).await?;
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    }
    let deadline = Instant::now() + REGISTRATION;
    loop {
        let (_, body) = get(&url).await?;
        let known: Vec<Value> = serde_json::from_slice(&body).context("no list of servers")?;
        if known.len() >= servers.len() && known.iter().all(was_tried) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("servers are not registered after {} s", REGISTRATION.as_secs());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// One that is down is tried again later: it must not keep the others waiting.
fn was_tried(server: &Value) -> bool {
    server["status"] == "active"
        || server["registrationAttempts"].as_u64().is_some_and(|attempts| attempts > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_down_counts_as_tried_after_its_first_attempt() {
        assert!(was_tried(&json!({ "status": "active", "registrationAttempts": 0 })));
        assert!(was_tried(&json!({ "status": "pending", "registrationAttempts": 1 })));
        assert!(!was_tried(&json!({ "status": "pending", "registrationAttempts": 0 })));
    }

    #[test]
    fn no_secret_is_like_another() {
        assert_ne!(secret(), secret());
        assert!(secret().len() >= 32);
    }

    #[test]
    fn the_limit_on_requests_is_off() {
        let environment = environment(Path::new("/run"));
        assert!(environment.contains(&("RATE_LIMITING_ENABLED".to_owned(), "false".to_owned())));
        let database = ("DATABASE_URL".to_owned(), "sqlite:////run/contextforge.db".to_owned());
        assert!(environment.contains(&database));
    }
}
