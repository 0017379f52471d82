//! Keeps threads from sharing a processor while each has clients.
//!
//! The system likes to have threads side by side that wake each other up. If two that carry calls are, one runs as long as it is
//! allowed to, 4 ms on many systems, and all clients of the other wait, when a call takes less than one. Nothing is
//! gained for a single thread, which the system may move to wherever there is room. See `docs/decisions/0007-threads.md`.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

#[derive(Debug)]
pub(super) struct Processors {
    threads: Box<[OnceLock<Pid>]>,
    confined: Mutex<Vec<Confined>>,
}

/// A thread that may not run everywhere.
#[derive(Debug)]
struct Confined {
    thread: Pid,
    part: CpuSet,
    before: CpuSet,
}

// === impl Processors ===

impl Processors {
    pub(super) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| OnceLock::new()).collect();
        Self { threads, confined: Mutex::default() }
    }

    /// The thread that this is called on is the one with this number.
    pub(super) fn introduce(&self, number: usize) {
        let _ = self.threads[number].set(gettid());
    }

    /// Gives each thread processors of its own, if there are enough.
    pub(super) fn part(&self) {
        let mut confined = self.confined.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<Pid> = self.threads.iter().filter_map(OnceLock::get).copied().collect();
        if known.len() < self.threads.len() || !confined.is_empty() {
            return;
        }
        for (number, &thread) in known.iter().enumerate() {
            // Asked for each time: somebody may have said otherwise meanwhile.
            let Ok(before) = sched_getaffinity(Some(thread)) else { continue };
            let part = part_of(&before, number, known.len());
            // Somebody may forbid this. Calls are carried all the same.
            if part.count() > 0 && sched_setaffinity(Some(thread), &part).is_ok() {
                confined.push(Confined { thread, part, before });
            }
        }
    }

    /// Lets every thread run where it could before.
    pub(super) fn reunite(&self) {
        let mut confined = self.confined.lock().unwrap_or_else(PoisonError::into_inner);
        for Confined { thread, part, before } in confined.drain(..) {
            // Unless somebody has said otherwise meanwhile.
            if sched_getaffinity(Some(thread)).is_ok_and(|now| now == part) {
                let _ = sched_setaffinity(Some(thread), &before);
            }
        }
    }
}

/// Every so-manieth of the processors, so that each thread has its own.
fn part_of(all: &CpuSet, number: usize, threads: usize) -> CpuSet {
    let mut part = CpuSet::new();
    let allowed = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor));
    for processor in allowed.skip(number).step_by(threads) {
        part.set(processor);
    }
    part
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn set(processors: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        for &processor in processors {
            set.set(processor);
        }
        set
    }

    #[test]
    fn each_thread_has_its_own_processors_of_those_that_are_allowed() {
        let allowed = set(&[2, 3, 7, 64, 65]);
        assert_eq!(part_of(&allowed, 0, 2), set(&[2, 7, 65]));
        assert_eq!(part_of(&allowed, 1, 2), set(&[3, 64]));
        assert_eq!(part_of(&set(&[4]), 1, 2).count(), 0);
    }

    /// A thread that is there until the sender is dropped.
    fn thread(processors: &'static Processors, number: usize) -> (Pid, mpsc::Sender<()>) {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            processors.introduce(number);
            tell.send(gettid()).unwrap();
            ended.recv().unwrap_err();
        });
        (told.recv().unwrap(), end)
    }

    #[test]
    fn threads_are_kept_apart_and_let_go_again() {
        let processors: &Processors = Box::leak(Box::new(Processors::new(2)));
        let where_is = |thread: Pid| sched_getaffinity(Some(thread)).unwrap();
        let (one, _until_one_ends) = thread(processors, 0);
        let all = where_is(one);
        processors.part();
        assert_eq!(where_is(one), all, "it is alone");
        let (other, _until_other_ends) = thread(processors, 1);
        if all.count() < 2 {
            return;
        }
        processors.part();
        assert_eq!([where_is(one), where_is(other)], [part_of(&all, 0, 2), part_of(&all, 1, 2)]);
        processors.part();
        processors.reunite();
        assert_eq!([where_is(one), where_is(other)], [all, all]);
        processors.part();
        let elsewhere = part_of(&all, 1, 2);
        sched_setaffinity(Some(one), &elsewhere).unwrap();
        processors.reunite();
        assert_eq!([where_is(one), where_is(other)], [elsewhere, all], "somebody said otherwise");
    }
}
