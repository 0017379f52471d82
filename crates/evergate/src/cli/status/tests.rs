//! The table as people see it, at two widths and without colour.

use serde_json::{Value, json};

use super::table::{Snapshot, in_order, lines};
use crate::admin::model::ServerReport;
use crate::cli::samples;
use crate::cli::terminal::Style;

fn plain(width: usize) -> Style {
    Style { width: Some(width), height: None, colour: false }
}

fn snapshot(status: &str, servers: &[Value]) -> Snapshot {
    let servers = servers.iter().map(|more| samples::server(more.clone())).collect();
    let gateway = samples::gateway(json!({
        "status": status, "sessions": 3, "calls_in_flight": 3, "calls_held": 1,
    }));
    Snapshot { url: "http://127.0.0.1:8080".to_owned(), gateway, servers, named: false }
}

/// One of every kind.
fn mixed() -> Vec<Value> {
    let catalog = json!({ "version": 7, "tools": 12, "prompts": 0, "resources": 3, "resource_templates": 0, "stale": false });
    let long = "could not connect: tcp connect error: Connection refused (os error 111), and then some more words \
                that nobody needs to know in a table";
    vec![
        json!({ "name": "docs", "catalog": catalog, "in_flight": 2, "reconnects": 3, "last_error": "an old one" }),
        json!({ "name": "old", "state": "disabled", "enabled": false, "since_unix_ms": samples::NOW - 200_000_000 }),
        json!({ "name": "a-server-with-a-name-that-goes-on-and-on", "state": "reconnecting", "next_retry_ms": 2_100,
                "since_unix_ms": samples::NOW - 4_000, "held": 1, "last_error": long, "catalog": catalog }),
        json!({ "name": "search", "state": "disconnected", "required": true, "next_retry_ms": 41_000,
                "last_error": "the process\nended \u{1b}[31m(exit status: 1)\u{1b}[0m", "reconnects": 12,
                "since_unix_ms": samples::NOW - 754_000 }),
        json!({ "name": "ghost", "state": "permanently_failed", "last_error": "no such file or directory" }),
        json!({ "name": "slow", "degraded": true, "last_error": "no answer within 30 s", "in_flight": 1 }),
        json!({ "name": "busy", "breaker": { "open": true, "probe_in_ms": 42_000, "because": "it answered \"429\" 3 times in a row" } }),
        json!({ "name": "fresh", "state": "connecting", "since_unix_ms": samples::NOW - 500 }),
        json!({ "name": "mine", "state": "per_client", "connections": 2, "isolation": "per_client" }),
        json!({ "name": "novar", "state": "unusable", "why": "Left out: the environment variable X is not set." }),
    ]
}

#[test]
fn what_is_wrong_comes_first_and_fits_a_narrow_terminal() {
    let mut mixed = snapshot("unhealthy", &mixed());
    mixed.gateway.warnings = (1..=5)
        .map(|n| {
            format!(
                "the tool \"x{n}\" of server \"search\" is left out: server \"docs\" offers one too"
            )
        })
        .collect();
    let text = lines(&mixed, plain(80));
    assert!(text.iter().all(|line| line.chars().count() <= 80), "{text:#?}");
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_wide_terminal_shows_where_servers_are() {
    let text = lines(&snapshot("unhealthy", &mixed()), plain(120));
    assert!(text.iter().all(|line| line.chars().count() <= 120), "{text:#?}");
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn when_all_is_well_little_is_said() {
    let servers = [json!({ "name": "docs" }), json!({ "name": "files", "pid": null })];
    insta::assert_snapshot!(lines(&snapshot("healthy", &servers), plain(80)).join("\n"));
}

#[test]
fn no_servers_draining_and_one_by_name() {
    let empty = lines(&snapshot("healthy", &[]), plain(80));
    let mut draining = snapshot("draining", &[json!({ "name": "docs" })]);
    draining.gateway.draining = true;
    let draining = lines(&draining, plain(80));
    let named = Snapshot { named: true, ..snapshot("healthy", &[json!({ "name": "docs" })]) };
    let named = lines(&named, plain(80));
    insta::assert_snapshot!([empty, draining, named].map(|lines| lines.join("\n")).join("\n---\n"));
}

#[test]
fn a_terminal_too_narrow_for_anything_does_no_harm() {
    for width in [0, 1, 10, 40] {
        assert!(!lines(&snapshot("unhealthy", &mixed()), plain(width)).is_empty());
    }
}

#[test]
fn colours_are_only_added() {
    let style = Style { colour: true, ..plain(120) };
    let coloured = lines(&snapshot("unhealthy", &mixed()), style);
    assert!(coloured.iter().any(|line| line.contains("\x1b[31m")));
    let bare: Vec<String> =
        coloured.iter().map(|line| crate::cli::words::clean(line).trim_end().to_owned()).collect();
    let plain = lines(&snapshot("unhealthy", &mixed()), plain(120));
    // A hint follows for those who sit before it.
    assert_eq!(bare[..plain.len()], plain[..]);
    assert_eq!(bare.last().unwrap(), "`evergate why ghost` says more");
}

#[test]
fn the_order_of_the_configuration_is_kept_among_equals() {
    let servers: Vec<ServerReport> =
        ["c", "a", "b"].map(|name| samples::server(json!({ "name": name }))).into();
    let names: Vec<&str> = in_order(&servers).iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
}

/// What a later gateway says besides is not in the way.
#[test]
fn unknown_fields_are_ignored() {
    let server = samples::server(json!({ "name": "docs", "mood": { "level": 3 } }));
    assert_eq!(server.name, "docs");
}

#[test]
fn warnings_of_one_kind_are_one_line() {
    let mut snapshot = snapshot("healthy", &[json!({ "name": "docs" })]);
    let taken = |n| {
        format!("the resource \"x{n}\" of server \"b\" is left out: server \"a\" offers one too")
    };
    snapshot.gateway.warnings = (1..=4).map(taken).collect();
    snapshot.gateway.warnings.push("something else".to_owned());
    let text = lines(&snapshot, plain(200));
    let warnings: Vec<&String> = text.iter().filter(|line| line.starts_with('!')).collect();
    assert_eq!(warnings.len(), 2, "{text:#?}");
    assert!(warnings[0].starts_with("! 4 times, see --json: the resource \"x1\""), "{warnings:?}");
    assert_eq!(warnings[1], "! something else");
}

#[test]
fn a_server_that_has_just_been_started_is_not_in_trouble() {
    let servers = [
        json!({ "name": "docs" }),
        json!({ "name": "new", "state": "connecting", "starting": true }),
    ];
    let text = lines(&snapshot("healthy", &servers), plain(80)).join("\n");
    assert!(text.contains("healthy: 1 of 2 servers just started"), "{text}");
    assert!(text.contains("◐ new"), "{text}");
}

#[test]
fn a_state_of_a_later_version_is_shown_as_unknown() {
    let text = lines(&snapshot("healthy", &[json!({ "state": "hibernating" })]), plain(80));
    assert!(text.join("\n").contains("? docs    unknown"), "{text:#?}");
}
