//! Rows for tests.

use crate::faults::mix::Mix;
use crate::faults::results::{Matrix, Outcome, Row, Way};
use crate::faults::scenario::Scenario;
use crate::faults::verdict::{Grade, Tally};

/// A cell in which nothing went wrong.
pub(crate) fn perfect() -> Tally {
    Tally {
        grade: Grade::Perfect,
        calls: 12,
        answered: 12,
        failed: 0,
        inevitable: 0,
        lost: 0,
        twice: 0,
        repeated: 0,
        ambiguous: 0,
        recovery_seconds: Some(0.012),
        slowest_error_seconds: None,
        reinitialized: 0,
        orphans: 0,
        blinks: 0,
        news: None,
        cured_by_new_client: None,
        errors: Vec::new(),
    }
}

pub(crate) fn row(product: &str, scenario: Scenario, transport: Way, outcome: Outcome) -> Row {
    Row {
        product: product.into(),
        scenario,
        transport,
        eras: Mix::default(),
        version: "1.2.3".into(),
        date: "2026-11-15".into(),
        short: false,
        took_seconds: 3.5,
        load: Some(0.5),
        outcome,
    }
}

/// One row of every kind.
pub(crate) fn matrix() -> Matrix {
    let ran = |tally: Tally| Outcome::Ran(Box::new(tally));
    let never = Tally {
        grade: Grade::NeverRecovered,
        answered: 2,
        failed: 10,
        ambiguous: 10,
        recovery_seconds: None,
        slowest_error_seconds: Some(0.5),
        cured_by_new_client: Some(true),
        errors: vec![("Internal | `error`".into(), 10)],
        ..perfect()
    };
    let lost =
        Tally { grade: Grade::Lost, answered: 11, lost: 1, orphans: 1, blinks: 2, ..perfect() };
    let between = |mix, outcome| Row {
        eras: mix,
        short: true,
        ..row("evergate", Scenario::Outage, Way::Http, outcome)
    };
    let rows = [
        between(Mix::ModernLegacy, ran(Tally { calls: 7, answered: 7, ..perfect() })),
        between(Mix::ModernModern, ran(lost.clone())),
        between(Mix::LegacyModern, Outcome::NotApplicable("there is no such server".into())),
        row("someproxy", Scenario::Outage, Way::Http, ran(never)),
        row("evergate", Scenario::Outage, Way::Http, ran(perfect())),
        row("direct", Scenario::Outage, Way::Http, ran(lost)),
        row("evergate", Scenario::ChildHangs, Way::Stdio, Outcome::RunnerFailed("no pipe".into())),
        row(
            "direct",
            Scenario::GatewayRestart,
            Way::Stdio,
            Outcome::NotApplicable("there is none".into()),
        ),
        row(
            "someproxy",
            Scenario::GatewayRestart,
            Way::Stdio,
            Outcome::NotInstalled("run it\nfirst".into()),
        ),
        row(
            "evergate",
            Scenario::GatewayRestart,
            Way::Stdio,
            Outcome::DidNotStart("port taken".into()),
        ),
    ];
    let mut matrix = Matrix::default();
    for row in rows {
        matrix.put(row);
    }
    matrix
}
