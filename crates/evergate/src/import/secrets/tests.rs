//! Whole entries: nothing that is secret may be in the new file or in the report, and the rest must mean the same.

use serde_json::{Value, json};

use crate::import::client::Platform;
use crate::import::{Client, Input, Machine, as_text, import};

/// What became of a server, and what was said.
fn imported(entry: &Value) -> (Value, String) {
    let machine = Machine {
        platform: Platform::Linux,
        home: None,
        folder: "/work".into(),
        variables: Vec::new(),
        has_docker: true,
    };
    let text = json!({ "mcpServers": { "mine": entry } }).to_string();
    let input = Input { client: Client::Other, file: "/work/x.json".into(), folder: None, text };
    let imported = import(&[input], &machine).ok().unwrap();
    let said = as_text(&imported, &|_| None).join("\n");
    let document: Value = serde_json::from_str(&imported.document).unwrap();
    (document["mcpServers"]["mine"].clone(), said)
}

/// Imports an entry with `hunter2…` for a secret, and shows what is left of the key that had it.
fn left_of(key: &str, value: Value) -> String {
    let mut entry = json!({ "command": "mcp" });
    if key == "headers" || key == "url" {
        entry = json!({ "url": "https://mine.example/mcp" });
    }
    entry[key] = value;
    let (entry, said) = imported(&entry);
    for text in [&entry.to_string(), &said] {
        assert!(!text.contains("hunter2"), "leaks: {text}");
    }
    entry[key].to_string()
}

#[test]
fn secrets_are_found_wherever_people_put_them() {
    let cases = [
        ("args", json!(["https://h.example/mcp?profile=me&api_key=hunter2"])),
        ("args", json!(["--url=https://h.example/mcp?profile=me&api_key=hunter2"])),
        ("args", json!(["https://h.example/s/hunter2hunter2hunter2hunter2/mcp"])),
        ("args", json!(["-k", "hunter2"])),
        ("args", json!(["-k", "0123456789abcdefhunter20123456789"])),
        ("args", json!(["-khunter2hunter2hunter2"])),
        ("args", json!(["0123456789abcdefhunter20123456789"])),
        ("args", json!(["--token", "-hunter2"])),
        ("args", json!(["--token", "--Hunter2-hunter2"])),
        ("args", json!(["-c", "curl -H 'Authorization: Bearer hunter2' https://h.example"])),
        ("args", json!(["-c", "TOKEN=hunter2 exec mcp"])),
        ("args", json!(["-c", "mcp --api-key hunter2"])),
        ("args", json!(["-c", "export A='x' TOKEN='hunter2 hunter2'; mcp"])),
        ("args", json!(["-e", "API_TOKEN=hunter2 with blanks"])),
        ("args", json!(["-e", "NOTION_HEADERS={\"Authorization\": \"Bearer hunter2\"}"])),
        ("args", json!(["--header", "Authorization: Bearer hunter2"])),
        ("args", json!(["--options={\"apiKey\":\"hunter2\"}"])),
        ("args", json!(["--token", "${API_TOKEN:-hunter2}"])),
        ("args", json!(["-u", "me:hunter2"])),
        ("args", json!(["--set", "db.password=hunter2"])),
        (
            "env",
            json!({ "PEM": "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----" }),
        ),
        ("env", json!({ "SA": "{\"private_key\":\"-----BEGIN PRIVATE KEY-----\\nhunter2\"}" })),
        ("env", json!({ "BASE": "https://h.example/?api_key=hunter2" })),
        ("env", json!({ "API_TOKEN": "${API_TOKEN:-hunter2}" })),
        ("env", json!({ "DB": "${DB:-postgres://me:hunter2@h/db}" })),
        ("env", json!({ "AUTH_HEADER": "Bearer hunter2" })),
        ("env", json!({ "AUTH_HEADER": "hunter2" })),
        ("env", json!({ "NOTION_HEADERS": "{\"Authorization\":\"Bearer hunter2\"}" })),
        ("env", json!({ "CONN": "Server=h;Database=d;Password=hunter2;" })),
        ("env", json!({ "CONN": "Server=${HOST};Password=hunter2;" })),
        ("env", json!({ "MYSQL": "me:hunter2@tcp(h:3306)/db" })),
        ("env", json!({ "WEATHER": "hunter2hunter2hunter2" })),
        ("headers", json!({ "Authorization": "Bearer hunter2${X}" })),
        ("headers", json!({ "X-Api-Key": "${KEY:-hunter2}" })),
        ("headers", json!({ "X-Custom": "Bearer hunter2" })),
        ("url", json!("https://h.example/mcp?key=${K:-hunter2}&a=b")),
        ("command", json!("API_KEY=hunter2 node")),
    ];
    let left = cases.map(|(key, value)| left_of(key, value));
    insta::assert_snapshot!(left.join("\n"));
}

#[test]
fn a_whole_argument_that_becomes_a_variable_is_said_to_be_one() {
    let (_, said) = imported(&json!({ "command": "sh", "args": ["-c", "TOKEN=abc exec mcp"] }));
    assert!(said.contains("so ${MINE_ARGUMENT} holds the whole argument"), "{said}");
    assert!(said.contains("mcpServers.mine.args[1], the whole argument"), "{said}");
}

#[test]
fn a_default_that_is_no_secret_stays() {
    let (entry, said) = imported(&json!({
        "command": "mcp", "args": ["${REGION:-eu}"], "env": { "TOKEN": "${TOKEN:-}", "USE_AUTH": "${A:-true}" }
    }));
    assert_eq!(entry["args"], json!(["${REGION:-eu}"]));
    assert_eq!(entry["env"], json!({ "TOKEN": "${TOKEN:-}", "USE_AUTH": "${A:-true}" }));
    assert!(said.contains("REGION (not set, optional)"), "{said}");
}

#[test]
fn arguments_mean_the_environment_of_their_entry() {
    let (entry, said) = imported(&json!({
        "command": "npx",
        "args": ["mcp-remote", "https://${HOST}/mcp", "--header", "Authorization:${AUTH_HEADER}"],
        "env": { "AUTH_HEADER": "Bearer hunter2", "HOST": "h.example" }
    }));
    let args =
        json!(["mcp-remote", "https://h.example/mcp", "--header", "Authorization:${AUTH_HEADER}"]);
    assert_eq!(entry["args"], args);
    assert_eq!(entry["env"], json!({ "AUTH_HEADER": "${AUTH_HEADER}", "HOST": "h.example" }));
    assert!(said.contains("AUTH_HEADER (not set)\n    its value is in x.json"), "{said}");
    assert!(!said.contains("wants it") && !said.contains("  HOST"), "{said}");
}

#[test]
fn a_variable_is_a_secret_where_an_argument_uses_it_as_one() {
    let (entry, said) = imported(&json!({
        "command": "mcp", "args": ["--token", "${VALUE}"], "env": { "VALUE": "hunter2" }
    }));
    assert_eq!(entry["args"], json!(["--token", "${VALUE}"]));
    assert_eq!(entry["env"], json!({ "VALUE": "${VALUE}" }), "{said}");
}

#[test]
fn names_of_variables_are_short() {
    let (entry, _) = imported(&json!({
        "command": "npx", "args": ["mcp-remote", "https://mcp.tavily.com/mcp/?tavilyApiKey=hunter2", "--key", "abc"]
    }));
    let args = json!([
        "mcp-remote",
        "https://mcp.tavily.com/mcp/?tavilyApiKey=${TAVILY_API_KEY}",
        "--key",
        "${MINE_KEY}"
    ]);
    assert_eq!(entry["args"], args);
}
