//! Sockets that whoever started the process listens on already: socket activation.
//!
//! Such a socket outlives the process. Whoever connects while one gateway ends and the next begins waits in its queue,
//! and is refused by nobody. The protocol is systemd's (`sd_listen_fds(3)`): `LISTEN_FDS` sockets from descriptor 3 on,
//! for the process `LISTEN_PID`, with the names in `LISTEN_FDNAMES`.
//!
//! A descriptor that is only a number can be taken over in safe Rust by nobody, so this needs a crate. `listenfd` is the
//! one whose interface is safe: it looks whether the number is a TCP socket, marks it as not to be inherited by children,
//! and hands out a `TcpListener`. Others hand out the number.

use std::net::TcpListener;

use crate::exit_code::Failure;

/// What was handed over, if anything was.
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    /// For clients.
    pub(super) mcp: Option<TcpListener>,
    /// For operators: the one that is called `admin`.
    pub(super) admin: Option<TcpListener>,
}

/// The socket for operators; whatever else it is called, another one is for clients.
const ADMIN: &str = "admin";

// === impl HandedOver ===

impl HandedOver {
    /// Takes over what is there. To be called while the process has one thread: it changes the environment, so that no
    /// child takes the sockets for its own.
    #[cfg(unix)]
    pub(crate) fn take() -> Result<Self, Failure> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = listenfd::ListenFd::from_env();
        let mut handed_over = Self::default();
        for index in 0..sockets.len() {
            let name = names.next().unwrap_or_default();
            let cannot = |why: &dyn std::fmt::Display| {
                Failure::usage(format!("socket {} ({name:?}) of LISTEN_FDS: {why}", index + 1))
            };
            let socket = sockets.take_tcp_listener(index).map_err(|error| cannot(&error))?;
            let place = if name == ADMIN { &mut handed_over.admin } else { &mut handed_over.mcp };
            if let Some(socket) = &socket {
                socket.set_nonblocking(true).map_err(|error| cannot(&error))?;
            }
            if place.is_some() {
                return Err(cannot(&"one socket for clients and one called \"admin\" are enough"));
            }
            *place = socket;
        }
        Ok(handed_over)
    }

    #[cfg(not(unix))]
    pub(crate) fn take() -> Result<Self, Failure> {
        Ok(Self::default())
    }
}
