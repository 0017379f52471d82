//! Traces over OTLP: what is a span, what it says, and what the server is told.

use std::time::Duration;

use evergate_testkit::HttpServer;
use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{at, begin, child, merged, servers, web};
use crate::receiver::{Receiver, Span, took};
use crate::support::{Gateway, gateway, until};

const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

/// Sends traces there at once.
fn traced(config: Value, receiver: &Receiver) -> Gateway {
    let more = json!({ "gateway": { "otlp": { "endpoint": receiver.url } } });
    gateway(&merged(config, more)).env("OTEL_BSP_SCHEDULE_DELAY", "20").start()
}

fn told(http: &HttpServer) -> (String, Value) {
    let header = http.server().counters().last_headers["traceparent"].clone();
    let params = http.server().received("tools/call").pop().unwrap();
    let params: Value = serde_json::from_str(&params).unwrap();
    (header, params["_meta"].clone())
}

#[tokio::test]
async fn a_call_is_a_span_and_its_server_is_told_so() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    let span = receiver.span("tools/call bump").await;
    assert_eq!((span.kind, span.parent.as_str(), span.error), (2, "", None));
    for (name, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "bump"),
        ("gen_ai.operation.name", "execute_tool"),
        ("mcp.protocol.version", "2025-11-25"),
        ("evergate.server", "web"),
        ("evergate.outcome", "answered"),
        ("evergate.generation", "1"),
        ("evergate.client", "test 1"),
        ("evergate.era", "session"),
        ("evergate.resent", "false"),
    ] {
        assert_eq!(span.attributes.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(span.resource["service.name"], "evergate");
    assert!(span.began <= span.ended);
    let (header, meta) = told(&http);
    assert_eq!(header, format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!(meta["traceparent"], header.as_str());
    let (path, headers) = receiver.requests().pop().unwrap();
    assert_eq!(path, "/v1/traces");
    assert_eq!(headers["content-type"], "application/x-protobuf");
}

#[tokio::test]
async fn a_call_goes_on_with_the_trace_of_its_client() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    let meta = json!({ "traceparent": THEIRS, "tracestate": "k=v", "baggage": "user=ada" });
    let params = json!({ "name": "web__bump", "arguments": {}, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
    let mut headers = client.headers().to_vec();
    let ambient = "00-11111111111111111111111111111111-2222222222222222-01";
    headers.push(("traceparent", ambient));
    client.http.post(&headers, body.to_string()).await;
    let span = receiver.span("tools/call bump").await;
    assert_eq!(span.trace, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((span.parent.as_str(), span.state.as_str()), ("00f067aa0ba902b7", "k=v"));
    // Where the HTTP request stood is not lost.
    assert_eq!(span.links, [("1".repeat(32), "2".repeat(16))]);
    let (header, meta) = told(&http);
    assert_eq!(header, format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("k=v"), &json!("user=ada")));
    // One that its client does not record is not recorded here, and passes as it is.
    let quiet = THEIRS.replace("-01", "-00");
    let params = json!({ "name": "web__read", "arguments": {}, "_meta": { "traceparent": quiet } });
    client.request("tools/call", params).await;
    assert_eq!(told(&http).0, quiet);
    client.call("web__again", json!({})).await;
    receiver.span("tools/call again").await;
    assert!(receiver.spans().iter().all(|span| span.name != "tools/call read"));
}

#[tokio::test]
async fn failures_say_what_they_are() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call("web__fail", json!({})).await;
    client.call("web__rpc_error", json!({})).await;
    let tool = receiver.span("tools/call fail").await;
    assert_eq!(tool.attributes["error.type"], "tool_error");
    assert!(tool.error.is_some());
    let rpc = receiver.span("tools/call rpc_error").await;
    assert_eq!(rpc.attributes["error.type"], "-32050");
    assert_eq!(rpc.attributes["rpc.response.status_code"], "-32050");
    assert!(rpc.error.unwrap().contains("scripted error"));
    http.kill().await;
    let mut slow = json!({ "web": at(&http) });
    slow["web"]["hold"] = json!("300ms");
    gateway.write_config(&merged(
        servers(slow),
        json!({ "gateway": { "otlp": { "endpoint": receiver.url } } }),
    ));
    gateway.signal(Signal::HUP);
    until("calls are held for a moment only", async || {
        let answer = client.call("web__echo", json!({ "text": "x" })).await;
        answer["error"].is_object()
    })
    .await;
    let unsent = receiver.span("tools/call echo").await;
    assert_eq!(unsent.attributes["error.type"], unsent.attributes["evergate.outcome"]);
    assert!(!unsent.error.unwrap().is_empty());
}

#[tokio::test]
async fn a_wait_is_a_span_that_leads_to_the_handshake_it_was_for() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    let first = receiver.span("handshake").await;
    assert_eq!((first.kind, first.parent.as_str()), (3, ""));
    assert_eq!(first.attributes["evergate.server"], "web");
    assert_eq!(first.attributes["evergate.generation"], "1");
    assert_eq!(first.attributes["mcp.protocol.version"], "2025-11-25");
    http.kill().await;
    until("it is gone", async || {
        crate::kit::status(&gateway, "web").await.to_string().contains("reconnecting")
    })
    .await;
    let waiting = begin(&client, "web__bump", json!({}));
    until("it waits", async || gateway.health().await.to_string().contains("\"held\":1")).await;
    until("an attempt fails and says so", async || {
        let failed = |span: &Span| span.name == "handshake" && span.error.is_some();
        receiver.spans().iter().any(failed)
    })
    .await;
    http.revive().await;
    assert!(waiting.await.unwrap()["result"].is_object());
    let call = receiver.span("tools/call bump").await;
    let wait = receiver.span("wait").await;
    assert_eq!((&wait.trace, &wait.parent), (&call.trace, &call.id));
    assert!(took(&wait) >= Duration::from_millis(1) && took(&wait) <= took(&call));
    assert!(wait.began >= call.began && wait.ended <= call.ended);
    let generation = call.attributes["evergate.generation"].clone();
    assert_ne!(generation, "1");
    let mut handshakes = receiver.spans();
    handshakes.retain(|span| span.name == "handshake");
    let failed = handshakes.iter().find(|span| span.error.is_some()).unwrap();
    assert_eq!(failed.attributes["error.type"], "unreachable");
    let made = handshakes
        .into_iter()
        .find(|span| span.attributes["evergate.generation"] == generation)
        .unwrap();
    assert_eq!(wait.links, [(made.trace, made.id)]);
}

#[tokio::test]
async fn being_sent_again_is_a_span_of_its_own() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    http.server().forget_sessions();
    client.call_text("web__bump", json!({})).await;
    let call = receiver.span("tools/call bump").await;
    assert_eq!(call.attributes["evergate.resent"], "true");
    let resend = receiver.span("resend").await;
    assert_eq!((&resend.trace, &resend.parent, resend.kind), (&call.trace, &call.id, 3));
    assert_eq!(resend.attributes["evergate.generation"], "2");
    assert!(resend.began >= call.began && resend.ended <= call.ended);
}

#[tokio::test]
async fn calls_to_child_processes_are_traced_from_the_first_handshake_on() {
    let receiver = Receiver::start().await;
    let gateway = traced(servers(json!({ "child": child(&[]) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("child__bump", json!({})).await;
    let span = receiver.span("tools/call bump").await;
    assert_eq!(span.attributes["evergate.server"], "child");
    // Its handshake is over before much else is.
    assert_eq!(receiver.span("handshake").await.attributes["evergate.server"], "child");
}

#[tokio::test]
async fn the_usual_variables_do_as_well() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = gateway(&servers(json!({ "web": at(&http) })))
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/somewhere", receiver.url))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=from%20env")
        .env("OTEL_SERVICE_NAME", "my-gateway")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
        .start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    let span = receiver.span("tools/call bump").await;
    assert_eq!(span.resource["service.name"], "my-gateway");
    assert_eq!(span.resource["deployment.environment"], "test");
    let (path, headers) = receiver.requests().pop().unwrap();
    assert_eq!((path.as_str(), &headers["api-key"]), ("/somewhere", &"from env".parse().unwrap()));
}

#[tokio::test]
async fn what_is_not_sampled_is_not_recorded_and_its_server_knows() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let gateway = gateway(&servers(json!({ "web": at(&http) })))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url)
        .env("OTEL_TRACES_SAMPLER", "parentbased_always_off")
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
        .start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    assert!(told(&http).0.ends_with("-00"));
    let params =
        json!({ "name": "web__read", "arguments": {}, "_meta": { "traceparent": THEIRS } });
    client.request("tools/call", params).await;
    receiver.span("tools/call read").await;
    assert_eq!(receiver.spans().len(), 1, "{:#?}", receiver.spans());
}

#[tokio::test]
async fn a_receiver_that_is_gone_costs_nobody_anything_and_is_told_of_once() {
    let http = web().await;
    let refusals = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_REQUEST];
    let receiver = Receiver::refusing(&refusals).await;
    let gateway = traced(servers(json!({ "web": at(&http) })), &receiver);
    let client = gateway.connect().await;
    client.tool_names().await;
    until("a batch gets through", async || {
        client.call_text("web__bump", json!({})).await;
        !receiver.spans().is_empty()
    })
    .await;
    until("it says that it works again", async || {
        gateway.stderr().contains("traces are sent again")
    })
    .await;
    let log = gateway.stderr();
    assert_eq!(log.matches("traces cannot be sent").count(), 1, "{log}");
    assert!(log.contains("2 failures in"), "{log}");
    assert!(log.contains("spans_lost="), "{log}");
}

#[tokio::test]
async fn the_last_calls_are_sent_before_the_end() {
    let (http, receiver) = (web().await, Receiver::start().await);
    let config = servers(json!({ "web": at(&http) }));
    let more =
        json!({ "gateway": { "otlp": { "endpoint": receiver.url, "service_name": "last" } } });
    // Nothing is sent by itself.
    let delay = ("OTEL_BSP_SCHEDULE_DELAY", "600000");
    let mut gateway = gateway(&merged(config, more)).env(delay.0, delay.1).start();
    let client = gateway.connect().await;
    client.tool_names().await;
    client.call_text("web__bump", json!({})).await;
    assert!(receiver.spans().is_empty());
    gateway.signal(Signal::TERM);
    assert!(gateway.ended().await.success());
    let spans = receiver.spans();
    assert!(spans.iter().any(|span| span.name == "tools/call bump"), "{spans:#?}");
    assert_eq!(spans[0].resource["service.name"], "last");
}
