//! The last lines a child wrote to its standard error. They are shown to people, so what the child was trusted with and
//! might repeat there is taken out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::line_splitter::Line;
use crate::entrusted::Entrusted;

/// The last lines, across restarts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
    /// Of all lines ever, those that were dropped included.
    count: u64,
}

const TAIL_LINES: usize = 50;
const TAIL_LINE_BYTES: usize = 500;

// === impl StderrTail ===

impl StderrTail {
    /// The lines, and how many there ever were.
    pub(crate) fn lines(&self) -> (Vec<String>, u64) {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (tail.lines.iter().cloned().collect(), tail.count)
    }

    pub(crate) fn keep(&self, line: &Line, entrusted: &Entrusted) {
        let line = match line {
            Line::Message(text) => entrusted.hide(&String::from_utf8_lossy(text)),
            Line::Oversized(_) => "(a line too long to keep)".to_owned(),
        };
        let end = line.floor_char_boundary(TAIL_LINE_BYTES);
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.lines.len() == TAIL_LINES {
            tail.lines.pop_front();
        }
        tail.lines.push_back(line[..end].to_owned());
        tail.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(line: &str) -> String {
        let tail = StderrTail::default();
        let text = bytes::Bytes::copy_from_slice(line.as_bytes());
        tail.keep(&Line::Message(text), &Entrusted::default());
        tail.lines().0.remove(0)
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = kept(&"ä".repeat(TAIL_LINE_BYTES));
        assert_eq!(line.len(), TAIL_LINE_BYTES);
        let odd = kept(&format!("x{}", "ä".repeat(TAIL_LINE_BYTES)));
        assert_eq!(odd.len(), TAIL_LINE_BYTES - 1);
    }

    #[test]
    fn the_newest_lines_are_kept_and_all_are_counted() {
        let tail = StderrTail::default();
        for n in 0..TAIL_LINES + 3 {
            tail.keep(&Line::Message(n.to_string().into()), &Entrusted::default());
        }
        let (lines, count) = tail.lines();
        assert_eq!(
            (lines.len(), lines[0].as_str(), count),
            (TAIL_LINES, "3", TAIL_LINES as u64 + 3)
        );
    }
}
