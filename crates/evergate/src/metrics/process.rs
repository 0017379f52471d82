//! How the process itself is, from `/proc`.

use std::fs;
use std::time::Duration;

/// What the system says of this process; nothing of what it does not say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) cpu: Option<Duration>,
    /// In bytes.
    pub(super) resident: Option<u64>,
    /// In bytes.
    pub(super) address_space: Option<u64>,
    pub(super) threads: Option<u64>,
    /// Since 1970.
    pub(super) started: Option<Duration>,
    pub(super) open_files: Option<u64>,
    pub(super) max_open_files: Option<u64>,
}

// === impl Process ===

impl Process {
    /// Blocks for a moment: counting ten thousands of open files takes milliseconds.
    #[cfg(target_os = "linux")]
    pub(super) fn look() -> Self {
        use rustix::param::{clock_ticks_per_second, page_size};
        use rustix::process::{Resource, getrlimit};

        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut process = Self::read(
            &read("/proc/self/stat"),
            &read("/proc/stat"),
            clock_ticks_per_second(),
            page_size() as u64,
        );
        // One of them is the folder that is being read.
        let files = fs::read_dir("/proc/self/fd").ok();
        process.open_files = files.map(|files| files.count().saturating_sub(1) as u64);
        process.max_open_files = getrlimit(Resource::Nofile).current;
        process
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn look() -> Self {
        Self::default()
    }

    /// From the texts of `/proc/self/stat` and `/proc/stat`. See proc(5).
    #[cfg(any(target_os = "linux", test))]
    fn read(own: &str, system: &str, ticks_per_second: u64, page_size: u64) -> Self {
        // The second field is the program's name in brackets, and may have anything in it.
        let after_name = own.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<u64> =
            after_name.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
        // As numbered in proc(5), where the first after the name is the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |ticks: u64| {
            let milliseconds = ticks.saturating_mul(1000).checked_div(ticks_per_second);
            Duration::from_millis(milliseconds.unwrap_or(0))
        };
        let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok());
        let booted = booted.map(Duration::from_secs);
        Self {
            cpu: field(14).zip(field(15)).map(|(user, system)| ticks(user + system)),
            resident: field(24).map(|pages| pages * page_size),
            address_space: field(23),
            threads: field(20),
            started: booted.zip(field(22)).map(|(booted, after)| booted + ticks(after)),
            open_files: None,
            max_open_files: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_from_after_the_name() {
        let own =
            "4711 (a ) name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 12345 1048576 256 0 0";
        let read = Process::read(own, "cpu 1 2\nbtime 1000\nprocesses 5\n", 100, 4096);
        let expected = Process {
            cpu: Some(Duration::from_secs(3)),
            resident: Some(256 * 4096),
            address_space: Some(1_048_576),
            threads: Some(9),
            started: Some(Duration::from_millis(1_123_450)),
            open_files: None,
            max_open_files: None,
        };
        assert_eq!(read, expected);
        assert_eq!(Process::read("", "", 100, 4096), Process::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_files_and_a_past() {
        let now = Process::look();
        assert!(now.resident.is_some_and(|bytes| bytes > 1_000_000), "{now:?}");
        assert!(now.open_files.is_some_and(|files| files >= 3), "{now:?}");
        let unix = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let age = unix.saturating_sub(now.started.unwrap());
        assert!(age < Duration::from_secs(600), "{age:?}");
    }
}
