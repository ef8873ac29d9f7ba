//! Waiting for a pattern. The text is searched on copies of pages, a turn on a search thread at a time, so neither a pipe nor
//! another call waits for it.

use std::{future::Future, ops::ControlFlow, sync::Arc, time::Instant};

use tokio::task::yield_now;

use super::{
    Clock, MAX_PAGE_BYTES, Place, Reading, Waited, fill, fill_from_base, read_now, reading,
    whole_pages,
};
use crate::{
    arena::{Page, PageLimits, Stream},
    session::{Session, snapshot::Output},
    supervisor::{
        refusal::Refusal,
        search::{self, Search, Searches},
    },
    text::matcher::Found,
    view::{
        Stride,
        excerpt::{Gap, line_feeds, start},
        watch::Watch,
    },
};

/// Text before the place where a search starts, which tells whether it is the start of a line or a word. In bytes.
const CONTEXT_BYTES: usize = 4096;

/// A search on its way.
struct Hunt {
    session: Arc<Session>,
    watch: Watch,
    stride: Stride,
    /// Where matches may start.
    from: u64,
    /// How far the text was searched.
    at: u64,
    /// Code points that were evicted before that.
    unsearched: u64,
    searched: Page,
    _place: search::Place,
}

/// What a search came to.
enum Seen {
    Match(Stream, Found),
    /// There is none in all the text there is, after which output was open or not.
    Nothing(Output),
}

impl Hunt {
    /// A step: searches one page.
    fn step(&mut self) -> ControlFlow<Seen> {
        let output = {
            let state = self.session.state();
            let base = state.log.base_cursor();
            if self.at < base {
                self.unsearched += base.saturating_sub(self.at.max(self.from));
                self.at = base;
            }
            let limits = PageLimits {
                bytes: self.stride.bytes,
                ..whole_pages()
            };
            let cut = state.log.page(self.at, limits, &mut self.searched);
            cut.expect("what is retained is between its ends");
            state.output
        };
        self.at = self.searched.next_cursor;
        let began = Instant::now();
        let found = self.watch.see(&self.searched);
        self.stride.took(began.elapsed());
        if let Some((stream, found)) = found {
            return ControlFlow::Break(Seen::Match(stream, found));
        }
        if self.at == self.searched.end_cursor {
            return ControlFlow::Break(Seen::Nothing(output));
        }
        ControlFlow::Continue(())
    }
}

/// Waits for a match that starts at the place of the page or later.
///
/// # Cancel safety
/// Dropped, the search ends with its turn.
pub(super) async fn until_match<C: Future<Output = ()>>(
    session: &Arc<Session>,
    searches: &Searches,
    (place, limits): (Place, PageLimits),
    search: Search,
    clock: &mut Clock<'_, C>,
    page: &mut Page,
) -> Result<Reading, Refusal> {
    let (from, at, there) = {
        let state = session.state();
        fill(&state, place, limits, page)?;
        let from = match place {
            Place::Cursor(cursor) => cursor,
            Place::Tail => start(page),
        };
        let context = PageLimits {
            bytes: CONTEXT_BYTES,
            ..whole_pages()
        };
        let mut before = Page::default();
        state.log.page_back(from, 0, context, &mut before)?;
        (from, start(&before), state.log.next_cursor())
    };
    let mut hunt = Hunt {
        session: Arc::clone(session),
        watch: Watch::new(search.pattern, from),
        stride: Stride::default(),
        from,
        at,
        unsearched: 0,
        searched: Page::default(),
        _place: search.place,
    };
    loop {
        let changed = session.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let (back, seen) = searches.turn(hunt, Hunt::step).await?;
        hunt = back;
        clock.look().await;
        let waited = match seen {
            Some(Seen::Match(stream, found)) => {
                let mut reading = read_match(session, from, limits, found.end, page);
                reading.omitted = count_before(session, from, page, &mut hunt.searched).await;
                reading.found = Some((stream, found));
                reading.unsearched = hunt.unsearched;
                return Ok(reading);
            }
            Some(Seen::Nothing(Output::Complete | Output::Incomplete)) => Waited::End,
            // What was there when the call came is searched in any case.
            _ if clock.over && hunt.at >= there => Waited::Timeout,
            Some(Seen::Nothing(Output::Open)) if !clock.over => {
                clock.wait_for(changed).await;
                continue;
            }
            Some(Seen::Nothing(Output::Open)) | None => continue,
        };
        let mut reading = read_now(session, place, limits, waited, page);
        reading.unsearched = hunt.unsearched;
        return Ok(reading);
    }
}

/// The page that ends with a match, as much as fits of what lies between `from` and its end.
fn read_match(
    session: &Session,
    from: u64,
    limits: PageLimits,
    end: u64,
    page: &mut Page,
) -> Reading {
    let state = session.state();
    if state.log.page_back(end, from, limits, page).is_err() {
        // Evicted already.
        fill_from_base(&state, limits, page);
    }
    reading(&state, Waited::Pattern)
}

/// Counts the retained text between `from` and the start of `page`, by pages, so that nobody waits for it.
async fn count_before(
    session: &Session,
    from: u64,
    page: &Page,
    scratch: &mut Page,
) -> Option<Gap> {
    let to = start(page);
    let from = from.max(page.base_cursor);
    let mut gap = Gap {
        from,
        to,
        bytes: 0,
        lines: 0,
    };
    let mut at = from;
    while at < to {
        {
            let state = session.state();
            let base = state.log.base_cursor();
            if base > at {
                // What was counted is gone by now, so the text that is left out starts later.
                at = base.min(to);
                gap = Gap {
                    from: at,
                    bytes: 0,
                    lines: 0,
                    ..gap
                };
                continue;
            }
            // So few code points fit whatever they are.
            let end = to.min(at + MAX_PAGE_BYTES as u64 / 4);
            let limits = PageLimits {
                records: usize::MAX,
                ..whole_pages()
            };
            let counted = state.log.page_back(end, at, limits, scratch);
            counted.expect("both cursors are retained");
        }
        gap.bytes += scratch.text.len() as u64;
        gap.lines += line_feeds(scratch);
        at = scratch.next_cursor;
        yield_now().await;
    }
    (gap.from < gap.to).then_some(gap)
}
