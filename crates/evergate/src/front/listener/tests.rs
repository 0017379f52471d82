use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use super::super::body::{events, text};
use super::*;

/// A client's end of a connection to somebody who answers every request with one word, and one for a stream with two that
/// are a second apart.
struct Client {
    stream: TcpStream,
    stop: CancellationToken,
    serving: JoinSet<Result<(), hyper::Error>>,
}

impl Client {
    async fn connect() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stream, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let stop = CancellationToken::new();
        let answer = async |request: Request<Incoming>| match request.uri().path() {
            "/stream" => {
                events(futures_util::stream::unfold(["two", "one"].to_vec(), async |mut left| {
                    let word = left.pop()?;
                    if left.is_empty() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    Some((word.into(), left))
                }))
            }
            _ => text(StatusCode::OK, "hello"),
        };
        let mut serving = JoinSet::new();
        serving.spawn(converse(accepted.unwrap().0, answer, stop.clone()));
        Self { stream: stream.unwrap(), stop, serving }
    }

    async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self, words: &str) {
        let mut heard = Vec::new();
        while !heard.ends_with(words.as_bytes()) {
            assert!(self.stream.read_buf(&mut heard).await.unwrap() > 0, "it ended");
        }
    }

    /// Everything until the connection ends, which the other side must do in good order.
    async fn last_words(mut self) -> String {
        let mut all = String::new();
        self.stream.read_to_string(&mut all).await.unwrap();
        drop(self.stream);
        self.serving.join_next().await.unwrap().unwrap().unwrap();
        all
    }
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn assert_farewell(heard: &str) {
    let (status_and_headers, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(status_and_headers.starts_with("HTTP/1.1 408 "), "{heard}");
    assert!(status_and_headers.contains("\r\nconnection: close\r\n"), "{heard}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["data"]["outcome"], "not_sent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_between_two_requests_is_told_that_the_next_would_not_be_taken() {
    let mut client = Client::connect().await;
    client.send(REQUEST).await;
    client.hear("hello").await;
    client.stop.cancel();
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn so_is_one_that_has_not_asked_anything() {
    let client = Client::connect().await;
    client.stop.cancel();
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn so_is_one_that_took_too_long() {
    let mut client = Client::connect().await;
    client.send(REQUEST).await;
    client.hear("hello").await;
    client.send("POST / HTTP/1.1\r\nhost: loc").await;
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_last_moment_is_answered_and_nothing_is_said_after_it() {
    let mut client = Client::connect().await;
    client.stop.cancel();
    client.send(REQUEST).await;
    let heard = client.last_words().await;
    assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
    assert!(heard.contains("\r\nconnection: close\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nhello"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_is_not_mixed_with_it() {
    for (version, end) in [("1.1", "3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 408 "), ("1.0", "onetwo")] {
        let mut client = Client::connect().await;
        client.send(&format!("GET /stream HTTP/{version}\r\nhost: localhost\r\n\r\n")).await;
        let stop = client.stop.clone();
        let (heard, ()) = tokio::join!(client.last_words(), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            stop.cancel();
        });
        let found = heard.find(end).unwrap_or_else(|| panic!("{heard}"));
        assert_eq!(version == "1.0", found + end.len() == heard.len(), "{heard}");
    }
}
