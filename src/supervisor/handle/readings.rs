//! Readings of a session's text that take more than one look at it: the session is locked for one piece at a time, and other
//! calls have their turn in between.

use std::{future::Future, time::Duration};

use tokio::task::yield_now;

use super::{Handle, PageFacts};
use crate::{
    arena::{CursorError, LineStart, Page, PageLimits, Stream, Unit},
    session::Session,
    supervisor::refusal::Refusal,
    view::{
        Progress, Source,
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

/// What stands beside a reading: as it was when the reading was done, all at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingFacts {
    /// Cursor of the oldest retained code point.
    pub base_cursor: u64,
    /// Cursor after the newest code point.
    pub end_cursor: u64,
    /// See [`PageFacts`].
    pub page: PageFacts,
}

impl ReadingFacts {
    fn of(session: &Session) -> ReadingFacts {
        let state = session.state();
        ReadingFacts {
            base_cursor: state.log.base_cursor(),
            end_cursor: state.log.next_cursor(),
            page: PageFacts {
                status: state.status,
                output: state.output,
                truncated: state.log.truncated(),
            },
        }
    }
}

impl Handle {
    /// Makes a plain page, after a wait as in [`Handle::read`].
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn read_plain(
        &self,
        session_id: &str,
        cursor: u64,
        limits: PlainLimits,
        wait: Duration,
        cut_short: impl Future<Output = ()>,
    ) -> Result<(Plain, ReadingFacts), Refusal> {
        let glance = PageLimits {
            bytes: 4,
            records: 1,
            unit: Unit::Runs,
        };
        let mut page = Page::default();
        self.read(session_id, cursor, glance, wait, cut_short, &mut page)
            .await?;
        let session = self.shared.table.find(session_id)?;
        let mut plain = Plain::new(cursor, limits);
        while plain.step(&*session)? == Progress::More {
            yield_now().await;
        }
        Ok((plain, ReadingFacts::of(&session)))
    }
}
