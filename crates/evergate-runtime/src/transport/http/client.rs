//! The pooled HTTP client. Its own retries are off: only `retry/` decides to try again.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

use crate::connection::CallWatch;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A byte stream a [`Dialer`] may return.
pub trait DialedStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> DialedStream for T {}

/// Opens byte streams in place of TCP: for simulated networks, Unix sockets, tunnels. Takes `http` URLs only. Has to
/// notice by itself when a peer vanishes without a word; for TCP the runtime uses keep-alive for that.
#[derive(Clone)]
pub struct Dialer(Arc<DialFn>);

type DialFn = dyn Fn(Uri) -> BoxFuture<io::Result<Box<dyn DialedStream>>> + Send + Sync;

/// A client with a pool of its own. Cheap to clone; clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    connector: Connector,
    client: Client<Connector, OnceBody>,
}

/// A request body that notes when it is first asked for: until then nothing of the request has been sent.
#[derive(Debug)]
pub(crate) struct OnceBody {
    bytes: Option<Bytes>,
    sent: Option<Arc<CallWatch>>,
}

/// The caller was gone before anything was sent.
#[derive(Debug, thiserror::Error)]
#[error("given up before it was sent")]
pub(crate) struct GivenUp;

#[derive(Clone)]
struct Connector {
    dialer: Option<Dialer>,
    tcp: HttpConnector,
    /// Made at the first `https` URL: loading the system's certificates takes time and may fail, and neither should
    /// concern those who only speak `http`.
    tls: Arc<OnceLock<Result<HttpsConnector<HttpConnector>, String>>>,
    tls_config: Option<Arc<ClientConfig>>,
}

struct Stream(Box<dyn Io>);

trait Io: Read + Write + Send + Unpin {}
impl<T: Read + Write + Send + Unpin> Io for T {}

/// A host that does not answer a SYN is given up long before the call is, so that the failure counts as not sent.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Finds a peer that vanished without a word within about two minutes, even on a stream that is silent by nature.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const TCP_KEEPALIVE_RETRIES: u32 = 4;
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const POOL_IDLE_PER_HOST: usize = 64;

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn new(dialer: Option<Dialer>, tls_config: Option<Arc<ClientConfig>>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
        tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
        Self::with(Connector { dialer, tcp, tls: Arc::default(), tls_config })
    }

    /// The same with an empty pool. A new generation starts on new TCP connections: where the old one died of
    /// silence its idle connections may well be dead too, and each would cost an attempt to find out.
    pub(crate) fn with_new_pool(&self) -> Self {
        Self::with(self.connector.clone())
    }

    fn with(connector: Connector) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(POOL_IDLE_PER_HOST)
            .build(connector.clone());
        Self { connector, client }
    }

    pub(crate) async fn send(
        &self,
        request: Request<OnceBody>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        self.client.request(request).await
    }
}

// === impl OnceBody ===

impl OnceBody {
    pub(crate) fn new(bytes: Bytes, watch: Option<Arc<CallWatch>>) -> Self {
        Self { bytes: Some(bytes), sent: watch }
    }

    pub(crate) fn empty() -> Self {
        Self { bytes: None, sent: None }
    }
}

impl Body for OnceBody {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        if self.sent.as_ref().is_some_and(|watch| !watch.mark_sent()) {
            return Poll::Ready(Some(Err(GivenUp)));
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

// === impl Dialer ===

impl Dialer {
    /// Wraps a function that opens a stream to the host and port of a URL.
    pub fn new<F, R, S>(dial: F) -> Self
    where
        F: Fn(Uri) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<S>> + Send + 'static,
        S: DialedStream + 'static,
    {
        Self(Arc::new(move |uri| {
            let dialing = dial(uri);
            Box::pin(async move {
                let stream: Box<dyn DialedStream> = Box::new(dialing.await?);
                Ok(stream)
            })
        }))
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dialer")
    }
}

// === impl Connector ===

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    fn tls(&self) -> Result<HttpsConnector<HttpConnector>, BoxError> {
        let made = self.tls.get_or_init(|| {
            let config = match &self.tls_config {
                Some(config) => ClientConfig::clone(config),
                None => platform_tls().map_err(|error| error.to_string())?,
            };
            Ok(hyper_rustls::HttpsConnectorBuilder::new()
                .with_tls_config(config)
                .https_only()
                .enable_http1()
                .wrap_connector(self.tcp.clone()))
        });
        made.clone().map_err(BoxError::from)
    }
}

fn platform_tls() -> Result<ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth())
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Some(dialer) = &self.dialer {
            let dialing = (dialer.0)(uri);
            return Box::pin(async move { Ok(Stream(Box::new(TokioIo::new(dialing.await?)))) });
        }
        if uri.scheme_str() == Some("https") {
            let tls = self.tls();
            return Box::pin(async move { Ok(Stream(Box::new(tls?.call(uri).await?))) });
        }
        let dialing = self.tcp.call(uri);
        Box::pin(async move { Ok(Stream(Box::new(dialing.await?))) })
    }
}

// === impl Stream ===

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }
}

impl Connection for Stream {
    /// What the pool would like to know (HTTP/2, proxies) never applies here.
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
