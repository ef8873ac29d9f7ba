//! Readings of a session's text that take more than one look at it: the session is locked for one piece at a time, and other
//! calls have their turn in between.

use std::future::Future;

use tokio::task::yield_now;

use super::Handle;
use crate::{
    arena::{CursorError, LineStart, Page, PageLimits, Stream},
    session::Session,
    supervisor::{
        follow::{ReadRequest, Reading},
        refusal::Refusal,
    },
    view::{
        Progress, Source,
        excerpt::start,
        plain::{Plain, PlainLimits},
    },
};

impl Source for Session {
    fn page(&self, cursor: u64, limits: PageLimits, out: &mut Page) -> Result<(), CursorError> {
        self.state().log.page(cursor, limits, out)
    }

    fn line_start(&self, stream: Stream, cursor: u64) -> LineStart {
        self.state().log.line_start(stream, cursor)
    }
}

/// A plain page with what stands beside it: as it was when the page was done, all at one time.
#[derive(Debug)]
pub struct PlainReading {
    /// The page.
    pub plain: Plain,
    /// Cursor of the oldest retained code point.
    pub base_cursor: u64,
    /// Cursor after the newest code point.
    pub end_cursor: u64,
    /// See [`Reading`].
    pub reading: Reading,
}

impl Handle {
    /// Makes a plain page, after a wait as in [`Handle::read`], within the request's limits.
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn read_plain(
        &self,
        session_id: &str,
        request: ReadRequest,
        cut_short: impl Future<Output = ()>,
    ) -> Result<PlainReading, Refusal> {
        let limits = PlainLimits {
            bytes: request.limits.bytes,
            records: request.limits.records,
        };
        let mut page = Page::default();
        let mut reading = self.read(session_id, request, cut_short, &mut page).await?;
        let session = self.shared.table.find(session_id)?;
        // Where the raw page starts: at the cursor, at the tail's start, or at what is left after a long wait.
        let mut plain = Plain::new(start(&page), limits);
        while plain.step(&*session)? == Progress::More {
            yield_now().await;
        }
        let state = session.state();
        reading.status = state.status;
        reading.output = state.output;
        reading.truncated = state.log.truncated();
        Ok(PlainReading {
            plain,
            base_cursor: state.log.base_cursor(),
            end_cursor: state.log.next_cursor(),
            reading,
        })
    }
}
