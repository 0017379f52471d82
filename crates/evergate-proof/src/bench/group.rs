//! A program and everything it starts, which end together.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::product::Program;

/// A process group of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Group {
    child: Child,
}

// === impl Group ===

impl Group {
    /// Starts a program whose standard input and output are ours.
    pub fn start(program: &Program) -> Result<Self> {
        let mut command = Command::new(&program.command);
        command.args(&program.args).envs(program.env.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0).kill_on_drop(true);
        let started = command.spawn();
        let child =
            started.with_context(|| format!("cannot start {}", program.command.display()))?;
        Ok(Self { child })
    }

    /// Its first process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The number of that.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// All processes of the group.
    pub fn pids(&self) -> Vec<u32> {
        let Some(group) = self.child.id() else { return Vec::new() };
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| group_of(*pid) == Some(group)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(2)?.parse().ok()
}
