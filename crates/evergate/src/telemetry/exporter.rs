//! Sends spans to a receiver, in batches, off everybody's way.
//!
//! The queue is bounded, and what does not fit or cannot be delivered is lost and counted. A receiver that is gone is told of
//! once, and once when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::encoding;
use super::settings::Settings;
use super::span::Span;
use super::tracer::Tracer;
use crate::logging::streak::Streak;

/// The task's own.
pub(crate) struct Exporter {
    settings: Settings,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    spans: mpsc::Receiver<Span>,
    /// Spans that did not fit into the queue.
    overflown: Arc<AtomicU64>,
    /// Those, and what could not be delivered, since it last worked.
    lost: u64,
    trouble: Streak,
}

/// Why a batch was not taken.
enum NotTaken {
    /// It may be taken later.
    Later { after: Option<Duration>, why: String },
    /// It never will be.
    Never { why: String },
}

/// OpenTelemetry's own defaults.
const QUEUE: usize = 2048;
const BATCH: usize = 512;
/// How often a batch is sent before it is given up.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the end may take.
const LAST: Duration = Duration::from_secs(2);
/// Of what a receiver answers.
const LONGEST_ANSWER: usize = 64 * 1024;

// === impl Exporter ===

impl Exporter {
    /// And what hands it spans. Fails if the system's certificates cannot be used.
    pub(crate) fn new(settings: Settings) -> Result<(Self, Tracer), rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_platform_verifier()?
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let (queue, spans) = mpsc::channel(QUEUE);
        let overflown: Arc<AtomicU64> = Arc::default();
        let (lost, sampler) = (overflown.clone(), settings.sampler);
        let tracer = Tracer { queue, lost, sampler, seed: fastrand::u64(..) };
        let trouble = Streak::default();
        Ok((Self { settings, client, spans, overflown, lost: 0, trouble }, tracer))
    }

    /// Sends until told to stop, and then what is left, in bounded time.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        while self.collect(&mut batch, &stop).await {
            self.deliver(std::mem::take(&mut batch), &stop).await;
        }
        self.spans.close();
        let rest = async {
            loop {
                while batch.len() < BATCH
                    && let Ok(span) = self.spans.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    return;
                }
                self.deliver(std::mem::take(&mut batch), &stop).await;
            }
        };
        if timeout(LAST, rest).await.is_err() {
            tracing::warn!("the last traces could not be sent in time");
        }
    }

    /// Waits for a span and then a while for others. `false` when told to stop.
    async fn collect(&mut self, batch: &mut Vec<Span>, stop: &CancellationToken) -> bool {
        tokio::select! {
            _ = self.spans.recv_many(batch, BATCH) => {}
            () = stop.cancelled() => return false,
        }
        let until = tokio::time::Instant::now() + self.settings.delay;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                _ = self.spans.recv_many(batch, room) => {}
                () = tokio::time::sleep_until(until) => break,
                () = stop.cancelled() => return false,
            }
        }
        true
    }

    /// Sends a batch, more than once if need be.
    async fn deliver(&mut self, batch: Vec<Span>, stop: &CancellationToken) {
        let body = Bytes::from(encoding::request(&self.settings.resource, &batch));
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            let why = match self.send(body.clone()).await {
                Ok(()) => return self.delivered(),
                Err(NotTaken::Later { after, why }) if attempt < ATTEMPTS => {
                    self.failed(&why);
                    if stop.is_cancelled() {
                        why
                    } else {
                        let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
                        // At the end there is no time to wait for anybody.
                        tokio::select! {
                            () = sleep(wait) => {}
                            () = stop.cancelled() => {}
                        }
                        pause *= 2;
                        continue;
                    }
                }
                Err(NotTaken::Later { why, .. } | NotTaken::Never { why }) => why,
            };
            self.failed(&why);
            break;
        }
        self.lost += batch.len() as u64;
    }

    async fn send(&self, body: Bytes) -> Result<(), NotTaken> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.endpoint.clone();
        let agent = concat!("evergate/", env!("CARGO_PKG_VERSION"));
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.extend(self.settings.headers.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let later = |why: String| NotTaken::Later { after: None, why };
        let answer = timeout(self.settings.timeout, self.client.request(request)).await;
        let answer = answer.map_err(|_| later("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| later(format!("{:#}", anyhow::Error::from(error))))?;
        let status = answer.status();
        let after = answer.headers().get(RETRY_AFTER).and_then(|text| text.to_str().ok());
        let after = after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        // So that the connection can be used again. What it says is of no use to us.
        let rest = Limited::new(answer.into_body(), LONGEST_ANSWER).collect();
        let _ = timeout(self.settings.timeout, rest).await;
        if status.is_success() {
            return Ok(());
        }
        let why = format!("HTTP {}", status.as_u16());
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(NotTaken::Later { after, why }),
            _ => Err(NotTaken::Never { why }),
        }
    }

    fn failed(&mut self, why: &str) {
        if self.trouble.failed() {
            tracing::warn!(error = why, "traces cannot be sent");
        }
    }

    fn delivered(&mut self) {
        self.lost += self.overflown.swap(0, Ordering::Relaxed);
        let lost = std::mem::take(&mut self.lost);
        if let Some(over) = self.trouble.worked() {
            tracing::info!(after = over.in_words(), spans_lost = lost, "traces are sent again");
        } else if lost > 0 {
            tracing::warn!(spans_lost = lost, "more traces than can be sent");
        }
    }
}
