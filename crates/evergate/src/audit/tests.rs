use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::admin::model::CallOutcome;
use crate::tasks::Tasks;

fn record(tool: &str) -> CallRecord {
    CallRecord {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_785_229_501_250),
        client: "agent 1.0".into(),
        caller: Caller::anonymous(),
        server: "docs".into(),
        method: "tools/call".into(),
        tool: Some(tool.into()),
        outcome: CallOutcome::Answered,
        error: Some("not for the audit log".into()),
        duration: Duration::from_micros(12_345),
        waited: Duration::ZERO,
        upstream: Duration::from_millis(12),
        generation: None,
        resent: false,
        request_bytes: 7,
        result_bytes: 9,
        params: None,
        session: Some([0x1a, 2, 3, 4]),
        name: None,
        error_code: Some(-32_000),
        trace: None,
    }
}

fn settings(file: &Path) -> config::Audit {
    config::Audit { file: file.to_owned(), max_bytes: 64 << 20, keep: 1 }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn started(audit: &Arc<Audit>) -> (Tasks, CancellationToken) {
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let (writing, stopping) = (audit.clone(), stop.clone());
    tasks.spawn(async move { writing.write(stopping).await });
    (tasks, stop)
}

async fn ended((tasks, stop): (Tasks, CancellationToken)) {
    stop.cancel();
    assert_eq!(tasks.ended(Duration::from_secs(10)).await, 0);
}

#[test]
fn a_line_says_who_called_what_and_how_it_went() {
    let mut record = record("search");
    let line: Value = serde_json::from_slice(&line::of_call(&record)).unwrap();
    assert_eq!(
        line,
        json!({
            "time": "2026-07-28T09:05:01.250Z", "event": "call", "key": null, "client": "agent 1.0",
            "session": "1a020304", "server": "docs", "method": "tools/call", "name": "search",
            "outcome": "answered", "error_code": -32000, "duration_ms": 12.345, "waited_ms": 0.0,
            "generation": null, "resent": false, "request_bytes": 7, "result_bytes": 9, "trace_id": null,
        })
    );
    record.params = Some(
        evergate_runtime::RawJson::from_text("{\"name\":\"x\",\"arguments\":{\n\"a\": 1e2}}")
            .unwrap(),
    );
    let line = String::from_utf8(line::of_call(&record)).unwrap();
    assert!(line.ends_with("\"arguments\":{ \"a\": 1e2}}\n"), "{line}");
    assert_eq!(line.matches('\n').count(), 1);
}

#[tokio::test]
async fn everything_that_was_queued_is_written_before_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    let audit = Arc::new(Audit::default());
    audit.configure(Some(settings(&file)));
    let running = started(&audit);
    tokio::task::yield_now().await;
    for number in 0..2000 {
        audit.call_ended(&record(&number.to_string()));
        if number % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    audit.acted(&Caller::anonymous(), Action::Restart, "docs");
    ended(running).await;
    let lines = lines(&file);
    assert_eq!(lines[0]["event"], "started");
    assert_eq!(lines.len(), 2002);
    for (number, line) in lines[1..=2000].iter().enumerate() {
        assert_eq!(line["name"], json!(number.to_string()));
    }
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["action"]), (&json!("action"), &json!("restart")));
}

#[tokio::test]
async fn what_does_not_fit_into_the_queue_is_counted_in_the_log_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    let audit = Arc::new(Audit::default());
    audit.configure(Some(settings(&file)));
    let running = started(&audit);
    // The task has made the queue, and does not run again before this one waits.
    tokio::task::yield_now().await;
    for _ in 0..QUEUE + 25 {
        audit.call_ended(&record("x"));
    }
    ended(running).await;
    let lines = lines(&file);
    let calls = lines.iter().filter(|line| line["event"] == "call").count() as u64;
    let lost: u64 = lines.iter().filter_map(|line| line["lines"].as_u64()).sum();
    assert_eq!((calls, lost), (QUEUE as u64, 25));
}

#[tokio::test]
async fn without_a_file_nothing_is_kept_and_a_reload_brings_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    let audit = Arc::new(Audit::default());
    let running = started(&audit);
    tokio::task::yield_now().await;
    audit.call_ended(&record("before"));
    audit.configure(Some(settings(&file)));
    audit.call_ended(&record("after"));
    ended(running).await;
    let names: Vec<_> = lines(&file).iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names, [Value::Null, json!("after")]);
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_costs_lines_and_says_how_many() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("not-there-yet");
    let file = folder.join("audit.log");
    let audit = Arc::new(Audit::default());
    audit.configure(Some(settings(&file)));
    let mut writing = Writing { file: None, lost: 0, trouble: Streak::default() };
    let calls = |count| (0..count).map(|_| Entry::Call(Box::new(record("x")))).collect();
    writing = audit.write_some(writing, calls(3)).await;
    writing = audit.write_some(writing, calls(4)).await;
    // The line about the beginning is lost too.
    assert_eq!(writing.lost, 8);
    std::fs::create_dir(&folder).unwrap();
    writing = audit.write_some(writing, calls(1)).await;
    assert_eq!(writing.lost, 0);
    let lines = lines(&file);
    assert_eq!((&lines[0]["event"], &lines[0]["lines"]), (&json!("lost"), &json!(8)));
    assert_eq!(lines.len(), 2);
}
