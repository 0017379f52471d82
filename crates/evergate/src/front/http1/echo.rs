//! Somebody who answers every request by repeating it, for tests and the fuzz targets.

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::super::request::Request;
use super::super::{Reply, body};
use super::{RequestBody, serve};

/// Everything that is answered to these bytes if they come in pieces of such sizes, but for the time of day.
#[expect(clippy::unwrap_used, reason = "a failure is what is looked for")]
pub(crate) fn heard(text: &[u8], sizes: &[u8]) -> String {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(server);
        let stop = CancellationToken::new();
        let serving = serve(reader, writer, answer, &stop);
        // How it ends is seen by what is heard.
        let (_, heard) = tokio::join!(serving, ask(client, text, sizes));
        heard
    })
}

/// Sends these bytes in such pieces, and listens to the end.
#[expect(clippy::unwrap_used, reason = "a failure is what is looked for")]
async fn ask(mut client: DuplexStream, text: &[u8], sizes: &[u8]) -> String {
    let (mut rest, mut sizes) = (text, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |&size| usize::from(size));
        let (piece, after) = rest.split_at(size.clamp(1, rest.len()));
        // It may have ended the connection already.
        if client.write_all(piece).await.is_err() {
            break;
        }
        rest = after;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.unwrap();
    heard.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
}

pub(super) async fn answer<R: AsyncRead + Unpin>(request: Box<Request<RequestBody<R>>>) -> Reply {
    let Request { method, uri, body, .. } = *request;
    match body.collect().await {
        Ok(read) => {
            let line = format!("{method} {uri} {:?};", read.to_bytes());
            body::json(StatusCode::OK, &line.into())
        }
        Err(error) => body::json(StatusCode::BAD_REQUEST, &error.to_string().into()),
    }
}
