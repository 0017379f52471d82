//! One keep-alive connection, one exchange at a time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::response::{Body, Head, head};

/// A connection that is opened when it is first used, and again when it was closed meanwhile.
#[derive(Debug)]
pub(super) struct Connection {
    to: SocketAddr,
    stream: Option<(TcpStream, Instant)>,
    buffer: Box<[u8]>,
}

/// More than a socket usually holds at once.
const BUFFER: usize = 128 * 1024;

/// Servers close connections that were idle for some seconds; one that was used a moment ago is not closed by a good one.
const IDLE: Duration = Duration::from_millis(500);

// === impl Connection ===

impl Connection {
    pub(super) fn new(to: SocketAddr) -> Self {
        Self { to, stream: None, buffer: Box::default() }
    }

    /// Sends a request and passes the body of its response on.
    pub(super) async fn exchange(
        &mut self,
        request: &[u8],
        mut pass: impl FnMut(&[u8]),
    ) -> Result<Head> {
        self.have_buffer();
        if let Some((mut stream, used)) = self.stream.take() {
            match self.once(&mut stream, request, &mut pass).await {
                Ok(head) => {
                    self.keep(&head, stream);
                    return Ok(head);
                }
                Err(Failure { unanswered: true, .. }) if used.elapsed() > IDLE => {}
                Err(failure) => return Err(failure.problem),
            }
        }
        let mut stream = TcpStream::connect(self.to).await.context("no connection")?;
        stream.set_nodelay(true)?;
        let done = self.once(&mut stream, request, &mut pass).await;
        let head = done.map_err(|failure| failure.problem)?;
        self.keep(&head, stream);
        Ok(head)
    }

    /// A stream that stays open. Returns when its head has come.
    pub(super) async fn listen(&mut self, request: &[u8]) -> Result<Head> {
        let mut stream = TcpStream::connect(self.to).await.context("no connection")?;
        stream.write_all(request).await?;
        self.have_buffer();
        let mut filled = 0;
        let head = loop {
            let read = stream.read(&mut self.buffer[filled..]).await?;
            anyhow::ensure!(read > 0, "closed");
            filled += read;
            if let Some((head, ..)) = head(&self.buffer[..filled])? {
                break head;
            }
        };
        self.stream = Some((stream, Instant::now()));
        // Thousands of these are open at once, and nothing is read from them.
        self.buffer = Box::default();
        Ok(head)
    }

    /// Most connections of thousands of sessions are never used.
    fn have_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER].into();
        }
    }

    fn keep(&mut self, head: &Head, stream: TcpStream) {
        self.stream = (!head.last).then(|| (stream, Instant::now()));
    }

    async fn once(
        &mut self,
        stream: &mut TcpStream,
        request: &[u8],
        pass: &mut impl FnMut(&[u8]),
    ) -> Result<Head, Failure> {
        stream.write_all(request).await.map_err(Failure::unanswered)?;
        let mut filled = stream.read(&mut self.buffer).await.map_err(Failure::unanswered)?;
        if filled == 0 {
            return Err(Failure::unanswered(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let (head, mut body, mut start) = loop {
            match head(&self.buffer[..filled])? {
                Some(head) => break head,
                None => filled += self.more(stream, filled).await?,
            }
        };
        loop {
            let (used, complete) = body.take(&self.buffer[start..filled], &mut *pass)?;
            start += used;
            if complete && start == filled {
                return Ok(head);
            } else if complete {
                return Err(anyhow::anyhow!("more than was asked for").into());
            }
            self.buffer.copy_within(start..filled, 0);
            filled -= start;
            start = 0;
            match self.more(stream, filled).await {
                Ok(read) => filled += read,
                Err(_) if matches!(body, Body::Rest) => return Ok(Head { last: true, ..head }),
                Err(problem) => return Err(problem.into()),
            }
        }
    }

    async fn more(&mut self, stream: &mut TcpStream, filled: usize) -> Result<usize> {
        match stream.read(&mut self.buffer[filled..]).await? {
            0 => bail!("an answer was cut"),
            read => Ok(read),
        }
    }
}

/// Why an exchange failed.
struct Failure {
    problem: anyhow::Error,
    /// Not one byte of an answer came.
    unanswered: bool,
}

// === impl Failure ===

impl Failure {
    fn unanswered(problem: std::io::Error) -> Self {
        Self { problem: problem.into(), unanswered: true }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(problem: anyhow::Error) -> Self {
        Self { problem, unanswered: false }
    }
}
