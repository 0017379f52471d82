//! From one message to what is answered, in pieces, so that a large result is never copied.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::FastServer;

/// What goes out for one message.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was a notification or an answer.
    Nothing,
    /// A handshake: whoever keeps sessions begins one.
    Initialized(Pieces),
    /// Any other request.
    Response(Pieces),
    /// Not a message.
    Unreadable,
}

/// One JSON-RPC response in three pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) before: Vec<u8>,
    pub(crate) result: Bytes,
    pub(crate) after: Vec<u8>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call {
    arguments: Arguments,
}

#[derive(Deserialize)]
struct Arguments {
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hello<'a> {
    #[serde(borrow)]
    protocol_version: Cow<'a, str>,
}

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

// === impl FastServer ===

impl FastServer {
    pub(crate) fn answer(&self, message: &[u8]) -> Answer {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(message) else {
            return Answer::Unreadable;
        };
        let (Some(id), Some(method)) = (message.id, message.method) else {
            return Answer::Nothing;
        };
        let params = message.params.map_or("{}", RawValue::get);
        let respond = |key, result| Pieces::new(id.get(), key, result, self.settings.id_last);
        match &*method {
            "tools/call" => match serde_json::from_str::<Call>(params) {
                Ok(call) => Answer::Response(respond("result", self.result(call.arguments.bytes))),
                Err(_) => Answer::Response(respond("error", BAD_ARGUMENTS)),
            },
            "tools/list" => Answer::Response(respond("result", self.tools.clone())),
            "ping" => Answer::Response(respond("result", Bytes::from_static(b"{}"))),
            "initialize" => Answer::Initialized(respond("result", hello(params))),
            _ => Answer::Response(respond("error", NO_SUCH_METHOD)),
        }
    }
}

const BAD_ARGUMENTS: Bytes =
    Bytes::from_static(br#"{"code":-32602,"message":"a call has the argument bytes, a number"}"#);
const NO_SUCH_METHOD: Bytes =
    Bytes::from_static(br#"{"code":-32601,"message":"this server has tools only"}"#);

fn hello(params: &str) -> Bytes {
    let wanted = serde_json::from_str::<Hello<'_>>(params).ok();
    let known = |version: &&str| wanted.as_ref().is_some_and(|w| w.protocol_version == **version);
    let version = VERSIONS.iter().copied().find(known).unwrap_or(VERSIONS[3]);
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"fast-server","version":"1"}}}}"#
    )
    .into()
}

// === impl Pieces ===

impl Pieces {
    fn new(id: &str, key: &str, result: Bytes, id_last: bool) -> Self {
        if id_last {
            let before = format!(r#"{{"{key}":"#).into_bytes();
            let after = format!(r#","jsonrpc":"2.0","id":{id}}}"#).into_bytes();
            Self { before, result, after }
        } else {
            let before = format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":"#).into_bytes();
            Self { before, result, after: b"}".to_vec() }
        }
    }
}
