//! Readings of a session's text that take more than one look at it: the session is locked for one piece at a time, and other
//! calls have their turn in between.

use std::{cell::RefCell, future::Future};

use tokio::task::yield_now;

use super::Handle;
use crate::{
    arena::{CursorError, LineStart, Page, PageLimits, Stream},
    supervisor::{
        follow::{ReadRequest, Reading},
        reach::Text,
        refusal::Refusal,
    },
    view::{
        PIECE, Progress, Source,
        excerpt::start,
        plain::{Look, Plain, PlainLimits},
    },
};

/// The answer to a look that a reading was about to take, since fetching it may have to wait.
enum Answer {
    Page(RefCell<Page>, Result<(), CursorError>),
    LineStart(LineStart),
}

impl Answer {
    async fn to(look: Look, text: &mut Text<'_>, mut page: Page) -> Answer {
        match look {
            Look::Page(cursor) => {
                let taken = text.page(cursor, PIECE, &mut page).await.map(drop);
                Answer::Page(RefCell::new(page), taken)
            }
            Look::LineStart(stream, cursor) => {
                Answer::LineStart(text.line_start(stream, cursor).await)
            }
        }
    }
}

impl Source for Answer {
    fn page(&self, _: u64, _: PageLimits, out: &mut Page) -> Result<(), CursorError> {
        let Answer::Page(page, taken) = self else {
            unreachable!("a reading takes the look that it said")
        };
        std::mem::swap(&mut *page.borrow_mut(), out);
        *taken
    }

    fn line_start(&self, _: Stream, _: u64) -> LineStart {
        let Answer::LineStart(start) = self else {
            unreachable!("a reading takes the look that it said")
        };
        *start
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
        let mut text = Text::of(&session);
        loop {
            let answer = Answer::to(plain.look(), &mut text, std::mem::take(&mut page)).await;
            let progress = plain.step(&answer)?;
            if let Answer::Page(used, _) = answer {
                page = used.into_inner();
            }
            if progress == Progress::Done {
                break;
            }
            yield_now().await;
        }
        let now = text.now();
        reading.status = now.status;
        reading.output = now.output;
        reading.truncated = now.base > 0;
        Ok(PlainReading {
            plain,
            base_cursor: now.base,
            end_cursor: now.next,
            reading,
        })
    }
}
