//! The last word on a connection that the gateway ends, and not its client.
//!
//! Between two requests either side may close, and the other may send something at that very moment: a client would see
//! its connection end, and not know whether its request was taken. So it is told, unasked, by the response that HTTP has
//! for this (408, RFC 9110, 15.5.9). Whoever has just sent something takes it for the answer, and it is true. Everybody
//! else drops it together with the connection.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway::error_body::came_too_late;

/// Longer than a request is on its way.
const LINGER: Duration = Duration::from_millis(200);

/// Ends a connection whose client may believe that it stays open.
pub(super) async fn say(mut stream: TcpStream) {
    let leaving = async {
        stream.write_all(words().as_bytes()).await?;
        leave(stream).await
    };
    // Nobody is left who could be told of a failure.
    let _ = timeout(LINGER, leaving).await;
}

/// Ends a connection whose client knows that it does.
pub(super) async fn say_nothing(stream: TcpStream) {
    let _ = timeout(LINGER, leave(stream)).await;
}

/// A connection that is closed while something on it is unread takes back what was said last.
async fn leave(mut stream: TcpStream) -> io::Result<u64> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
}

fn words() -> String {
    let body = came_too_late();
    let length = body.len();
    format!(
        "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
