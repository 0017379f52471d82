//! Accepts connections and serves each until it, or the process, ends.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::moment;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::places::Share;
use super::{Face, Front, http1};
use crate::logging::seldom::Seldom;
use crate::tasks::Tasks;

/// More than the system lets in by itself.
const MAX_LAST: usize = 4096;
/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Where connections come in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) closed: CancellationToken,
    /// The next process will have the same socket, and those who wait there.
    pub(crate) is_handed_over: bool,
}

/// Serves until the door is closed; then no connection is accepted, and each one ends after the response it is at, or a
/// moment later.
pub(crate) async fn serve(
    listener: TcpListener,
    face: Face,
    front: Arc<Front>,
    tasks: Tasks,
    share: Share,
    door: Door,
) {
    let stop = door.closed;
    loop {
        let next = async {
            let room = share.room().await;
            share.turn().await;
            listener.accept().await.map(|(stream, _)| (stream, room))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, room)) => {
                let place = share.place(room);
                let (front, stop) = (front.clone(), stop.clone());
                tasks.spawn(async move {
                    // Made here: one that is moved here takes up its room twice.
                    attend(stream, face, front, stop).await;
                    drop(place);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                static TROUBLE: Seldom = Seldom::new();
                if let Some(suppressed) = TROUBLE.may_say() {
                    tracing::warn!(%error, suppressed, "cannot accept connections");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    if door.is_handed_over {
        return;
    }
    for stream in let_in_already(listener) {
        tasks.spawn(attend(stream, face, front.clone(), stop.clone()));
    }
}

/// Those whom the system has let in and nobody has attended to: they may have sent a request already, and must not be left
/// in the dark about it.
fn let_in_already(listener: TcpListener) -> Vec<TcpStream> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok()).take(MAX_LAST);
    let ready = accepted.filter_map(|(stream, _)| {
        stream.set_nonblocking(true).ok()?;
        TcpStream::from_std(stream).ok()
    });
    ready.collect()
}

/// One connection, to its end.
async fn attend(stream: TcpStream, face: Face, front: Arc<Front>, stop: CancellationToken) {
    // Answers are small and wanted now.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let answer = |request| front.answer(face, request);
    let serving = pin!(http1::serve(reader, writer, answer, &stop));
    if let Err(error) = moment::by_moment(serving).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// The client was gone before it was accepted: nothing is wrong with the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
