//! A product that runs, and a client with a session at it.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::group::Group;
use super::load::{Client, HttpClient, Question};
use super::upstream::NAME;
use super::usage;
use crate::product::{Address, Places, Product, Running, Upstream};

/// One of those that are compared.
#[derive(Debug)]
pub struct Contestant {
    /// As it is called in tables.
    pub name: String,
    /// The load.
    pub client: Client,
    /// The calls per second it last managed.
    pub rate: f64,
    processes: Processes,
}

#[derive(Debug)]
enum Processes {
    Product(Running),
    Other(Group),
}

/// Products that register servers after they listen, or start them when first asked, need some time.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

// === impl Contestant ===

impl Contestant {
    /// Starts it and waits for its first answer.
    pub async fn start(product: Product, upstreams: &[Upstream], places: &Places) -> Result<Self> {
        let running = product.start(upstreams, places).await?;
        if let Address::Sse(_) = running.address() {
            anyhow::bail!("n/a: clients only over the 2024-11-05 transport");
        }
        let deadline = Instant::now() + FIRST_ANSWER;
        let question = Question::call(&running.tool_name(NAME, "echo"), 100);
        loop {
            let answered = async {
                let mut client = Client::connect(&running.address()).await?;
                client.ask(&question).await?;
                anyhow::Ok(client)
            };
            match answered.await {
                Ok(client) => {
                    let name = product.name().to_owned();
                    let processes = Processes::Product(running);
                    return Ok(Self { name, client, rate: 0.0, processes });
                }
                Err(problem) if Instant::now() > deadline => {
                    let log = running.log_tail();
                    anyhow::bail!("{problem:#}; its log ends with:\n{}", end_of(&log));
                }
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Something that is no product.
    pub fn other(name: &str, group: Group, client: HttpClient) -> Self {
        let (client, processes) = (Client::Http(client), Processes::Other(group));
        Self { name: name.to_owned(), client, rate: 0.0, processes }
    }

    /// Waits until it lists as many tools.
    pub async fn lists(&mut self, tools: usize) -> Result<()> {
        let deadline = Instant::now() + FIRST_ANSWER;
        while let Err(problem) = self.client.ask(&Question::list(tools)).await {
            if Instant::now() > deadline {
                return Err(problem);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// A call of a server's tool.
    pub fn call(&self, server: &str, bytes: usize) -> Question {
        match &self.processes {
            Processes::Product(running) => {
                Question::call(&running.tool_name(server, "echo"), bytes)
            }
            Processes::Other(_) => Question::call("echo", bytes),
        }
    }

    /// Processor seconds that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        usage::cpu_seconds(&self.pids())
    }

    /// Memory that it occupies.
    pub fn resident_bytes(&self) -> f64 {
        usage::resident_bytes(&self.pids())
    }

    /// The most that it ever occupied.
    pub fn peak_bytes(&self) -> f64 {
        usage::peak_bytes(&self.pids())
    }

    fn pids(&self) -> Vec<u32> {
        match (&self.processes, &self.client) {
            (Processes::Other(group), _) => group.pids(),
            // What the client started itself is not known to the product.
            (_, Client::Lines(client)) => client.pids(),
            (Processes::Product(running), _) => running.pids(),
        }
    }

    /// Where else clients may go; nothing if it is a program.
    pub fn url(&self) -> Option<String> {
        match &self.processes {
            Processes::Product(running) => match running.address() {
                Address::Http(url) => Some(url),
                _ => None,
            },
            Processes::Other(_) => None,
        }
    }
}

/// Its last lines.
fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
