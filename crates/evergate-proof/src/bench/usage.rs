//! What processes have used, from `/proc`, the servers behind a product not counted.

use std::fs;

/// Processor time in seconds, to the microsecond: the usual numbers are in hundredths, of which a measurement has few.
pub fn cpu_seconds(pids: &[u32]) -> f64 {
    proxies(pids).map(|pid| threads(pid).unwrap_or_else(|| ticks(pid))).sum()
}

/// Resident memory in bytes.
#[expect(clippy::cast_precision_loss, reason = "no memory is that large")]
pub fn resident_bytes(pids: &[u32]) -> f64 {
    proxies(pids).map(|pid| status(pid, "VmRSS:").unwrap_or_default() as f64 * 1024.0).sum()
}

/// The most that was ever resident, in bytes.
#[expect(clippy::cast_precision_loss, reason = "no memory is that large")]
pub fn peak_bytes(pids: &[u32]) -> f64 {
    proxies(pids).map(|pid| status(pid, "VmHWM:").unwrap_or_default() as f64 * 1024.0).sum()
}

/// A product's tree of processes has the servers in it that it started.
fn proxies(pids: &[u32]) -> impl Iterator<Item = u32> {
    pids.iter().copied().filter(|pid| {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program.file_name().is_none_or(|name| !name.to_string_lossy().starts_with("fast-server"))
    })
}

/// Of all threads that are alive, where the kernel counts it.
#[expect(clippy::cast_precision_loss, reason = "no process runs that long")]
fn threads(pid: u32) -> Option<f64> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        nanos += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    (nanos > 0).then_some(nanos as f64 / 1e9)
}

fn ticks(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // User and system time, in hundredths of a second.
    fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum::<f64>()
        / 100.0
}

/// In KiB.
fn status(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
