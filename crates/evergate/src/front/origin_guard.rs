//! Protection against DNS rebinding: a web page must not reach a gateway on the machine of whoever looks at it.
//!
//! A page can make a browser send requests to a name that suddenly means 127.0.0.1, but it can change neither the `Host`
//! nor the `Origin` the browser adds. Names that always mean this machine are safe, every other has to be allowed.
//!
//! MCP 2025-11-25, transports: "Servers MUST validate the Origin header on all incoming connections to prevent DNS
//! rebinding attacks. If the Origin header is present and invalid, servers MUST respond with HTTP 403 Forbidden."

mod authority;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use http::HeaderValue;

use self::authority::{Authority, Origin};
use super::request::{Headers, visible};

/// Which `Host` and `Origin` headers are let in.
#[derive(Debug)]
pub(crate) struct OriginGuard {
    has_keys: bool,
    on_loopback: bool,
    /// The `Host` of a client on this machine as it is usually written: nothing has to be read to let it in.
    usual: Vec<String>,
    hosts: Allowed<Authority>,
    origins: Allowed<Origin>,
}

/// A request that is not let in: HTTP 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Refused {
    /// What is wrong with it, and what would help.
    pub(crate) what: &'static str,
}

#[derive(Debug)]
struct Allowed<T> {
    /// The list holds `*`.
    all: bool,
    /// The list holds nothing at all.
    unset: bool,
    listed: Vec<T>,
}

const NO_HOST: Refused = Refused { what: "the request has no Host header" };
const SEVERAL_HOSTS: Refused = Refused { what: "the request has more than one Host header" };
const BAD_HOST: Refused = Refused { what: "the Host header cannot be read" };
const OTHER_HOST: Refused =
    Refused { what: "the Host header names a host that is not listed in allowed_hosts" };
const UNLISTED_HOST: Refused = Refused {
    what: "without keys operators come by address, as localhost, or by a name that is listed in allowed_hosts",
};
const SEVERAL_ORIGINS: Refused = Refused { what: "the request has more than one Origin header" };
const BAD_ORIGIN: Refused = Refused { what: "the Origin header names no origin" };
const OTHER_ORIGIN: Refused =
    Refused { what: "the Origin header names an origin that is not listed in allowed_origins" };

// === impl OriginGuard ===

impl OriginGuard {
    /// A host in `allowed_hosts` may have a port, then only that counts. An origin is a whole one, such as
    /// `https://app.example`. `*` allows all. Entries that cannot be read allow nothing.
    pub(crate) fn new(
        listen: SocketAddr,
        has_keys: bool,
        allowed_hosts: &[String],
        allowed_origins: &[String],
    ) -> Self {
        let on_loopback = listen.ip().to_canonical().is_loopback();
        let usual = [listen.to_string(), format!("localhost:{}", listen.port())];
        Self {
            has_keys,
            on_loopback,
            usual: if on_loopback { usual.into() } else { Vec::new() },
            hosts: Allowed::new(allowed_hosts, Authority::parse),
            // People copy origins out of address bars, slash and all.
            origins: Allowed::new(allowed_origins, |text| {
                Origin::parse(text.strip_suffix('/').unwrap_or(text))
            }),
        }
    }

    /// Whether a request with these headers is let in, and the value of `Access-Control-Allow-Origin` if it has an
    /// origin.
    pub(crate) fn check(&self, headers: &Headers) -> Result<Option<HeaderValue>, Refused> {
        let host = headers.only("host", SEVERAL_HOSTS)?.ok_or(NO_HOST)?;
        let origin = headers.only("origin", SEVERAL_ORIGINS)?;
        if origin.is_none() && self.usual.iter().any(|usual| host == usual.as_bytes()) {
            return Ok(None);
        }
        let host = visible(host).and_then(Authority::parse).ok_or(BAD_HOST)?;
        if !self.allows_host(&host) {
            return Err(OTHER_HOST);
        }
        let Some(value) = origin else { return Ok(None) };
        // "null" ends here too: any page can have that origin by putting itself into a sandbox.
        let text = visible(value).ok_or(BAD_ORIGIN)?;
        let origin = Origin::parse(text).ok_or(BAD_ORIGIN)?;
        let value = HeaderValue::from_str(text).map_err(|_| BAD_ORIGIN)?;
        if self.allows_origin(&origin, &host) { Ok(Some(value)) } else { Err(OTHER_ORIGIN) }
    }

    /// Whether a request that was let in may be an operator's. Where no key is asked for, the name under which it came says
    /// who asks: a page whose name was bound anew has its own there, and a browser leaves the origin out when it reads from
    /// where the page seems to be.
    pub(crate) fn check_operator(&self, headers: &Headers) -> Result<(), Refused> {
        if self.has_keys {
            return Ok(());
        }
        let host = headers.only("host", SEVERAL_HOSTS)?.ok_or(NO_HOST)?;
        let host = visible(host).and_then(Authority::parse).ok_or(BAD_HOST)?;
        if host.is_address() || self.lists_host(&host) { Ok(()) } else { Err(UNLISTED_HOST) }
    }

    fn allows_host(&self, host: &Authority) -> bool {
        let own = if self.on_loopback { host.is_loopback() } else { self.hosts.unset };
        own || self.hosts.all || self.lists_host(host)
    }

    fn allows_origin(&self, origin: &Origin, host: &Authority) -> bool {
        let same = origin.authority.host == host.host;
        let own = if self.on_loopback {
            // With rebinding both headers name the attacker, so that they are equal proves nothing here.
            origin.authority.is_loopback() || (same && self.lists_host(host))
        } else {
            // The same goes for whoever lets everybody in, unless the name is none that could be bound anew.
            same && (self.has_keys || host.is_address() || self.lists_host(host))
        };
        own || self.origins.all || self.origins.listed.contains(origin)
    }

    fn lists_host(&self, host: &Authority) -> bool {
        self.hosts.listed.iter().any(|listed| listed.covers(host))
    }
}

// === impl Allowed ===

impl<T> Allowed<T> {
    fn new(texts: &[String], parse: fn(&str) -> Option<T>) -> Self {
        let texts = || texts.iter().map(|text| text.trim());
        Self {
            all: texts().any(|text| text == "*"),
            unset: texts().next().is_none(),
            listed: texts().filter_map(parse).collect(),
        }
    }
}
