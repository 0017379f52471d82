//! Accepts connections and serves each until it, or the process, ends.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::alarm::Alarms;
use super::body::{ReplyBody, close_after};
use super::impatient::Impatient;
use super::{Face, Front, Reply, farewell};
use crate::cancelled::cancelled;
use crate::logging::seldom::Seldom;
use crate::tasks::Tasks;

/// How long a client may take to send the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Connections at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16_384;
/// How long requests on connections that are open are still answered before these are closed: longer than a request is on
/// its way. The answer says that the connection ends with it; whoever asks nothing is told unasked.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// Longer than that: nobody can ask anything any more.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_millis(250);
/// More than the system lets in by itself.
const MAX_LAST: usize = 4096;
/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Room for connections, of all threads together. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Semaphore>);

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
    places: Places,
    door: Door,
) {
    let stop = door.closed;
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.0.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let attending = attend(stream, face, front.clone(), stop.clone());
                tasks.spawn(async move {
                    attending.await;
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
    let answer = move |request| front.clone().answer(face, request);
    if let Err(error) = converse(stream, answer, stop).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

async fn converse<F: Future<Output = Reply>>(
    stream: TcpStream,
    answer: impl Fn(Request<Incoming>) -> F,
    stop: CancellationToken,
) -> Result<(), hyper::Error> {
    // Beside the token, which takes a lock to look at.
    let (last, told) = (&AtomicBool::new(stop.is_cancelled()), &AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        // A client of that age may take whatever comes until the end for its answer.
        if request.version() == Version::HTTP_10 {
            told.store(true, Ordering::Relaxed);
        }
        answer(request).map(move |mut reply| {
            if last.load(Ordering::Relaxed) {
                close_after(&mut reply);
                told.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(*reply)
        })
    });
    let mut connection = http1::Builder::new()
        .timer(Alarms)
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(Impatient::new(stream), service);
    tokio::select! {
        biased;
        result = &mut connection => match result {
            Err(error) if error.is_timeout() => {
                farewell::say(connection.into_parts().io.into_inner()).await;
                Ok(())
            }
            result => result,
        },
        () = cancelled(&stop) => {
            last.store(true, Ordering::Relaxed);
            end(connection, told).await
        }
    }
}

/// Ends a connection after the response it is at. Whoever is about to send something is told that it was not taken, which a
/// closed connection does not say.
async fn end<S>(
    mut connection: http1::Connection<Impatient, S>,
    told: &AtomicBool,
) -> Result<(), hyper::Error>
where
    S: HttpService<Incoming, ResBody = ReplyBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    tokio::select! {
        biased;
        result = &mut connection => return result,
        () = tokio::time::sleep(LAST_ANSWERS) => {}
    }
    Pin::new(&mut connection).graceful_shutdown();
    let stream = connection.without_shutdown().await?.io.into_inner();
    if told.load(Ordering::Relaxed) {
        farewell::say_nothing(stream).await;
    } else {
        farewell::say(stream).await;
    }
    Ok(())
}

// === impl Places ===

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONNECTIONS)))
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

#[cfg(test)]
mod tests;
