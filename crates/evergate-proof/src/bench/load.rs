//! The load: calls at once on connections of their own, every answer checked.
//!
//! It shares the machine with what it measures, so it does as little as it can: requests are written once and only
//! their ids change, answers are compared with one that was understood before ([`expected`]), and everything is one
//! task on one thread.

mod connection;
pub mod expected;
mod http_client;
mod line_client;
mod response;

use std::time::Duration;

use anyhow::Result;

use crate::product::Address;
pub use expected::Expected;
pub use http_client::HttpClient;
pub use line_client::LineClient;

/// A client with a session at one product.
#[derive(Debug)]
pub enum Client {
    /// Over streamable HTTP.
    Http(HttpClient),
    /// Over the standard input and output of a program it started.
    Lines(LineClient),
}

/// What is asked again and again.
#[derive(Debug, Clone)]
pub struct Question {
    /// The method and params of the message, without its id.
    pub method: &'static str,
    /// As JSON.
    pub params: String,
    /// What the answer must say.
    pub expected: Expected,
}

/// How one measurement went.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Answered, all of them rightly.
    pub calls: usize,
    /// Of these, answered before the time was over, when as many were in flight as should be.
    pub in_time: usize,
    /// The time.
    pub how_long: Duration,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of each call, sorted, in nanoseconds.
    pub latencies: Vec<u64>,
}

/// Every id has as many digits, so that a request is as long as the one before.
const FIRST_ID: u64 = 1_000_000_001;

/// Nothing that is measured takes longer; what does is stuck.
const STUCK: Duration = Duration::from_secs(90);

// === impl Client ===

impl Client {
    /// Connects, or starts the program, and shakes hands.
    pub async fn connect(address: &Address) -> Result<Self> {
        match address {
            Address::Http(url) => Ok(Self::Http(HttpClient::connect(url).await?)),
            Address::Stdio(program) => Ok(Self::Lines(LineClient::start(program).await?)),
            Address::Sse(_) => anyhow::bail!("the old transport is not measured"),
        }
    }

    /// Keeps this many calls in flight for a while. Calls that have begun are waited for. Where there are several
    /// questions, which must have the same answer, each caller begins with another.
    pub async fn run(
        &mut self,
        questions: &[Question],
        callers: usize,
        how_long: Duration,
    ) -> Result<Sample> {
        let running = async {
            match self {
                Self::Http(client) => client.run(questions, callers, how_long).await,
                Self::Lines(client) => client.run(questions, callers, how_long).await,
            }
        };
        tokio::time::timeout(how_long + STUCK, running)
            .await
            .map_err(|_| anyhow::anyhow!("no answer for {} s", STUCK.as_secs()))?
    }

    /// Opens a connection for each caller, by a call on it, after closing those that there are. Which process or thread of a
    /// product gets which connection is a matter of luck, and may decide how fast it is.
    pub async fn reconnect(&mut self, questions: &[Question], callers: usize) -> Result<()> {
        // A program that was started for this client has only one.
        if let Self::Http(client) = self {
            client.hang_up();
            self.run(questions, callers, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Asks once.
    pub async fn ask(&mut self, question: &Question) -> Result<()> {
        self.run(std::slice::from_ref(question), 1, Duration::ZERO).await.map(drop)
    }
}

// === impl Question ===

impl Question {
    /// A call of a fast server's tool.
    pub fn call(tool: &str, bytes: usize) -> Self {
        Self {
            method: "tools/call",
            params: format!(r#"{{"name":"{tool}","arguments":{{"bytes":{bytes}}}}}"#),
            expected: Expected::text(bytes),
        }
    }

    /// A listing that must have this many tools.
    pub fn list(tools: usize) -> Self {
        Self { method: "tools/list", params: "{}".to_owned(), expected: Expected::tools(tools) }
    }

    /// Questions with the same key have the same answer.
    fn key(&self) -> String {
        format!("{} {} {}", self.method, self.params, self.expected.key())
    }

    /// The message, with an id of ten digits at the returned place.
    fn message(&self) -> (Vec<u8>, usize) {
        let before = r#"{"jsonrpc":"2.0","id":"#;
        let (method, params) = (self.method, &self.params);
        let message = format!(r#"{before}{FIRST_ID},"method":"{method}","params":{params}}}"#);
        (message.into_bytes(), before.len())
    }
}

// === impl Sample ===

impl Sample {
    fn new(how_long: Duration, in_time: usize, elapsed: Duration, mut latencies: Vec<u64>) -> Self {
        latencies.sort_unstable();
        Self { calls: latencies.len(), in_time, how_long, elapsed, latencies }
    }

    /// Calls per second.
    #[expect(clippy::cast_precision_loss, reason = "as many calls are never made")]
    pub fn rate(&self) -> f64 {
        let last = self.calls - self.in_time;
        // The last ones run out at the end, which lasts the longer the more there were; only where there are hardly
        // any others do they count.
        if self.in_time > 2 * last {
            self.in_time as f64 / self.how_long.as_secs_f64()
        } else {
            self.calls as f64 / self.elapsed.as_secs_f64()
        }
    }

    /// What this part of the calls took at most, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "as long a call is never waited for")]
    pub fn percentile(&self, percent: usize) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let nanos = self.latencies.get((last * percent).div_ceil(100)).copied();
        nanos.unwrap_or_default() as f64 / 1000.0
    }
}

/// Writes an id of ten digits.
fn put_id(message: &mut [u8], at: usize, id: u64) {
    let mut rest = id;
    for digit in message[at..at + 10].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
}

#[cfg(test)]
mod tests;
