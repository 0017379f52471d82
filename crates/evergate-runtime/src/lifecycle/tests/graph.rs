//! The machine as a picture, drawn by running it: an edge is there because some event took a slot along it.

use std::fmt::Write;
use std::path::Path;

use super::representative::{states, stimuli};
use super::*;

const BEGIN: &str =
    "<!-- lifecycle graph: generated, see crates/evergate-runtime/src/lifecycle/tests -->";
const END: &str = "<!-- end -->";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    from: StateKind,
    to: StateKind,
    event: &'static str,
}

#[test]
fn lifecycle_graph() {
    insta::assert_snapshot!("lifecycle_graph", graph());
}

#[test]
fn architecture_shows_the_graph() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(&path).expect("ARCHITECTURE.md at the root");
    let (head, rest) = page.split_once(BEGIN).expect("the marker before the graph");
    let (shown, tail) = rest.split_once(END).expect("the marker after the graph");
    let expected = format!("\n\n```mermaid\n{}```\n\n", graph());
    if std::env::var_os("UPDATE_ARCHITECTURE").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        shown == expected,
        "ARCHITECTURE.md does not show the lifecycle as it is; rewrite its graph with\n\
         UPDATE_ARCHITECTURE=1 cargo test -p evergate-runtime --lib architecture_shows_the_graph"
    );
}

/// Mermaid, one line per pair of states, labelled with every event that leads from one to the other. A line from a
/// state to itself means that another generation took over.
fn graph() -> String {
    let edges = edges();
    let mut lines: Vec<(StateKind, StateKind)> = Vec::new();
    for edge in &edges {
        if !lines.contains(&(edge.from, edge.to)) {
            lines.push((edge.from, edge.to));
        }
    }
    let mut graph = String::from("stateDiagram-v2\n    [*] --> Disabled\n");
    for (from, to) in lines {
        let same = edges.iter().filter(|edge| (edge.from, edge.to) == (from, to));
        let events: Vec<&str> = same.map(|edge| edge.event).collect();
        writeln!(graph, "    {from:?} --> {to:?}: {}", events.join(", ")).unwrap();
    }
    graph
}

/// Every way from one state to another, once, in the order of the representative states.
pub(super) fn edges() -> Vec<Edge> {
    let mut edges = Vec::new();
    for (_, bench) in states() {
        for policy in variations(bench.lifecycle.policy) {
            let mut bench = bench.clone();
            bench.lifecycle.policy = policy;
            for stimulus in stimuli(&bench) {
                let (after, _) = stimulus.apply(&bench);
                let edge = Edge::between(&bench, &after, stimulus.name);
                edges.extend(edge.filter(|edge| !edges.contains(edge)));
            }
        }
    }
    edges
}

/// The policies that lead to different states; `exclusive` shows in the states themselves.
fn variations(policy: Policy) -> impl Iterator<Item = Policy> {
    [
        policy,
        Policy { restart: Restart::Never, ..policy },
        Policy { max_attempts: Some(0), ..policy },
        Policy { max_attempts: Some(0), on_exhausted: OnExhausted::Fail, ..policy },
    ]
    .into_iter()
}

// === impl Edge ===

impl Edge {
    pub(super) fn between(before: &Bench, after: &Bench, event: &'static str) -> Option<Self> {
        let (from, to) = (before.kind(), after.kind());
        let taken_over = after.current().is_some() && after.current() != before.current();
        (from != to || taken_over).then_some(Self { from, to, event })
    }
}
