//! Arbitrary event sequences through the lifecycle, against the invariants its driver relies on.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| evergate_runtime::fuzzing::lifecycle(data));
