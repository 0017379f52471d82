//! Where traces go: by the configuration, and where that says nothing by the variables that all of OpenTelemetry knows.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use url::Url;

use super::sampler::Sampler;
use super::span::Value;
use crate::config::Otlp;
use crate::random;

/// All that the exporter must know.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Not shown: its path may be secret.
    pub(super) endpoint: Uri,
    /// Their values do not print.
    pub(super) headers: HeaderMap,
    pub(super) resource: Vec<(String, Value)>,
    pub(super) sampler: Sampler,
    /// How long one request may take.
    pub(super) timeout: Duration,
    /// How long spans are collected before they are sent.
    pub(super) delay: Duration,
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

const PATH: &str = "v1/traces";

// === impl Settings ===

impl Settings {
    /// `None` if traces are not wanted. What is wrong with the environment is a warning: it may be meant for others.
    pub(crate) fn read(configured: &Otlp, environment: Environment<'_>) -> Option<Self> {
        let variable = |name: &str| environment(name).filter(|text| !text.trim().is_empty());
        let is = |name: &str, word: &str| {
            variable(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(word))
        };
        let endpoint = match &configured.endpoint {
            Some(base) => below(base),
            None if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") => {
                return None;
            }
            None => from_environment(&variable)?,
        };
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            if variable(name).is_some_and(|protocol| protocol.trim() != "http/protobuf") {
                tracing::warn!(variable = name, "traces are sent as http/protobuf");
                break;
            }
        }
        let Ok(uri) = Uri::try_from(endpoint.as_str()) else {
            tracing::warn!("the address for traces cannot be used: none are sent");
            return None;
        };
        Some(Self {
            endpoint: uri,
            headers: headers(configured, &variable),
            resource: resource(configured, &variable),
            sampler: sampler(configured, &variable),
            timeout: millis(&variable, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000),
            delay: millis(&variable, "OTEL_BSP_SCHEDULE_DELAY", 5_000),
        })
    }
}

fn from_environment(variable: Environment<'_>) -> Option<Url> {
    let usable = |name: &str| {
        let url = Url::parse(variable(name)?.trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if url.is_none() {
            tracing::warn!(variable = name, "is not a URL such as http://localhost:4318");
        }
        url
    };
    let own = usable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(without_credentials);
    own.or_else(|| usable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(&base)))
}

fn below(base: &Url) -> Url {
    let mut url = without_credentials(base.clone());
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(PATH) {
        url.set_path(&format!("{path}/{PATH}"));
    }
    url
}

/// They belong into headers. A URL that cannot have any has none.
fn without_credentials(mut url: Url) -> Url {
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url
}

fn headers(configured: &Otlp, variable: Environment<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
        for (key, text) in pairs(&variable(name).unwrap_or_default()) {
            let header = (HeaderName::try_from(key), HeaderValue::try_from(text));
            if let (Ok(key), Ok(mut value)) = header {
                value.set_sensitive(true);
                headers.insert(key, value);
            } else {
                tracing::warn!(variable = name, "holds something that is no header");
            }
        }
    }
    for (name, value) in &configured.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

fn resource(configured: &Otlp, variable: Environment<'_>) -> Vec<(String, Value)> {
    let mut given = pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    let position = given.iter().position(|(name, _)| name == "service.name");
    let described = position.map(|at| given.swap_remove(at).1);
    let own = configured.service_name.clone().or_else(|| variable("OTEL_SERVICE_NAME"));
    let name = own.or(described).unwrap_or_else(|| "evergate".to_owned());
    let instance = random::bytes::<16>().unwrap_or_default();
    let mut resource = vec![
        ("service.name".to_owned(), Value::from(name)),
        ("service.version".to_owned(), Value::from(env!("CARGO_PKG_VERSION"))),
        ("service.instance.id".to_owned(), Value::from(crate::hex::hex(&instance))),
        ("process.pid".to_owned(), Value::from(u64::from(std::process::id()))),
    ];
    for (name, text) in given {
        resource.retain(|(known, _)| *known != name);
        resource.push((name, Value::from(text)));
    }
    resource
}

fn sampler(configured: &Otlp, variable: Environment<'_>) -> Sampler {
    if let Some(part) = configured.sample {
        return Sampler::of_roots(part);
    }
    let Some(name) = variable("OTEL_TRACES_SAMPLER") else { return Sampler::of_roots(1.0) };
    let argument = variable("OTEL_TRACES_SAMPLER_ARG");
    Sampler::parse(name.trim(), argument.as_deref().map(str::trim)).unwrap_or_else(|error| {
        tracing::warn!(%error, "all traces are recorded");
        Sampler::of_roots(1.0)
    })
}

fn millis(variable: Environment<'_>, name: &str, default: u64) -> Duration {
    let given = variable(name).and_then(|text| text.trim().parse().ok());
    Duration::from_millis(given.filter(|millis| (1..=600_000).contains(millis)).unwrap_or(default))
}

/// `key1=value1,key2=value2`, values with `%` for what cannot stand there.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let trimmed = pairs.map(|(name, value)| (name.trim(), value.trim()));
    trimmed
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte =
            pair.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(configured: &Otlp, variables: &[(&str, &str)]) -> Option<Settings> {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        };
        Settings::read(configured, &find)
    }

    fn resource(settings: &Settings, name: &str) -> Option<String> {
        let found = settings.resource.iter().find(|(known, _)| known == name)?;
        match &found.1 {
            Value::Text(text) => Some(text.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn nothing_is_sent_unless_somebody_says_where() {
        let none = Otlp::default();
        assert!(read(&none, &[]).is_none());
        assert!(
            read(&none, &[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])
                .is_none()
        );
        assert!(read(&none, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url")]).is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(read(&none, &[endpoint, off]).is_none());
        }
        assert!(read(&none, &[endpoint]).is_some());
    }

    #[test]
    fn the_path_is_added_where_the_rules_say_so() {
        for (variables, expected) in [
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318")], "http://a:4318/v1/traces"),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "https://u:p@a/x/")], "https://a/x/v1/traces"),
            (
                vec![
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/as-it-is"),
                ],
                "http://b/as-it-is",
            ),
        ] {
            let settings = read(&Otlp::default(), &variables).unwrap();
            assert_eq!(settings.endpoint.to_string(), expected);
        }
        let configured =
            Otlp { endpoint: Url::parse("http://c/v1/traces").ok(), ..Otlp::default() };
        let settings = read(&configured, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a")]).unwrap();
        assert_eq!(settings.endpoint.to_string(), "http://c/v1/traces");
    }

    #[test]
    fn the_configuration_comes_first_and_the_environment_fills_in() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20ecret, other = x ,junk"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=described,deployment.environment=prod"),
            ("OTEL_SERVICE_NAME", "named"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ];
        let settings = read(&Otlp::default(), &variables).unwrap();
        assert_eq!(settings.headers["api-key"], "s ecret");
        assert_eq!(settings.headers["other"], "x");
        assert_eq!(resource(&settings, "service.name").unwrap(), "named");
        assert_eq!(resource(&settings, "deployment.environment").unwrap(), "prod");
        assert_eq!(settings.sampler, Sampler::parse("traceidratio", Some("0.5")).unwrap());
        assert_eq!(settings.delay, Duration::from_millis(50));
        assert!(!format!("{settings:?}").contains("ecret"));
        let configured = Otlp {
            headers: vec![(HeaderName::from_static("api-key"), HeaderValue::from_static("mine"))],
            service_name: Some("configured".into()),
            sample: Some(0.1),
            ..Otlp::default()
        };
        let settings = read(&configured, &variables).unwrap();
        assert_eq!(settings.headers["api-key"], "mine");
        assert_eq!(resource(&settings, "service.name").unwrap(), "configured");
        assert_eq!(settings.sampler, Sampler::of_roots(0.1));
        let described = read(&Otlp::default(), &variables[..3]).unwrap();
        assert_eq!(resource(&described, "service.name").unwrap(), "described");
    }
}
