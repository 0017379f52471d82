//! Ports that nobody else takes while their product restarts.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Context as _;

/// Below the range from which the system hands out ports for outgoing connections: one of those might get it, even the
/// client's own.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port of 127.0.0.1 that is ours until this is dropped, though nobody may listen on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// UDP has ports of its own, so holding that one tells other runs that the one for TCP is taken.
    _held: UdpSocket,
}

// === impl Port ===

impl Port {
    /// A free one.
    pub fn free() -> anyhow::Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Several processes start at different places, and each goes round: a port that was just given back may have
        // connections that linger.
        let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap_or_default();
        let candidates = (0..COUNT).map(|_| {
            let offset = (u32::from(start) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed)))
                % u32::from(COUNT);
            FIRST + u16::try_from(offset).unwrap_or_default()
        });
        candidates.into_iter().find_map(Self::take).context("no port is free")
    }

    fn take(number: u16) -> Option<Self> {
        let held = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _held: held })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once() {
        let first = Port::free().unwrap();
        assert!(Port::take(first.number()).is_none());
        assert_ne!(Port::free().unwrap().number(), first.number());
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_given_out() {
        let port = Port::free().unwrap().number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(Port::take(port).is_none());
    }
}
