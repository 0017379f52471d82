//! Accepts connections and serves each until it, or the process, ends.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Front;
use super::alarm::Alarms;
use super::impatient::Impatient;
use crate::cancelled::cancelled;
use crate::tasks::Tasks;

/// How long a client may take to send the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Connections at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16_384;
/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Room for connections, of all threads together. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Semaphore>);

/// Serves until `stop`; then no connection is accepted, and each one ends after the response it is at.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    tasks: Tasks,
    places: Places,
    stop: CancellationToken,
) {
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.0.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            }
        };
        // Answers are small and wanted now.
        let _ = stream.set_nodelay(true);
        let (front, stop) = (front.clone(), stop.clone());
        tasks.spawn(async move {
            let service = service_fn(move |request| {
                front.clone().answer(request).map(|reply| Ok::<_, Infallible>(*reply))
            });
            let connection = http1::Builder::new()
                .timer(Alarms)
                .header_read_timeout(HEADERS_WITHIN)
                .serve_connection(Impatient::new(stream), service);
            tokio::pin!(connection);
            let result = tokio::select! {
                biased;
                result = connection.as_mut() => result,
                () = cancelled(&stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = result {
                tracing::debug!(%error, "a connection ended badly");
            }
            drop(place);
        });
    }
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
