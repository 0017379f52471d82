//! One cell from beginning to end: servers, product, client, the scenario, and nothing left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep, timeout};

use crate::faults::host::Host;
use crate::faults::mix::Mix;
use crate::faults::pace::Pace;
use crate::faults::results::{Outcome, Way};
use crate::faults::scenario::Scenario;
use crate::faults::script::Stage;
use crate::faults::upstream::Backend;
use crate::faults::verdict::Tally;
use crate::faults::witness::{End, Seen, Tool, Witness};
use crate::product::{Address, Places, Product, Running, Upstream};

/// What is played, and with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Who stands between.
    pub product: Product,
    /// What goes wrong.
    pub scenario: Scenario,
    /// How the servers are reached.
    pub way: Way,
    /// Which revisions both sides speak.
    pub mix: Mix,
}

/// How long a product may take from its start to a first good call. The slowest needs ten seconds on an idle machine.
const WARM_UP: Duration = Duration::from_secs(90);

/// How long the processes of a product may take to notice that it has ended.
const AFTERLIFE: Duration = Duration::from_secs(3);

// === impl Cell ===

impl Cell {
    /// Plays it. However it goes, nothing is left running.
    pub async fn play(self, pace: Pace, places: &Places) -> Outcome {
        let limit = WARM_UP * 2
            + pace.deadline * 5
            + pace.window * 2
            + pace.outage
            + pace.flapping
            + pace.slow_start
            + pace.news * 3;
        match timeout(limit, self.play_unbounded(pace, places)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::RunnerFailed(format!("{error:#}")),
            Err(_) => Outcome::RunnerFailed(format!("not over after {} s", limit.as_secs())),
        }
    }

    async fn play_unbounded(self, pace: Pace, places: &Places) -> anyhow::Result<Outcome> {
        let way = self.way.transport();
        if let Some(why) = self.scenario.rules_out(self.mix).or(self.mix.rules_out(way)) {
            return Ok(Outcome::NotApplicable(why.to_owned()));
        }
        let mut backends = Vec::new();
        for nth in 0..self.scenario.servers() {
            let name = format!("server{}", nth + 1);
            let modern = self.mix.has_modern_server();
            let slow_start = (self.scenario == Scenario::SlowStart).then_some(pace.slow_start);
            backends.push(Backend::start(&name, way, modern, slow_start).await?);
        }
        let upstreams: Vec<Upstream> = backends.iter().map(Backend::upstream).collect();
        if let Err(why) = self.product.supports(&upstreams) {
            return Ok(Outcome::NotApplicable(why.to_owned()));
        }
        if let Err(missing) = self.product.installed(places) {
            return Ok(Outcome::NotInstalled(missing));
        }
        let started = self.product.start_with(&upstreams, places, Some(pace.product_timeout)).await;
        let mut running = match started {
            Ok(running) => running,
            Err(error) => return Ok(Outcome::DidNotStart(in_short(&format!("{error:#}")))),
        };
        if self.scenario == Scenario::GatewayRestart
            && let Some(why) = cannot_be_restarted(self.product, &running)
        {
            return Ok(Outcome::NotApplicable(why.to_owned()));
        }
        let witness = Arc::new(Witness::default());
        let modern = self.mix.has_modern_client();
        let warm = warm_up(&running, &backends, pace, places, modern, witness.clone());
        let host = match warm.await {
            Ok(host) => Arc::new(host),
            Err(error) => {
                let log = running.log_tail();
                let log = last_line(&log);
                return Ok(Outcome::DidNotStart(format!("{error:#}; its log ends with: {log}")));
            }
        };
        let expected = expected_tools(&running, &backends);
        let mut stage = Stage {
            scenario: self.scenario,
            pace,
            backends: &backends,
            running: &mut running,
            host: host.clone(),
            witness: witness.clone(),
        };
        let story = stage.play().await?;
        drop(stage);
        let mut seen = witness.seen();
        let orphans = clean_up(host, running, &backends).await?;
        // Only now: a call that somebody held may still have been sent.
        for call in &mut seen.calls {
            call.executions = backends.iter().map(|backend| backend.executions(&call.id)).sum();
        }
        let tally = Tally::count(self.scenario, &seen, &story, orphans, &expected);
        Ok(Outcome::Ran(Box::new(tally)))
    }
}

fn cannot_be_restarted(product: Product, running: &Running) -> Option<&'static str> {
    match running.address() {
        _ if product == Product::Direct => Some("there is none"),
        Address::Stdio(_) => Some("its process belongs to the client"),
        _ => None,
    }
}

fn expected_tools(running: &Running, backends: &[Backend]) -> Vec<String> {
    let names = backends.iter().map(|backend| backend.upstream().name);
    names
        .flat_map(|server| {
            Tool::ALL.iter().map(move |tool| running.tool_name(&server, tool.name()))
        })
        .collect()
}

/// Connects the client, and waits until every server's tools are listed and a call of each is answered.
async fn warm_up(
    running: &Running,
    backends: &[Backend],
    pace: Pace,
    places: &Places,
    modern: bool,
    witness: Arc<Witness>,
) -> anyhow::Result<Host> {
    let warm = async {
        let host = loop {
            let connected =
                Host::connect(places, running.address(), modern, pace.deadline, witness.clone())
                    .await;
            match connected {
                Ok(host) => break host,
                // It accepts connections before it can do anything with them.
                Err(_) => sleep(Duration::from_millis(200)).await,
            }
        };
        let expected = expected_tools(running, backends);
        while !host.list().await.is_ok_and(|tools| expected.iter().all(|tool| tools.contains(tool)))
        {
            sleep(Duration::from_millis(100)).await;
        }
        for backend in backends {
            let exposed = running.tool_name(&backend.upstream().name, Tool::Echo.name());
            while host.call(&exposed, Tool::Echo, false).await != End::Answered {
                sleep(Duration::from_millis(100)).await;
            }
        }
        host
    };
    let host = timeout(WARM_UP, warm).await.ok();
    let host = host.with_context(|| {
        let seen = witness.seen();
        let last = seen.calls.last().map(|call| format!("{:?}", call.end));
        format!(
            "no first good call within {} s ({})",
            WARM_UP.as_secs(),
            last.unwrap_or_else(|| "no tools listed".into())
        )
    })?;
    // What happened until now happened to nobody.
    witness.note(|seen| *seen = Seen::default());
    Ok(host)
}

/// Ends everything in order, and counts who did not end.
async fn clean_up(host: Arc<Host>, running: Running, backends: &[Backend]) -> anyhow::Result<u64> {
    let host = Arc::into_inner(host).context("somebody still uses the client")?;
    let of_the_client = host.close().await as u64;
    let left = running.stop().await;
    let mut outlived: BTreeSet<u32> = left.outlived.iter().map(|process| process.pid).collect();
    let children = || backends.iter().flat_map(Backend::children);
    let until = Instant::now() + AFTERLIFE;
    while children().next().is_some() && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
    outlived.extend(children());
    Ok(of_the_client + outlived.len() as u64)
}

/// What it was, and the last that was said about it.
fn in_short(complaint: &str) -> String {
    let first = complaint.lines().next().unwrap_or_default();
    let last = last_line(complaint);
    if first == last { first.to_owned() } else { format!("{first} {last}") }
}

fn last_line(log: &str) -> &str {
    log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)")
}
