#![allow(clippy::disallowed_methods, reason = "tests spawn the other side themselves")]

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use http::{HeaderMap, Method};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::super::pool::ASKED_AFTER;
use super::*;

/// Small, so that a request of any size has to wait for its reader.
const WIRE: usize = 64;
const LARGE: usize = 10_000;

/// A client, and the server's end of every connection it opens.
fn client() -> (HttpClient, mpsc::Receiver<DuplexStream>) {
    let (opened, connections) = mpsc::channel(8);
    let dialer = Dialer::new(move |_| {
        let (ours, theirs) = duplex(WIRE);
        opened.try_send(theirs).unwrap();
        async move { Ok(ours) }
    });
    (HttpClient::new(Some(dialer), None), connections)
}

async fn post(client: &HttpClient, length: usize) -> Result<Response, HttpError> {
    post_to(Uri::from_static("http://server/mcp"), client, length).await
}

async fn post_to(uri: Uri, client: &HttpClient, length: usize) -> Result<Response, HttpError> {
    let head = RequestHead::new(&Method::POST, &uri, &HeaderMap::new());
    client.send(&uri, &head, vec![b'x'; length].into(), None).await
}

/// Reads a whole request.
async fn read_request(stream: &mut DuplexStream, length: usize) {
    let mut text = Vec::new();
    while !text.windows(4).any(|part| part == b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    assert!(text.starts_with(b"POST /mcp HTTP/1.1\r\nhost: server\r\n"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
}

async fn whole(mut response: Response) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) = response.body.next().await {
        all.extend_from_slice(&piece.unwrap());
    }
    all
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let (client, mut connections) = client();
    let server = tokio::spawn(async move {
        let mut stream = connections.recv().await.unwrap();
        for _ in 0..3 {
            read_request(&mut stream, LARGE).await;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                .await
                .unwrap();
            stream.write_all(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n").await.unwrap();
        }
        assert!(connections.try_recv().is_err(), "no second connection");
    });
    for _ in 0..3 {
        assert_eq!(whole(post(&client, LARGE).await.unwrap()).await, b"hello");
    }
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_said_too_much_or_its_end_is_not_used_again() {
    for odd in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 404 Not Found\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let (client, mut connections) = client();
        let server = tokio::spawn(async move {
            for _ in 0..2 {
                let mut stream = connections.recv().await.unwrap();
                read_request(&mut stream, 5).await;
                // The client may have heard enough by then.
                let _ = stream.write_all(odd.as_bytes()).await;
                tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
            }
        });
        for _ in 0..2 {
            assert_eq!(whole(post(&client, 5).await.unwrap()).await, b"ok", "{odd}");
            tokio::task::yield_now().await;
        }
        server.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_idle_for_too_long_is_not_used_again() {
    for (pause, connections_used) in [(3, 1), (5, 2)] {
        let (client, mut connections) = client();
        let server = tokio::spawn(async move {
            let mut used = 0;
            while let Some(mut stream) = connections.recv().await {
                used += 1;
                tokio::spawn(async move {
                    loop {
                        read_request(&mut stream, 5).await;
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer).await.unwrap();
                    }
                });
            }
            used
        });
        assert_eq!(whole(post(&client, 5).await.unwrap()).await, b"ok");
        tokio::time::sleep(Duration::from_secs(pause)).await;
        assert_eq!(whole(post(&client, 5).await.unwrap()).await, b"ok");
        drop(client);
        assert_eq!(server.await.unwrap(), connections_used, "after {pause} s");
    }
}

#[test]
fn each_runtime_has_its_own_connections_and_none_is_left_open_by_one_that_is_done() {
    let (client, mut connections) = client();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let mut call = async || {
        let answering = async {
            let mut stream = connections.recv().await.unwrap();
            read_request(&mut stream, 5).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            stream
        };
        let calling = async { whole(post(&client, 5).await.unwrap()).await };
        let (stream, answer) = tokio::join!(answering, calling);
        assert_eq!(answer, b"ok");
        stream
    };
    let (first, second) = (runtime(), runtime());
    let mut left = first.block_on(call());
    second.block_on(async {
        // A new one, though there is one that is idle.
        drop(call().await);
        assert!(left.read_u8().now_or_never().is_none(), "that one is still good");
        tokio::time::advance(Duration::from_secs(10)).await;
        drop(call().await);
        assert!(left.read_u8().await.is_err(), "and is not any more");
    });
}

/// The runtime is on this thread, and has no turn to hear of it.
#[tokio::test]
async fn a_server_that_hung_up_a_moment_ago_gets_no_request_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
    let uri = Uri::try_from(uri).unwrap();
    let (close, told) = std::sync::mpsc::channel();
    let (closed, done) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for connection in listener.incoming().take(2) {
            let mut connection = connection.unwrap();
            let mut request = [0; 1024];
            while !request.ends_with(b"x") {
                let length = connection.read(&mut request).unwrap();
                assert_ne!(length, 0, "the client hung up");
                request.copy_within(..length, 1024 - length);
            }
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
            told.recv().unwrap();
            drop(connection);
            closed.send(()).unwrap();
        }
    });
    let client = HttpClient::new(None, None);
    for _ in 0..2 {
        let response = post_to(uri.clone(), &client, 1).await.unwrap();
        assert_eq!(whole(response).await, b"ok");
        close.send(()).unwrap();
        done.recv().unwrap();
        std::thread::sleep(ASKED_AFTER);
    }
    server.join().unwrap();
}

#[tokio::test]
async fn a_word_in_between_does_not_end_the_request() {
    let (client, mut connections) = client();
    let server = tokio::spawn(async move {
        let mut stream = connections.recv().await.unwrap();
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        // Its client is in the middle of the body.
        read_request(&mut stream, LARGE).await;
        stream.write_all(b"HTTP/1.1 103 Early\r\n\r\n").await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    });
    assert_eq!(whole(post(&client, LARGE).await.unwrap()).await, b"ok");
    server.await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_heard_before_everything_is_said() {
    let (client, mut connections) = client();
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let mut stream = connections.recv().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        }
    });
    for _ in 0..2 {
        let response = post(&client, LARGE).await.unwrap();
        assert_eq!(response.status, 413);
        assert_eq!(whole(response).await, b"no");
    }
    server.await.unwrap();
}

/// A stream that keeps back what is written until it is flushed, and takes its time with that.
struct Hesitant {
    stream: DuplexStream,
    kept: VecDeque<u8>,
    asked: bool,
}

impl AsyncWrite for Hesitant {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.kept.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.asked = !self.asked;
        if self.asked {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        while !self.kept.is_empty() {
            let this = &mut *self;
            let next = this.kept.make_contiguous();
            let written = ready!(Pin::new(&mut this.stream).poll_write(context, next))?;
            self.kept.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncRead for Hesitant {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[tokio::test]
async fn what_the_stream_keeps_back_is_waited_for() {
    let server: Arc<Mutex<Option<DuplexStream>>> = Arc::default();
    let opened = server.clone();
    let dialer = Dialer::new(move |_| {
        let (stream, theirs) = duplex(WIRE);
        *opened.lock().unwrap() = Some(theirs);
        async move { Ok(Hesitant { stream, kept: VecDeque::new(), asked: false }) }
    });
    let client = HttpClient::new(Some(dialer), None);
    let answering = async {
        tokio::task::yield_now().await;
        let mut stream = server.lock().unwrap().take().unwrap();
        read_request(&mut stream, LARGE).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        stream
    };
    let (response, _stream) = tokio::join!(post(&client, LARGE), answering);
    assert_eq!(whole(response.unwrap()).await, b"ok");
}
