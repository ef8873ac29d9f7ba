//! What a reader sees of a log besides its pages: the first match of a pattern.
//!
//! Everything here works on pages, copies of pieces of the log, and so holds no lock while it works.

pub mod excerpt;
pub mod watch;
