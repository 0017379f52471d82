//! The table of `evergate status`: what is wrong comes first, and what is wrong with it stands below it.

use crate::admin::model::{GatewayReport, Health, ServerReport, ServerState};
use crate::cli::terminal::{Colour, Style};
use crate::cli::words::{clean, count, countdown, is_troubled, look, refusing, shorten, span};

/// A gateway and its servers at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) url: String,
    pub(super) gateway: GatewayReport,
    pub(super) servers: Vec<ServerReport>,
    /// These were asked for by name: how the others are does not matter.
    pub(super) named: bool,
}

/// From this width on there is room for where a server is.
const WIDE: usize = 100;
/// Everything but the names, and where servers are.
const FIXED: usize = 61;
const LONGEST_NAME: usize = 32;
/// More would push the servers out of sight.
const MOST_WARNINGS: usize = 3;

pub(super) fn lines(snapshot: &Snapshot, style: Style) -> Vec<String> {
    let mut lines = if snapshot.named { Vec::new() } else { head(snapshot, style) };
    if snapshot.servers.is_empty() {
        lines.push("no servers are configured".to_owned());
        return lines;
    }
    lines.extend(table(snapshot, style));
    let worst = in_order(&snapshot.servers).into_iter().next();
    if let Some(server) = worst.filter(|server| style.colour && is_troubled(server)) {
        lines.push(String::new());
        let more = format!("`evergate why {}` says more", clean(&server.name));
        lines.push(style.paint(Colour::Dim, &more));
    }
    lines
}

/// Troubled ones first, those that are switched off last, else as configured.
pub(super) fn in_order(servers: &[ServerReport]) -> Vec<&ServerReport> {
    let mut ordered: Vec<&ServerReport> = servers.iter().collect();
    ordered.sort_by_key(|server| look(server).rank);
    ordered
}

fn head(snapshot: &Snapshot, style: Style) -> Vec<String> {
    let gateway = &snapshot.gateway;
    let (version, url) = (clean(&gateway.version), &snapshot.url);
    let up = span(gateway.uptime_ms);
    let first = format!("Evergate {version} at {url}, up {up}, process {}", gateway.pid);
    let mut lines = vec![cut(&first, style), summary(snapshot, style)];
    let warnings = collapsed(&gateway.warnings);
    let more = warnings.len().saturating_sub(MOST_WARNINGS);
    let more = (more > 0).then(|| format!("and {more} more such things, see --json"));
    for warning in warnings.into_iter().take(MOST_WARNINGS).chain(more) {
        lines.push(style.paint(Colour::Yellow, &cut(&format!("! {warning}"), style)));
    }
    lines.push(String::new());
    lines
}

/// One line for each kind of warning. Those of a kind differ only in names, which are quoted.
fn collapsed(warnings: &[String]) -> Vec<String> {
    let mut kinds: Vec<(String, &String, usize)> = Vec::new();
    for warning in warnings {
        let kind: String = warning.split('"').step_by(2).collect();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., count)) => *count += 1,
            None => kinds.push((kind, warning, 1)),
        }
    }
    let line = |(_, first, count): (String, &String, usize)| match count {
        1 => clean(first),
        // In front, for the end may be cut off.
        count => format!("{count} times, see --json: {}", clean(first)),
    };
    kinds.into_iter().map(line).collect()
}

/// How it is, all in all, and what it does.
fn summary(snapshot: &Snapshot, style: Style) -> String {
    let gateway = &snapshot.gateway;
    let (word, colour) = match gateway.status {
        Health::Healthy => ("healthy", Colour::Green),
        Health::Degraded => ("degraded", Colour::Yellow),
        Health::Unhealthy => ("unhealthy", Colour::Red),
        Health::Draining => ("draining", Colour::Yellow),
    };
    let servers = &snapshot.servers;
    let troubled = servers.iter().filter(|server| is_troubled(server)).count();
    let off = |server: &&ServerReport| server.state == ServerState::Disabled;
    let on = servers.len() - servers.iter().filter(off).count();
    let starting = servers.iter().filter(|server| server.starting).count();
    let what = match (troubled, on) {
        _ if gateway.draining => "no more requests are taken".to_owned(),
        (0, on) if starting > 0 => format!("{starting} of {on} servers just started"),
        (0, 0) => "no server is switched on".to_owned(),
        (0, 1) => "1 server is well".to_owned(),
        (0, on) => format!("all {on} servers are well"),
        (troubled, on) => format!("{troubled} of {on} servers in trouble"),
    };
    // Clients of 2026-07-28 have none: to count those with one and call them all would be wrong.
    let sessions = count(gateway.sessions, "session");
    let calls = count(gateway.calls_in_flight, "call");
    let rest = format!(": {what} · {calls} in flight, {} held · {sessions}", gateway.calls_held);
    let rest = match style.width {
        Some(width) => shorten(&rest, width.saturating_sub(word.len())),
        None => rest,
    };
    format!("{}{rest}", style.paint(colour, word))
}

fn table(snapshot: &Snapshot, style: Style) -> Vec<String> {
    let names = snapshot.servers.iter().map(|server| clean(&server.name).chars().count());
    let room = style.width.map_or(LONGEST_NAME, |width| width.saturating_sub(FIXED));
    let name_width = names.max().unwrap_or(0).clamp("SERVER".len(), room.clamp(8, LONGEST_NAME));
    let wide = style.width.is_none_or(|width| width >= WIDE);
    let target = if wide { "  WHERE" } else { "" };
    let head = format!(
        "  {:name_width$}  {:12}  {:>11}  {:>5}  {:>4}  {:>10}  {:>5}{target}",
        "SERVER", "STATE", "SINCE", "CALLS", "HELD", "RECONNECTS", "TOOLS"
    );
    let mut lines = vec![style.paint(Colour::Dim, &head)];
    for server in in_order(&snapshot.servers) {
        let name = shorten(&clean(&server.name), name_width);
        let look = look(server);
        let state = style.paint(look.colour, &format!("{:12}", look.word));
        let symbol = style.paint(look.colour, &look.symbol.to_string());
        let tools = server.catalog.map_or_else(|| "–".to_owned(), |known| known.tools.to_string());
        let mut line = format!(
            "{symbol} {name:name_width$}  {state}  {:>11}  {:>5}  {:>4}  {:>10}  {tools:>5}",
            span(age(server.since_unix_ms, &snapshot.gateway)),
            server.in_flight,
            server.held,
            server.reconnects,
        );
        if wide {
            let taken = head.chars().count() - target.len();
            let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(taken + 2));
            let room = room.min(LONGEST_NAME * 2);
            line = format!("{line}  {}", shorten(&clean(&server.target), room));
        }
        lines.push(line.trim_end().to_owned());
        if let Some(detail) = detail(server) {
            lines.push(style.paint(Colour::Dim, &cut(&format!("    {detail}"), style)));
        }
    }
    lines
}

/// What is wrong, and what is being done about it.
fn detail(server: &ServerReport) -> Option<String> {
    if server.state == ServerState::PerClient && server.degraded {
        return Some(clean(&server.why));
    }
    if let Some(clients) = server.connections.filter(|_| server.state == ServerState::PerClient) {
        return (clients > 0).then(|| format!("{} now", count(clients, "connection")));
    }
    if let Some(breaker) = refusing(server) {
        let until = countdown(breaker.probe_in_ms);
        return Some(format!("calls are let through again {until} · {}", clean(&breaker.because)));
    }
    if !is_troubled(server) {
        return None;
    }
    let retry = server.next_retry_ms.map(|ms| format!("next try {}", countdown(ms)));
    let required = server.required.then(|| "required".to_owned());
    let error = match server.state {
        // Its error is that of another time.
        ServerState::Unusable => Some(clean(&server.why)),
        _ => server.last_error.as_deref().map(clean),
    };
    let parts: Vec<String> = [required, retry, error].into_iter().flatten().collect();
    Some(parts.join(" · ")).filter(|text| !text.is_empty())
}

fn cut(text: &str, style: Style) -> String {
    style.width.map_or_else(|| text.to_owned(), |width| shorten(text, width))
}

/// By the gateway's clock: that of this machine may be another.
pub(super) fn age(since_unix_ms: u64, gateway: &GatewayReport) -> u64 {
    (gateway.started_unix_ms + gateway.uptime_ms).saturating_sub(since_unix_ms)
}
