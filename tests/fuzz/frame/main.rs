//! Frames and ids out of any bytes in any reads, against a twin that sees the whole stream at once.

#![no_main]

mod mcp;

/// Stands in for the program's own, so that `frame.rs` is compiled with a limit that short inputs reach.
mod config {
    pub mod limits {
        pub const MAX_FRAME_BYTES: usize = 65_536;
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp::compare(data));
