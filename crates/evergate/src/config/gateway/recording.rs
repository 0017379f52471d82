//! What is written down about calls: traces (`gateway.otlp`) and the audit log (`gateway.audit`).

use std::fmt;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use url::Url;

use crate::config::reader::Reader;

/// Where traces go. What is absent the environment may say.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Otlp {
    /// Without `/v1/traces`. Its parts may be secret, so it is not shown.
    pub(crate) endpoint: Option<Url>,
    /// Sensitive, and so unprintable.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) service_name: Option<String>,
    /// Which part of the traces that begin here is recorded, from 0 to 1.
    pub(crate) sample: Option<f64>,
}

/// Where every call is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) file: PathBuf,
    /// A file that is larger is put aside.
    pub(crate) max_bytes: usize,
    /// How many of those are kept.
    pub(crate) keep: usize,
}

const MAX_BYTES: usize = 64 << 20;
const KEEP: usize = 5;
const MOST_KEPT: usize = 1000;

// === impl Otlp ===

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Otlp")
            .field("host", &self.endpoint.as_ref().and_then(Url::host_str))
            .field("headers", &self.headers)
            .field("service_name", &self.service_name)
            .field("sample", &self.sample)
            .finish()
    }
}

pub(super) fn otlp(section: &mut Reader<'_>) -> Otlp {
    let read = section.own_section("otlp", |otlp| {
        let endpoint = otlp.string("endpoint").and_then(|text| {
            let url = Url::parse(&text).ok();
            let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            match &url {
                None => otlp.error("endpoint", "must be a URL such as \"http://localhost:4318\""),
                Some(url) if !url.username().is_empty() || url.password().is_some() => {
                    otlp.error("endpoint", "must not hold credentials: put them into headers");
                }
                Some(_) => {}
            }
            url
        });
        let headers = headers(otlp);
        let service_name = otlp.string("service_name");
        let sample = otlp.number("sample");
        if sample.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
            otlp.error("sample", "must be between 0 and 1");
        }
        Otlp { endpoint, headers, service_name, sample }
    });
    read.unwrap_or_default()
}

fn headers(otlp: &mut Reader<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, text) in otlp.pairs("headers") {
        match (HeaderName::try_from(&name), HeaderValue::try_from(text)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.push((name, value));
            }
            _ => otlp.error(&format!("headers.{name}"), "cannot be sent as a header"),
        }
    }
    headers
}

pub(super) fn audit(section: &mut Reader<'_>) -> Option<Audit> {
    let read = section.own_section("audit", |audit| {
        let file = audit.path("file");
        if !audit.has("file") {
            audit.error("file", "is missing");
        }
        let max_bytes = audit.size("max_bytes").unwrap_or(MAX_BYTES);
        if max_bytes == 0 {
            audit.error("max_bytes", "must be at least 1");
        }
        let keep = audit.count("keep").unwrap_or(KEEP);
        if keep > MOST_KEPT {
            audit.error("keep", "must not be more than 1000");
        }
        Some(Audit { file: file?, max_bytes, keep })
    });
    read.flatten()
}
