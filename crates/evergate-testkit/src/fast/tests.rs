use serde_json::{Value, json};

use super::{FastServer, FastServerSettings, fast_text};

const PLAIN: FastServerSettings =
    FastServerSettings { tools: 3, event_streams: false, id_last: false };

fn answers(settings: FastServerSettings, requests: &[Value]) -> Vec<Value> {
    let input: Vec<u8> = requests.iter().flat_map(|r| format!("{r}\n").into_bytes()).collect();
    let mut output = Vec::new();
    FastServer::new(settings).serve_stdio(&input[..], &mut output).unwrap();
    output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn a_call_returns_as_many_bytes_as_it_asks_for() {
    for id_last in [false, true] {
        let call = |id, bytes: usize| {
            request(id, "tools/call", &json!({ "name": "echo", "arguments": { "bytes": bytes } }))
        };
        let answers =
            answers(FastServerSettings { id_last, ..PLAIN }, &[call(1, 100), call(2, 70_000)]);
        for (answer, (id, bytes)) in answers.iter().zip([(1, 100), (2, 70_000)]) {
            assert_eq!(answer["id"], id);
            assert_eq!(answer["result"]["content"][0]["text"], fast_text(bytes));
        }
        assert_eq!(answers.len(), 2);
    }
}

#[test]
fn it_lists_its_tools_and_refuses_what_it_does_not_know() {
    let answers = answers(
        PLAIN,
        &[
            request(1, "initialize", &json!({ "protocolVersion": "2025-06-18" })),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            request(2, "tools/list", &json!({})),
            request(3, "prompts/list", &json!({})),
            request(4, "tools/call", &json!({ "name": "echo", "arguments": {} })),
        ],
    );
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[1]["result"]["tools"].as_array().unwrap().len(), 3);
    assert_eq!(answers[2]["error"]["code"], -32601);
    assert_eq!(answers[3]["error"]["code"], -32602);
}

#[test]
fn its_text_is_as_long_as_asked_for_and_nowhere_the_same() {
    let text = fast_text(10_000);
    assert_eq!(text.len(), 10_000);
    let mut lines: Vec<_> = text.split(' ').collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all);
}
