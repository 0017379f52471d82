//! Blocks of content.

use serde_json::{Value, json};

/// One pixel.
pub(super) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// No sound at all.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(super) fn image() -> Value {
    json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" })
}

pub(super) fn audio() -> Value {
    json!({ "type": "audio", "data": SILENCE, "mimeType": "audio/wav" })
}

pub(super) fn embedded(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
}

/// A message of a prompt, or of a conversation with a model.
pub(super) fn from_user(content: &Value) -> Value {
    json!({ "role": "user", "content": content })
}
