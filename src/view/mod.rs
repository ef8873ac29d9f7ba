//! What a reader sees of a log besides its pages: plain lines, the last of them, the first match of a pattern, and
//! the lines with one.
//!
//! Everything here works on copies of pieces of the log, and so holds no lock while it works: whoever wants a reading takes one
//! step after the other, and may let others have their turn in between.

use std::time::Duration;

use crate::arena::{CursorError, LineStart, Page, PageLimits, RecordLog, Stream, Unit};

pub mod excerpt;
pub mod find;
pub mod last_line;
pub mod plain;
pub mod watch;

/// Where a reading gets its text from: a log, or whoever locks one for the length of a call.
pub trait Source {
    /// See [`RecordLog::page`].
    ///
    /// # Errors
    /// See [`RecordLog::page`].
    fn page(&self, cursor: u64, limits: PageLimits, out: &mut Page) -> Result<(), CursorError>;

    /// See [`RecordLog::line_start`].
    fn line_start(&self, stream: Stream, cursor: u64) -> LineStart;
}

impl Source for RecordLog {
    fn page(&self, cursor: u64, limits: PageLimits, out: &mut Page) -> Result<(), CursorError> {
        RecordLog::page(self, cursor, limits, out)
    }

    fn line_start(&self, stream: Stream, cursor: u64) -> LineStart {
        RecordLog::line_start(self, stream, cursor)
    }
}

/// What a reading takes from its source in the next step, for who has to fetch it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// [`Source::page`] at this cursor.
    Page(u64, PageLimits),
    /// [`Source::line_start`] of this stream and cursor.
    LineStart(Stream, u64),
}

/// Whether a reading has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another step is to be taken.
    More,
    /// The result is there.
    Done,
}

/// What is copied out of the log in one step of a reading.
pub const PIECE: PageLimits = PageLimits {
    bytes: 64 * 1024,
    records: usize::MAX,
    unit: Unit::Runs,
};

/// How much text a step of a search takes: less when the last one was slow, so that no step holds others up for long.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    /// Bytes of text for the next step.
    pub bytes: usize,
}

/// Least text of a step.
const LEAST_BYTES: usize = 256;
/// A step that took longer is followed by a smaller one.
const SLOW: Duration = Duration::from_millis(10);

impl Default for Stride {
    fn default() -> Self {
        // Nothing is known yet of how slow the pattern is.
        Self { bytes: 1024 }
    }
}

impl Stride {
    /// Takes note of how long a step took.
    pub fn took(&mut self, time: Duration) {
        self.bytes = if time > SLOW {
            (self.bytes / 4).max(LEAST_BYTES)
        } else {
            (self.bytes * 2).min(PIECE.bytes)
        };
    }
}

/// The runs of a page with their texts.
fn runs(page: &Page) -> impl Iterator<Item = (u64, Stream, &str)> {
    let mut start = 0;
    page.runs.iter().map(move |run| {
        let text = &page.text[start..run.end];
        start = run.end;
        (run.cursor, run.stream, text)
    })
}
