//! Where the system has no way to say it, threads run wherever it likes.

#[derive(Debug)]
pub(super) struct Processors;

// === impl Processors ===

impl Processors {
    pub(super) fn new(_: usize) -> Self {
        Self
    }

    pub(super) fn introduce(&self, _: usize) {}

    pub(super) fn part(&self) {}

    pub(super) fn reunite(&self) {}
}
