//! From the bytes that a child writes to text: incremental UTF-8 decoding, and counting.
//!
//! The layer knows neither pipes nor logs: it is given slices and gives back slices. It contains
//! no `unsafe`: whatever it calls text was validated by a decoder that returns `&str`.

mod replace;
pub mod utf8;

/// Number of code points in `text`.
pub fn code_points(text: &str) -> usize {
    bytecount::num_chars(text.as_bytes())
}
