//! The admin API of a running gateway, from outside: what the commands that look at one and steer one speak.
//!
//! A connection per request: the gateway may have restarted since the last one. Every wait has a limit, every answer too.
//! What went wrong is said so that the reader knows what to do ([`error`]); nothing here is tried twice, because only
//! the command knows whether that makes sense.

mod error;
mod event_stream;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::timeout;
use url::Url;

use crate::admin::model::{Problem, ProblemCode};
use crate::config::Secret;
use crate::state::Control;
pub(crate) use error::ClientError;
pub(crate) use event_stream::EventStream;

/// One gateway.
#[derive(Debug, Clone)]
pub(crate) struct AdminClient {
    base: Url,
    key: Option<Secret>,
    /// What it says of itself, if it was found by that.
    control: Option<Control>,
    http: Http,
}

/// The system's certificates are loaded only for those who need them: it takes time, and may fail.
#[derive(Debug, Clone)]
enum Http {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// A gateway answers from memory; one that takes longer is stuck, or not there.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Long before that: nobody there.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A thousand servers with their last hour come to a tenth of this.
const LARGEST_ANSWER: usize = 64 << 20;

/// Where a gateway is, from what people write: with or without a scheme, or the URL that clients use.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    let text = text.trim();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let wrong =
        || format!("{text:?} is not the URL of a gateway, such as \"http://127.0.0.1:8080\"");
    let mut url = Url::parse(&whole).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a key does not belong into the URL: use --key or EVERGATE_KEY".to_owned());
    }
    let path = url.path().trim_end_matches('/');
    // What `evergate serve` prints, and what a browser shows.
    let path = path.strip_suffix("/mcp").or_else(|| path.strip_suffix("/api/v1")).unwrap_or(path);
    let path = path.to_owned();
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

// === impl AdminClient ===

impl AdminClient {
    pub(crate) fn new(base: Url, key: Option<Secret>) -> Result<Self, ClientError> {
        let http = Http::new(&base)?;
        Ok(Self { base, key, control: None, http })
    }

    /// One that says where it is. Its own key is the best there is, unless somebody wants to see what another one opens.
    pub(crate) fn known(control: Control, key: Option<Secret>) -> Result<Self, ClientError> {
        let wrong = |_| ClientError::NotTheApi { url: control.url.clone() };
        let base = parse_url(&control.url).map_err(wrong)?;
        let key = key.or_else(|| Some(control.key.clone()));
        Ok(Self { control: Some(control), ..Self::new(base, key)? })
    }

    /// For messages.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// What is at `path`, which is given in segments below `/api/v1`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        let body = self.bytes(Method::GET, path, None).await?;
        self.parsed(&body)
    }

    /// The same as it came, with whatever this version does not know.
    pub(crate) async fn get_raw(&self, path: &[&str]) -> Result<Box<RawValue>, ClientError> {
        self.get(path).await
    }

    /// The same with a query.
    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: (&str, u64),
    ) -> Result<T, ClientError> {
        let body = self.bytes(Method::GET, path, Some(query)).await?;
        self.parsed(&body)
    }

    /// Does something.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        let body = self.bytes(Method::POST, path, None).await?;
        self.parsed(&body)
    }

    /// What happens from now on, or after the event with this number.
    pub(crate) async fn events(&self, after: Option<u64>) -> Result<EventStream, ClientError> {
        let query = after.map(|after| ("after", after));
        let response = timeout(ANSWER_WITHIN, self.send(Method::GET, &["events"], query)).await;
        let response = response.map_err(|_| self.silent())??;
        Ok(EventStream::new(response.into_body(), self.url().to_owned()))
    }

    async fn bytes(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, u64)>,
    ) -> Result<Bytes, ClientError> {
        let exchange = async {
            let response = self.send(method, path, query).await?;
            self.body(response).await
        };
        timeout(ANSWER_WITHIN, exchange).await.map_err(|_| self.silent())?
    }

    /// Sends a request; an answer that is no success is an error.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, u64)>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, &value.to_string());
        }
        let changes = method == Method::POST;
        let mut request = Request::builder().method(method).uri(url.as_str());
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if changes {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(host) = self.control.as_ref().and_then(|control| control.host.as_deref()) {
            request = request.header(HOST, host);
        }
        if let Some(key) = &self.key {
            let value = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut value = value.map_err(|_| ClientError::KeyCannotBeSent)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let body = Full::new(Bytes::from_static(if changes { b"{}" } else { b"" }));
        let request = request.body(body).map_err(|_| self.no_evergate())?;
        let answered = match &self.http {
            Http::Plain(client) => client.request(request).await,
            Http::Tls(client) => client.request(request).await,
        };
        let response = answered.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    async fn refused(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        let body = self.body(response).await.unwrap_or_default();
        let url = self.url().to_owned();
        match (status, serde_json::from_slice::<Problem>(&body)) {
            (StatusCode::UNAUTHORIZED, _) => {
                ClientError::KeyNeeded { url, sent: self.key.is_some() }
            }
            (StatusCode::FORBIDDEN, Ok(problem)) => {
                ClientError::Forbidden { url, message: problem.error.message }
            }
            (StatusCode::FORBIDDEN, Err(_)) => ClientError::Forbidden {
                url,
                message: "it does not go by this host name; gateway.allowed_hosts says which"
                    .to_owned(),
            },
            // The public listener of a gateway that has another one for this.
            (_, Ok(problem)) if problem.error.code == ProblemCode::UnknownPath => {
                self.no_evergate()
            }
            (_, Ok(problem)) => ClientError::Refused(problem.error),
            (_, Err(_)) if status == StatusCode::NOT_FOUND => self.no_evergate(),
            (_, Err(_)) => ClientError::Status { url, status },
        }
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|source| ClientError::Broken { url: self.url().to_owned(), source })
    }

    /// What was fetched as it came, as this version understands it.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body)
            .map_err(|source| ClientError::Unreadable { url: self.url().to_owned(), source })
    }

    fn unreachable(&self, error: &legacy::Error) -> ClientError {
        let pid = self.control.as_ref().map(|control| control.pid);
        ClientError::unreachable(self.url(), pid, error)
    }

    fn silent(&self) -> ClientError {
        ClientError::Silent { url: self.url().to_owned(), seconds: ANSWER_WITHIN.as_secs() }
    }

    fn no_evergate(&self) -> ClientError {
        ClientError::NotTheApi { url: self.url().to_owned() }
    }
}

// === impl Http ===

impl Http {
    fn new(base: &Url) -> Result<Self, ClientError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_WITHIN));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(0);
        if base.scheme() == "http" {
            return Ok(Self::Plain(builder.build(tcp)));
        }
        let config = ClientConfig::with_platform_verifier().map_err(ClientError::NoTls)?;
        let tls = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self::Tls(builder.build(tls)))
    }
}

#[cfg(test)]
mod tests;
