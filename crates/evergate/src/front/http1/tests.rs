use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::io::{
    AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::task::JoinSet;

use super::super::body::{empty, events, text};
use super::*;

type Body = RequestBody<ReadHalf<DuplexStream>>;

/// A client's end of a connection.
struct Client {
    stream: DuplexStream,
    stop: CancellationToken,
    serving: JoinSet<io::Result<()>>,
    /// How many answers nobody waited for.
    dropped: Arc<AtomicUsize>,
}

/// Counts what is dropped before it is over.
struct Unless(Arc<AtomicUsize>, bool);

impl Drop for Unless {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

/// What a path is answered with.
async fn answer(request: Box<Request<Body>>, dropped: Arc<AtomicUsize>) -> Reply {
    match request.uri.path() {
        // Two words that are a second apart.
        "/stream" => {
            events(futures_util::stream::unfold(["two", "one"].to_vec(), async |mut left| {
                let word = left.pop()?;
                if left.is_empty() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Some((word.into(), left))
            }))
        }
        "/endless" => events(futures_util::stream::repeat(vec![b'x'; 100_000].into())),
        // Words of all sizes that are here at once, an empty one among them.
        "/words" => {
            let words = [3, 0, 5000, 4096, 4097, 1].map(|size| vec![b'a'; size].into());
            events(futures_util::stream::iter(words))
        }
        "/slow" => {
            let mut unless = Unless(dropped, false);
            tokio::time::sleep(Duration::from_secs(600)).await;
            unless.1 = true;
            text(StatusCode::OK, "at last")
        }
        "/nothing" => empty(StatusCode::NO_CONTENT),
        "/taken" => empty(StatusCode::ACCEPTED),
        "/unread" => text(StatusCode::OK, "hello"),
        _ => echo::answer(request).await,
    }
}

impl Client {
    fn connect() -> Self {
        Self::with_room(1 << 20)
    }

    /// So much fits into the connection while the other side does not read.
    fn with_room(room: usize) -> Self {
        let (stream, other) = duplex(room);
        let (reader, writer) = split(other);
        let (stop, dropped) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let (stopped, counter) = (stop.clone(), dropped.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let answer = |request| answer(request, counter.clone());
            serve::<_, WriteHalf<_>, _>(reader, writer, answer, &stopped).await
        });
        Self { stream, stop, serving, dropped }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    async fn hear(&mut self, words: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(words.as_bytes()) {
            heard.push(self.stream.read_u8().await.expect("it ended"));
        }
        String::from_utf8(heard).unwrap()
    }

    /// Everything until the connection ends, which the other side must do in good order.
    async fn last_words(mut self) -> String {
        let mut all = String::new();
        self.stream.read_to_string(&mut all).await.unwrap();
        drop(self.stream);
        self.serving.join_next().await.unwrap().unwrap().unwrap();
        all
    }

    async fn ends(&mut self) -> io::Result<()> {
        self.serving.join_next().await.unwrap().unwrap()
    }
}

const REQUEST: &str = "GET /unread HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn assert_farewell(heard: &str) {
    let (status_and_headers, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(status_and_headers.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{heard}");
    assert!(status_and_headers.contains("\r\nconnection: close\r\n"), "{heard}");
    assert!(status_and_headers.contains(&format!("\r\ncontent-length: {}\r\n", body.len())));
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["data"]["outcome"], "not_sent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_between_two_requests_is_told_that_the_next_would_not_be_taken() {
    let mut client = Client::connect();
    client.send(REQUEST).await;
    client.hear("hello").await;
    client.stop.cancel();
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn so_is_one_that_has_not_asked_anything() {
    let client = Client::connect();
    client.stop.cancel();
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn so_is_one_that_took_too_long() {
    let mut client = Client::connect();
    client.send(REQUEST).await;
    client.hear("hello").await;
    let begun = Instant::now();
    for byte in "POST / HTTP/1.1\r\nhost: loc".bytes() {
        client.send([byte]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_farewell(&client.last_words().await);
    assert_patience(begun, HEAD_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn so_is_one_that_asks_nothing_for_long() {
    let begun = Instant::now();
    assert_farewell(&Client::connect().last_words().await);
    assert_patience(begun, HEAD_WITHIN);

    let mut client = Client::connect();
    client.send(REQUEST).await;
    client.hear("hello").await;
    let asked = Instant::now();
    tokio::time::sleep(IDLE_FOR * 9 / 10).await;
    client.send(REQUEST).await;
    client.hear("hello").await;
    assert_farewell(&client.last_words().await);
    assert_patience(asked, IDLE_FOR * 19 / 10);
}

/// That it was for as long as `patience`, give or take the end of the connection.
fn assert_patience(begun: Instant, patience: Duration) {
    let took = begun.elapsed();
    assert!(took >= patience && took < patience + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_last_moment_is_answered_and_nothing_is_said_after_it() {
    let mut client = Client::connect();
    client.stop.cancel();
    tokio::task::yield_now().await;
    client.send(REQUEST).await;
    let heard = client.last_words().await;
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
    assert!(heard.contains("\r\nconnection: close\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nhello"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_is_not_mixed_with_it() {
    for (version, end) in [("1.1", "3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 408 "), ("1.0", "onetwo")] {
        let mut client = Client::connect();
        client.send(format!("GET /stream HTTP/{version}\r\nhost: localhost\r\n\r\n")).await;
        let stop = client.stop.clone();
        let (heard, ()) = tokio::join!(client.last_words(), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            stop.cancel();
        });
        let found = heard.find(end).unwrap_or_else(|| panic!("{heard}"));
        assert_eq!(version == "1.0", found + end.len() == heard.len(), "{heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_in_after_a_stream_that_outlasted_the_last_requests() {
    let mut client = Client::connect();
    client.send("GET /stream HTTP/1.1\r\n\r\n").await;
    client.hear("3\r\none\r\n").await;
    client.stop.cancel();
    client.hear("0\r\n\r\n").await;
    assert_farewell(&client.last_words().await);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http_1_0_gets_what_it_can_read() {
    let mut client = Client::connect();
    client.send("GET /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
    let heard = client.last_words().await;
    assert!(!heard.contains("chunked") && heard.contains("\r\nconnection: close\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nonetwo"), "{heard}");

    let mut client = Client::connect();
    client.send("GET /unread HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
    let heard = client.hear("hello").await;
    assert!(heard.contains("\r\nconnection: keep-alive\r\n"), "{heard}");
    client.send("GET /unread HTTP/1.0\r\n\r\n").await;
    let heard = client.last_words().await;
    assert!(heard.contains("\r\nconnection: close\r\n") && heard.ends_with("hello"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn what_has_no_body_says_so() {
    let mut client = Client::connect();
    client.send("GET /nothing HTTP/1.1\r\n\r\n").await;
    let heard = client.hear("\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 204 ") && !heard.contains("content-length"), "{heard}");
    client.send("GET /taken HTTP/1.1\r\n\r\n").await;
    assert!(client.hear("\r\n\r\n").await.contains("\r\ncontent-length: 0\r\n"));
    client.send("HEAD /unread HTTP/1.1\r\n\r\n").await;
    assert!(client.hear("\r\n\r\n").await.contains("\r\ncontent-length: 5\r\n"));
    client.send("HEAD /stream HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    let heard = client.last_words().await;
    assert!(heard.ends_with("\r\n\r\n") && !heard.contains("transfer-encoding"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn pieces_of_all_sizes_arrive_as_chunks() {
    let mut client = Client::connect();
    client.send("GET /words HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    let all = client.last_words().await;
    let (head, mut rest) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ntransfer-encoding: chunked"), "{head}");
    let mut sizes = Vec::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        sizes.push(size);
        assert!(after[..size].bytes().all(|byte| byte == b'a'));
        rest = after[size..].strip_prefix("\r\n").unwrap();
    }
    assert_eq!(sizes, [3, 5000, 4096, 4097, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_asked_for_when_it_is_wanted() {
    let mut client = Client::connect();
    client.send("POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n").await;
    assert_eq!(client.hear("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi").await;
    client.hear("POST / b\\\"hi\\\";\"").await;
    // One that is here already need not be asked for.
    client.send("POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nhi").await;
    assert!(client.hear(";\"").await.starts_with("HTTP/1.1 200 "));
    // One that nobody wants may come or not.
    client.send("POST /unread HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n").await;
    let heard = client.last_words().await;
    assert!(heard.starts_with("HTTP/1.1 200 ") && heard.contains("connection: close"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_read_is_not_taken_for_a_request() {
    let mut client = Client::connect();
    let hidden = "GET /hidden HTTP/1.1\r\n\r\n";
    let length = hidden.len();
    client.send(format!("POST /unread HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{hidden}")).await;
    client.send(REQUEST).await;
    client.hear("hello").await;
    client.hear("hello").await;
    // Not all of it is here when the answer is.
    client.send("POST /unread HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n99\r\n").await;
    client.hear("hello").await;
    client.send(hidden).await;
    assert_eq!(client.last_words().await, "");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_is_answered_and_ends_the_connection() {
    for (bad, status) in [
        ("this is not HTTP\r\n\r\n".to_owned(), "400 Bad Request"),
        ("POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(), "400 Bad"),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(70_000)), "431 Request Header"),
        ("POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n".to_owned(), "501 Not Implemented"),
    ] {
        let mut client = Client::connect();
        client.send(bad + REQUEST).await;
        let heard = client.last_words().await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{heard}");
        assert!(heard.contains("\r\nconnection: close\r\n") && heard.ends_with('}'), "{heard}");
        assert!(!heard.contains("hello"), "{heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_in_bad_chunks_is_refused() {
    // What follows would be right again.
    for bad in ["no\r\n", "zz\r\n0\r\n\r\n", "1\r\nAB\r\n\r\n0\r\n\r\n"] {
        let mut client = Client::connect();
        client.send("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n").await;
        client.send(bad.to_owned() + REQUEST).await;
        let heard = client.last_words().await;
        assert!(heard.contains("\r\nconnection: close\r\n"), "{heard}");
        assert!(heard.ends_with("\"the body is malformed\""), "{heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_is_noticed_while_it_waits() {
    for start in ["GET /slow HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf"]
    {
        let mut client = Client::connect();
        client.send(start).await;
        tokio::task::yield_now().await;
        let (stream, mut serving) = (client.stream, client.serving);
        drop(stream);
        let ended = serving.join_next().await.unwrap().unwrap();
        // The other reads its body, learns of it that way, and answers to nobody.
        let is_slow = start.contains("slow");
        assert_eq!(
            (ended.is_ok(), client.dropped.load(Ordering::SeqCst)),
            (is_slow, usize::from(is_slow))
        );
    }
    // Also in the middle of a stream.
    let mut client = Client::connect();
    client.send("GET /stream HTTP/1.1\r\n\r\n").await;
    client.hear("one\r\n").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.ends().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_early_are_answered_in_turn_and_do_not_pile_up() {
    let mut client = Client::with_room(1 << 16);
    client.send("GET /slow HTTP/1.1\r\n\r\n").await;
    let more = REQUEST.repeat(10_000);
    let stuffing = client.stream.write_all(more.as_bytes());
    assert!(timeout(Duration::from_secs(60), stuffing).await.is_err(), "it reads without limit");
    client.hear("at last").await;
    client.hear("hello").await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    let mut client = Client::with_room(64);
    client.send("GET /endless HTTP/1.1\r\n\r\n").await;
    let started = Instant::now();
    let error = client.ends().await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_little_at_a_time_is_not() {
    let mut client = Client::with_room(64);
    client.send("GET /endless HTTP/1.1\r\n\r\n").await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        client.stream.read_exact(&mut [0; 64]).await.unwrap();
    }
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let body = "[a-z0-9\r\n]{0,40}";
    prop_oneof![
        4 => body.prop_map(|body| {
            format!("POST /a HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }),
        4 => prop::collection::vec("[a-z0-9\r\n]{1,20}", 0..4).prop_map(|chunks| {
            let chunks = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
            let body: String = chunks.collect();
            format!("POST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{body}0\r\n\r\n").into_bytes()
        }),
        2 => Just(b"\r\nGET /c?d HTTP/1.1\r\nX: \t y \r\n\r\n".to_vec()),
        1 => Just(b"HEAD /e HTTP/1.1\r\nconnection: close\r\n\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[ -~\r\n]{0,60}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_makes_no_difference_in_which_pieces_requests_come(
        requests in prop::collection::vec(request(), 1..6),
        pieces in prop::collection::vec(0_u8..30, 1..8),
    ) {
        let text = requests.concat();
        prop_assert_eq!(echo::heard(&text, &[]), echo::heard(&text, &pieces));
    }
}
