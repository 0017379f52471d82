//! One connection, and exactly the bytes the test wants on it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Gateway, PATIENCE};

pub(crate) struct RawHttp {
    stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    /// It says that the connection ends.
    pub(crate) closes: bool,
}

// === impl RawHttp ===

impl RawHttp {
    pub(crate) async fn connect(gateway: &Gateway) -> Self {
        let address = gateway.at("").strip_prefix("http://").unwrap().to_owned();
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    /// Whether all of it could be sent.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// A POST to `/mcp` with these further header lines.
    pub(crate) async fn post(&mut self, headers: &str, body: impl AsRef<[u8]>) -> RawAnswer {
        let usual = "Host: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
        self.post_to("/mcp", &format!("{usual}{headers}"), body).await
    }

    /// A POST with these header lines and no others, its body some packets later.
    pub(crate) async fn post_to(
        &mut self,
        path: &str,
        headers: &str,
        body: impl AsRef<[u8]>,
    ) -> RawAnswer {
        let body = body.as_ref();
        let head =
            format!("POST {path} HTTP/1.1\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        self.send(head).await;
        self.send(body).await;
        self.answer().await.expect("an answer")
    }

    /// The next response with a known length; `None` if the connection ends first.
    pub(crate) async fn answer(&mut self) -> Option<RawAnswer> {
        loop {
            if let Some(answer) = self.whole_answer() {
                return Some(answer);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads on; `false` at the end.
    async fn more(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await;
        read.expect("nothing comes, and no end").is_ok_and(|read| read > 0)
    }

    fn whole_answer(&mut self) -> Option<RawAnswer> {
        let text = String::from_utf8_lossy(&self.read).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let length = length.unwrap_or(0);
        rest.get(..length)?;
        self.read.drain(..head.len() + 4 + length);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let closes = head.to_lowercase().contains("\r\nconnection: close");
        Some(RawAnswer { status, closes })
    }
}
