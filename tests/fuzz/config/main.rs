//! The config reader on any text: no panic, every refusal placed, everything that is taken within the published schema
//! and the same when it is written and read again.

#![no_main]

mod config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    config::promises::check(data);
});
