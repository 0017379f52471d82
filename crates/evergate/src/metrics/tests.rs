//! The list of metrics, its page, and what is made from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{Happening, StateKind};

use super::cells::{Histogram, OWN_TIME};
use super::exposition::{Format, Page};
use super::names::{self, ALL, Family, Kind};
use super::page::page;
use crate::admin::model::CallOutcome;
use crate::front::request::Headers;
use crate::gateway::error_body::Refusal;
use crate::observed::Observed;

pub(super) fn families() -> impl Iterator<Item = &'static Family> {
    ALL.iter().flat_map(|(_, families)| families.iter().copied())
}

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_name_says_its_unit_and_is_there_once() {
    let mut seen = BTreeSet::new();
    for family in families() {
        assert!(seen.insert(family.name), "{} is there twice", family.name);
        let prefixed = ["evergate_", "process_"].iter().any(|start| family.name.starts_with(start));
        assert!(prefixed, "{}", family.name);
        let snake = |text: &str| text.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
        assert!(snake(family.name), "{}", family.name);
        assert!(!family.name.ends_with("_total") && !family.name.ends_with("_info"));
        if !family.unit.is_empty() {
            let ending = format!("_{}", family.unit);
            assert!(family.name.ends_with(&ending), "{} is in {}", family.name, family.unit);
        }
        assert!(!family.help.ends_with('.') && family.help.len() > 5, "{}", family.name);
        for label in family.labels {
            assert!(snake(label) && *label != "le", "{} {label}", family.name);
        }
    }
}

#[test]
fn outcomes_and_refusals_are_numbered_as_they_are_listed() {
    assert!(Refusal::ALL.iter().enumerate().all(|(at, refusal)| *refusal as usize == at));
    assert!(CallOutcome::ALL.iter().enumerate().all(|(at, outcome)| *outcome as usize == at));
}

#[test]
fn the_reference_of_the_metrics_is_up_to_date() {
    let path = repository().join("docs/reference/metrics.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page(),
        "metrics.md is not what the table says; write it again with\nUPDATE_REFERENCE=1 cargo test -p evergate up_to_date"
    );
}

fn wanted(accept: &str) -> Format {
    Format::wanted(&Headers::from_iter([("accept", accept)]))
}

#[test]
fn only_who_asks_for_open_metrics_gets_it() {
    // As Prometheus 2.42 and 3.4 send it.
    let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for accept in [
        prometheus_2,
        prometheus_3,
        "Application/OpenMetrics-Text",
        "text/plain;q=0.5, application/openmetrics-text; q=0.5",
    ] {
        assert_eq!(wanted(accept), Format::OpenMetrics, "{accept}");
    }
    for accept in [
        "*/*",
        "",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "text/plain;version=0.0.4",
        "text/plain, application/openmetrics-text;q=0.9",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=nonsense",
    ] {
        assert_eq!(wanted(accept), Format::Text, "{accept}");
    }
    assert_eq!(Format::wanted(&Headers::default()), Format::Text);
}

/// A page with one of each kind, and names that need care.
fn sample(format: Format) -> String {
    let mut page = Page::new(format);
    page.family(&names::BUILD, |samples| samples.flag(&["1.2.3"], true));
    page.single(&names::READY, 1.0);
    page.family(&names::STATE_SECONDS, |samples| {
        samples.add(&["a \"b\"\\c\nd", "connected"], 1.5);
    });
    // Nothing happened: nothing is said.
    page.family(&names::NEXT_RETRY, |_| ());
    let histogram = Histogram::new(OWN_TIME);
    histogram.observe(Duration::from_micros(70));
    page.family(&names::OWN, |samples| samples.histogram(&["docs"], &histogram));
    page.finish()
}

#[test]
fn a_page_is_written_in_either_format() {
    insta::assert_snapshot!("open_metrics", sample(Format::OpenMetrics));
    insta::assert_snapshot!("text", sample(Format::Text));
}

#[test]
fn families_of_every_kind_name_their_samples() {
    let of = |kind: Kind| families().find(|family| family.kind == kind).unwrap().sample_names();
    assert_eq!(of(Kind::Counter), ["evergate_refused_requests_total"]);
    assert_eq!(of(Kind::Info), ["evergate_build_info"]);
    assert_eq!(of(Kind::Histogram).len(), 3);
}

/// It lets its calls finish, and its name is another's by then.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_takes_nothing_from_its_successor() {
    let observed = Arc::new(Observed::new());
    let witness = observed.witness();
    let (off, on) = (StateKind::Disabled, StateKind::Connected);
    let begin = || {
        let told = witness("s");
        told(Happening::Began(off));
        told(Happening::Moved { from: off, to: on });
        told
    };
    let old = begin();
    observed.forget("s");
    let _new = begin();
    old(Happening::Moved { from: on, to: off });
    old(Happening::Ended(off));
    tokio::time::advance(Duration::from_secs(9)).await;
    let states = observed.metrics_of("s").states().read();
    assert!(states.contains(&(on, 1, Duration::from_secs(9))), "{states:?}");
}
