//! Hosts and origins, read strictly: what two readers could understand differently is not understood at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) host: Host,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// Lower case, without the dot at the end.
    Name(String),
    Address(IpAddr),
}

/// Where a page is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Lower case.
    scheme: String,
    /// Without the port that the scheme has anyway.
    pub(super) authority: Authority,
}

/// The ports that browsers leave out, by scheme.
const DEFAULT_PORTS: [(&str, u16); 2] = [("http", 80), ("https", 443)];

// === impl Authority ===

impl Authority {
    /// `host`, `host:port`, `[v6]` or `[v6]:port`; no user, no path, no list.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, after) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
            (Host::Address(IpAddr::V6(address).to_canonical()), port)
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            (Host::parse(host)?, port)
        };
        let port = match port {
            // The grammar allows a colon with nothing behind it.
            None | Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self { host, port })
    }

    /// A name or address that always means this machine.
    /// No name that could be bound to another address.
    pub(super) fn is_address(&self) -> bool {
        matches!(self.host, Host::Address(_)) || self.is_loopback()
    }

    pub(super) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        }
    }

    /// Whether `other` is the same host, and the same port if this has one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let is_default = |port| DEFAULT_PORTS.iter().any(|(_, default)| *default == port);
        let port = match (self.port, other.port) {
            (None, _) => true,
            (Some(port), None) => is_default(port),
            (Some(port), Some(other)) => port == other,
        };
        port && self.host == other.host
    }
}

// === impl Host ===

impl Host {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let is_label = |label: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(plain)
        };
        text.split('.').all(is_label).then(|| Self::Name(text.to_ascii_lowercase()))
    }
}

// === impl Origin ===

impl Origin {
    /// `scheme://host` or `scheme://host:port`, and nothing behind it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let begins_well = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        if !begins_well || !scheme.bytes().all(plain) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let mut authority = Authority::parse(authority)?;
        authority.port =
            authority.port.filter(|port| !DEFAULT_PORTS.contains(&(scheme.as_str(), *port)));
        Some(Self { scheme, authority })
    }
}
