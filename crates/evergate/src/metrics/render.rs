//! One page of metrics, as of now.

use std::time::SystemTime;

use evergate_runtime::{AttemptEnd, Generation, StateKind, Status};
use tokio::time::Instant;

use super::cells::Histogram;
use super::exposition::{Format, Page};
use super::names::{self, Family};
use super::per_server::ByReason;
use super::process::Process;
use super::shown::{OwnConnections, Shown};
use super::{GatewayMetrics, ServerMetrics};
use crate::admin::model::CallOutcome;
use crate::config::Isolation;
use crate::gateway::Gateway;
use crate::gateway::error_body::Refusal;

/// `UNUSABLE` is a state that the runtime does not know: it is not told of such a server.
const UNUSABLE: &str = "unusable";

/// Everything. Blocks for a moment.
pub(crate) fn render(gateway: &Gateway, format: Format) -> String {
    let config = gateway.config();
    let (usable, unusable): (Vec<_>, Vec<_>) =
        config.servers.iter().partition(|(_, server)| server.unusable.is_none());
    let unusable: Vec<&str> = unusable.iter().map(|(name, _)| name.as_str()).collect();
    let servers: Vec<Shown<'_>> =
        usable.iter().map(|(name, server)| Shown::look(gateway, name, server)).collect();
    let mut page = Page::new(format);
    write_gateway(&mut page, gateway);
    write_states(&mut page, &servers, &unusable);
    write_places(&mut page, &servers);
    write_connections(&mut page, &servers);
    write_catalogs(&mut page, &servers);
    write_calls(&mut page, &servers);
    write_process(&mut page, gateway);
    page.finish()
}

fn write_gateway(page: &mut Page, gateway: &Gateway) {
    let draining = gateway.draining.has_begun();
    let ready = !draining && gateway.waiting_for().is_empty();
    let counted: &GatewayMetrics = &gateway.observed.metrics;
    page.family(&names::BUILD, |samples| samples.flag(&[env!("CARGO_PKG_VERSION")], true));
    page.family(&names::READY, |samples| samples.flag(&[], ready));
    page.family(&names::DRAINING, |samples| samples.flag(&[], draining));
    page.family(&names::SESSIONS, |samples| samples.count(&[], gateway.clients.sessions() as u64));
    let (buffered, limit) = gateway.buffers.state();
    page.family(&names::BUFFERED, |samples| samples.count(&[], buffered as u64));
    page.family(&names::BUFFERED_LIMIT, |samples| samples.count(&[], limit as u64));
    page.family(&names::REFUSED, |samples| {
        for (refusal, count) in Refusal::ALL.iter().zip(&counted.refused) {
            samples.count(&[refusal.as_str()], count.get());
        }
    });
    let version = gateway.hub().catalog().version;
    page.family(&names::CATALOG_VERSION, |samples| samples.count(&[], version));
    page.family(&names::CONFIG_REVISION, |samples| samples.count(&[], gateway.revision()));
    page.family(&names::RELOADS, |samples| {
        samples.count(&["ok"], counted.reloads.get());
        samples.count(&["failed"], counted.failed_reloads.get());
    });
    let failed = counted.reload_failed.load(std::sync::atomic::Ordering::Relaxed);
    page.family(&names::RELOAD_FAILED, |samples| samples.flag(&[], failed));
}

fn write_states(page: &mut Page, servers: &[Shown<'_>], unusable: &[&str]) {
    page.family(&names::STATE, |samples| {
        for shown in servers {
            for (state, count, _) in shown.states {
                let count = match &shown.status {
                    Some(status) => u32::from(status.state == state),
                    None => count,
                };
                samples.count(&[shown.name, state.as_str()], count.into());
            }
        }
        for name in unusable {
            samples.flag(&[name, UNUSABLE], true);
        }
    });
    page.family(&names::STATE_SECONDS, |samples| {
        for shown in servers {
            for (state, _, passed) in shown.states {
                samples.add(&[shown.name, state.as_str()], passed.as_secs_f64());
            }
        }
    });
    page.family(&names::REASON, |samples| {
        for (name, status) in shared(servers) {
            samples.flag(&[name, status.reason.as_str()], true);
        }
    });
    page.family(&names::SINCE, |samples| {
        for (name, status) in shared(servers) {
            samples.add(&[name], since_1970(status.since));
        }
    });
}

fn write_places(page: &mut Page, servers: &[Shown<'_>]) {
    page.family(&names::SERVER_INFO, |samples| {
        for Shown { name, server, status, .. } in servers {
            let status = status.as_ref();
            let protocol = status.and_then(|status| status.protocol).map(|known| known.to_string());
            let transport = status.and_then(|status| status.transport).unwrap_or_default();
            let isolation = match server.isolation {
                Isolation::Shared => "shared",
                Isolation::PerClient => "per_client",
            };
            let required = if server.required { "true" } else { "false" };
            let protocol = protocol.as_deref().unwrap_or_default();
            samples.flag(&[name, transport, protocol, isolation, required], true);
        }
    });
    page.family(&names::DEGRADED, |samples| {
        for (name, status) in shared(servers) {
            samples.flag(&[name], status.degraded);
        }
    });
    page.family(&names::GENERATION, |samples| {
        for (name, status) in shared(servers) {
            samples.count(&[name], status.generation.map_or(0, Generation::get));
        }
    });
    page.family(&names::ATTEMPTS, |samples| {
        for (name, status) in shared(servers) {
            samples.count(&[name], status.attempts.into());
        }
    });
    page.family(&names::NEXT_RETRY, |samples| {
        for (name, status) in shared(servers) {
            let Some(at) = status.next_retry_at else { continue };
            samples.add(&[name], at.saturating_duration_since(Instant::now()).as_secs_f64());
        }
    });
    let is_open = |status: &Status| usize::from(status.refuses_calls());
    write_now(page, &names::BREAKER, servers, is_open, |own| own.breakers);
    page.family(&names::CONNECTIONS, |samples| {
        for shown in servers {
            let Some(own) = &shown.own else { continue };
            samples.count(&[shown.name], own.count);
        }
    });
}

fn write_connections(page: &mut Page, servers: &[Shown<'_>]) {
    page.family(&names::HANDSHAKES, |samples| {
        for Shown { name, metrics, .. } in servers {
            for (end, count) in AttemptEnd::ALL.iter().zip(&metrics.handshakes) {
                samples.count(&[name, end.as_str()], count.get());
            }
        }
    });
    write_reasons(page, &names::LOSSES, servers, |metrics| &metrics.losses);
    write_reasons(page, &names::RECONNECTS, servers, |metrics| &metrics.reconnects);
    write_histogram(page, &names::RECOVERY, servers, |shown| &shown.metrics.recovery);
    page.family(&names::PROCESS_RESTARTS, |samples| {
        for Shown { name, metrics, .. } in servers {
            samples.count(&[name], metrics.process_restarts.get());
        }
    });
    page.family(&names::GARBAGE, |samples| {
        for (name, status) in shared(servers) {
            samples.count(&[name], status.garbage);
        }
    });
}

fn write_catalogs(page: &mut Page, servers: &[Shown<'_>]) {
    let listed = || servers.iter().filter_map(|shown| Some((shown, shown.catalog.as_deref()?)));
    page.family(&names::CATALOG_ITEMS, |samples| {
        for (shown, catalog) in listed() {
            let mut add = |kind, count: usize| samples.count(&[shown.name, kind], count as u64);
            add("tools", catalog.tools.len());
            add("prompts", catalog.prompts.len());
            add("resources", catalog.resources.len());
            add("resource_templates", catalog.resource_templates.len());
        }
    });
    page.family(&names::CATALOG_STALE, |samples| {
        for (shown, catalog) in listed() {
            let Some(status) = &shown.status else { continue };
            let connected = status.state == StateKind::Connected;
            let stale = !connected || catalog.generation != status.generation;
            samples.flag(&[shown.name], stale);
        }
    });
    page.family(&names::STALE_SERVES, |samples| {
        for Shown { name, metrics, .. } in servers {
            samples.count(&[name], metrics.stale_serves.get());
        }
    });
}

fn write_calls(page: &mut Page, servers: &[Shown<'_>]) {
    page.family(&names::CALLS, |samples| {
        for Shown { name, calls, .. } in servers {
            for outcome in CallOutcome::ALL {
                let count = calls.outcomes[outcome as usize].get();
                samples.count(&[name, outcome.as_str()], count);
            }
        }
    });
    page.family(&names::RESENT, |samples| {
        for Shown { name, calls, .. } in servers {
            samples.count(&[name], calls.resent.get());
        }
    });
    write_now(page, &names::IN_FLIGHT, servers, |status| status.in_flight, |own| own.in_flight);
    write_now(page, &names::HELD, servers, |status| status.held, |own| own.held);
    write_now(page, &names::QUEUED, servers, |status| status.queued, |own| own.queued);
    page.family(&names::IN_FLIGHT_LIMIT, |samples| {
        for (name, status) in shared(servers) {
            samples.count(&[name], status.max_in_flight as u64);
        }
    });
    page.family(&names::HELD_LIMIT, |samples| {
        for (name, status) in shared(servers) {
            samples.count(&[name], status.max_held as u64);
        }
    });
    write_histogram(page, &names::WAIT, servers, |shown| &shown.calls.wait);
    write_histogram(page, &names::UPSTREAM, servers, |shown| &shown.calls.upstream);
    write_histogram(page, &names::OWN, servers, |shown| &shown.calls.own);
    page.family(&names::REQUEST_BYTES, |samples| {
        for Shown { name, calls, .. } in servers {
            samples.count(&[name], calls.request_bytes.get());
        }
    });
    page.family(&names::RESULT_BYTES, |samples| {
        for Shown { name, calls, .. } in servers {
            samples.count(&[name], calls.result_bytes.get());
        }
    });
}

fn write_process(page: &mut Page, gateway: &Gateway) {
    let process = Process::look();
    let started = process.started.map(|since| since.as_secs_f64());
    let mut single = |family, value: Option<f64>| {
        if let Some(value) = value {
            page.single(family, value);
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "the formats have no other numbers")]
    let number = |count: Option<u64>| count.map(|count| count as f64);
    single(&names::CPU, process.cpu.map(|cpu| cpu.as_secs_f64()));
    single(&names::RESIDENT, number(process.resident));
    single(&names::VIRTUAL, number(process.address_space));
    single(&names::OPEN_FDS, number(process.open_files));
    single(&names::MAX_FDS, number(process.max_open_files));
    single(&names::THREADS, number(process.threads));
    single(&names::START, Some(started.unwrap_or_else(|| since_1970(gateway.started_at()))));
}

fn write_now(
    page: &mut Page,
    family: &'static Family,
    servers: &[Shown<'_>],
    of_shared: impl Fn(&Status) -> usize,
    of_own: impl Fn(&OwnConnections) -> u64,
) {
    page.family(family, |samples| {
        for shown in servers {
            let Some(count) = shown.now(&of_shared, &of_own) else { continue };
            samples.count(&[shown.name], count);
        }
    });
}

fn write_reasons(
    page: &mut Page,
    family: &'static Family,
    servers: &[Shown<'_>],
    of: fn(&ServerMetrics) -> &ByReason,
) {
    page.family(family, |samples| {
        for Shown { name, metrics, .. } in servers {
            for (reason, count) in of(metrics).read() {
                samples.count(&[name, reason.as_str()], count);
            }
        }
    });
}

fn write_histogram(
    page: &mut Page,
    family: &'static Family,
    servers: &[Shown<'_>],
    of: for<'a> fn(&'a Shown<'_>) -> &'a Histogram,
) {
    page.family(family, |samples| {
        for shown in servers {
            samples.histogram(&[shown.name], of(shown));
        }
    });
}

fn shared<'a>(servers: &'a [Shown<'_>]) -> impl Iterator<Item = (&'a str, &'a Status)> {
    servers.iter().filter_map(|shown| Some((shown.name, shown.status.as_ref()?)))
}

fn since_1970(time: SystemTime) -> f64 {
    // A clock set before 1970 shows 1970.
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
