//! What the kernel says of processes.

use std::path::Path;

use evergate_testkit::wait::until;
use rustix::process::{Pid, Signal, kill_process};

/// One line of `/proc/PID/stat`, as far as it matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    state: char,
    parent: u32,
    pub(crate) group: u32,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses and spaces included.
    let mut fields = line[line.rfind(')')? + 1..].split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

/// Whether it still runs. A zombie does not: it waits for whoever adopted it to look.
pub(crate) fn runs(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

pub(crate) async fn gone(pids: impl IntoIterator<Item = u32>) {
    for pid in pids {
        until(&format!("process {pid} is gone"), || !runs(pid)).await;
    }
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Our own children, zombies included.
pub(crate) fn children() -> Vec<u32> {
    let me = std::process::id();
    let every = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        stat(pid).filter(|stat| stat.parent == me).map(|_| pid)
    });
    every.collect()
}

pub(crate) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The most memory this process ever had, in KiB.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

/// The pids a child wrote to a file, once it has.
pub(crate) async fn pids(file: &Path) -> Vec<u32> {
    until("the pids are written", || {
        std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}
