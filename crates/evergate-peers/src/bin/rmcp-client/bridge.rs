//! A Unix socket that leads to a TCP address.
//!
//! The SDK has two HTTP clients: one with reqwest, which this workspace does not allow, and one for Unix sockets. The
//! part that matters, sessions and streams, is the same for both. With this bridge the second reaches any server.

use std::path::PathBuf;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::JoinSet;

/// Lives as long as it is kept.
pub(crate) struct Bridge {
    directory: TempDir,
    _task: JoinSet<()>,
}

// === impl Bridge ===

impl Bridge {
    pub(crate) fn to(url: &str) -> anyhow::Result<Self> {
        let url = url::Url::parse(url)?;
        let address =
            url.socket_addrs(|| None)?.first().copied().context("no address in the URL")?;
        let directory = tempfile::tempdir()?;
        let listener = UnixListener::bind(socket(&directory))?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    // A server that is down is a closed connection to the client.
                    if let Ok(mut far) = TcpStream::connect(address).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { directory, _task: task })
    }

    pub(crate) fn path(&self) -> String {
        socket(&self.directory).to_string_lossy().into_owned()
    }
}

fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("socket")
}
