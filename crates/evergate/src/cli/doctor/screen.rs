//! What people see of an examination: a line that moves while they wait, and lines that stay.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::{Diagnosis, Finding, millis};
use crate::exit_code::Failure;
use crate::output;

/// Where the examination is shown.
pub(super) struct Screen {
    /// Only one JSON object is wanted.
    silent: bool,
    /// Somebody looks at standard error, and it can erase a line.
    moving: bool,
    coloured: bool,
}

const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
const FRAME: Duration = Duration::from_millis(120);

const GREEN: &str = "32";
const RED: &str = "31";
const DIM: &str = "2";

// === impl Screen ===

impl Screen {
    pub(super) fn new(silent: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            silent,
            moving: !silent && !dumb && io::stderr().is_terminal(),
            coloured: !dumb && !set("NO_COLOR") && io::stdout().is_terminal(),
        }
    }

    /// Shows that something is going on until it is over.
    pub(super) async fn while_waiting<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        if !self.moving {
            return work.await;
        }
        tokio::pin!(work);
        let started = Instant::now();
        let mut ticks = tokio::time::interval(FRAME);
        let mut frames = FRAMES.iter().cycle();
        loop {
            tokio::select! {
                done = &mut work => {
                    Self::draw("");
                    return done;
                }
                _ = ticks.tick() => {
                    let frame = frames.next().unwrap_or(&"-");
                    Self::draw(&format!("{frame} {name} … {} s", started.elapsed().as_secs()));
                }
            }
        }
    }

    pub(super) fn problem(&self, problem: &str) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let colour = if problem.starts_with("error") { RED } else { DIM };
        output::line(&self.paint(colour, problem))
    }

    pub(super) fn finding(&self, finding: &Finding) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        for line in self.lines(finding) {
            output::line(line.trim_end())?;
        }
        Ok(())
    }

    fn lines(&self, finding: &Finding) -> Vec<String> {
        let head = |colour: &str, word: &str, rest: &str| {
            format!("{} {:<16} {rest}", self.paint(colour, &format!("{word:<5}")), finding.server)
        };
        match &finding.result {
            Diagnosis::Works { after, protocol, tools, prompts, resources } => {
                let counted = [
                    counted(*tools, "tool"),
                    counted(*prompts, "prompt"),
                    counted(*resources, "resource"),
                ];
                let offers = counted.into_iter().flatten().collect::<Vec<_>>().join(", ");
                let offers = if offers.is_empty() { "offers nothing".to_owned() } else { offers };
                let rest =
                    format!("connected in {} ms, revision {protocol}, {offers}", millis(*after));
                vec![head(GREEN, "ok", &rest)]
            }
            Diagnosis::Off => vec![head(DIM, "off", "disabled; name it to try it")],
            Diagnosis::Fails { problem, hint, last_words } => {
                let mut lines = vec![head(RED, "FAIL", problem)];
                if !finding.target.is_empty() {
                    lines.push(format!("      target: {}", finding.target));
                }
                lines.extend(
                    last_words.iter().map(|line| self.paint(DIM, &format!("      | {line}"))),
                );
                lines.extend(hint.iter().map(|hint| format!("      fix: {hint}")));
                lines
            }
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.coloured { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Draws over the moving line. If nobody can see it, nothing is lost.
    fn draw(text: &str) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\u{1b}[2K{text}").and_then(|()| err.flush());
    }
}

/// Nothing of what there is none of, except tools: everybody wants to know about those.
fn counted(n: usize, what: &str) -> Option<String> {
    match n {
        0 if what != "tool" => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    }
}
