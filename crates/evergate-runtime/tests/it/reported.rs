//! What is told of a call besides its result.

use evergate_runtime::{Outcome, Replay, Report, StateKind};
use evergate_testkit::Fault;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_waiting_has_waited() {
    let (_server, memory, settings) = memory();
    let (_hub, s) = hub(settings);
    connected(&s).await;
    memory.kill();
    reach(&s, StateKind::Reconnecting).await;
    let mut report = Report::default();
    let began = Instant::now();
    let call = s.call_tool("bump", json!({})).reported(false, &mut report);
    assert!(timeout(SECOND, call).await.is_err());
    assert_eq!((report.waited, report.last_waited), (SECOND, Some(began)));
    assert_eq!((report.resends, report.last_sent, report.generation), (0, None, None));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_found_no_other_connection_was_not_sent_again() {
    for comes_back in [false, true] {
        let (server, memory, settings) = memory();
        let (hub, s) = hub(settings.replay(Replay::Always));
        connected(&s).await;
        hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
        server.inject(Fault::ExecuteThenCut).on("tools/call");
        if !comes_back {
            memory.refuse_next(usize::MAX);
        }
        let mut report = Report::default();
        let call = s.call_tool("bump", json!({})).deadline(6 * SECOND);
        let result = call.reported(false, &mut report).await;
        if comes_back {
            result.unwrap();
        } else {
            assert_eq!(result.unwrap_err().outcome, Outcome::Unknown);
        }
        assert_eq!(report.resends, u32::from(comes_back));
        assert!(report.last_waited >= report.last_sent || comes_back, "{report:?}");
    }
}
