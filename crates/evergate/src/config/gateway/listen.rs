//! Addresses: where to listen, and what browsers and proxies may call it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use url::Url;

use crate::config::reader::Reader;

/// `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`. Port 0 takes any that is free.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let wrong = || {
        format!(
            "{text:?} is not an address with a port, such as \"127.0.0.1:8080\" or \"localhost:8080\""
        )
    };
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port.parse().map_err(|_| wrong())?;
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| wrong())
}

/// Names as a `Host` header has them, with or without a port, in small letters.
pub(super) fn hosts(section: &mut Reader<'_>) -> Vec<String> {
    let hosts = section.strings("allowed_hosts").unwrap_or_default();
    for (n, host) in hosts.iter().enumerate() {
        if host.is_empty() || host.contains(['/', ' ', '*']) {
            let message =
                format!("{host:?} is not a host such as \"mcp.example\" or \"mcp.example:8080\"");
            section.error(&format!("allowed_hosts[{n}]"), &message);
        }
    }
    hosts.iter().map(|host| host.to_ascii_lowercase()).collect()
}

/// Origins as browsers send them, in small letters.
pub(super) fn origins(section: &mut Reader<'_>) -> Vec<String> {
    let texts = section.strings("allowed_origins").unwrap_or_default();
    let mut origins = Vec::with_capacity(texts.len());
    for (n, text) in texts.iter().enumerate() {
        let origin = Url::parse(text).map(|url| url.origin()).ok();
        match origin.filter(|origin| origin.is_tuple() && is_bare(text)) {
            Some(origin) => origins.push(origin.ascii_serialization()),
            None => section.error(
                &format!("allowed_origins[{n}]"),
                &format!("{text:?} is not an origin such as \"https://app.example\""),
            ),
        }
    }
    origins
}

/// A scheme, a host and a port, and nothing after them.
fn is_bare(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?', '#', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        for text in ["127.0.0.1:8080", "localhost:8080"] {
            assert_eq!(parse(text).unwrap().to_string(), "127.0.0.1:8080");
        }
        assert_eq!(parse("[::1]:0").unwrap().to_string(), "[::1]:0");
        for text in
            ["", "localhost", "127.0.0.1", "8080", ":8080", "localhost:x", "localhost:70000"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
