//! How requests are written on a connection: in the revisions with a handshake they are what they are, later each says who
//! makes it, and over HTTP its headers say what it is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::call_watch::CallWatch;
use crate::protocol::{
    self, Envelope, ParamHeader, ProtocolVersion, RawJson, Wishes, header_text, method,
    object_fields, write_param_headers,
};

/// Settled when a connection begins.
#[derive(Debug, Clone)]
pub(crate) enum Dialect {
    Legacy,
    Modern(Envelope),
}

/// The params of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Params<'a> {
    /// Those of a tool call that nobody has written yet.
    Tool { name: &'a str, arguments: &'a RawJson },
    /// Somebody's own.
    Raw(Option<&'a [u8]>),
}

/// A request to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Params<'a>,
    pub(crate) wants_progress: bool,
    /// Whoever wrote the params may have said of itself what only later revisions know.
    pub(crate) verbatim: bool,
    /// Arguments that its schema wants in headers.
    pub(crate) param_headers: &'a [ParamHeader],
    /// From which level on the server may log about it.
    pub(crate) log_level: Option<&'a str>,
    /// What its caller can do, if that is not what the connection's can.
    pub(crate) capabilities: Option<&'a RawJson>,
}

/// The params cannot be those of a request.
#[derive(Debug, thiserror::Error)]
#[error("the params are no JSON object")]
pub(crate) struct BadParams;

// === impl Asking ===

impl<'a> Asking<'a> {
    /// With nothing but its params.
    pub(crate) fn plain(method: &'a str, params: Option<&'a [u8]>) -> Self {
        Self {
            method,
            params: Params::Raw(params),
            wants_progress: false,
            verbatim: false,
            param_headers: &[],
            log_level: None,
            capabilities: None,
        }
    }
}

// === impl Dialect ===

impl Dialect {
    /// The whole message; `watch` learns what its headers say.
    pub(crate) fn write(&self, watch: &CallWatch, asking: Asking<'_>) -> Result<Bytes, BadParams> {
        let id = watch.id();
        match self {
            Self::Legacy => legacy(id, asking),
            Self::Modern(envelope) => {
                let Asking { method, params, param_headers, log_level, capabilities, .. } = asking;
                let written = match params {
                    Params::Tool { name, arguments } => {
                        Some(Cow::Owned(protocol::tool_params(name, arguments)))
                    }
                    Params::Raw(params) => params.map(Cow::Borrowed),
                };
                let written = written.as_deref();
                let text = written.and_then(|params| std::str::from_utf8(params).ok());
                let text = text.unwrap_or_default();
                let mut headers = routing(envelope.version(), method, text);
                if !param_headers.is_empty() {
                    let arguments = field(text, "arguments").unwrap_or_default();
                    write_param_headers(param_headers, &arguments, &mut headers);
                }
                watch.route(headers);
                let progress = asking.wants_progress.then_some(id);
                let wishes = Wishes { progress, log_level, capabilities };
                envelope.request(id, method, written, wishes).map_err(|_| BadParams)
            }
        }
    }
}

/// The way of the revisions with a handshake. All calls of most servers pass here: nothing is read that need not be.
fn legacy(id: u64, asking: Asking<'_>) -> Result<Bytes, BadParams> {
    let Asking { method, params, wants_progress, verbatim, .. } = asking;
    let params = match params {
        Params::Tool { name, arguments } => {
            return Ok(protocol::tool_call(id, name, arguments, wants_progress));
        }
        Params::Raw(params) => params,
    };
    let without = params.filter(|_| verbatim).and_then(protocol::without_envelope);
    let params = without.as_deref().or(params);
    if !wants_progress {
        return Ok(protocol::request(id, method, params));
    }
    let params = protocol::with_progress_token(params, id).map_err(|_| BadParams)?;
    Ok(protocol::request(id, method, Some(&params)))
}

/// The field whose text stands in `Mcp-Name`.
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_CALL | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The headers by which others can tell what a request is without reading it.
fn routing(version: ProtocolVersion, method: &str, params: &str) -> Vec<u8> {
    let mut lines = Vec::with_capacity(96);
    // Writing into a Vec cannot fail.
    let mut line = |name: &str, text: &str| {
        let _ = write!(lines, "{name}: ");
        lines.extend_from_slice(header_text(text).as_bytes());
        lines.extend_from_slice(b"\r\n");
    };
    line("mcp-protocol-version", version.as_str());
    line("mcp-method", method);
    if let Some(name) = named_by(method).and_then(|name| field(params, name))
        && let Some(name) = name.as_str()
    {
        line("mcp-name", name);
    }
    lines
}

/// One field of an object; of the others no more is read than where they end.
fn field(object: &str, wanted: &str) -> Option<Value> {
    let mut place = None;
    let found = object_fields(object, |name, value| {
        if name == wanted {
            place = Some(value);
        }
    });
    if found.is_some() {
        return serde_json::from_str(&object[place?]).ok();
    }
    let all: HashMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    serde_json::from_str(all.get(wanted)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(method: &str, params: &str) -> (serde_json::Value, String) {
        let (version, who) = (ProtocolVersion::NEWEST, json!({ "name": "x", "version": "1" }));
        let dialect = Dialect::Modern(Envelope::new(version, &json!({ "roots": {} }), &who));
        let watch = CallWatch::new(7, None);
        let asking = Asking {
            method,
            params: Params::Raw(Some(params.as_bytes())),
            wants_progress: true,
            verbatim: false,
            param_headers: &[],
            log_level: Some("info"),
            capabilities: None,
        };
        let message = dialect.write(&watch, asking).unwrap();
        let headers = String::from_utf8(watch.routing().unwrap().to_vec()).unwrap();
        (serde_json::from_slice(&message).unwrap(), headers)
    }

    #[test]
    fn a_request_says_who_makes_it_and_its_headers_what_it_is() {
        let (message, headers) =
            written("tools/call", r#"{"name":"Grüße","arguments":{},"_meta":{"x":1}}"#);
        assert_eq!(
            headers,
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: =?base64?R3LDvMOfZQ==?=\r\n"
        );
        assert_eq!(
            message["params"]["_meta"],
            json!({
                "x": 1,
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "roots": {} },
                "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
                "io.modelcontextprotocol/logLevel": "info",
                "progressToken": 7,
            })
        );
    }

    #[test]
    fn what_a_caller_says_of_itself_stays() {
        let own = r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#;
        let (message, headers) = written("resources/read", own);
        assert!(headers.ends_with("mcp-method: resources/read\r\nmcp-name: a:b\r\n"), "{headers}");
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    }
}
