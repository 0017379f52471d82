//! Bytes on a connection to the HTTP front, and the sizes of the pieces they come in: whatever they are, they are answered the
//! same way in one piece.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| evergate::fuzzing::http1(input.0, input.1));
