//! Which request a fault hits.

use std::sync::Arc;

use crate::Server;
use crate::fault::Fault;
use crate::jsonrpc::Request;

/// Says which requests a [`Fault`] hits. It takes effect when it is dropped, that is at the end
/// of the statement, or at [`FaultRule::arm`].
///
/// Unless told otherwise it hits the next one request of any method except `initialize`.
/// Notifications and the HTTP verbs `GET` and `DELETE` are hit only when named with
/// [`FaultRule::on`]. When several rules match, the oldest acts and the others wait.
///
/// ```
/// use evergate_testkit::{Fault, Server};
///
/// let server = Server::new();
/// server.inject(Fault::ExecuteThenCut).on_tool("bump").after(2).times(3);
/// ```
#[derive(Debug)]
pub struct FaultRule {
    server: Server,
    /// Taken when the rule is armed.
    rule: Option<Rule>,
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    armed: ArmedFault,
    scope: Scope,
    skip: u64,
    /// How often it still acts; `None` for ever.
    left: Option<u64>,
}

#[derive(Debug, Clone)]
enum Scope {
    AnyRequest,
    EveryRequest,
    Method(String),
    Tool(String),
}

/// A fault that was matched with a request, with its settings.
#[derive(Debug, Clone)]
pub(crate) struct ArmedFault {
    pub(crate) fault: Arc<Fault>,
    pub(crate) no_resume: bool,
}

/// What came in, as far as rules care.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Incoming<'a> {
    Request(&'a Request),
    Notification(&'a str),
    /// An HTTP verb without a message: `GET`, `DELETE`.
    Verb(&'a str),
}

// === impl FaultRule ===

#[expect(clippy::return_self_not_must_use, reason = "dropping the rule is what installs it")]
impl FaultRule {
    pub(crate) fn new(server: Server, fault: Fault) -> Self {
        let scope = match fault {
            Fault::HangInDelete => Scope::Method("DELETE".into()),
            _ => Scope::AnyRequest,
        };
        let armed = ArmedFault { fault: Arc::new(fault), no_resume: false };
        Self { server, rule: Some(Rule { armed, scope, skip: 0, left: Some(1) }) }
    }

    /// Only messages of this method (`initialize` and notifications included), or the HTTP verb
    /// `GET` or `DELETE`.
    pub fn on(self, method: &str) -> Self {
        self.edit(|rule| rule.scope = Scope::Method(method.into()))
    }

    /// Only calls of this tool.
    pub fn on_tool(self, name: &str) -> Self {
        self.edit(|rule| rule.scope = Scope::Tool(name.into()))
    }

    /// Every request, `initialize` included.
    pub fn on_every_request(self) -> Self {
        self.edit(|rule| rule.scope = Scope::EveryRequest)
    }

    /// This many times instead of once.
    pub fn times(self, times: u64) -> Self {
        self.edit(|rule| rule.left = Some(times))
    }

    /// Until [`Server::clear_faults`].
    pub fn forever(self) -> Self {
        self.edit(|rule| rule.left = None)
    }

    /// Lets this many matching requests pass first.
    pub fn after(self, skip: u64) -> Self {
        self.edit(|rule| rule.skip = skip)
    }

    /// Answers 404 when the client tries to resume the stream that this fault broke.
    pub fn no_resume(self) -> Self {
        self.edit(|rule| rule.armed.no_resume = true)
    }

    /// Takes effect now. The same as dropping the rule, for those who like to see it.
    pub fn arm(self) {
        drop(self);
    }

    fn edit(mut self, change: impl FnOnce(&mut Rule)) -> Self {
        if let Some(rule) = &mut self.rule {
            change(rule);
        }
        self
    }
}

impl Drop for FaultRule {
    fn drop(&mut self) {
        if let Some(rule) = self.rule.take() {
            self.server.install(rule);
        }
    }
}

// === impl Rule ===

impl Rule {
    /// The fault, if this rule acts on `incoming` now.
    pub(crate) fn strike(&mut self, incoming: Incoming<'_>) -> Option<ArmedFault> {
        if self.is_spent() || !self.scope.covers(incoming) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        Some(self.armed.clone())
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == Some(0)
    }
}

// === impl Scope ===

impl Scope {
    fn covers(&self, incoming: Incoming<'_>) -> bool {
        match (self, incoming) {
            (Self::EveryRequest, Incoming::Request(_)) => true,
            (Self::AnyRequest, Incoming::Request(request)) => request.method != "initialize",
            (Self::Method(method), Incoming::Request(request)) => request.method == *method,
            (Self::Method(method), Incoming::Notification(name) | Incoming::Verb(name)) => {
                name == method
            }
            (Self::Tool(tool), Incoming::Request(request)) => request.tool() == Some(tool),
            _ => false,
        }
    }
}
