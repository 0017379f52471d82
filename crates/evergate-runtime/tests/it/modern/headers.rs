//! Headers that say what a request is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evergate_runtime::{Hub, RawJson, ServerCatalog, Settings};
use serde_json::{Value, json};

use super::started;
use crate::raw_http::{Asked, RawHttp};
use crate::support::*;

/// A server without a handshake, whose tool `t` wants its argument in a header if it `wants` one.
async fn server(wants: Arc<AtomicBool>, lists: bool) -> RawHttp {
    RawHttp::start(move |asked: &Asked, message: &Value| {
        let wants = wants.load(Ordering::SeqCst);
        let (status, answer) = match asked.what.as_str() {
            "server/discover" => {
                let capabilities = json!({ "tools": {} });
                (
                    "200 OK",
                    json!({ "result": {
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                } }),
                )
            }
            "tools/list" if !lists => return Some("x-hang".into()),
            "tools/list" => ("200 OK", json!({ "result": { "tools": [tool(wants)] } })),
            "tools/call" if wants && !asked.head.contains("mcp-param-region: eu") => {
                ("400 Bad Request", json!({ "error": { "code": -32020, "message": "no region" } }))
            }
            "tools/call" => ("200 OK", json!({ "result": { "content": [] } })),
            _ => return None,
        };
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = message["id"].clone();
        let body = answer.to_string();
        Some(format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    })
    .await
}

fn tool(wants: bool) -> Value {
    let mut region = json!({ "type": "string" });
    if wants {
        region["x-mcp-header"] = "Region".into();
    }
    let schema = json!({ "type": "object", "properties": { "region": region } });
    json!({ "name": "t", "inputSchema": schema })
}

#[tokio::test]
async fn a_header_that_the_server_misses_has_its_tools_listed_anew() {
    let wants = Arc::new(AtomicBool::new(false));
    let peer = server(wants.clone(), true).await;
    let (hub, s) = started(Hub::builder().server("s", Settings::http(&peer.url)));
    hub.watch_catalog().wait_for(|catalog| catalog.version > 0).await.unwrap();
    let before = peer.asked("tools/list").len();
    wants.store(true, Ordering::SeqCst);
    s.call_tool("t", json!({ "region": "eu" })).await.unwrap();
    assert_eq!(peer.asked("tools/call").len(), 2);
    assert_eq!(peer.asked("tools/list").len(), before + 1);
    // Once: if that does not help, nothing will.
    let error = s.call_tool("t", json!({ "region": "us" })).await.unwrap_err();
    assert!(error.chain().contains("no region"), "{error}");
    assert_eq!(peer.asked("tools/call").len(), 4);
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn what_an_earlier_process_listed_says_which_headers_a_tool_wants() {
    let peer = server(Arc::new(AtomicBool::new(true)), false).await;
    let saved = json!({
        "tools": [tool(true)], "prompts": [], "resources": [], "resourceTemplates": [],
        "capabilities": {}, "serverInfo": {},
    });
    let catalog = ServerCatalog::from_saved(&RawJson::from(saved)).unwrap();
    let builder = Hub::builder().server("s", Settings::http(&peer.url)).restore("s", catalog);
    let (hub, s) = started(builder);
    s.call_tool("t", json!({ "region": "eu" })).await.unwrap();
    assert_eq!(peer.asked("tools/call").len(), 1);
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn headers_of_the_protocol_are_nobody_s_to_set() {
    for name in ["Mcp-Method", "mcp-name", "Mcp-Param-Region"] {
        let settings = Settings::http("http://localhost/").header(name, "x");
        let error = Hub::builder().server("s", settings).start().unwrap_err();
        assert!(error.to_string().contains("belongs to the protocol"), "{error}");
    }
    let peer = server(Arc::default(), true).await;
    let (hub, s) = started(Hub::builder().server("s", Settings::http(&peer.url)));
    let headers = [("mcp-name", "else"), ("mcp-param-x", "else"), ("x-mine", "mine")];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let call = s.call_tool("t", json!({})).headers(headers.into_iter().collect());
    call.await.unwrap();
    let head = &peer.asked("tools/call")[0].head;
    assert!(head.contains("x-mine: mine") && !head.contains("else"), "{head}");
    hub.shutdown(SECOND).await;
}

#[tokio::test]
async fn an_answer_is_read_in_the_words_of_the_connection_it_came_on() {
    let is_new = Arc::new(AtomicBool::new(false));
    let new = is_new.clone();
    let peer = RawHttp::start(move |asked, message| {
        let modern = asked.head.contains("mcp-method");
        let refused = "HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let result = match (asked.what.as_str(), new.load(Ordering::SeqCst)) {
            ("GET", _) => return None,
            ("server/discover", true) => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} })
            }
            ("tools/call", true) if modern => json!({ "resultType": "complete", "content": [] }),
            (_, new) if new != modern => return Some(refused.into()),
            _ => return None,
        };
        let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
        Some(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    })
    .await;
    let (hub, s) = hub(Settings::http(&peer.url));
    connected(&s).await;
    is_new.store(true, Ordering::SeqCst);
    let result = s.call_tool("t", json!({})).await.unwrap();
    assert_eq!(result.as_str(), r#"{"content":[]}"#);
    hub.shutdown(SECOND).await;
}
