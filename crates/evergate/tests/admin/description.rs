//! The description of the API is compared with what it really answers.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{api, get, reaches, send, two_servers};
use crate::support::{Answer, Gateway, until};

/// What to send where something must be sent.
fn body(path: &str) -> Value {
    match path.rsplit('/').next() {
        Some("call") => json!({ "tool": "echo", "arguments": { "text": "x" } }),
        Some("log-level") => json!({ "level": "info" }),
        _ => json!({}),
    }
}

async fn ask(gateway: &Gateway, method: &str, path: &str) -> Answer {
    let http = api(gateway, path.trim_start_matches("/api/v1/"));
    match method {
        "get" => http.get(&[]).await,
        "post" => send(&http, Method::POST, &body(path)).await,
        "put" => send(&http, Method::PUT, &body(path)).await,
        other => panic!("no way to {other}"),
    }
}

fn check(description: &Value, schema: &Value, answer: &Value, what: &str) {
    let mut schema = schema.clone();
    // Where references lead to.
    schema["components"] = description["components"].clone();
    // An object may only have fields that are described: else a new one could be forgotten.
    let schema = closed(schema);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{answer:#}");
}

/// The same schema without room for fields it does not name.
fn closed(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            // A choice of kinds shares its fields with what is around it; that is closed as a whole.
            let open =
                fields.contains_key("properties") && !fields.contains_key("additionalProperties");
            for (key, value) in &mut fields {
                if open && key == "oneOf" {
                    continue;
                }
                *value = closed(std::mem::take(value));
            }
            if open {
                fields.insert("unevaluatedProperties".to_owned(), json!(false));
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(closed).collect(),
        other => other,
    }
}

#[tokio::test]
async fn every_answer_is_as_described_and_everything_described_is_there() {
    let (_docs, gateway) = two_servers(json!({ "record_arguments": true })).await;
    reaches(&gateway, "docs", "connected").await;
    reaches(&gateway, "broken", "permanently_failed").await;
    until("docs is listed", async || !get(&gateway, "servers/docs").await["catalog"].is_null())
        .await;
    let client = gateway.connect().await;
    client.call("docs__echo", json!({ "text": "x" })).await;
    let description = get(&gateway, "openapi.json").await;
    let mut asked = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        // Switched off it could not be asked for anything else.
        for (method, described) in methods.as_object().unwrap() {
            if path.ends_with("/enable") {
                continue;
            }
            let path = path.replace("{server}", "docs");
            let (status, response) =
                described["responses"].as_object().unwrap().iter().next().unwrap();
            let content = &response["content"];
            let what = format!("{method} {path}");
            if let Some(events) = content.get("text/event-stream") {
                let mut stream = api(&gateway, "events?after=0").listen(&[]).await;
                for _ in 0..4 {
                    let event = stream.message().await.unwrap();
                    check(&description, &events["schema"], &event, &what);
                }
                asked += 1;
                continue;
            }
            let answer = ask(&gateway, method, &path).await;
            assert_eq!(answer.status.as_str(), status, "{what}: {}", answer.text());
            check(&description, &content["application/json"]["schema"], &answer.json(), &what);
            asked += 1;
            if path.ends_with("/disable") {
                reaches(&gateway, "docs", "disabled").await;
                let enabled = ask(&gateway, "post", "/api/v1/servers/docs/enable").await;
                assert_eq!(enabled.status, StatusCode::ACCEPTED);
                reaches(&gateway, "docs", "connected").await;
            } else if path.ends_with("/restart") {
                reaches(&gateway, "docs", "connected").await;
            }
        }
    }
    assert!(asked > 15, "{asked}");
    let problem = &description["paths"]["/api/v1/servers/{server}"]["get"]["responses"]["default"];
    let problem = &problem["content"]["application/json"]["schema"];
    let unknown = api(&gateway, "servers/nobody").get(&[]).await.json();
    check(&description, problem, &unknown, "an unknown server");
}
