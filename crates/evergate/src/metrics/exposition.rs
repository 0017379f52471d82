//! Metrics as text, in either of the two formats that scrapers read.

use std::fmt::Write as _;

use super::cells::Histogram;
use super::names::{Family, Kind};
use crate::front::request::{Headers, visible};

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// What was before, and what people get who look at it themselves.
    Text,
}

/// A page as far as it is written.
#[derive(Debug)]
pub(super) struct Page {
    format: Format,
    text: String,
}

/// One family of a page. Its head is written with its first sample: a family that has none is not mentioned.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    page: &'a mut Page,
    family: &'static Family,
    begun: bool,
}

// === impl Format ===

impl Format {
    /// What a scraper asks for. Only one that names `OpenMetrics` gets it.
    pub(crate) fn wanted(headers: &Headers) -> Self {
        let accepts = headers.get_all("accept").filter_map(visible);
        let accepts: Vec<&str> = accepts.flat_map(|value| value.split(',')).collect();
        let quality = |name: &str| accepts.iter().filter_map(|range| quality_of(range, name)).max();
        let open_metrics = quality("application/openmetrics-text").unwrap_or(0);
        if open_metrics > 0 && Some(open_metrics) >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How much this range of an Accept header wants that media type, in thousandths; `None` if it is about another.
fn quality_of(range: &str, name: &str) -> Option<u16> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(name) {
        return None;
    }
    let quality = parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().unwrap_or(0.0))
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000"
    )]
    Some((quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16)
}

// === impl Page ===

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::with_capacity(16 * 1024) }
    }

    /// Writes a family; `write` is given what to write its samples with.
    pub(super) fn family(&mut self, family: &'static Family, write: impl FnOnce(&mut Samples<'_>)) {
        write(&mut Samples { page: self, family, begun: false });
    }

    /// A family with one sample and no labels.
    pub(super) fn single(&mut self, family: &'static Family, value: f64) {
        self.family(family, |samples| samples.add(&[], value));
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

// === impl Samples ===

impl Samples<'_> {
    /// One sample; the labels' values in the order of the family's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: f64) {
        let suffix = match self.family.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(suffix, labels, None, value);
    }

    #[expect(clippy::cast_precision_loss, reason = "the formats have no other numbers")]
    pub(super) fn count(&mut self, labels: &[&str], value: u64) {
        self.add(labels, value as f64);
    }

    pub(super) fn flag(&mut self, labels: &[&str], value: bool) {
        self.count(labels, value.into());
    }

    #[expect(clippy::cast_precision_loss, reason = "the formats have no other numbers")]
    pub(super) fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        let mut count = 0;
        for (bound, so_far) in histogram.cumulative() {
            self.line("_bucket", labels, Some(bound), so_far as f64);
            count = so_far;
        }
        self.line("_sum", labels, None, histogram.sum());
        self.line("_count", labels, None, count as f64);
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<f64>, value: f64) {
        if !self.begun {
            self.begun = true;
            self.head();
        }
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        let text = &mut self.page.text;
        text.push_str(self.family.name);
        text.push_str(suffix);
        let mut before = '{';
        for (name, value) in self.family.labels.iter().zip(labels) {
            text.push(before);
            text.push_str(name);
            text.push_str("=\"");
            escape(text, value, true);
            text.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            text.push(before);
            text.push_str("le=\"");
            number(text, bound, true);
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        text.push(' ');
        number(text, value, false);
        text.push('\n');
    }

    fn head(&mut self) {
        let Family { name, kind, unit, help, .. } = self.family;
        let open_metrics = self.page.format == Format::OpenMetrics;
        // The older format knows no families: there a counter is called what its samples are.
        let suffix = match kind {
            Kind::Counter if !open_metrics => "_total",
            Kind::Info if !open_metrics => "_info",
            _ => "",
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info if open_metrics => "info",
            Kind::Gauge | Kind::Info => "gauge",
        };
        let text = &mut self.page.text;
        // Writing to a string cannot fail, also below.
        let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        if open_metrics && !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = write!(text, "# HELP {name}{suffix} ");
        escape(text, help, open_metrics);
        text.push_str(".\n");
    }
}

/// Labels as `OpenMetrics` wants them, for both: the same series must not have two names.
fn number(text: &mut String, value: f64, with_point: bool) {
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else if with_point {
        // Exponents have two digits there.
        text.push_str(&format!("{value:?}").replace("e-5", "e-05"));
    } else {
        let _ = write!(text, "{value}");
    }
}

fn escape(text: &mut String, value: &str, quotes: bool) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}
