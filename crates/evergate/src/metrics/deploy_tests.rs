//! The dashboard and the alerts in `deploy/` ask only for what there is.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tests::{families, repository};
use crate::admin::model::CallOutcome;
use crate::gateway::error_body::Refusal;

/// What a query names: a metric, and the labels of its selector with the values they are compared with.
#[derive(Debug, PartialEq)]
struct Asked {
    metric: String,
    labels: Vec<(String, String)>,
}

/// What Prometheus itself makes.
const OF_PROMETHEUS: [&str; 2] = ["up", "ALERTS"];
/// Labels that every scraped series has, and that of buckets.
const ON_EVERYTHING: [&str; 3] = ["job", "instance", "le"];

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join("deploy").join(path)).unwrap()
}

/// Every metric that a query names: a word that begins as ours do, or that a selector follows.
fn asked(expr: &str) -> Vec<Asked> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let selector = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        if let Some((selector, beyond)) = selector {
            found.push(Asked { metric: word.to_owned(), labels: labels(selector) });
            rest = beyond;
        } else if word.starts_with("evergate_") || word.starts_with("process_") {
            found.push(Asked { metric: word.to_owned(), labels: Vec::new() });
        }
    }
    found
}

fn labels(selector: &str) -> Vec<(String, String)> {
    let pairs = selector.split("\",").filter(|pair| !pair.trim().is_empty());
    let pair = |text: &str| {
        let (label, value) = text.split_once('"').unwrap_or_else(|| panic!("{selector}"));
        let label = label.trim().trim_end_matches(['=', '!', '~']).to_owned();
        (label, value.trim_end_matches('"').to_owned())
    };
    pairs.map(pair).collect()
}

/// The words that a label's values are from, if there is a list of them.
fn words(label: &str) -> Option<Vec<&'static str>> {
    use evergate_runtime::{AttemptEnd, Reason, StateKind};
    match label {
        "state" => {
            Some(StateKind::ALL.map(StateKind::as_str).into_iter().chain(["unusable"]).collect())
        }
        "outcome" => {
            let attempts = AttemptEnd::ALL.map(AttemptEnd::as_str);
            Some(CallOutcome::ALL.map(CallOutcome::as_str).into_iter().chain(attempts).collect())
        }
        "reason" => {
            let refusals = Refusal::ALL.map(Refusal::as_str);
            Some(Reason::ALL.map(Reason::as_str).into_iter().chain(refusals).collect())
        }
        _ => None,
    }
}

/// That everything in a query exists.
fn check(expr: &str) {
    for Asked { metric, labels } in asked(expr) {
        if OF_PROMETHEUS.contains(&metric.as_str()) {
            continue;
        }
        let family = families().find(|family| family.sample_names().contains(&metric));
        let family = family.unwrap_or_else(|| panic!("there is no metric {metric}: {expr}"));
        for (label, values) in labels {
            let known = family.labels.contains(&&*label) || ON_EVERYTHING.contains(&&*label);
            assert!(known, "{metric} has no label {label}: {expr}");
            let Some(words) = words(&label) else { continue };
            for value in values.split('|') {
                assert!(words.contains(&value), "{label} is never {value}: {expr}");
            }
        }
    }
}

/// Every text of that name anywhere below.
fn texts<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name).and_then(Value::as_str));
            fields.values().for_each(|field| texts(field, name, found));
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, name, found)),
        _ => {}
    }
}

#[test]
fn queries_are_understood() {
    let expr = r#"sum by (server) (rate(evergate_calls_total{job="a",outcome=~"x|y"}[5m])) / evergate_ready > up{job="b"}"#;
    let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
    let calls = vec![pair("job", "a"), pair("outcome", "x|y")];
    let expected = [
        Asked { metric: "evergate_calls_total".to_owned(), labels: calls },
        Asked { metric: "evergate_ready".to_owned(), labels: vec![] },
        Asked { metric: "up".to_owned(), labels: vec![pair("job", "b")] },
    ];
    assert_eq!(asked(expr), expected);
}

#[test]
fn the_dashboard_asks_only_for_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("grafana/evergate.json")).unwrap();
    let (mut exprs, mut definitions) = (Vec::new(), Vec::new());
    texts(&dashboard, "expr", &mut exprs);
    texts(&dashboard, "definition", &mut definitions);
    assert!(exprs.len() > 30 && definitions.len() == 3, "{exprs:?} {definitions:?}");
    exprs.into_iter().chain(definitions).for_each(check);
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels {}", panel["id"]);
    }
}

/// Everything an operator would look for has its place, so that nobody forgets to show what is new.
#[test]
fn the_dashboard_shows_every_metric_but_those_named_here() {
    let not_shown = [
        "evergate_draining",
        "evergate_config_reloads",
        "evergate_server",
        "evergate_server_client_connections",
        "evergate_server_garbage_messages",
        "evergate_server_catalog_items",
        "evergate_calls_in_flight_limit",
        "evergate_calls_held_limit",
        "process_virtual_memory_bytes",
    ];
    let dashboard = read("grafana/evergate.json");
    for family in families() {
        let shown = family.sample_names().iter().any(|name| dashboard.contains(name.as_str()));
        assert_eq!(shown, !not_shown.contains(&family.name), "{}", family.name);
    }
}

#[test]
fn alerts_ask_only_for_metrics_that_exist_and_each_has_a_place_in_the_runbook() {
    let rules = read("prometheus/alerts.yml");
    let mut alerts: Vec<&str> = rules.split("      - alert: ").skip(1).collect();
    assert!(alerts.len() > 15, "{}", alerts.len());
    for alert in &mut alerts {
        let (_, expr) = alert.split_once("        expr: ").unwrap();
        let (expr, rest) = expr.split_once("        labels:").unwrap();
        let expr = expr.split("        for: ").next().unwrap();
        check(expr);
        assert!(rest.contains("          runbook: docs/runbook.md#"), "{alert}");
        for query in rest.split("printf \"").skip(1) {
            check(&query.split_once("\" ").unwrap().0.replace("%q", "\"x\""));
        }
    }
}

#[test]
fn every_alert_is_seen_firing_by_a_test_of_its_own() {
    let (rules, tests) = (read("prometheus/alerts.yml"), read("prometheus/alerts.test.yml"));
    for rule in rules.split("      - alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let by_name = format!("alertname: {name}\n");
        let in_query = format!("alertname=\"{name}\"");
        assert!(tests.contains(&by_name) || tests.contains(&in_query), "{name} is never tested");
    }
    let series = tests.lines().filter_map(|line| line.trim().strip_prefix("- series: "));
    series.for_each(check);
}

/// As soon as there is a runbook, each alert leads to a heading of it.
#[test]
fn links_to_the_runbook_lead_somewhere() {
    let Ok(runbook) = std::fs::read_to_string(repository().join("docs/runbook.md")) else { return };
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept =
            text.chars().filter(|kept| kept.is_alphanumeric() || matches!(kept, ' ' | '-' | '_'));
        kept.map(|kept| if kept == ' ' { '-' } else { kept }).collect()
    };
    let anchors: BTreeSet<String> =
        runbook.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let rules = read("prometheus/alerts.yml");
    for link in rules.split("docs/runbook.md#").skip(1).filter_map(|rest| rest.lines().next()) {
        assert!(anchors.contains(link.trim()), "docs/runbook.md has no section {link}");
    }
}
