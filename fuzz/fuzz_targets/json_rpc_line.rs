//! Arbitrary bytes in arbitrary chunks through the line splitter, and every line through the JSON-RPC parser.

#![no_main]

use evergate_runtime::wire::{Line, LineSplitter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (limit, step, bytes) = input;
    let limit = usize::from(limit);
    let whole = split(limit, bytes, bytes.len().max(1));
    let cut = split(limit, bytes, usize::from(step) + 1);
    assert_eq!(whole, cut, "the chunks made a difference");
    for line in whole {
        if let Line::Message(text) = line {
            assert!(!text.is_empty() && text.len() <= limit && !text.contains(&b'\n'));
            evergate_runtime::fuzzing::message(&text);
        }
    }
    // HTTP bodies come here without a splitter: they may hold newlines, or nothing.
    evergate_runtime::fuzzing::message(bytes);
});

fn split(limit: usize, bytes: &[u8], step: usize) -> Vec<Line> {
    let mut splitter = LineSplitter::new(limit);
    let mut lines = Vec::new();
    for chunk in bytes.chunks(step) {
        splitter.space(chunk.len()).extend_from_slice(chunk);
        while let Some(line) = splitter.next_line() {
            lines.push(line);
        }
        assert!(splitter.space(0).len() <= limit, "more kept than the limit allows");
    }
    lines
}
