//! Results that are passed on while they arrive, and what becomes of those that break off.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::kit::{at, servers, web};
use crate::support::{Events, Gateway, Session, gateway};

type Piece = Result<Bytes, io::Error>;

/// A server whose one tool answers with whatever the test sends, when it sends it.
struct SlowServer {
    url: String,
    answers: Arc<Mutex<Vec<mpsc::Receiver<Piece>>>>,
}

impl SlowServer {
    async fn start(annotations: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let answers: Arc<Mutex<Vec<mpsc::Receiver<Piece>>>> = Arc::default();
        let queue = answers.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (queue, annotations) = (queue.clone(), annotations.clone());
                let service =
                    service_fn(move |request| respond(request, queue.clone(), annotations.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, answers }
    }

    /// How the next call is answered.
    fn next_answer(&self) -> mpsc::Sender<Piece> {
        let (sender, receiver) = mpsc::channel(100);
        self.answers.lock().unwrap().insert(0, receiver);
        sender
    }

    fn gateway(&self, mut settings: Value) -> Gateway {
        // What takes longer than this comes as a stream, and so as a whole.
        settings["stream_after"] = json!("60s");
        gateway(&json!({ "gateway": settings, "mcpServers": { "s": { "url": self.url } } })).start()
    }
}

async fn respond(
    request: Request<Incoming>,
    answers: Arc<Mutex<Vec<mpsc::Receiver<Piece>>>>,
    annotations: Value,
) -> Result<Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, io::Error>>>>, Infallible> {
    let whole = |status: StatusCode, text: String| {
        let body = stream::iter([Ok(Frame::data(Bytes::from(text)))]).boxed();
        let response =
            Response::builder().status(status).header("content-type", "application/json");
        Ok(response.body(StreamBody::new(body)).unwrap())
    };
    if request.method() != Method::POST {
        return whole(StatusCode::METHOD_NOT_ALLOWED, String::new());
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "slow", "version": "1" },
        }),
        "tools/list" => {
            json!({ "tools": [{ "name": "big", "inputSchema": { "type": "object" }, "annotations": annotations }] })
        }
        "tools/call" => {
            let id = message["id"].clone();
            let pieces = answers.lock().unwrap().pop().expect("an answer");
            let pieces = stream::unfold(pieces, |mut pieces| async {
                pieces.recv().await.map(|piece| (piece, pieces))
            });
            // The test does not know the id.
            let pieces = pieces.map(move |piece| {
                piece.map(|piece| {
                    let text = String::from_utf8(piece.to_vec()).unwrap();
                    Frame::data(Bytes::from(text.replace("$ID", &id.to_string())))
                })
            });
            let response = Response::builder().header("content-type", "application/json");
            return Ok(response.body(StreamBody::new(pieces.boxed())).unwrap());
        }
        _ => return whole(StatusCode::ACCEPTED, String::new()),
    };
    whole(
        StatusCode::OK,
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string(),
    )
}

fn text_of(length: usize) -> String {
    "0123456789abcdef".chars().cycle().take(length).collect()
}

/// The first half of a large answer.
fn first_half(envelope: &str) -> String {
    format!("{envelope}{{\"content\":[{{\"type\":\"text\",\"text\":\"{}", text_of(100_000))
}

const ID_FIRST: &str = "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":";

async fn send(pieces: &mpsc::Sender<Piece>, text: impl Into<String>) {
    pieces.send(Ok(Bytes::from(text.into()))).await.unwrap();
}

/// Begins a call and returns its response as soon as it has begun.
async fn begin(client: &Session) -> Events {
    client.request_events(json!("mine"), "tools/call", json!({ "name": "s__big" })).await
}

fn read(text: &str) -> Value {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("{error}: …{}", &text[text.len() - 300..]))
}

#[tokio::test]
async fn a_large_result_goes_out_while_it_comes_in_wherever_its_id_stands() {
    let server = SlowServer::start(json!({})).await;
    let gateway = server.gateway(json!({}));
    let client = gateway.connect().await;
    let ends = [
        (ID_FIRST, "}"),
        ("{\"result\":", ",\"id\":$ID,\"jsonrpc\":\"2.0\"}\n"),
        (" {\n \"id\" : \"$ID\", \"result\" :\n", "\n, \"jsonrpc\": \"2.0\"\n}"),
    ];
    for (begin_with, end_with) in ends {
        let pieces = server.next_answer();
        send(&pieces, first_half(begin_with)).await;
        let mut response = begin(&client).await;
        let mut text = String::new();
        while text.len() < 100_000 {
            text += std::str::from_utf8(&response.bytes().await.unwrap()).unwrap();
        }
        // Half of it has arrived, and the server has not even said the rest.
        send(&pieces, format!("{}\"}}],\"n\":1.50}}{end_with}", text_of(50_000))).await;
        drop(pieces);
        text += &response.rest().await;
        assert!(text.starts_with("{\"jsonrpc\":\"2.0\",\"id\":\"mine\",\"result\":{\"content\":"));
        assert!(text.ends_with("\"}],\"n\":1.50}}"), "nothing of it is rewritten");
        let answer = read(&text);
        let result = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(result, text_of(100_000) + &text_of(50_000));
    }
}

#[tokio::test]
async fn a_result_that_breaks_off_ends_as_a_failure_that_says_so() {
    let server = SlowServer::start(json!({})).await;
    let gateway = server.gateway(json!({}));
    let client = gateway.connect().await;
    let broken: Piece = Err(io::ErrorKind::ConnectionReset.into());
    let not_json: Piece = Ok(Bytes::from_static(b"\"}]]"));
    for how in [broken, not_json] {
        let pieces = server.next_answer();
        send(&pieces, first_half(ID_FIRST)).await;
        let response = begin(&client).await;
        pieces.send(how).await.unwrap();
        drop(pieces);
        let answer = read(&response.rest().await);
        assert_eq!(answer["id"], "mine");
        assert_eq!(answer["result"]["isError"], true);
        let note = answer["result"]["content"].as_array().unwrap().last().unwrap();
        let note = note["text"].as_str().unwrap();
        assert!(note.contains("breaks off here") && note.contains("find out before"), "{note}");
    }
    // The next call is not disturbed.
    let pieces = server.next_answer();
    send(&pieces, format!("{ID_FIRST}{{\"content\":[]}}}}")).await;
    drop(pieces);
    assert_eq!(client.call("s__big", json!({})).await["result"]["content"], json!([]));
}

#[tokio::test]
async fn an_answer_that_turns_out_to_be_anothers_is_never_completed() {
    let server = SlowServer::start(json!({})).await;
    let gateway = server.gateway(json!({}));
    let client = gateway.connect().await;
    let pieces = server.next_answer();
    send(&pieces, first_half("{\"result\":")).await;
    let response = begin(&client).await;
    send(&pieces, "\"}]},\"id\":123456,\"jsonrpc\":\"2.0\"}").await;
    drop(pieces);
    let text = response.rest().await;
    assert!(
        serde_json::from_str::<Value>(&text).is_err(),
        "half an answer is not taken for a whole one"
    );
}

#[tokio::test]
async fn a_large_result_that_may_be_asked_for_again_is_asked_for_again() {
    let server = SlowServer::start(json!({ "readOnlyHint": true })).await;
    let gateway = server.gateway(json!({}));
    let client = gateway.connect().await;
    client.tool_names().await;
    let (first, second) = (server.next_answer(), server.next_answer());
    send(&first, first_half(ID_FIRST)).await;
    first.send(Err(io::ErrorKind::ConnectionReset.into())).await.unwrap();
    send(&second, first_half(ID_FIRST) + "!\"}]}}").await;
    drop((first, second));
    let text = client.call_text("s__big", json!({})).await;
    assert_eq!(text, text_of(100_000) + "!");
}

#[tokio::test]
async fn a_result_that_grows_over_the_limit_ends_as_a_failure_that_says_so() {
    let server = SlowServer::start(json!({})).await;
    let gateway = server.gateway(json!({ "max_result_bytes": "128KiB" }));
    let client = gateway.connect().await;
    let pieces = server.next_answer();
    send(&pieces, first_half(ID_FIRST)).await;
    let response = begin(&client).await;
    send(&pieces, text_of(100_000)).await;
    let answer = read(&response.rest().await);
    assert_eq!(answer["result"]["isError"], true);
    let note = answer["result"]["content"].as_array().unwrap().last().unwrap();
    assert!(note["text"].as_str().unwrap().contains("max_result_bytes"), "{note}");
}

#[tokio::test]
async fn a_client_that_takes_its_time_does_not_make_the_gateway_hold_the_result() {
    const SIZE: usize = 60_000_000;
    let http = web().await;
    http.server().tool(
        "huge",
        json!({}),
        |_| json!({ "content": [{ "type": "text", "text": "x".repeat(SIZE) }] }),
    );
    let mut config = servers(json!({ "s": { "url": http.url() } }));
    config["gateway"] = json!({ "max_result_bytes": "100MiB", "stream_after": "60s" });
    let gateway = gateway(&config).start();
    let client = gateway.connect().await;
    let before = resident_kib(gateway.pid());
    let mut response =
        client.request_events(json!(1), "tools/call", json!({ "name": "s__huge" })).await;
    let mut length = 0;
    let mut most = 0;
    while let Some(piece) = response.bytes().await {
        length += piece.len();
        most = most.max(resident_kib(gateway.pid()));
    }
    assert!(length > SIZE);
    assert!(most - before < 8 * 1024, "{} KiB more than before", most - before);
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn results_of_all_sizes_around_the_limits_come_through() {
    let http = web().await;
    http.server().tool("sized", json!({}), |arguments| {
        let length = usize::try_from(arguments["n"].as_u64().unwrap()).unwrap();
        json!({ "content": [{ "type": "text", "text": text_of(length) }] })
    });
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let client = gateway.connect().await;
    for length in [65_000, 65_400, 65_450, 65_470, 65_500, 65_536, 66_000, 140_000, 1_048_576] {
        let text = client.call_text("s__sized", json!({ "n": length })).await;
        assert_eq!(text, text_of(length), "{length}");
    }
    assert_eq!(http.server().counters().calls, 9);
}

/// It would take whatever has come when the connection ends for all of it.
#[tokio::test]
async fn a_client_of_http_1_0_gets_a_large_result_with_its_length() {
    let http = web().await;
    let result = json!({ "content": [{ "type": "text", "text": text_of(300_000) }] });
    http.server().tool("big", json!({}), move |_| result.clone());
    let gateway = gateway(&servers(json!({ "s": at(&http) }))).start();
    let client = gateway.connect().await;
    let params = json!({ "name": "s__big", "arguments": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let (call, id) = (call.to_string(), &client.id);
    let request = format!(
        "POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         Mcp-Session-Id: {id}\r\nContent-Length: {}\r\n\r\n{call}",
        call.len(),
    );
    let address = gateway.at("").strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).await.unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
    assert!(body.len() > 300_000);
}
