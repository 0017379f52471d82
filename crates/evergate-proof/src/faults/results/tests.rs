use super::*;
use crate::faults::sample::{matrix, perfect, row};

#[test]
fn a_run_replaces_its_own_rows_and_keeps_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("docs/fault-matrix.json");
    let mut results = Results::open(file.clone()).unwrap();
    for row in matrix().rows {
        results.keep(row).unwrap();
    }
    let mut again = Results::open(file.clone()).unwrap();
    assert_eq!(again.matrix(), &matrix(), "nothing is lost on the way to the disk and back");

    let mut newer = row("direct", Scenario::Outage, Way::Http, Outcome::Ran(Box::new(perfect())));
    newer.version = "9.9.9".into();
    again.keep(newer.clone()).unwrap();
    let kept = Results::open(file).unwrap();
    assert_eq!(kept.matrix().rows.len(), matrix().rows.len());
    assert_eq!(kept.matrix().find("direct", Scenario::Outage, Way::Http), Some(&newer));
    let untouched = |row: &&Row| row.version != "9.9.9";
    let before: Vec<_> = matrix()
        .rows
        .into_iter()
        .filter(|row| *row.product != *"direct" || row.scenario != Scenario::Outage)
        .collect();
    let after: Vec<_> = kept.matrix().rows.iter().filter(untouched).cloned().collect();
    assert_eq!(before, after);
    let left: Vec<_> = fs::read_dir(folder.path().join("docs")).unwrap().collect();
    assert_eq!(left.len(), 1, "no half-written file stays: {left:?}");
}

#[test]
fn evergate_comes_first_then_the_client_alone() {
    assert_eq!(matrix().products(), ["evergate", "direct", "someproxy"]);
}

#[test]
fn a_file_that_somebody_else_wrote_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fault-matrix.json");
    fs::write(&file, "{\"rows\": 7}").unwrap();
    let problem = Results::open(file).unwrap_err();
    assert!(format!("{problem:#}").contains("is not what this program wrote"), "{problem:#}");
}

#[test]
fn rows_from_before_there_were_eras_are_of_two_sides_with_a_handshake() {
    let mut old = serde_json::to_value(matrix()).unwrap();
    let rows = old["rows"].as_array_mut().unwrap();
    rows.retain(|row| row["eras"] == "legacy-legacy");
    for row in rows {
        row.as_object_mut().unwrap().remove("eras");
    }
    let mut read: Matrix = serde_json::from_value(old).unwrap();
    let before = read.rows.len();
    assert!(read.comparable().count() == before && before > 0);
    let mut newer = row("evergate", Scenario::Outage, Way::Http, Outcome::Ran(Box::new(perfect())));
    newer.eras = Mix::ModernModern;
    read.put(newer.clone());
    assert_eq!(read.rows.len(), before + 1, "another mix is another cell");
    let found = read.find_between(Mix::ModernModern, "evergate", Scenario::Outage, Way::Http);
    assert_eq!(found, Some(&newer));
}
