//! Tells whoever started the process how it is: ready, reloading, ending, alive (`sd_notify(3)`).
//!
//! A few words to a datagram socket, so no crate for it: `sd-notify` waits when nobody reads, and knows no sockets in the
//! abstract namespace. Nobody listens unless `NOTIFY_SOCKET` says so, and whether the words arrive changes nothing here.

use std::time::Duration;

/// What there is to say.
#[derive(Debug, Clone, Copy)]
pub(super) enum News<'a> {
    /// Clients are accepted at this URL.
    Ready(&'a str),
    Reloading,
    /// Over with reloading.
    Reloaded,
    /// It ends, and that may take so long.
    Stopping(Duration),
    Alive,
}

/// Says it.
pub(super) fn tell(news: News<'_>) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = imp::send(&socket, &news.to_text()) {
        tracing::debug!(%error, ?news, "the supervisor cannot be told");
    }
}

/// Says that the process is alive as often as somebody wants to hear it: a supervisor that hears nothing starts it anew.
pub(super) async fn stay_alive() {
    let Some(period) = watchdog(&|name| std::env::var(name).ok()) else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        tell(News::Alive);
    }
}

/// Twice as often as must be.
fn watchdog(environment: &dyn Fn(&str) -> Option<String>) -> Option<Duration> {
    let meant = environment("WATCHDOG_PID");
    if meant.is_some_and(|pid| pid != std::process::id().to_string()) {
        return None;
    }
    let micros: u64 = environment("WATCHDOG_USEC")?.parse().ok()?;
    Some(Duration::from_micros(micros / 2)).filter(|period| !period.is_zero())
}

// === impl News ===

impl News<'_> {
    fn to_text(self) -> String {
        match self {
            Self::Ready(url) => format!("READY=1\nSTATUS=serving at {url}"),
            Self::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", imp::monotonic_micros()),
            Self::Reloaded => "READY=1".to_owned(),
            Self::Stopping(within) => {
                let micros = within.as_micros();
                format!("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={micros}")
            }
            Self::Alive => "WATCHDOG=1".to_owned(),
        }
    }
}

#[cfg(unix)]
mod imp {
    use std::ffi::OsStr;
    use std::io;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn send(socket: &OsStr, text: &str) -> io::Result<()> {
        let address = match socket.as_bytes() {
            [b'@', name @ ..] => in_abstract_namespace(name)?,
            _ => SocketAddr::from_pathname(socket)?,
        };
        let own = UnixDatagram::unbound()?;
        // Somebody who does not read must not stop us.
        own.set_nonblocking(true)?;
        own.send_to_addr(text.as_bytes(), &address).map(drop)
    }

    #[cfg(target_os = "linux")]
    fn in_abstract_namespace(name: &[u8]) -> io::Result<SocketAddr> {
        use std::os::linux::net::SocketAddrExt as _;
        SocketAddr::from_abstract_name(name)
    }

    #[cfg(not(target_os = "linux"))]
    fn in_abstract_namespace(_: &[u8]) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// By the clock that the supervisor compares it with.
    pub(super) fn monotonic_micros() -> i64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1000
    }
}

#[cfg(not(unix))]
mod imp {
    use std::ffi::OsStr;
    use std::io;

    pub(super) fn send(_: &OsStr, _: &str) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn monotonic_micros() -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_twice_as_often_as_must_be_and_only_by_whom_it_watches() {
        let own = std::process::id().to_string();
        let period = |pid: Option<&str>, micros: Option<&str>| {
            watchdog(&|name| match name {
                "WATCHDOG_PID" => pid.map(str::to_owned),
                _ => micros.map(str::to_owned),
            })
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(period(Some(&own), Some("2000000")), second);
        assert_eq!(period(None, Some("2000000")), second);
        assert_eq!(period(Some("1"), Some("2000000")), None);
        assert_eq!(period(Some(&own), None), None);
        for nonsense in ["", "0", "1", "-5", "soon"] {
            assert_eq!(period(Some(&own), Some(nonsense)), None, "{nonsense}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn words_arrive_at_files_and_at_names_that_are_none() {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixDatagram};

        let heard = |socket: &UnixDatagram| {
            let mut buffer = [0; 256];
            let read = socket.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..read].to_vec()).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        imp::send(path.as_os_str(), &News::Alive.to_text()).unwrap();
        assert_eq!(heard(&socket), "WATCHDOG=1");
        let name = format!("evergate-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let stopping = News::Stopping(Duration::from_secs(30)).to_text();
        imp::send(format!("@{name}").as_ref(), &stopping).unwrap();
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=30000000");
        assert!(imp::send("/no/such/socket".as_ref(), "READY=1").is_err());
        let unread =
            std::iter::repeat_with(|| imp::send(path.as_os_str(), "WATCHDOG=1")).take(5000);
        assert!(unread.filter(Result::is_err).count() > 0, "it neither waits nor goes on for ever");
    }
}
