//! A client over the standard input and output of a program, with many requests in flight on the one pipe.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use memchr::memchr;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, timeout};

use super::expected::Incoming;
use super::{Expected, FIRST_ID, Question, Sample, put_id};
use crate::bench::group::Group;
use crate::product::Program;

/// A program and what is known of its answers.
#[derive(Debug)]
pub struct LineClient {
    group: Group,
    input: ChildStdin,
    output: ChildStdout,
    buffer: Vec<u8>,
    /// How much of that was taken already.
    used: usize,
    known: HashMap<String, Expected>,
    next_id: u64,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Some peers load half a registry first.
const START: Duration = Duration::from_secs(60);

// === impl LineClient ===

impl LineClient {
    /// Starts the program and shakes hands. It is killed when this is dropped.
    pub async fn start(program: &Program) -> Result<Self> {
        let mut group = Group::start(program)?;
        let input = group.child().stdin.take().context("piped")?;
        let output = group.child().stdout.take().context("piped")?;
        let (buffer, known) = (Vec::with_capacity(64 * 1024), HashMap::new());
        let mut client = Self { group, input, output, buffer, used: 0, known, next_id: FIRST_ID };
        client.write(INITIALIZE).await?;
        let hello = timeout(START, client.line()).await.context("no handshake")??;
        let hello: Value = serde_json::from_slice(&hello)?;
        ensure!(hello["result"].is_object(), "the handshake was answered with {hello}");
        client.write(INITIALIZED).await?;
        Ok(client)
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.group.pids()
    }

    async fn write(&mut self, message: &str) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<Vec<u8>> {
        let mut searched = self.used;
        loop {
            if let Some(end) = memchr(b'\n', &self.buffer[searched..]) {
                let end = searched + end;
                let line = self.buffer[self.used..end].to_vec();
                self.used = end + 1;
                return Ok(line);
            }
            // Only what is left of the last line is moved, not what is left of all lines.
            self.buffer.drain(..self.used);
            self.used = 0;
            searched = self.buffer.len();
            ensure!(self.output.read_buf(&mut self.buffer).await? > 0, "the program has ended");
        }
    }

    pub(super) async fn run(
        &mut self,
        questions: &[Question],
        callers: usize,
        how_long: Duration,
    ) -> Result<Sample> {
        let question = &questions[0];
        let key = question.key();
        let mut expected = self.known.remove(&key).unwrap_or(question.expected.clone());
        let (mut message, at) = question.message();
        message.push(b'\n');
        let (mut incoming, mut latencies) = (Incoming::default(), Vec::new());
        let mut in_time = 0;
        let started = Instant::now();
        let mut begun: HashMap<u64, Instant> = HashMap::with_capacity(callers);
        loop {
            let going_on = latencies.is_empty() || started.elapsed() < how_long;
            while begun.len() < callers && (going_on || latencies.len() + begun.len() < callers) {
                put_id(&mut message, at, self.next_id);
                begun.insert(self.next_id, Instant::now());
                self.next_id += 1;
                self.input.write_all(&message).await?;
            }
            if begun.is_empty() {
                break;
            }
            let line = self.line().await?;
            // Notifications and what the program itself asks are not measured.
            if line.is_empty()
                || memchr::memmem::find(&line[..line.len().min(200)], b"\"method\"").is_some()
            {
                continue;
            }
            incoming.take(&expected, &line);
            let answered = incoming.finish(&mut expected)?;
            let begun = begun.remove(&answered).with_context(|| format!("{answered} again"))?;
            in_time += usize::from(started.elapsed() < how_long);
            latencies.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        self.known.insert(key, expected);
        Ok(Sample::new(how_long, in_time, started.elapsed(), latencies))
    }
}
