//! Arguments of a tool go into headers as its schema says; when the server finds that they do not, our copy of the schema
//! is old. It is listed anew, and the call, which was refused unexecuted, is sent once more.

use tokio::time::timeout;

use super::Call;
use crate::connection::{Lease, ListKind};
use crate::error::{CallError, CallFailure};
use crate::protocol::code;
use crate::retry::Outcome;
use crate::transport::Link;

// === impl Call ===

impl Call {
    /// Whether an error says that.
    pub(super) fn lacks_headers(&self, lease: &Lease, error: &CallError) -> bool {
        matches!(&error.source, CallFailure::Rpc(error) if error.code == code::HEADER_MISMATCH)
            && self.request.tool().is_some()
            && matches!(lease.link(), Link::Http(_))
    }

    /// Has the tools listed anew. `false` if that did not come about in time.
    pub(super) async fn relist(&self, lease: &Lease) -> Result<bool, CallError> {
        let stale = lease.inbox().stale_lists();
        let listing = stale.ask_for(ListKind::Tools);
        let ended =
            |failure| self.error(Outcome::Rejected, Some(lease.generation()), false, failure);
        tokio::select! {
            biased;
            () = self.cancelled() => Err(ended(CallFailure::Cancelled)),
            () = self.clock.expired() => Err(ended(self.timed_out())),
            () = lease.detached().cancelled() => Ok(false),
            listed = timeout(self.slot.settings.list_timeout, stale.listed(listing)) => {
                Ok(listed.is_ok())
            }
        }
    }
}
