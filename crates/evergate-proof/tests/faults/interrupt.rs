//! The program itself: bad input, missing products, interrupts.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use evergate_proof::faults::results::{Outcome, Results};
use evergate_testkit::wait::until;
use rustix::process::{Pid, Signal, kill_process};

use crate::places;

fn faults(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faults"));
    command.arg("--out").arg(out);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

#[test]
fn the_list_names_products_scenarios_and_transports() {
    let out = tempfile::tempdir().unwrap();
    let said = text(&run(faults(out.path()).arg("--list")).stdout);
    for word in [
        "evergate",
        "direct",
        "restart-busy",
        "one-dead-of-five",
        "http, sse, stdio",
        "modern-legacy",
    ] {
        assert!(said.contains(word), "no {word} in {said}");
    }
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "it only lists");
}

#[test]
fn a_name_that_does_not_exist_is_refused_with_those_that_do() {
    let out = tempfile::tempdir().unwrap();
    for (flag, known) in [
        ("--peer", "evergate"),
        ("--scenario", "outage"),
        ("--transport", "stdio"),
        ("--eras", "modern-modern"),
    ] {
        let output = run(faults(out.path()).args([flag, "nonsense"]));
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(known), "{}", text(&output.stderr));
    }
    let nothing =
        run(faults(out.path()).args(["--scenario", "child-hangs", "--transport", "http"]));
    assert!(text(&nothing.stderr).contains("nothing to do"), "{}", text(&nothing.stderr));
}

#[test]
fn a_product_that_is_missing_is_reported_and_the_run_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let mut command = faults(out.path());
    command.args([
        "--short",
        "--peer",
        "evergate",
        "--scenario",
        "expired404",
        "--scenario",
        "expired400",
    ]);
    command.args(["--eras", "legacy-legacy", "--eras", "modern-legacy"]);
    command.args(["--evergate", "/nowhere/evergate", "--peers-dir", "/nowhere"]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results = Results::open(out.path().join("fault-matrix.json")).unwrap();
    let rows = &results.matrix().rows;
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| matches!(row.outcome, Outcome::NotInstalled(_))), "{rows:?}");
    let document = std::fs::read_to_string(out.path().join("fault-matrix.md")).unwrap();
    assert!(document.contains("not installed"));
}

#[test]
#[ignore = "needs scripts/install-peers; ./scripts/test runs it"]
fn an_interrupt_keeps_the_finished_rows_and_leaves_no_process() {
    let places = places();
    for signal in [Signal::INT, Signal::TERM] {
        let out = tempfile::tempdir().unwrap();
        // Every process that this run starts inherits this.
        let mark = format!("EVERGATE_FAULTS_TEST={}-{signal:?}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = faults(out.path());
        command.args([
            "--peer",
            "evergate",
            "--scenario",
            "expired404",
            "--scenario",
            "down-for-good",
        ]);
        command.args(["--transport", "http", "--transport", "stdio", "--jobs", "1"]);
        command.arg("--evergate").arg(&places.evergate).arg("--peers-dir").arg(&places.peers);
        command.env(name, value).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let rows =
            || Results::open(out.path().join("fault-matrix.json")).unwrap().matrix().rows.len();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // The scenarios run in the order of the table: some row of the first, then a long one is under way.
        runtime.block_on(until("a row and a client at work", || {
            rows() >= 1 && marked(&mark).len() >= 3
        }));
        let finished = rows();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(rows() >= finished, "a finished row is lost");
        assert!(out.path().join("fault-matrix.md").exists(), "the finished rows are not shown");
        runtime.block_on(async {
            let gone = until("nobody is left", || marked(&mark).is_empty());
            tokio::time::timeout(Duration::from_secs(5), gone).await.expect("processes are left");
        });
    }
}

/// The processes that have this in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    pids.filter(has).collect()
}
