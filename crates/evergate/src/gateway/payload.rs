//! Results that are too large for a client: refused with a clear error, or written to a file with a preview in their
//! place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evergate_runtime::RawJson;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Answer;
use super::client::Client;
use super::error_body;
use crate::config;
use crate::logging::seldom::Seldom;
use crate::state::{self, uid_hex};

/// How much of a result stands in its place.
const PREVIEW: usize = 500;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Flags {
    is_error: bool,
}

/// Whether a tool's result may go into a file.
pub(super) fn may_be_stored(settings: &config::Gateway, result: &RawJson) -> bool {
    settings.payload_dir.is_some() && result.as_bytes().len() > settings.payload_threshold
}

/// What stands in the place of a tool's result that is written to a file.
pub(super) async fn stored(
    settings: &config::Gateway,
    client: &Client,
    server: &Arc<str>,
    result: RawJson,
) -> Answer {
    if let Some(folder) = &settings.payload_dir {
        let (folder, whole) = (folder.join(uid_hex(&client.uid)), result.clone());
        match tokio::task::spawn_blocking(move || store(&folder, &whole)).await {
            Ok(Ok(answer)) => return Answer::Result(answer),
            failed => {
                static TROUBLE: Seldom = Seldom::new();
                if let Some(suppressed) = TROUBLE.may_say() {
                    let error = match failed {
                        Ok(Err(error)) => error.to_string(),
                        _ => "the task failed".to_owned(),
                    };
                    tracing::error!(
                        %server, error, suppressed,
                        "cannot write a large result to gateway.payload_dir"
                    );
                }
            }
        }
    }
    refuse_too_large(settings, server, result)
}

/// For what nothing can stand in the place of.
pub(super) fn refuse_too_large(
    settings: &config::Gateway,
    server: &str,
    result: RawJson,
) -> Answer {
    let (size, limit) = (result.as_bytes().len(), settings.max_result_bytes);
    if size > limit {
        return Answer::Error(error_body::too_large(server, Some(size), limit));
    }
    Answer::Result(result)
}

fn store(folder: &Path, result: &RawJson) -> io::Result<RawJson> {
    let path = new_file(folder)?;
    state::create_private(&path, result.as_bytes())?;
    let is_error = result.parse::<Flags>().unwrap_or_default().is_error;
    let text = result.as_str();
    let end = (0..=PREVIEW.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    let preview = &text[..end.unwrap_or_default()];
    let note = json!({
        "agentInstructions": "The result was too large to be sent. It is stored, whole, as JSON in the file at payloadPath.",
        "payloadPath": path.display().to_string(),
        "payloadPreview": preview,
        "payloadSchema": result.parse().map(|value| outline(&value)).unwrap_or_default(),
        "originalSize": text.len(),
    });
    let content = json!([{ "type": "text", "text": note.to_string() }]);
    // No structured content: the tool may have promised another structure.
    Ok(RawJson::from(json!({ "content": content, "isError": is_error })))
}

/// The same with types in place of values, and of each list only its first item: what there is to look for.
fn outline(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => items.iter().take(1).map(outline).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), outline(value))).collect()
        }
    }
}

/// `…/{client}/{number}/payload.json`: one folder for each result.
fn new_file(folder: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock set before 1970 gives names that sort first.
    let now = now.unwrap_or_default().as_millis();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = folder.join(format!("{now}-{number}"));
    state::create_private_directory(&folder)?;
    Ok(folder.join("payload.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_result_leaves_a_preview_and_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}],"isError":true}}"#,
            "ä".repeat(600)
        );
        let result = RawJson::from_text(text.clone()).unwrap();
        let answer: serde_json::Value = store(folder.path(), &result).unwrap().parse().unwrap();
        assert_eq!(answer["isError"], true);
        let note = answer["content"][0]["text"].as_str().unwrap();
        let note: serde_json::Value = serde_json::from_str(note).unwrap();
        assert_eq!(note["originalSize"], text.len());
        let schema =
            json!({ "content": [{ "type": "string", "text": "string" }], "isError": "boolean" });
        assert_eq!(note["payloadSchema"], schema);
        let preview = note["payloadPreview"].as_str().unwrap();
        assert!(text.starts_with(preview) && preview.len() >= PREVIEW - 1);
        let path = note["payloadPath"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }
}
