//! Requests that bring everything along (2026-07-28), on a stream for everything.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use evergate_runtime::{Own, RawJson};
use tokio::time::timeout;

use super::{Piped, Unanswered};
use crate::front::request::Headers;
use crate::front::respond;
use crate::gateway::Answer;
use crate::gateway::client::{CallGuard, Client};
use crate::gateway::error_body::{INVALID_PARAMS, INVALID_REQUEST, plain, unsupported_version};
use crate::gateway::outlet::Outlet;
use crate::gateway::stateless::envelope::{self, Envelope};
use crate::gateway::stateless::{VERSION, own_id};

/// How long the ends of what a client listens to may take to get written.
const LAST_WORDS: Duration = Duration::from_secs(1);

// === impl Piped ===

impl Piped {
    pub(super) async fn request_without_session(
        self: &Arc<Self>,
        id: RawJson,
        method: Cow<'static, str>,
        params: Option<RawJson>,
        headers: Option<Headers>,
    ) {
        let begun = self.begin(&id, method, params, headers).await;
        if let Err(error) = begun {
            self.send(respond::line(&id, &Answer::Error(error))).await;
        }
    }

    /// Takes a request up to where it can be answered by itself. Else the error.
    async fn begin(
        self: &Arc<Self>,
        id: &RawJson,
        method: Cow<'static, str>,
        params: Option<RawJson>,
        headers: Option<Headers>,
    ) -> Result<(), RawJson> {
        if let Some(error) = self.refuses(&method, params.as_ref()) {
            return Err(error);
        }
        let envelope = admitted(params.as_ref())?;
        // Nobody is left to read an answer.
        let Some(principal) = self.principal() else { return Ok(()) };
        let stream = Outlet::Pipe(self.pipe.clone());
        let guard = Client::begin(&principal, id, &stream, None);
        let taken = || plain(INVALID_REQUEST, "a request with this id is under way already");
        let guard = guard.ok_or_else(taken)?;
        if method == "subscriptions/listen" {
            self.listen(principal, id.clone(), params, guard);
            return Ok(());
        }
        let headers = headers.and_then(|headers| self.gateway.to_pass_on(&headers));
        let (myself, id, unanswered) = (self.clone(), id.clone(), Unanswered::new(self));
        let answering = Box::pin(async move {
            let gateway = &myself.gateway;
            let request = (method, params);
            let answer = async {
                let begun = gateway.begin(&principal, own_id(), request, envelope, stream, headers);
                match begun {
                    Ok(mut call) => gateway.answer_of(call.step().await, call),
                    Err(error) => Answer::Error(error),
                }
            };
            let answer = tokio::select! {
                biased;
                answer = answer => answer,
                // Dropped, the call is cancelled. A client that took a request back wants to hear no more of it.
                () = guard.withdrawal.given() => return,
            };
            drop(guard);
            if !matches!(answer, Answer::Cancelled) {
                myself.send(respond::line(&id, &answer)).await;
            }
            drop(unanswered);
        });
        self.begin_at_once(answering).await;
        Ok(())
    }

    /// Passes on news until the request is taken back or the stream is over.
    fn listen(
        self: &Arc<Self>,
        principal: Own<Client>,
        id: RawJson,
        params: Option<RawJson>,
        guard: CallGuard,
    ) {
        let (myself, open) = (self.clone(), self.listens.token());
        self.gateway.tasks.spawn(async move {
            let outbox = Outlet::Pipe(myself.pipe.clone());
            let listening = myself.gateway.listen(&principal, &id, params.as_ref(), outbox);
            let listener = tokio::select! {
                listener = listening => listener,
                () = guard.withdrawal.given() => return,
            };
            let answer = match listener {
                Ok((listener, acknowledgement)) => {
                    myself.send(acknowledgement).await;
                    listener.begin();
                    tokio::select! {
                        biased;
                        () = myself.closing.cancelled() => {}
                        () = myself.gateway.draining.begun() => {}
                        () = guard.withdrawal.given() => return,
                        () = listener.client.ended.begun() => {}
                    }
                    let Some(listening) = listener.listening() else { return };
                    Answer::Result(listening.result())
                }
                Err(error) => Answer::Error(error),
            };
            myself.send(respond::line(&id, &answer)).await;
            drop(open);
        });
    }

    /// Ends what the client listens to, in an orderly way. Nothing else is to come.
    pub(in crate::front) async fn end_listens(&self) {
        self.closing.cancel();
        self.listens.close();
        // A client that does not read is told nothing.
        let _ = timeout(LAST_WORDS, self.listens.wait()).await;
    }

    /// Made for the first request. `None` if the stream is over.
    fn principal(&self) -> Option<Own<Client>> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        if state.principal.is_none() {
            let made = self.gateway.principal_of_stream(self.caller(), self.scope.clone());
            state.principal = Some(Own::new(made));
        }
        state.principal.clone()
    }
}

fn admitted(params: Option<&RawJson>) -> Result<Envelope, RawJson> {
    let envelope =
        envelope::read(params).map_err(|error| plain(INVALID_PARAMS, error.to_string()))?;
    if envelope.version != VERSION {
        return Err(unsupported_version(&envelope.version));
    }
    Ok(envelope)
}
