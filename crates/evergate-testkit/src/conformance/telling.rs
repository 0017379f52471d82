//! What a fixture says while it runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::jsonrpc::notification;
use crate::server::modern::{Envelope, MODERN};
use crate::session::{Session, Sink};

/// Long enough that what comes before and after arrives apart.
const PAUSE: Duration = Duration::from_millis(50);

/// From the least to the most urgent.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

pub(super) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Three steps, if the client wants to know.
pub(super) async fn progress(sink: &Sink, params: &Value) {
    let token = &params["_meta"]["progressToken"];
    for done in [0, 50, 100] {
        if !token.is_null() {
            let told = json!({ "progressToken": token, "progress": done, "total": 100 });
            sink.send(notification("notifications/progress", &told));
        }
        pause().await;
    }
}

/// Three log messages, unless the client wants none.
pub(super) async fn log(sink: &Sink, session: &Session, params: &Value) {
    let wanted = session.protocol() != MODERN
        || Envelope::of(params).log_level().is_some_and(|least| is_as_severe("info", least));
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let told = json!({ "level": "info", "logger": "fixtures", "data": said });
            sink.send(notification("notifications/message", &told));
        }
        pause().await;
    }
}

fn rank(level: &str) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len())
}

/// Whether a message of `level` is for somebody who wants those from `wanted` on.
pub(crate) fn is_as_severe(level: &str, wanted: &str) -> bool {
    rank(level) >= rank(wanted)
}

/// Whether there is such a level.
pub(crate) fn is_level(level: &str) -> bool {
    LEVELS.contains(&level)
}
