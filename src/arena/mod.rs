//! Text kept within a budget: fixed-size blocks from a slab, and the record log of one session.
//!
//! The layer is given plain numbers and valid text; it knows neither pipes nor decoding.

mod code_points;
mod extent;
mod leaving;
mod record_log;
mod slab;
mod slot;
mod survey;

pub use leaving::{CROWDED, MAX_LEAVING};
pub use record_log::{RecordLog, max_blocks};
pub use slab::{BLOCK_BYTES, Block, READ_BYTES, Slab};
pub use slot::{HEADER_BYTES, Slot, slot_base};
pub use survey::Survey;

/// Which of a child's two output pipes a code point came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 1 of the child.
    Stdout,
    /// Descriptor 2 of the child.
    Stderr,
}

/// How much text one session may retain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// UTF-8 bytes of retained text, at least 4 (one code point always fits).
    pub bytes: usize,
    /// Retained code points; `None` when only `bytes` binds.
    pub records: Option<u64>,
}

/// What one record of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Adjacent code points of one stream form one record.
    Runs,
    /// Each code point is a record.
    CodePoints,
}

/// Bounds of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// UTF-8 bytes of text, at least 4.
    pub bytes: usize,
    /// Records, counted in `unit`.
    pub records: usize,
    /// What counts as a record.
    pub unit: Unit,
}

/// One run of a page: text of one stream, contiguous in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Cursor of the run's first code point.
    pub cursor: u64,
    /// Where the text came from.
    pub stream: Stream,
    /// Byte offset into [`Page::text`] where the run's text ends; it starts where the run before ends.
    pub end: usize,
}

/// A copy of a contiguous piece of the log. Its buffers are reused from page to page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The text of all runs, one after the other.
    pub text: String,
    /// The runs, in order; adjacent runs differ in stream.
    pub runs: Vec<Run>,
    /// Cursor of the oldest retained code point when the page was cut.
    pub base_cursor: u64,
    /// Cursor after the page's last code point: where the next page starts.
    pub next_cursor: u64,
    /// Cursor after the log's newest code point when the page was cut.
    pub end_cursor: u64,
}

/// A cursor that the log can't serve. Both carry the range that it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorError {
    /// The text at the cursor was evicted.
    Expired {
        /// Oldest retained cursor.
        base: u64,
        /// Cursor after the newest code point.
        next: u64,
    },
    /// The cursor lies beyond the newest code point.
    Invalid {
        /// Oldest retained cursor.
        base: u64,
        /// Cursor after the newest code point.
        next: u64,
    },
}

/// What a look for the start of a line came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStart {
    /// It's the stream's first code point at this cursor or later.
    At(u64),
    /// It lies before this cursor, from which to look on.
    Before(u64),
    /// It was evicted.
    Evicted,
}
