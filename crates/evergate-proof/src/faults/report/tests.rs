use super::*;
use crate::faults::sample::matrix;

#[test]
fn the_document() {
    insta::assert_snapshot!(markdown(&matrix()));
}

#[test]
fn the_table_at_the_end_shows_what_was_run() {
    let selection = Selection { scenarios: vec![Scenario::Outage], ..Selection::default() };
    insta::assert_snapshot!(table(&matrix(), &selection));
}

#[test]
fn tables_are_not_broken_by_what_errors_say() {
    let text = markdown(&matrix());
    let mut columns = 0;
    for line in text.lines() {
        let bars = line.matches('|').count();
        if !line.starts_with('|') {
            columns = 0;
        } else if columns == 0 {
            columns = bars;
        } else {
            assert_eq!(bars, columns, "{line}");
        }
    }
}
