//! Counts the handshakes that leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// Another transport, and how many handshakes went through it.
pub(crate) struct Counted<T> {
    inner: T,
    handshakes: Handshakes,
}

#[derive(Clone, Default)]
pub(crate) struct Handshakes(Arc<AtomicU64>);

// === impl Handshakes ===

impl Handshakes {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Counted ===

impl<T> Counted<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, handshakes: Handshakes::default() }
    }

    pub(crate) fn handshakes(&self) -> Handshakes {
        self.handshakes.clone()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Counted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            self.handshakes.0.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
