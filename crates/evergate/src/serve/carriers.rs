//! The threads that carry calls.
//!
//! A client's connection stays on the thread that accepted it, and so do the connections to servers that its calls open:
//! a call never waits for another thread to wake up, and nothing that goes on in the rest of the house (servers that
//! start, lists that are merged, files that are written) stands before it. See `docs/decisions/0007-threads.md`.

use std::io;
use std::net::TcpListener;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::front::listener::{self, Door};
use crate::front::places::{Order, Places};
use crate::front::{Face, Front};
use crate::tasks::Tasks;

/// Ends the threads when dropped.
#[derive(Debug)]
pub(super) struct Carriers {
    end: CancellationToken,
}

// === impl Carriers ===

impl Carriers {
    /// Accepts until the door is closed. Connections, and whatever they leave behind, are counted in `tasks`: the threads are there
    /// until `self` is dropped.
    pub(super) fn start(
        listener: &TcpListener,
        front: &Arc<Front>,
        tasks: &Tasks,
        door: &Door,
    ) -> io::Result<Self> {
        let carriers = Self { end: CancellationToken::new() };
        let (threads, order) = how_many(available_parallelism().map_or(1, NonZero::get));
        for (number, share) in Places::shares(threads, order).enumerate() {
            let listener = listener.try_clone()?;
            let serving = (front.clone(), tasks.clone(), door.clone());
            let end = carriers.end.clone();
            let runtime = Builder::new_current_thread().enable_all().build()?;
            std::thread::Builder::new().name(format!("calls-{number}")).spawn(move || {
                share.is_taken_here();
                runtime.block_on(async move {
                    let (front, tasks, door) = serving;
                    match tokio::net::TcpListener::from_std(listener) {
                        Ok(listener) => {
                            let accepting = listener::serve(
                                listener,
                                Face::Public,
                                front,
                                tasks.clone(),
                                share,
                                door,
                            );
                            tasks.spawn(accepting);
                        }
                        Err(error) => tracing::error!(%error, "cannot accept connections"),
                    }
                    end.cancelled().await;
                });
                // Work on files that nobody waits for any more must not hold up the end.
                runtime.shutdown_background();
            })?;
        }
        Ok(carriers)
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Half of the processors: the system needs about as long for the bytes of a call as we do for what is in them. Where that is
/// one, another helps out when there is a crowd.
fn how_many(processors: usize) -> (usize, Order) {
    match processors {
        0 | 1 => (1, Order::Any),
        2 | 3 => (2, Order::Crowds),
        more => (more / 2, Order::Any),
    }
}
