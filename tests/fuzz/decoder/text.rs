//! The program's own two files.

#[path = "../../../src/text/replace.rs"]
mod replace;
#[path = "../../../src/text/utf8.rs"]
pub mod utf8;
