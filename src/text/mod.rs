//! From the bytes that a child writes to text: incremental UTF-8 decoding, and counting. Also how instants are written.
//!
//! The layer knows neither pipes nor logs: it is given slices and gives back slices. It contains
//! no `unsafe`: whatever it calls text was validated by a decoder that returns `&str`.

pub mod across;
pub mod fold;
pub mod matcher;
pub mod pattern;
mod replace;
pub mod sequence;
pub mod spliced;
pub mod strip;
mod time;
pub mod utf8;

pub use time::rfc3339;

/// Number of code points in `text`.
pub fn code_points(text: &str) -> usize {
    bytecount::num_chars(text.as_bytes())
}

/// The largest boundary of a character of `text` that is at most `offset`.
pub fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
