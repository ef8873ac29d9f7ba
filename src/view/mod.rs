//! What a reader sees of a log besides its pages: plain lines, and the first match of a pattern.
//!
//! Everything here works on copies of pieces of the log, and so holds no lock while it works: whoever wants a reading takes one
//! step after the other, and may let others have their turn in between.

use crate::arena::{CursorError, LineStart, Page, PageLimits, RecordLog, Stream, Unit};

pub mod excerpt;
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

/// The runs of a page with their texts.
fn runs(page: &Page) -> impl Iterator<Item = (u64, Stream, &str)> {
    let mut start = 0;
    page.runs.iter().map(move |run| {
        let text = &page.text[start..run.end];
        start = run.end;
        (run.cursor, run.stream, text)
    })
}
