//! From settings to a handshaken connection, whatever the transport.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use url::Url;

use super::http::custom_headers::CustomHeaders;
use super::http::legacy_sse;
use super::http::streamable::{HttpContext, HttpLink, Profile};
use super::lines::Inlet;
use super::{HttpClient, Link, OpenError, StderrTail, TransportError, lines, stdio};
use crate::connection::{Beginning, Begun, Inbox, Peer, Protocol, Reporter, Shown};
use crate::entrusted::Entrusted;
use crate::error::{SharedError, chain};
use crate::handlers::Handlers;
use crate::protocol::Era;
use crate::settings::{Checked, Endpoint, HttpKind};
use crate::tasks::Tasks;

/// What opening needs to know.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) link: Link,
    pub(crate) peer: Peer,
    /// What worked, to be tried first next time.
    pub(crate) kind: Option<HttpKind>,
    pub(crate) shown: Shown,
}

/// An attempt under way: holds what it opened, so that an attempt that ends badly can be cleaned up.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) settings: &'a Checked,
    pub(crate) client: &'a HttpClient,
    pub(crate) handlers: &'a Handlers,
    pub(crate) stderr: &'a StderrTail,
    pub(crate) entrusted: &'a Entrusted,
    pub(crate) tasks: &'a Tasks,
    pub(crate) answers_follow_calls: bool,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) reporter: Reporter,
    pub(crate) link: Option<Link>,
    /// How to begin; `None` if the server is to be asked.
    pub(crate) era: Option<Era>,
}

/// Opens and shakes hands. `remembered` is what worked last time for a server that may speak any dialect.
pub(crate) async fn open(
    opening: &mut Opening<'_>,
    remembered: Option<HttpKind>,
) -> Result<Opened, OpenError> {
    match &opening.settings.endpoint {
        Endpoint::Memory(connector) => {
            let stream = connector
                .connect()
                .map_err(|error| TransportError::Connect(SharedError::new(error)))?;
            let (reader, writer) = tokio::io::split(stream);
            let link = opening.start_lines(Inlet::in_memory(reader), writer, None);
            opening.shake(link, None).await
        }
        Endpoint::Stdio { command, args, env, cwd } => {
            let stderr = (opening.stderr.clone(), opening.entrusted.clone());
            let started = stdio::start(command, args, env, cwd.as_ref(), stderr, opening.tasks)?;
            let inlet = Inlet::of_child(started.stdout, opening.answers_follow_calls);
            let link = opening.start_lines(inlet, started.stdin, Some(started.control));
            opening.shake(link, None).await
        }
        Endpoint::Http { url, kind, .. } => {
            let url = url.clone();
            match kind {
                HttpKind::Auto => opening.probe(&url, remembered).await,
                kind => opening.open_http(&url, *kind).await,
            }
        }
    }
}

// === impl Opening ===

impl Opening<'_> {
    /// Cleans up after an attempt that came to nothing.
    pub(crate) async fn close(&mut self, within: Duration) {
        if let Some(link) = self.link.take()
            && let Err(error) = link.close(within).await
        {
            let error = self.entrusted.hide(&chain(&error));
            tracing::debug!(error, "an attempt could not be cleaned up");
        }
    }

    fn start_lines(
        &self,
        inlet: Inlet,
        writer: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
        child: Option<stdio::ChildControl>,
    ) -> Link {
        Link::Lines(lines::start(
            inlet,
            writer,
            child,
            self.inbox.clone(),
            self.reporter.clone(),
            self.tasks,
            self.settings.max_message_bytes,
        ))
    }

    async fn shake(&mut self, link: Link, kind: Option<HttpKind>) -> Result<Opened, OpenError> {
        self.link = Some(link.clone());
        let (protocol, within) = (self.settings.protocol, self.settings.connect_timeout);
        let beginning = Beginning::new(&link, &self.inbox, self.handlers);
        let Begun { peer, shown } = beginning.begin(protocol, self.era, within).await?;
        self.link = None;
        Ok(Opened { link, peer, kind, shown })
    }

    /// Streamable, then HTTP+SSE, then plain; what worked last time goes first. Only an answer that says "not like
    /// this" moves on to the next: a server that is down, overloaded or wants credentials is that in every dialect.
    async fn probe(
        &mut self,
        url: &Url,
        remembered: Option<HttpKind>,
    ) -> Result<Opened, OpenError> {
        let mut order = vec![HttpKind::Streamable, HttpKind::Sse, HttpKind::Plain];
        if let Some(known) = remembered {
            order.retain(|kind| *kind != known);
            order.insert(0, known);
        }
        if self.settings.protocol == Protocol::Modern {
            // The others have only revisions with a handshake.
            order = vec![HttpKind::Streamable];
        }
        let mut reasons = Vec::new();
        for &kind in &order {
            match self.open_http(url, kind).await {
                Ok(opened) => return Ok(opened),
                Err(error) if says_not_like_this(&error) && order.len() > 1 => {
                    self.close(self.settings.close_timeout).await;
                    reasons.push(format!("{kind:?}: {}", chain(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        Err(OpenError::NoTransportFits(reasons.join("; ")))
    }

    async fn open_http(&mut self, url: &Url, kind: HttpKind) -> Result<Opened, OpenError> {
        let Endpoint::Http { headers, source, .. } = &self.settings.endpoint else {
            return Err(OpenError::NoTransportFits("not an HTTP server".into()));
        };
        let uri: Uri = url
            .as_str()
            .parse()
            .map_err(|_| OpenError::NoTransportFits("the address cannot be used".into()))?;
        let context = HttpContext {
            client: self.client.with_new_pool(),
            uri,
            custom: CustomHeaders::new(headers.clone(), source.clone(), self.entrusted.clone()),
            header_timeout: self.settings.header_timeout,
            max_message_bytes: self.settings.max_message_bytes,
            tasks: self.tasks.clone(),
        };
        let link = match kind {
            HttpKind::Streamable | HttpKind::Auto => {
                Link::Http(Arc::new(HttpLink::new(context, Profile::Streamable)))
            }
            HttpKind::Plain => Link::Http(Arc::new(HttpLink::new(context, Profile::Plain))),
            HttpKind::Sse => {
                let opening =
                    legacy_sse::open(context, url, self.inbox.clone(), self.reporter.clone());
                Link::Sse(opening.await?)
            }
        };
        self.shake(link, Some(kind)).await
    }
}

fn says_not_like_this(error: &OpenError) -> bool {
    match error {
        OpenError::Transport(error) => match error {
            TransportError::Status { status, .. } => {
                (400..500).contains(status) && !matches!(status, 401 | 403 | 429)
            }
            TransportError::ContentType(_)
            | TransportError::NoAnswer { .. }
            | TransportError::Malformed(_)
            | TransportError::StreamEnded => true,
            _ => false,
        },
        OpenError::Refused(_) | OpenError::BadHandshake(_) => true,
        _ => false,
    }
}
