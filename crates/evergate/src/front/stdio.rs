//! The gateway over standard input and output, for clients that launch a command.

use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::wire::{self, Line};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::incoming;
use super::keys::Caller;
use super::piped::{Piped, WAITING};
use crate::gateway::Gateway;
use crate::gateway::client::Scope;
use crate::gateway::error_body::INVALID_REQUEST;

/// How much is read at once.
const STEP: usize = 64 * 1024;
/// How long answers may take to get written once nothing more is read.
const LAST_WORDS: Duration = Duration::from_secs(5);
const NOT_A_MESSAGE: &str = "a line must be one JSON-RPC request, notification or response";

/// Serves one client until its input ends or `stop`. Calls under way finish first, within `drain`.
pub(crate) async fn serve(
    gateway: Arc<Gateway>,
    scope: Scope,
    mut input: impl AsyncRead + Unpin + Send,
    mut output: impl AsyncWrite + Unpin + Send + 'static,
    drain: Duration,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let (pipe, mut messages) = mpsc::channel::<bytes::Bytes>(WAITING);
    let piped = Arc::new(Piped::new(gateway.clone(), Caller::anonymous(), scope, pipe, None));
    // Cancelled when the writer ends: a client that reads no more asks for no more.
    let unread = CancellationToken::new();
    let reading = unread.clone().drop_guard();
    let writer = gateway.tasks.spawn(async move {
        let _reading = reading;
        while let Some(message) = messages.recv().await {
            let mut line = Vec::with_capacity(message.len() + 1);
            super::event_stream::extend_on_one_line(&mut line, &message);
            line.push(b'\n');
            output.write_all(&line).await?;
            if messages.is_empty() {
                output.flush().await?;
            }
        }
        output.flush().await
    });
    let limit = gateway.config().gateway.max_body_bytes;
    let mut lines = wire::LineSplitter::new(limit);
    let read = loop {
        while let Some(line) = lines.next_line() {
            take(&piped, line).await;
        }
        let read = tokio::select! {
            read = input.read_buf(lines.space(STEP)) => read,
            () = stop.cancelled() => break Ok(()),
            () = unread.cancelled() => break Ok(()),
        };
        match read {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    // What came before the end, if only the line break is missing.
    if let Some(line) = lines.rest() {
        take(&piped, line).await;
    }
    // The client has asked all it wanted to; it may still read the answers.
    let until = tokio::time::Instant::now() + drain;
    while piped.unanswered() > 0 && tokio::time::Instant::now() < until && !writer.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    piped.end_listens().await;
    piped.end();
    drop(piped);
    match tokio::time::timeout(LAST_WORDS, writer).await {
        // A reader that went away is the usual end.
        Ok(Ok(Err(error))) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => read,
    }
}

async fn take(piped: &Arc<Piped>, line: Line) {
    let text = match line {
        Line::Message(text) => text,
        Line::Oversized(_) => {
            return piped
                .refuse(INVALID_REQUEST, "the message is larger than gateway.max_body_bytes")
                .await;
        }
    };
    match incoming::messages(&text) {
        Ok(messages) => {
            for message in messages {
                piped.take(message, None).await;
            }
        }
        Err(refusal) => piped.refuse(refusal.code(), NOT_A_MESSAGE).await,
    }
}
