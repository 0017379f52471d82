//! Opening byte streams to a server: TCP, TLS over it, or whatever the embedder dials with.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower_service::Service as _;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A byte stream a [`Dialer`] may return.
pub trait DialedStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> DialedStream for T {}

/// A byte stream to a server.
pub(super) trait ServerStream: DialedStream {
    /// What carries it, as far as that is known.
    fn socket(&self) -> Option<&TcpStream>;
}

impl ServerStream for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl ServerStream for TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>> {
    fn socket(&self) -> Option<&TcpStream> {
        Some(match self.inner() {
            MaybeHttpsStream::Http(stream) => stream.inner(),
            MaybeHttpsStream::Https(stream) => stream.inner().get_ref().0.inner().inner(),
        })
    }
}

impl ServerStream for Box<dyn DialedStream> {
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// Opens byte streams in place of TCP: for simulated networks, Unix sockets, tunnels. Takes `http` URLs only. Has to
/// notice by itself when a peer vanishes without a word; for TCP the runtime uses keep-alive for that.
#[derive(Clone)]
pub struct Dialer(Arc<DialFn>);

type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn DialedStream>>> + Send>>;
type DialFn = dyn Fn(Uri) -> Dialing + Send + Sync;

#[derive(Clone)]
pub(super) struct Connector {
    dialer: Option<Dialer>,
    tcp: HttpConnector,
    /// Made at the first `https` URL: loading the system's certificates takes time and may fail, and neither should
    /// concern those who only speak `http`.
    tls: Arc<OnceLock<Result<HttpsConnector<HttpConnector>, String>>>,
    tls_config: Option<Arc<ClientConfig>>,
}

/// A host that does not answer a SYN is given up long before the call is, so that the failure counts as not sent.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Finds a peer that vanished without a word within about two minutes, even on a stream that is silent by nature.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const TCP_KEEPALIVE_RETRIES: u32 = 4;

// === impl Connector ===

impl Connector {
    pub(super) fn new(dialer: Option<Dialer>, tls_config: Option<Arc<ClientConfig>>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
        tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
        Self { dialer, tcp, tls: Arc::default(), tls_config }
    }

    pub(super) async fn connect(&self, uri: Uri) -> Result<Box<dyn ServerStream>, BoxError> {
        if let Some(dialer) = &self.dialer {
            return Ok(Box::new((dialer.0)(uri).await?));
        }
        if uri.scheme_str() == Some("https") {
            return Ok(Box::new(TokioIo::new(self.tls()?.call(uri).await?)));
        }
        Ok(Box::new(self.tcp.clone().call(uri).await?.into_inner()))
    }

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

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
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
