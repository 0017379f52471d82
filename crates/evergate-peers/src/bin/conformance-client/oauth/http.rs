//! Plain requests. The suite has no TLS.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

pub(super) struct Http(Client<HttpConnector, Full<Bytes>>);

/// Far more than any metadata needs.
const MAX_BODY: usize = 1 << 20;

// === impl Http ===

impl Http {
    pub(super) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// The response as it is: a redirection is an answer.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Bytes>> {
        let address = request.uri().clone();
        let response = self.0.request(request).await.with_context(|| format!("no {address}"))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(anyhow::Error::from_boxed);
        Ok(Response::from_parts(head, body?.to_bytes()))
    }

    /// A document; `None` if there is none.
    pub(super) async fn document<T: DeserializeOwned>(
        &self,
        url: &str,
    ) -> anyhow::Result<Option<T>> {
        let request = Request::get(url).header("accept", "application/json");
        let response = self.send(request.body(Full::default())?).await?;
        if response.status().is_client_error() {
            return Ok(None);
        }
        let parsed = self::body(url, &response)?;
        Ok(Some(parsed))
    }

    /// Sends a request whose success is a JSON body.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<T> {
        let url = request.uri().to_string();
        self::body(&url, &self.send(request).await?)
    }
}

fn body<T: DeserializeOwned>(url: &str, response: &Response<Bytes>) -> anyhow::Result<T> {
    let status = response.status();
    ensure!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{url} answered {status}");
    serde_json::from_slice(response.body()).with_context(|| format!("{url} answered nonsense"))
}
