//! Bodies: JSON-RPC as clients write it, nearly so, and not at all.

use bytes::Bytes;
use libfuzzer_sys::arbitrary::{self, Arbitrary};

use super::Memory;

#[derive(Debug, Arbitrary)]
pub(crate) enum Body {
    One(Message),
    Batch(Vec<Message>),
    /// One, with some bytes put in or changed.
    Damaged {
        message: Message,
        at: u16,
        bytes: Vec<u8>,
        instead: bool,
    },
    Handshake {
        version: u8,
        capabilities: u8,
    },
    Any(Vec<u8>),
    Long(u16),
    Nothing,
}

#[derive(Debug, Arbitrary)]
pub(crate) enum Message {
    Request { id: Id, method: u8, params: Params },
    Notification { method: u8, params: Params },
    Response { id: Id, error: bool, params: Params },
    Strange { id: Option<Id>, method: String, params: Params },
}

#[derive(Debug, Arbitrary)]
pub(crate) enum Id {
    Small(u8),
    Number(i64),
    Text(String),
    Float(f64),
    Null,
    Array,
}

#[derive(Debug, Arbitrary)]
pub(crate) enum Params {
    None,
    Tool { tool: u8, argument: u16, token: Option<Id> },
    Uri(u8),
    Level(u8),
    Reference(u8),
    Cancel(Id),
    Cursor(Id),
    Fields(Vec<(String, Id)>),
    NotAnObject,
}

const METHODS: [&str; 20] = [
    "tools/call",
    "tools/list",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
    "initialize",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/roots/list_changed",
    "notifications/progress",
    "tasks/get",
    "x/unknown",
    "",
];
const TOOLS: [&str; 15] = [
    "a__echo",
    "a__slow",
    "a__hold",
    "a__sample",
    "a__elicit",
    "a__roots",
    "a__log",
    "b__echo",
    "own__echo",
    "own__sample",
    "own__hold",
    "echo",
    "a__rpc_error",
    "a__none",
    "a__\\u0065cho",
];
const URIS: [&str; 6] =
    ["test://a", "test://b", "test://anything", "file:///etc/passwd", "", "test://%"];
const LEVELS: [&str; 4] = ["debug", "info", "emergency", "loud"];
const CAPABILITIES: [&str; 5] = [
    "{}",
    r#"{"sampling":{},"elicitation":{"form":{}},"roots":{"listChanged":true}}"#,
    r#"{"sampling":null}"#,
    "[]",
    r#"{"experimental":{"x":[[[[1e400]]]]}}"#,
];
const VERSIONS: [&str; 6] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1900-01-01", ""];

pub(crate) fn initialize(version: u8, capabilities: u8) -> Bytes {
    let version = of(&VERSIONS, version);
    let capabilities = of(&CAPABILITIES, capabilities);
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"f","version":"1"}}}}}}"#
    ))
}

fn of<'a>(values: &[&'a str], which: u8) -> &'a str {
    values[usize::from(which) % values.len()]
}

fn quoted(text: &str) -> String {
    format!("{text:?}").replace("\\u{", "\\u00").replace("\\'", "'").replace('}', "")
}

// === impl Body ===

impl Body {
    pub(crate) fn text(&self, _memory: &Memory) -> Bytes {
        match self {
            Self::One(message) => message.text().into(),
            Self::Batch(messages) => {
                let all: Vec<String> = messages.iter().take(8).map(Message::text).collect();
                format!("[{}]", all.join(",")).into()
            }
            Self::Damaged { message, at, bytes, instead } => {
                let mut text = message.text().into_bytes();
                let at = usize::from(*at).min(text.len());
                let end = if *instead { (at + bytes.len()).min(text.len()) } else { at };
                text.splice(at..end, bytes.iter().copied());
                text.into()
            }
            Self::Handshake { version, capabilities } => initialize(*version, *capabilities),
            Self::Any(bytes) => Bytes::copy_from_slice(bytes),
            Self::Long(length) => vec![b'['; usize::from(*length)].into(),
            Self::Nothing => Bytes::new(),
        }
    }
}

// === impl Message ===

impl Message {
    fn text(&self) -> String {
        match self {
            Self::Request { id, method, params } => {
                let (id, method) = (id.text(), of(&METHODS, *method));
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{}}}"#,
                    params.field("params")
                )
            }
            Self::Notification { method, params } => {
                let method = of(&METHODS, *method);
                format!(r#"{{"jsonrpc":"2.0","method":"{method}"{}}}"#, params.field("params"))
            }
            Self::Response { id, error, params } => {
                let field = params.field(if *error { "error" } else { "result" });
                format!(r#"{{"jsonrpc":"2.0","id":{}{field}}}"#, id.text())
            }
            Self::Strange { id, method, params } => {
                let id = id.as_ref().map_or(String::new(), |id| format!(r#""id":{},"#, id.text()));
                format!(r#"{{{id}"method":{},"x":1{}}}"#, quoted(method), params.field("params"))
            }
        }
    }
}

// === impl Id ===

impl Id {
    fn text(&self) -> String {
        match self {
            Self::Small(number) => (number % 8).to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => quoted(text),
            Self::Float(number) => number.to_string(),
            Self::Null => "null".to_owned(),
            Self::Array => "[1]".to_owned(),
        }
    }
}

// === impl Params ===

impl Params {
    fn field(&self, name: &str) -> String {
        let value = match self {
            Self::None => return String::new(),
            Self::Tool { tool, argument, token } => {
                let token = token.as_ref().map_or(String::new(), |token| {
                    format!(r#","_meta":{{"progressToken":{}}}"#, token.text())
                });
                let tool = of(&TOOLS, *tool);
                format!(
                    r#"{{"name":"{tool}","arguments":{{"ms":{argument},"text":"{argument}"}}{token}}}"#
                )
            }
            Self::Uri(which) => format!(r#"{{"uri":"{}"}}"#, of(&URIS, *which)),
            Self::Level(which) => format!(r#"{{"level":"{}"}}"#, of(&LEVELS, *which)),
            Self::Reference(which) if which % 2 == 0 => {
                format!(r#"{{"ref":{{"type":"ref/resource","uri":"{}"}}}}"#, of(&URIS, which / 2))
            }
            Self::Reference(_) => {
                r#"{"ref":{"type":"ref/prompt","name":"a__greet"},"argument":{}}"#.to_owned()
            }
            Self::Cancel(id) => format!(r#"{{"requestId":{}}}"#, id.text()),
            Self::Cursor(id) => format!(r#"{{"cursor":{}}}"#, id.text()),
            Self::Fields(fields) => {
                let all: Vec<String> = fields
                    .iter()
                    .take(8)
                    .map(|(name, value)| format!("{}:{}", quoted(name), value.text()))
                    .collect();
                format!("{{{}}}", all.join(","))
            }
            Self::NotAnObject => "[1,\"a__echo\"]".to_owned(),
        };
        format!(r#","{name}":{value}"#)
    }
}
