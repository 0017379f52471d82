//! A gateway that is one of its own servers would find itself behind itself, and its tools there again, without end. What
//! `evergate connect` writes into a file that is served too is such an entry, so it is left out and said so.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use crate::config::Config;

/// Leaves out servers that are the gateway at one of these addresses.
pub(super) fn leave_out(config: &mut Config, addresses: &[SocketAddr]) {
    for server in config.servers.values_mut().filter(|server| server.is_on()) {
        let Some((_, place)) = server.summary.split_once(": ") else { continue };
        if addresses.iter().any(|address| leads_to(place, *address)) {
            server.unusable = Some("it leads to this gateway itself".to_owned());
        }
    }
}

/// Whatever the path: all of them are this gateway's.
fn leads_to(place: &str, address: SocketAddr) -> bool {
    let port = address.port();
    // Most do not even name the port, and reading a URL takes a while.
    if !matches!(port, 80 | 443) && !place.contains(itoa::Buffer::new().format(port)) {
        return false;
    }
    let Ok(url) = Url::parse(place) else { return false };
    if url.port_or_known_default() != Some(port) {
        return false;
    }
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        Some(Host::Domain(name)) => return name == "localhost" && is_local(address.ip()),
        None => return false,
    };
    ip == address.ip() || (ip.is_loopback() && is_local(address.ip()))
}

/// Whether it is reached from this machine as such.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_an_address_of_the_gateway_is_the_gateway() {
        let leads = |place: &str, address: &str| leads_to(place, address.parse().unwrap());
        for place in [
            "http://127.0.0.1:8080/mcp",
            "http://LOCALHOST:8080/mcp/",
            "http://127.0.0.1:8080/sse",
            "http://[::1]:8080/mcp/docs",
        ] {
            assert!(leads(place, "127.0.0.1:8080"), "{place}");
            assert!(leads(place, "0.0.0.0:8080"), "{place}");
        }
        assert!(leads("http://[::1]:80/", "[::1]:80"));
        assert!(leads("http://192.0.2.1/mcp", "192.0.2.1:80"));
        for place in
            ["http://127.0.0.1:8081/mcp", "https://docs.example:8080/mcp", "http://192.0.2.1:8080/"]
        {
            assert!(!leads(place, "127.0.0.1:8080"), "{place}");
        }
        assert!(!leads("npx 8080", "127.0.0.1:8080"));
    }
}
