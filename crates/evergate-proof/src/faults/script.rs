//! What is done in each scenario, step by step.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evergate_testkit::SessionLoss;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::faults::host::Host;
use crate::faults::pace::{FLAP_EVERY, LOOK_EVERY, Pace};
use crate::faults::scenario::Scenario;
use crate::faults::traffic::{Caller, Traffic};
use crate::faults::upstream::Backend;
use crate::faults::witness::{End, Strike, Tool, Witness};
use crate::product::Running;

/// Everything a scenario is played with: healthy, warm, and connected.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Which scenario.
    pub scenario: Scenario,
    /// How long its parts take.
    pub pace: Pace,
    /// The servers.
    pub backends: &'a [Backend],
    /// The product in front of them.
    pub running: &'a mut Running,
    /// The client.
    pub host: Arc<Host>,
    /// Who writes everything down.
    pub witness: Arc<Witness>,
}

/// How a scenario went, beside what the witness saw.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    /// When nothing was broken any more, if that ever came.
    pub fault_ended: Option<Instant>,
    /// How the client learned that the tools changed, where they did.
    pub news: Option<News>,
    /// If calls never worked again: whether they do for a new client.
    pub cured_by_new_client: Option<bool>,
}

/// How the client learned that the tools changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// It was told, and the list was new.
    Told,
    /// It was not told, but the list was new when it asked.
    WhenAsked,
    /// The list stayed old.
    Never,
}

/// How often conditions are looked at. Short against every time that is measured.
const GLANCE: Duration = Duration::from_millis(2);

const BUSY_CALLERS: usize = 16;

// === impl Stage ===

impl Stage<'_> {
    /// Plays it.
    pub async fn play(&mut self) -> anyhow::Result<Story> {
        let story = match self.scenario {
            Scenario::Restart | Scenario::ChildKilledIdle => {
                let back = self.restart_idle().await?;
                self.calls_after(back).await
            }
            Scenario::SlowStart => {
                self.server().slow_handshakes(self.pace.slow_start);
                let back = self.restart_idle().await?;
                self.calls_after(back).await
            }
            Scenario::Expired404 => self.expired(SessionLoss::NotFound404).await,
            Scenario::Expired400 => self.expired(SessionLoss::BadRequest400NoValidSession).await,
            Scenario::Expired200 => {
                self.expired(SessionLoss::Ok200(-32001, "Session not found".into())).await
            }
            Scenario::Expired401 => self.expired(SessionLoss::Unauthorized401).await,
            Scenario::RestartBusy => self.restart_busy().await?,
            Scenario::Outage => self.outage().await?,
            Scenario::DownForGood => self.down_for_good().await?,
            Scenario::ChildKilledBusy | Scenario::CutNonIdempotent => {
                self.broken_answer(Tool::Echo).await?
            }
            Scenario::CutIdempotent => self.broken_answer(Tool::Again).await?,
            Scenario::ChildHangs => self.child_hangs().await?,
            Scenario::NeverAnswers => self.never_answers().await?,
            Scenario::Flapping => self.flapping().await?,
            Scenario::OneDeadOfFive => self.one_dead_of_five().await?,
            Scenario::ToolsChanged => self.tools_changed().await?,
            Scenario::GatewayRestart => self.gateway_restart().await?,
            Scenario::ListeningCut => self.listening_cut().await?,
        };
        Ok(self.second_chance(story).await)
    }

    async fn expired(&self, how: SessionLoss) -> Story {
        self.server().expire(how);
        self.calls_after(Instant::now()).await
    }

    /// Restarts the server while nobody calls. A child is known to be dead when this returns.
    async fn restart_idle(&self) -> anyhow::Result<Instant> {
        let killed = self.server().children();
        self.server().restart().await?;
        self.server().until_buried(&killed).await;
        Ok(Instant::now())
    }

    async fn restart_busy(&self) -> anyhow::Result<Story> {
        let mixed = |nth: usize| {
            (0..Tool::ALL.len()).map(|at| Tool::ALL[(nth + at) % Tool::ALL.len()]).collect()
        };
        let callers =
            (0..BUSY_CALLERS).map(|nth| Caller { server: 0, tools: mixed(nth), doomed: false });
        let traffic = self.traffic(callers);
        self.until_calls(BUSY_CALLERS * 2).await;
        let ended = self.strike(self.server().restart()).await?;
        Ok(self.observe(traffic, ended).await)
    }

    async fn outage(&self) -> anyhow::Result<Story> {
        let traffic = self.traffic([Caller::plain()]);
        self.until_calls(2).await;
        self.strike(self.server().die()).await?;
        sleep(self.pace.outage).await;
        self.server().come_back().await?;
        Ok(self.observe(traffic, Instant::now()).await)
    }

    async fn flapping(&self) -> anyhow::Result<Story> {
        let traffic = self.traffic([Caller::plain()]);
        self.until_calls(2).await;
        let until = Instant::now() + self.pace.flapping;
        while Instant::now() < until {
            if self.server().children().is_empty() {
                // On a port, or not started again yet: then there is nothing to kill.
                self.strike(self.server().die()).await?;
                sleep(FLAP_EVERY / 2).await;
                self.server().come_back().await?;
                sleep(FLAP_EVERY / 2).await;
            } else {
                self.strike(self.server().restart()).await?;
                sleep(FLAP_EVERY).await;
            }
        }
        Ok(self.observe(traffic, Instant::now()).await)
    }

    async fn down_for_good(&self) -> anyhow::Result<Story> {
        self.server().die().await?;
        let traffic = self.traffic([Caller { doomed: true, ..Caller::plain() }]);
        let patience = self.pace.deadline + self.pace.settle;
        drop(timeout(patience, self.until_calls(1)).await);
        sleep(self.pace.settle).await;
        traffic.stop().await;
        Ok(Story { fault_ended: None, news: None, cured_by_new_client: None })
    }

    async fn one_dead_of_five(&self) -> anyhow::Result<Story> {
        let dead = 2;
        self.backends[dead].die().await?;
        let died = Instant::now();
        let caller = |server| Caller { server, tools: vec![Tool::Echo], doomed: server == dead };
        let traffic = self.traffic((0..self.backends.len()).map(caller));
        let a_doomed_one_ended =
            until(|| self.witness.note(|seen| seen.calls.iter().any(|call| call.doomed)));
        drop(timeout(self.pace.deadline + self.pace.settle, a_doomed_one_ended).await);
        Ok(self.observe(traffic, died).await)
    }

    /// A call whose answer breaks: at once on a port, by killing it for a child. Others call as soon as it is broken.
    async fn broken_answer(&self, tool: Tool) -> anyhow::Result<Story> {
        self.server().break_next_answer(tool.name())?;
        let from = Instant::now();
        let others = async {
            until(|| self.server().has_struck()).await;
            self.server().kill_children();
            let to = Instant::now();
            self.witness.note(|seen| seen.strikes.push(Strike { from, to }));
            self.calls_after(to).await
        };
        let ((), story) = tokio::join!(self.one_call(tool), others);
        Ok(story)
    }

    async fn child_hangs(&self) -> anyhow::Result<Story> {
        self.server().break_next_answer(Tool::Echo.name())?;
        let hung = async {
            until(|| self.server().has_struck()).await;
            let stalled = Instant::now();
            let hung = self.server().children();
            let traffic = self.traffic([Caller::plain()]);
            // Nobody can know of the hang before a call has taken too long.
            let window = self.pace.deadline + self.pace.window;
            let story = self.observe_for(window, traffic, stalled).await;
            // Whatever was given to the hung process could not be answered.
            let away = hung.iter().all(|pid| !self.server().children().contains(pid));
            let recovered = self.witness.recovered_after(stalled);
            let to = recovered.filter(|_| away).unwrap_or_else(Instant::now);
            self.witness.note(|seen| seen.strikes.push(Strike { from: stalled, to }));
            story
        };
        let ((), story) = tokio::join!(self.one_call(Tool::Echo), hung);
        Ok(story)
    }

    async fn never_answers(&self) -> anyhow::Result<Story> {
        self.server().fall_silent();
        let from = Instant::now();
        let lists_only = self.traffic([]);
        self.one_call(Tool::Echo).await;
        self.server().answer_again();
        self.server().restart().await?;
        let to = Instant::now();
        self.witness.note(|seen| seen.strikes.push(Strike { from, to }));
        let story = self.calls_after(to).await;
        lists_only.stop().await;
        Ok(story)
    }

    async fn tools_changed(&self) -> anyhow::Result<Story> {
        self.server().offer_more()?;
        let struck = Instant::now();
        let back = self.restart_idle().await?;
        let story = self.calls_after(back).await;
        Ok(Story { news: Some(self.news(struck).await), ..story })
    }

    async fn listening_cut(&self) -> anyhow::Result<Story> {
        self.server().cut_listening();
        let cut = Instant::now();
        until(|| self.server().listeners() == 0).await;
        // Whoever wants to hear news has this long to come back; who does not is asked all the same.
        drop(timeout(self.pace.news, until(|| self.server().listeners() > 0)).await);
        self.server().offer_more()?;
        self.server().tell_news();
        let story = self.calls_after(Instant::now()).await;
        Ok(Story { news: Some(self.news(cut).await), ..story })
    }

    async fn gateway_restart(&mut self) -> anyhow::Result<Story> {
        let traffic = self.traffic([Caller::plain()]);
        self.until_calls(2).await;
        let from = Instant::now();
        self.running.restart().await?;
        let to = Instant::now();
        self.witness.note(|seen| {
            seen.strikes.push(Strike { from, to });
            seen.gateway_away.push(Strike { from, to });
        });
        Ok(self.observe(traffic, to).await)
    }

    // --- the parts ---

    fn server(&self) -> &Backend {
        &self.backends[0]
    }

    fn exposed(&self, server: usize, tool: &str) -> String {
        self.running.tool_name(&self.backends[server].upstream().name, tool)
    }

    async fn one_call(&self, tool: Tool) {
        self.host.call(&self.exposed(0, tool.name()), tool, false).await;
    }

    /// Breaks something, noting when. The end of it.
    async fn strike(
        &self,
        fault: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Instant> {
        let from = Instant::now();
        fault.await?;
        let to = Instant::now();
        self.witness.note(|seen| seen.strikes.push(Strike { from, to }));
        Ok(to)
    }

    fn traffic(&self, callers: impl IntoIterator<Item = Caller>) -> Traffic {
        let named = callers.into_iter().map(|caller| {
            let exposed = |tool: &Tool| (self.exposed(caller.server, tool.name()), *tool);
            (caller.tools.iter().map(exposed).collect(), caller.doomed)
        });
        Traffic::start(&self.host, named)
    }

    /// Lets one caller call after a fault that struck while nobody called.
    async fn calls_after(&self, ended: Instant) -> Story {
        let traffic = self.traffic([Caller::plain()]);
        self.observe_for(self.pace.window, traffic, ended).await
    }

    /// Lets those who called all along go on, and one more call from now on. Waits for the first good call after the
    /// fault, then a little longer.
    async fn observe(&self, mut traffic: Traffic, ended: Instant) -> Story {
        // A call that is stuck must not hide that others would work again.
        let echo = (self.exposed(0, Tool::Echo.name()), Tool::Echo);
        traffic.add(&self.host, vec![echo], false);
        self.observe_for(self.pace.window, traffic, ended).await
    }

    async fn observe_for(&self, window: Duration, traffic: Traffic, ended: Instant) -> Story {
        let recovered = until(|| self.witness.recovered_after(ended).is_some());
        drop(timeout(window, recovered).await);
        sleep(self.pace.settle).await;
        traffic.stop().await;
        Story { fault_ended: Some(ended), news: None, cured_by_new_client: None }
    }

    async fn until_calls(&self, count: usize) {
        until(|| self.witness.note(|seen| seen.calls.len() >= count)).await;
    }

    /// How the client learns of the tool `extra`.
    async fn news(&self, since: Instant) -> News {
        let told = timeout(self.pace.news, until(|| self.witness.news_after(since))).await.is_ok();
        let extra = self.exposed(0, "extra");
        let asking = async {
            while !self.host.list().await.is_ok_and(|tools| tools.contains(&extra)) {
                sleep(LOOK_EVERY).await;
            }
        };
        let listed = timeout(self.pace.news, asking).await.is_ok();
        match (told, listed) {
            (true, true) => News::Told,
            (false, true) => News::WhenAsked,
            (_, false) => News::Never,
        }
    }

    /// If calls never worked again: does it help to throw the client away?
    async fn second_chance(&self, mut story: Story) -> Story {
        let Some(ended) = story.fault_ended else { return story };
        if self.witness.recovered_after(ended).is_some() {
            return story;
        }
        let before = self.witness.note(|seen| seen.calls.len());
        let cured = match self.host.insist().await {
            Ok(()) => {
                let exposed = self.exposed(0, Tool::Echo.name());
                let call = self.host.call(&exposed, Tool::Echo, false);
                timeout(self.pace.window, call).await == Ok(End::Answered)
            }
            Err(_) => false,
        };
        // This was our doing and is none of the product's calls.
        self.witness.note(|seen| seen.calls.truncate(before));
        story.cured_by_new_client = Some(cured);
        story
    }
}

/// Waits until a condition holds. Whoever calls this knows that it will, or limits it.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        sleep(GLANCE).await;
    }
}
