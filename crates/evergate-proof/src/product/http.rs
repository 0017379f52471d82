//! The few HTTP requests that starting a product takes.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// A product that takes longer than this to answer one of these is not well.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is at this URL.
pub(super) async fn get(url: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    exchange(Method::GET, url, None).await
}

/// Sends JSON there.
pub(super) async fn post(url: &str, body: &Value) -> anyhow::Result<(StatusCode, Bytes)> {
    exchange(Method::POST, url, Some(body)).await
}

async fn exchange(
    method: Method,
    url: &str,
    body: Option<&Value>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", "application/json")
        .body(Full::from(body))?;
    let exchange = async {
        let response = client.request(request).await?;
        let status = response.status();
        anyhow::Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    timeout(PATIENCE, exchange).await.context("no answer")?
}
