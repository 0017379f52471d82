//! Arbitrary bytes in arbitrary chunks through the SSE decoder: it never panics, never keeps or returns more than its
//! limit allows, and the chunks make no difference.

#![no_main]

use evergate_runtime::wire::{EventDecoder, ServerEvent};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, PartialEq)]
struct Decoded {
    events: Vec<ServerEvent>,
    too_large: bool,
    last_id: Option<String>,
    retry: Option<u64>,
}

fuzz_target!(|input: (u16, Vec<u8>, &[u8])| {
    let (limit, cuts, bytes) = input;
    let limit = usize::from(limit);
    let whole = decode(limit, [bytes]);
    let cut = decode(limit, chunks(bytes, &cuts));
    let single = decode(limit, bytes.chunks(1));
    assert_eq!(whole, cut, "the chunks made a difference");
    assert_eq!(whole, single, "single bytes made a difference");
    for event in &whole.events {
        assert!(event.data.len() <= limit, "an event beyond the limit");
    }
});

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = EventDecoder::new(limit);
    let mut events = Vec::new();
    let mut too_large = false;
    'all: for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => {
                    too_large = true;
                    break 'all;
                }
            }
        }
    }
    if !too_large {
        events.extend(decoder.finish());
    }
    let last_id = decoder.last_id().map(str::to_owned);
    Decoded { events, too_large, last_id, retry: decoder.retry() }
}

/// Cuts `bytes` into pieces of the given lengths, over and over.
fn chunks<'a>(mut bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut lengths = lengths.iter().map(|&length| usize::from(length) + 1).cycle();
    while !bytes.is_empty() {
        let length = lengths.next().unwrap_or(bytes.len()).min(bytes.len());
        let (chunk, rest) = bytes.split_at(length);
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}
