//! A product that runs, and a client with a session at it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::load::{Client, Question};
use super::upstream::NAME;
use super::usage;
use crate::product::{Places, Product, Running, Upstream};

/// One of those that are compared.
#[derive(Debug)]
pub struct Contestant {
    /// Which.
    pub product: Product,
    /// Its processes.
    pub running: Running,
    /// The load.
    pub client: Client,
    /// The calls per second it last managed.
    pub rate: f64,
}

/// Products that register servers after they listen, or start them when first asked, need some time.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

// === impl Contestant ===

impl Contestant {
    /// Starts it and waits for its first answer.
    pub async fn start(product: Product, upstreams: &[Upstream], places: &Places) -> Result<Self> {
        let running = product.start(upstreams, places).await?;
        let deadline = Instant::now() + FIRST_ANSWER;
        let question = Question::call(&running.tool_name(NAME, "echo"), 100);
        loop {
            let answered = async {
                let mut client = Client::connect(&running.address()).await?;
                client.ask(&question).await?;
                anyhow::Ok(client)
            };
            match answered.await {
                Ok(client) => return Ok(Self { product, running, client, rate: 0.0 }),
                Err(problem) if Instant::now() > deadline => {
                    return Err(problem).with_context(|| running.log_tail());
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// A call of the first server's tool.
    pub fn call(&self, bytes: usize) -> Question {
        Question::call(&self.running.tool_name(NAME, "echo"), bytes)
    }

    /// Processor seconds that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        usage::cpu_seconds(&self.pids())
    }

    /// Memory that it occupies.
    pub fn resident_bytes(&self) -> f64 {
        usage::resident_bytes(&self.pids())
    }

    fn pids(&self) -> Vec<u32> {
        let mut pids = self.running.pids();
        // What the client started itself is not known to it.
        if let Client::Lines(client) = &self.client {
            pids.extend(client.pid());
        }
        pids
    }
}
