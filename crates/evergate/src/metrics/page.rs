//! The table as a page, `docs/reference/metrics.md`. Only a test writes it, and compares it afterwards.

use std::fmt::Write as _;

use super::names::{ALL, Kind};

/// Begins the page; what follows is made from the table.
const INTRODUCTION: &str = "\
# Metrics

<!-- generated from crates/evergate/src/metrics/names.rs; a test says how to write it again -->

`GET /metrics` is there for Prometheus and everything that reads its formats: OpenMetrics 1.0 for scrapers that ask for
it, the older text format for all others. It needs a key with the scope `metrics` or `admin` if there are keys, and is on
the operators' listener if `gateway.admin_listen` is set. [deploy/prometheus](../../deploy/prometheus) has a scrape
configuration and alerts, [deploy/grafana](../../deploy/grafana) a dashboard.

- Label values are names of servers from the configuration and words from fixed lists; a server that is taken out of the
  configuration takes its series along. A server has about 130 series, 60 of them buckets.
- Names of tools, clients and keys are no labels, since there may be any number of them. What a single call did is in
  `/api/v1/calls` and in the audit log.
- Counters begin at 0 with the process. A counter of a server goes on when its configuration changes.
- Of a server with `isolation = \"per_client\"` all connections are counted together, and what only one of them has, such as
  a reason or a generation, is not there.
";

/// `docs/reference/metrics.md`.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (heading, families) in ALL {
        // Writing to a string cannot fail, also below.
        let _ = write!(page, "\n## {heading}\n\n| name | kind | labels | |\n|---|---|---|---|\n");
        for family in *families {
            let (suffix, kind) = match family.kind {
                Kind::Counter => ("_total", "counter"),
                Kind::Gauge => ("", "gauge"),
                Kind::Histogram => ("", "histogram"),
                Kind::Info => ("_info", "info"),
            };
            let labels: Vec<String> =
                family.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}{suffix}` | {kind} | {} | {} |",
                family.name,
                labels.join(", "),
                family.help
            );
        }
    }
    page
}
