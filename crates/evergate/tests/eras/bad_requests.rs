//! Requests that something is wrong with: each gets the status and the code that the revision names, and nothing else is
//! disturbed.

use evergate_testkit::Eras;
use http::Method;
use serde_json::{Value, json};

use crate::parked_call::Scene;
use crate::stateless_client::{
    CAPABILITIES, CLIENT_INFO, Draft, LOG_LEVEL, MODERN, Stateless, VERSION, encoded,
};
use crate::upstream::{Over, Upstream};

const BAD_PARAMS: i64 = -32602;
const MISMATCH: i64 = -32020;

impl Scene {
    fn list(&self) -> Draft {
        self.client.draft("tools/list", json!({}))
    }

    fn echo(&self) -> Draft {
        self.client.call("up__echo", json!({ "text": "hi" }))
    }
}

#[tokio::test]
async fn headers_that_say_something_else_than_the_body() {
    let scene = Scene::new().await;
    let (list, echo) = (scene.list(), scene.echo());
    let read = scene.client.draft("resources/read", json!({ "uri": "test://a" }));
    let get = scene.client.draft("prompts/get", json!({ "name": "up__greet" }));
    for wrong in [
        list.clone().header("mcp-protocol-version", "v999.0.0"),
        list.clone().header("mcp-protocol-version", "2025-11-25"),
        list.clone().meta(VERSION, json!("v999.0.0")),
        list.clone().header("mcp-method", "prompts/list"),
        list.clone().header("mcp-method", "TOOLS/LIST"),
        list.clone().header("mcp-method", ""),
        echo.clone().header("mcp-name", "up__bump"),
        echo.clone().header("mcp-name", "UP__ECHO"),
        echo.clone().header("mcp-name", "=?base64?!!?="),
        echo.clone().header("mcp-name", "=?base64?dXBfX2VjaG8?="),
        echo.clone().header("mcp-name", &format!("=?base64?{}?=", "dXBfX2J1bXA=")),
        read.clone().header("mcp-name", "test://b"),
        get.clone().header("mcp-name", "greet"),
    ] {
        let error = wrong.send().await.error(400, MISMATCH);
        assert!(!error["message"].as_str().unwrap().contains("v999"), "{error}");
    }
    assert!(scene.up.server.received("tools/call").iter().all(|call| !call.contains("echo")));
    scene.is_unharmed().await;
}

#[tokio::test]
async fn headers_that_are_missing() {
    let scene = Scene::new().await;
    let read = scene.client.draft("resources/read", json!({ "uri": "test://a" }));
    let get = scene.client.draft("prompts/get", json!({ "name": "up__greet" }));
    for wrong in [
        scene.list().without("mcp-protocol-version"),
        scene.list().without("mcp-method"),
        scene.echo().without("mcp-protocol-version"),
        scene.echo().without("mcp-method"),
        scene.echo().without("mcp-name"),
        read.without("mcp-name"),
        get.without("mcp-name"),
    ] {
        wrong.send().await.error(400, MISMATCH);
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn headers_that_come_twice() {
    let scene = Scene::new().await;
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let echo = scene.echo();
        let value = echo.headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
        for second in [value.as_str(), "other"] {
            let twice = echo.clone().also(name, second);
            twice.send().await.error(400, MISMATCH);
            // In the other order, too: whoever looks at one looks at the first, or at the last.
            echo.clone().header(name, second).also(name, &value).send().await.error(400, MISMATCH);
        }
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn headers_that_are_right_in_an_unusual_way() {
    let scene = Scene::new().await;
    for right in [
        scene.echo().header("mcp-name", "  up__echo  "),
        scene.echo().header("mcp-name", "=?base64?dXBfX2VjaG8=?="),
        scene.echo().without("mcp-method").also("MCP-METHOD", "tools/call"),
        scene.echo().also("mcp-session-id", "made-up"),
        scene.echo().also("last-event-id", "made-up"),
        scene.echo().also("mcp-param-region", "nobody asked"),
        scene.list().also("mcp-name", "not wanted here"),
    ] {
        right.send().await.complete();
    }
    let uri = "test://ä ";
    assert_ne!(encoded(uri), uri);
    scene.client.result("resources/read", json!({ "uri": uri })).await;
    scene.is_unharmed().await;
}

#[tokio::test]
async fn requests_that_do_not_say_who_makes_them() {
    let scene = Scene::new().await;
    for draft in [scene.list(), scene.echo(), scene.client.draft("server/discover", json!({}))] {
        let mut without_meta = draft.clone();
        without_meta.body["params"].as_object_mut().unwrap().remove("_meta");
        let mut without_params = draft.clone();
        without_params.body.as_object_mut().unwrap().remove("params");
        for wrong in [
            without_meta,
            without_params,
            draft.clone().param("_meta", json!([])),
            draft.clone().param("_meta", json!(null)),
            draft.clone().param("_meta", json!({})),
            draft.clone().without_meta(VERSION),
            draft.clone().without_meta(CAPABILITIES),
            draft.clone().meta(VERSION, json!(20_260_728)),
            draft.clone().meta(VERSION, json!(null)),
            draft.clone().meta(CAPABILITIES, json!([])),
            draft.clone().meta(CAPABILITIES, json!("all")),
            draft.clone().meta(CLIENT_INFO, json!({ "name": "no version" })),
            draft.clone().meta(CLIENT_INFO, json!("me")),
            draft.clone().meta(LOG_LEVEL, json!("loud")),
            draft.clone().meta(LOG_LEVEL, json!(3)),
            // The first thing that is wrong is what is said.
            draft.clone().without_meta(VERSION).without("mcp-method"),
        ] {
            let replied = wrong.send().await;
            replied.error(400, BAD_PARAMS);
            assert_eq!(replied.headers["content-type"], "application/json");
        }
        draft.without_meta(CLIENT_INFO).send().await.complete();
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn revisions_that_are_not_served() {
    let scene = Scene::new().await;
    for version in ["v999.0.0", "2027-01-01", "2025-11-25", "2024-11-05", ""] {
        let draft = scene.list().meta(VERSION, json!(version));
        let error = draft.header("mcp-protocol-version", version).send().await.error(400, -32022);
        assert_eq!(error["data"], json!({ "supported": [MODERN], "requested": version }));
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn methods_that_there_are_not() {
    let scene = Scene::new().await;
    let one = Stateless::of_server(&scene.gateway, "up");
    for client in [&scene.client, &one] {
        for method in [
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "tasks/list",
            "tasks/result",
            "unknown/method",
            "",
        ] {
            let params = json!({ "uri": "test://a", "level": "info" });
            client.request(method, params).await.error(404, -32601);
        }
    }
    assert!(!scene.up.server.counters().requests.contains_key("resources/subscribe"));
    scene.is_unharmed().await;
}

#[tokio::test]
async fn a_handshake_in_a_revision_without_one() {
    let scene = Scene::new().await;
    let params = json!({ "protocolVersion": MODERN, "capabilities": {}, "clientInfo": {} });
    let mut initialize = scene.client.draft("initialize", params);
    initialize.body["params"].as_object_mut().unwrap().remove("_meta");
    initialize.send().await.error(400, MISMATCH);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn methods_of_http_that_are_not_offered() {
    let scene = Scene::new().await;
    let list = scene.list();
    for method in [Method::GET, Method::DELETE, Method::PUT, Method::PATCH] {
        for session in [None, Some("made-up")] {
            let mut headers = list.headers();
            headers.extend(session.map(|id| ("mcp-session-id", id)));
            let response = scene.gateway.http().send(method.clone(), &headers, "").await;
            assert_eq!(response.status(), 405, "{method}");
            assert_eq!(response.headers()["allow"], "POST", "{method}");
        }
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn bodies_that_are_no_single_message() {
    let scene = Scene::new().await;
    let list = scene.list();
    let body = list.body.to_string();
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }).to_string();
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string();
    for (wrong, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        (&format!("[{body}]"), -32600),
        (&format!("[{body},{notification}]"), -32600),
        ("{}", -32600),
        ("null", -32600),
        ("\"tools/list\"", -32600),
        (&response, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, -32600),
        (&body.replacen("\"tools/list\"", "7", 1), -32600),
    ] {
        let answer = list.send_text(wrong).await;
        let message = answer.json();
        assert_eq!(
            (answer.status.as_u16(), &message["error"]["code"]),
            (400, &json!(code)),
            "{wrong}"
        );
    }
    // A batch is one by what is in it, too.
    let answer = list.clone().without("mcp-protocol-version").send_text(&format!("[{body}]")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (400, &json!(-32600)));
    // What an id is not.
    for id in [json!({}), json!([1]), json!(true)] {
        let answer = list.send_text(&list.clone().id(id.clone()).body.to_string()).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["code"]),
            (400, &json!(-32600)),
            "{id}"
        );
    }
    let answer = list.clone().header("accept", "application/json").send_text(&body).await;
    assert_eq!(answer.status, 406);
    let answer = list.clone().header("content-type", "text/plain").send_text(&body).await;
    assert_eq!(answer.status, 415);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn notifications_are_taken_and_do_nothing() {
    let scene = Scene::new().await;
    let cancelled = json!({ "requestId": scene.parked.call.body["id"] });
    for method in ["notifications/cancelled", "notifications/roots/list_changed", "other"] {
        let mut with = scene.client.draft(method, cancelled.clone());
        with.body.as_object_mut().unwrap().remove("id");
        let mut without = with.clone().without("mcp-method");
        without.body["params"].as_object_mut().unwrap().remove("_meta");
        for notification in [with.clone(), with.without("mcp-protocol-version"), without] {
            let answer = notification.send_text(&notification.body.to_string()).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (202, 0), "{}", answer.text());
        }
    }
    assert_eq!(scene.up.cancelled(), 0);
    scene.is_unharmed().await;
}

#[tokio::test]
async fn names_that_nothing_has() {
    let scene = Scene::new().await;
    let client = &scene.client;
    for (method, params) in [
        ("tools/call", json!({ "name": "nobody" })),
        ("tools/call", json!({ "name": "up__nobody" })),
        ("prompts/get", json!({ "name": "nobody" })),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "nobody" } })),
        ("completion/complete", json!({})),
        ("tools/list", json!({ "cursor": "made-up" })),
        ("resources/list", json!({ "cursor": 7 })),
    ] {
        client.request(method, params).await.error(200, BAD_PARAMS);
    }
    let missing = json!({ "uri": "other://nowhere" });
    let error = client.request("resources/read", missing.clone()).await.error(200, BAD_PARAMS);
    assert_eq!(error["data"], missing);
    // Without a name there is nothing for the header to say.
    for (method, params) in
        [("tools/call", json!({})), ("prompts/get", json!({})), ("resources/read", json!({}))]
    {
        let draft = client.draft(method, params);
        draft.clone().send().await.error(400, MISMATCH);
        draft.also("mcp-name", "something").send().await.error(200, BAD_PARAMS);
    }
    scene.is_unharmed().await;
}

#[tokio::test]
async fn arguments_that_headers_must_repeat() {
    for eras in [Eras::Legacy, Eras::Modern] {
        let up = Upstream::with_fixtures(eras, Over::Http).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        client.tool_names().await;
        let call = |arguments: Value| client.call("up__test_header_params", arguments);
        let region = |said: &str| call(json!({ "region": said }));
        for wrong in [
            region("Hello"),
            region("Hello").also("mcp-param-region", "hello"),
            region("Hello").also("mcp-param-region", "=?base64?SGVsbG8?="),
            region("Hello").also("mcp-param-region", "=?base64?SGVs!!!bG8=?="),
            region("Hello").also("mcp-param-region", "Hello").also("mcp-param-region", "Hello"),
            region("grüße").also("mcp-param-region", "gr??e"),
            call(json!({ "region": "a", "priority": 3 })).also("mcp-param-region", "a"),
            call(json!({ "region": "a", "priority": 3 }))
                .also("mcp-param-region", "a")
                .also("mcp-param-priority", "4"),
            call(json!({ "region": "a", "verbose": true }))
                .also("mcp-param-region", "a")
                .also("mcp-param-verbose", "false"),
        ] {
            let error = wrong.send().await.error(400, MISMATCH);
            assert!(error["message"].as_str().unwrap().contains("Mcp-Param-"), "{error}");
        }
        assert_eq!(up.server.counters().calls, 0);
        for right in [
            region("Hello").also("mcp-param-region", "Hello"),
            region("Hello").also("mcp-param-region", " Hello "),
            region("Hello").also("mcp-param-region", "=?base64?SGVsbG8=?="),
            region("SGVsbG8=").also("mcp-param-region", "SGVsbG8="),
            region("=?base64?SGVsbG8=").also("mcp-param-region", "=?base64?SGVsbG8="),
            region("grüße").also("mcp-param-region", &encoded("grüße")),
            call(json!({ "region": "a", "priority": 3, "verbose": false }))
                .also("mcp-param-region", "a")
                .also("mcp-param-priority", "3")
                .also("mcp-param-verbose", "false"),
        ] {
            right.send().await.complete();
        }
        assert_eq!(up.server.counters().calls, 7);
    }
}
