//! A call's request as its server wants it written.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Call, Request};
use crate::catalog::Item;
use crate::connection::{Asking, CallWatch, Lease, Params};
use crate::error::CallFailure;
use crate::protocol::{self, ParamHeader, RawJson, method};
use crate::transport::Link;

// === impl Call ===

impl Call {
    pub(super) fn message(&self, lease: &Lease, watch: &CallWatch) -> Result<Bytes, CallFailure> {
        let modern = lease.peer().version.is_modern();
        let wants_progress = self.track().is_some_and(|track| track.company.on_progress.is_some());
        let mut asking = Asking {
            method: self.request.method(),
            params: self.request.params(),
            wants_progress,
            verbatim: self.verbatim,
            param_headers: &[],
            log_level: None,
            capabilities: None,
        };
        if !modern {
            return lease.write(watch, asking).map_err(|_| CallFailure::InvalidParams);
        }
        if let Some(round) = &self.round {
            asking.params = Params::Raw(Some(round.params.as_bytes()));
        }
        if asking.method == method::PING {
            // Gone, but its purpose is not: to hear whether somebody is there.
            asking.method = method::DISCOVER;
        }
        let handlers = self.track().and_then(|track| track.company.handlers.as_ref());
        asking.capabilities = handlers.and_then(|handlers| handlers.declared());
        let logs = lease.peer().offers.logging && !self.verbatim;
        let level = logs.then(|| self.slot.side_state.log_level()).flatten();
        asking.log_level = level.as_deref();
        let headers = self.param_headers(lease);
        asking.param_headers = &headers;
        lease.write(watch, asking).map_err(|_| CallFailure::InvalidParams)
    }

    /// What its tool's schema wants in headers: by the newest list there is, also one that an earlier process heard. If
    /// that is wrong the server says so.
    fn param_headers(&self, lease: &Lease) -> Vec<ParamHeader> {
        if !matches!(lease.link(), Link::Http(_)) {
            return Vec::new();
        }
        self.listed(|tool| tool.param_headers.clone()).unwrap_or_default()
    }

    /// The params as they were at first.
    pub(super) fn first_params(&self) -> Cow<'_, [u8]> {
        match self.request.params() {
            Params::Tool { name, arguments } => Cow::Owned(protocol::tool_params(name, arguments)),
            Params::Raw(params) => Cow::Borrowed(params.unwrap_or(b"{}")),
        }
    }

    /// Whether the server says that calling this tool twice does no harm. Only its own word counts: not that of one
    /// it replaced, nor what an earlier process heard.
    pub(super) fn is_harmless(&self) -> bool {
        let Some(tool) = self.request.tool() else { return false };
        let listed = self.slot.shared.catalog.last_good(&self.slot.name, self.slot.id);
        let listed = listed.filter(|listed| listed.generation.is_some());
        listed.is_some_and(|listed| listed.tool(tool).is_some_and(|tool| tool.harmless))
    }

    /// Something of its tool, as last listed.
    fn listed<T>(&self, what: impl FnOnce(&Item) -> T) -> Option<T> {
        let tool = self.request.tool()?;
        let listed = self.slot.shared.catalog.last_good(&self.slot.name, self.slot.id)?;
        listed.tool(tool).map(what)
    }
}

// === impl Request ===

impl Request {
    fn params(&self) -> Params<'_> {
        match self {
            Self::Tool { name, arguments } => Params::Tool { name, arguments },
            Self::RawTool { params, .. } => Params::Raw(Some(params.as_bytes())),
            Self::Other { params, .. } => Params::Raw(params.as_ref().map(RawJson::as_bytes)),
        }
    }

    pub(super) fn method(&self) -> &str {
        match self {
            Self::Tool { .. } | Self::RawTool { .. } => method::TOOLS_CALL,
            Self::Other { method, .. } => method,
        }
    }

    pub(super) fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } => Some(name),
            Self::RawTool { name, .. } => Some(name),
            Self::Other { .. } => None,
        }
    }
}
