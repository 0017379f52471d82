//! All processes of a product, found in `/proc`.
//!
//! Children leave the group of their parent, parents die before their children: neither group nor parent alone finds
//! all. A process belongs to a product when its parent does, when it is in the group of one that does, when it carries
//! the mark that the product was started with, or when it was seen to belong before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The variable that marks a product's processes. Most hand it on to their children, some give them a clean environment.
pub(super) const MARK: &str = "EVERGATE_PROOF_RUN";

/// `/proc` counts time in hundredths of a second, whatever the kernel was configured with.
const TICKS_PER_SECOND: u32 = 100;

/// The processes that were seen to belong to one product.
#[derive(Debug)]
pub(super) struct Tree {
    mark: String,
    /// When each started: numbers are used again, but not in the same tick.
    members: BTreeMap<u32, u64>,
    groups: BTreeSet<u32>,
}

/// One line of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    pid: u32,
    state: String,
    parent: u32,
    group: u32,
    /// Spent by it, and by the children that it waited for.
    ticks: u32,
    started: u64,
}

// === impl Tree ===

impl Tree {
    /// Of processes whose [`MARK`] has this value.
    pub(super) fn new(mark: &str) -> Self {
        Self { mark: mark.to_owned(), members: BTreeMap::new(), groups: BTreeSet::new() }
    }

    /// A process that was started as the leader of a group of its own.
    pub(super) fn add_leader(&mut self, pid: u32) {
        self.groups.insert(pid);
    }

    /// Those that are alive now.
    pub(super) fn alive(&mut self) -> Vec<u32> {
        let marked = format!("{MARK}={}", self.mark);
        self.update(&all_processes(), |pid| carries(pid, &marked))
    }

    fn update(&mut self, all: &[Stat], marked: impl Fn(u32) -> bool) -> Vec<u32> {
        // Those that ended and that nobody waited for yet are dead enough. The one who asks is never meant.
        let own = std::process::id();
        let mut others: Vec<&Stat> =
            all.iter().filter(|stat| stat.state != "Z" && stat.pid != own).collect();
        // The number of a group cannot be given to another as long as anybody is in it.
        self.groups.retain(|group| others.iter().any(|stat| stat.group == *group));
        let before = std::mem::take(&mut self.members);
        let known = |stat: &Stat| before.get(&stat.pid) == Some(&stat.started);
        others.retain(|stat| !self.adopt(stat, known(stat) || marked(stat.pid)));
        loop {
            let left = others.len();
            others.retain(|stat| {
                let related = self.members.contains_key(&stat.parent);
                !self.adopt(stat, related || self.groups.contains(&stat.group))
            });
            if others.len() == left {
                return self.members.keys().copied().collect();
            }
        }
    }

    fn adopt(&mut self, stat: &Stat, belongs: bool) -> bool {
        if belongs {
            self.members.insert(stat.pid, stat.started);
            self.groups.insert(stat.group);
        }
        belongs
    }
}

// === impl Stat ===

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The name is in parentheses and may hold anything, parentheses too.
        let (pid, rest) = line.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks: ticks(11)?.saturating_add(ticks(12)?) + ticks(13)?.saturating_add(ticks(14)?),
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Processor time of a process and of those of its children that ended, in seconds.
pub(super) fn cpu_seconds(pid: u32) -> f64 {
    Stat::read(pid).map_or(0.0, |stat| f64::from(stat.ticks) / f64::from(TICKS_PER_SECOND))
}

/// What a process holds in memory. What it shares with others counts for each.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// The command line of a process, if it still has one.
pub(super) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim_end().to_owned()
}

fn all_processes() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Stat::read).collect()
}

fn carries(pid: u32, marked: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32, group: u32) -> Stat {
        Stat { pid, state: "S".to_owned(), parent, group, ticks: 0, started: u64::from(pid) }
    }

    fn tree() -> Tree {
        let mut tree = Tree::new("mark");
        tree.add_leader(10);
        tree
    }

    const NOBODY: fn(u32) -> bool = |_| false;

    #[test]
    fn a_child_in_a_group_of_its_own_belongs() {
        let all = [stat(1, 0, 1), stat(10, 1, 10), stat(12, 11, 12), stat(11, 10, 11)];
        assert_eq!(tree().update(&all, NOBODY), [10, 11, 12]);
    }

    #[test]
    fn an_orphan_of_a_group_that_was_seen_belongs() {
        let mut tree = tree();
        tree.update(&[stat(10, 1, 10), stat(11, 10, 11), stat(12, 11, 11)], NOBODY);
        let later = [stat(12, 1, 11), stat(13, 1, 11), stat(14, 1, 14)];
        assert_eq!(tree.update(&later, NOBODY), [12, 13]);
    }

    #[test]
    fn a_marked_process_belongs_wherever_it_is() {
        let all = [stat(20, 1, 20), stat(21, 20, 21), stat(22, 1, 22)];
        assert_eq!(tree().update(&all, |pid| pid == 20), [20, 21]);
    }

    #[test]
    fn a_number_that_was_used_again_does_not_belong() {
        let mut tree = tree();
        tree.update(&[stat(10, 1, 10), stat(11, 10, 11)], NOBODY);
        let stranger = Stat { started: 99, ..stat(11, 1, 1) };
        assert!(tree.update(&[stranger], NOBODY).is_empty());
    }

    #[test]
    fn the_dead_do_not_belong() {
        let zombie = Stat { state: "Z".to_owned(), ..stat(10, 1, 10) };
        assert!(tree().update(&[zombie], NOBODY).is_empty());
    }

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let line = "7 (a) S (b) R 1 5 5 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 12345 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.pid, stat.state.as_str(), stat.parent, stat.group), (7, "R", 1, 5));
        assert_eq!((stat.ticks, stat.started), (18, 12345));
    }
}
