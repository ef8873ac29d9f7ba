//! The config reader on any text: no panic, every refusal placed, everything that is taken within the published schema
//! and the same when it is written and read again.

#![no_main]

// The program uses more of it than this target does.
#[allow(dead_code, unused_imports)]
#[path = "../../../src/config/mod.rs"]
mod config;
#[allow(dead_code, unused_imports)]
#[path = "../../../src/contain/mod.rs"]
mod contain;
#[path = "../../../src/config/promises.rs"]
mod promises;
#[path = "../../../src/config/schema_twin.rs"]
mod schema_twin;
// All that the config knows of that layer.
#[allow(dead_code)]
#[path = "../../../src/screen/size.rs"]
mod screen;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    promises::check(data);
});
