//! Waiting for a pattern. The text is searched on copies of pages, a turn on a search thread at a time, so neither a pipe nor
//! another call waits for it.

use std::{future::Future, ops::ControlFlow, sync::Arc, time::Instant};

use tokio::task::yield_now;

use super::{Clock, MAX_PAGE_BYTES, Place, Reading, Waited, fill, read_now, reading, whole_pages};
use crate::{
    arena::{CursorError, Page, PageLimits, Stream},
    session::{Session, snapshot::Output},
    spool::Want,
    supervisor::{
        reach::Text,
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
    text: Text,
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
    /// This has to be fetched first.
    Fetch(Want),
}

impl Hunt {
    /// A step: searches one page.
    fn step(&mut self) -> ControlFlow<Seen> {
        let limits = PageLimits {
            bytes: self.stride.bytes,
            ..whole_pages()
        };
        let output = match self.text.page_here(self.at, limits, &mut self.searched) {
            Ok(Ok(seen)) => seen.output,
            Ok(Err(CursorError::Expired { base, .. } | CursorError::Invalid { base, .. })) => {
                self.unsearched += base.saturating_sub(self.at.max(self.from));
                self.at = base;
                return ControlFlow::Continue(());
            }
            Err(want) => return ControlFlow::Break(Seen::Fetch(want)),
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
    let mut text = Text::of(session);
    let there = fill(&mut text, place, limits, page).await?.next;
    let from = match place {
        Place::Cursor(cursor) => cursor,
        Place::Tail => start(page),
    };
    let context = PageLimits {
        bytes: CONTEXT_BYTES,
        ..whole_pages()
    };
    let mut searched = Page::default();
    let before = text.page_back(Some(from), 0, context, &mut searched).await;
    let at = before.map_or(from, |_| start(&searched));
    let mut hunt = Hunt {
        text,
        watch: Watch::new(search.pattern, from),
        stride: Stride::default(),
        from,
        at,
        unsearched: 0,
        searched,
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
                let Hunt { text, searched, .. } = &mut hunt;
                let mut reading = read_match(text, from, limits, found.end, page).await;
                reading.omitted = count_before(text, from, page, searched).await;
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
            Some(Seen::Fetch(want)) => {
                hunt.text.fetch(want).await;
                continue;
            }
            Some(Seen::Nothing(Output::Open)) | None => continue,
        };
        let mut reading = read_now(session, place, limits, waited, page).await;
        reading.unsearched = hunt.unsearched;
        return Ok(reading);
    }
}

/// The page that ends with a match, as much as fits of what lies between `from` and its end.
async fn read_match(
    text: &mut Text,
    from: u64,
    limits: PageLimits,
    end: u64,
    page: &mut Page,
) -> Reading {
    let seen = match text.page_back(Some(end), from, limits, page).await {
        Ok(seen) => seen,
        // Evicted already.
        Err(_) => text.page_at_base(limits, page).await,
    };
    reading(seen, Waited::Pattern)
}

/// Counts the readable text between `from` and the start of `page`, by pages, so that nobody waits for it.
async fn count_before(text: &mut Text, from: u64, page: &Page, scratch: &mut Page) -> Option<Gap> {
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
        // So few code points fit whatever they are.
        let end = to.min(at + MAX_PAGE_BYTES as u64 / 4);
        let limits = PageLimits {
            records: usize::MAX,
            ..whole_pages()
        };
        let counted = text.page_back(Some(end), at, limits, scratch).await;
        let base = match counted {
            Ok(seen) => seen.base,
            Err(CursorError::Expired { base, .. } | CursorError::Invalid { base, .. }) => base,
        };
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
        gap.bytes += scratch.text.len() as u64;
        gap.lines += line_feeds(scratch);
        at = scratch.next_cursor;
        yield_now().await;
    }
    (gap.from < gap.to).then_some(gap)
}
