//! The text of a session wherever it lies: in memory, read under its lock, or in its spool, fetched while nothing is locked and
//! nobody else waits.
//!
//! Text moves from the one to the other while it is read, and the oldest goes. So each look takes what is in memory at one
//! instant, together with what was fetched before, and fetches and looks again when that isn't enough.

use std::{cell::RefCell, mem, sync::Arc};

use crate::{
    arena::{CursorError, LineStart, Page, PageLimits, Slot, Stream},
    session::{
        Session, State,
        snapshot::{Output, Status},
    },
    spool::Want,
    view::{Look, Source, excerpt::start},
};

/// How often a page that ends in memory is tried to be begun in the spool, while text moves on between the two.
const ATTEMPTS: usize = 4;

/// What a session was like when a piece of its text was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) status: Status,
    pub(super) output: Output,
    /// Oldest readable cursor.
    pub(super) base: u64,
    /// Cursor after the newest code point.
    pub(super) next: u64,
}

/// See the module. One for each reading: what it fetched serves the pages that follow.
#[derive(Debug)]
pub(super) struct Text {
    session: Arc<Session>,
    slots: Vec<Slot>,
}

impl Text {
    pub(super) fn of(session: &Arc<Session>) -> Text {
        Text {
            session: Arc::clone(session),
            slots: Vec::new(),
        }
    }

    /// The session as it is now.
    pub(super) fn now(&self) -> Seen {
        self.seen(&self.session.state())
    }

    fn seen(&self, state: &State) -> Seen {
        Seen {
            status: state.status,
            output: state.output,
            base: self.session.base_cursor(state),
            next: state.log.next_cursor(),
        }
    }

    /// Whether a page can start there.
    ///
    /// # Errors
    /// As [`Text::page`].
    pub(super) fn check(&self, cursor: u64) -> Result<(), CursorError> {
        in_range(cursor, self.now())
    }

    /// As `RecordLog::page`; at the end of what was fetched the page may be shorter than `limits` allow.
    ///
    /// # Errors
    /// As `RecordLog::page`, with the cursors that are readable anywhere.
    ///
    /// # Cancel safety
    /// Reading changes nothing.
    pub(super) async fn page(
        &mut self,
        cursor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<Seen, CursorError> {
        loop {
            match self.page_here(cursor, limits, out) {
                Ok(taken) => return taken,
                Err(want) => self.fetch(want).await,
            }
        }
    }

    /// As [`Text::page`], of what is in memory or was fetched.
    ///
    /// # Errors
    /// What has to be fetched before it is tried again.
    pub(super) fn page_here(
        &self,
        cursor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<Result<Seen, CursorError>, Want> {
        let state = self.session.state();
        let seen = self.seen(&state);
        if let Err(error) = in_range(cursor, seen) {
            return Ok(Err(error));
        }
        let log = &state.log;
        match log.page_behind(&self.slots, cursor, limits, out) {
            Ok(()) => {
                (out.base_cursor, out.end_cursor) = (seen.base, seen.next);
                Ok(Ok(seen))
            }
            Err(_) => Err(Want::From(cursor, limits.bytes)),
        }
    }

    /// The page of the oldest readable text.
    ///
    /// # Cancel safety
    /// Reading changes nothing.
    pub(super) async fn page_at_base(&mut self, limits: PageLimits, out: &mut Page) -> Seen {
        loop {
            let base = self.now().base;
            if let Ok(seen) = self.page(base, limits, out).await {
                return seen;
            }
        }
    }

    /// As `RecordLog::page_back`. When text moves on all the while, it may reach back less far than `limits` allow.
    ///
    /// # Errors
    /// As `RecordLog::page_back`, with the cursors that are readable anywhere.
    ///
    /// # Cancel safety
    /// Reading changes nothing.
    pub(super) async fn page_back(
        &mut self,
        end: Option<u64>,
        floor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<Seen, CursorError> {
        let mut attempts = 0;
        let mut end = end;
        loop {
            let want = {
                let state = self.session.state();
                let seen = self.seen(&state);
                // The newest text is that of the first look: what is fetched later has to join it.
                let end = *end.get_or_insert(seen.next);
                in_range(end, seen)?;
                let floor = floor.max(seen.base);
                if end <= floor {
                    *out = Page {
                        base_cursor: seen.base,
                        next_cursor: end,
                        end_cursor: seen.next,
                        ..Page::default()
                    };
                    return Ok(seen);
                }
                match state
                    .log
                    .page_back_behind(&self.slots, end, floor, limits, out)
                {
                    Ok(()) => {
                        let oldest = out.base_cursor;
                        (out.base_cursor, out.end_cursor) = (seen.base, seen.next);
                        let from = start(out);
                        let left = limits.bytes - out.text.len();
                        if from > oldest || from <= floor || left < 4 || attempts == ATTEMPTS {
                            return Ok(seen);
                        }
                        attempts += 1;
                        Want::Before(from, left)
                    }
                    Err(_) => Want::Before(end, limits.bytes),
                }
            };
            let newer = mem::take(&mut self.slots);
            self.fetch(want).await;
            let joins = self.slots.last().map(Slot::next) == newer.first().map(Slot::base);
            if joins {
                self.slots.extend(newer);
            }
        }
    }

    /// As `RecordLog::line_start`, of what is in memory or was fetched.
    ///
    /// # Errors
    /// What has to be fetched before it is tried again.
    fn line_start_here(&self, stream: Stream, cursor: u64) -> Result<LineStart, Want> {
        let state = self.session.state();
        if cursor == 0 {
            return Ok(LineStart::At(0));
        }
        if cursor <= self.session.base_cursor(&state) {
            return Ok(LineStart::Evicted);
        }
        let is_fetched = |slot: &Slot| slot.base() < cursor && cursor <= slot.next();
        if cursor > state.log.base_cursor() || self.slots.iter().any(is_fetched) {
            return Ok(state.log.line_start_behind(&self.slots, stream, cursor));
        }
        Err(Want::Before(cursor, 0))
    }

    /// Takes the look that a reading is about to take; a page is made in `scratch`.
    ///
    /// # Errors
    /// What has to be fetched before it is tried again.
    pub(super) fn answer(&self, look: Look, scratch: &mut Page) -> Result<Answer, Want> {
        match look {
            Look::Page(cursor, limits) => {
                let taken = self.page_here(cursor, limits, scratch)?;
                let page = RefCell::new(mem::take(scratch));
                Ok(Answer::Page(page, taken.map(drop)))
            }
            Look::LineStart(stream, cursor) => {
                self.line_start_here(stream, cursor).map(Answer::LineStart)
            }
        }
    }

    /// Fetches what is wanted, in place of what was fetched before.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub(super) async fn fetch(&mut self, want: Want) {
        self.slots = match self.session.spool() {
            Some(spool) => spool.fetch(want).await,
            None => Vec::new(),
        };
    }
}

/// The one look at its source that a reading's next step takes.
pub(super) enum Answer {
    Page(RefCell<Page>, Result<(), CursorError>),
    LineStart(LineStart),
}

impl Answer {
    /// The page that was no longer needed, for the next answer.
    pub(super) fn give_back(self, scratch: &mut Page) {
        if let Answer::Page(page, _) = self {
            *scratch = page.into_inner();
        }
    }
}

impl Source for Answer {
    fn page(&self, _: u64, _: PageLimits, out: &mut Page) -> Result<(), CursorError> {
        let Answer::Page(page, taken) = self else {
            unreachable!("a reading takes the look that it said")
        };
        mem::swap(&mut *page.borrow_mut(), out);
        *taken
    }

    fn line_start(&self, _: Stream, _: u64) -> LineStart {
        let Answer::LineStart(start) = self else {
            unreachable!("a reading takes the look that it said")
        };
        *start
    }
}

fn in_range(cursor: u64, seen: Seen) -> Result<(), CursorError> {
    let Seen { base, next, .. } = seen;
    if cursor < base {
        return Err(CursorError::Expired { base, next });
    }
    if cursor > next {
        return Err(CursorError::Invalid { base, next });
    }
    Ok(())
}
