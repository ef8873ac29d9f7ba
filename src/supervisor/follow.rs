//! Reading a session's text, at once or after what the client waits for.
//!
//! A wait looks at the session whenever something changed, under short locks; patterns are searched on copies of pages, so
//! neither a pipe nor another call waits for a search.

use std::{
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use crate::{
    arena::{CursorError, Page, PageLimits, Stream, Unit},
    config::limits::{MAX_PAGE_BYTES, MAX_PAGE_RECORDS},
    session::{
        Session, State,
        snapshot::{Output, Snapshot, Status},
    },
    supervisor::{
        reach::{Seen, Text},
        refusal::Refusal,
    },
    text::{matcher::Found, pattern::Pattern},
    view::{
        excerpt::{Excerpt, Gap, excerpt, line_feeds, start},
        watch::Watch,
    },
};

/// Text before the place where a search starts, which tells whether it is the start of a line or a word. In bytes.
const CONTEXT_BYTES: usize = 4096;

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From this cursor on.
    Cursor(u64),
    /// At the end of what is retained.
    Tail,
}

/// What a read waits for.
#[derive(Debug)]
pub enum Until {
    /// Text at the cursor, or that there will be none.
    Record,
    /// That the output has settled and the status is final.
    End,
    /// A match, in either stream, that starts at the place of the read or later.
    Pattern(Box<Pattern>),
    /// That nothing was printed for this long, counted from the call or from what was printed since.
    Idle(Duration),
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There was text.
    Record,
    /// No more can come: output has settled, and for [`Until::End`] the status is final.
    End,
    /// The pattern matched.
    Pattern,
    /// Nothing was printed for long enough.
    Idle,
    /// Its time was up, or it was cut short.
    Timeout,
}

/// One read.
#[derive(Debug)]
pub struct ReadRequest {
    /// See [`Place`].
    pub place: Place,
    /// Bounds of the page.
    pub limits: PageLimits,
    /// See [`Until`].
    pub until: Until,
    /// The longest wait.
    pub wait: Duration,
}

/// What stands beside a page. Status, output and cursors are consistent with it: they were taken under one lock.
#[derive(Debug)]
pub struct Reading {
    /// The session's status.
    pub status: Status,
    /// Whether more output may come.
    pub output: Output,
    /// Whether anything was ever evicted.
    pub truncated: bool,
    /// What ended the wait.
    pub waited: Waited,
    /// The match; the page ends with it.
    pub found: Option<(Stream, Found)>,
    /// Retained text before the page that has no room on it, when the page had to end with a match.
    pub omitted: Option<Gap>,
    /// Code points that were evicted before they could be searched.
    pub unsearched: u64,
}

/// The end of a wait's time.
struct Clock<'a, C> {
    until: Instant,
    cut_short: Pin<&'a mut C>,
    over: bool,
}

impl<'a, C: Future<Output = ()>> Clock<'a, C> {
    fn new(wait: Duration, cut_short: Pin<&'a mut C>) -> Self {
        Self {
            until: Instant::now() + wait,
            cut_short,
            over: wait.is_zero(),
        }
    }

    /// Waits for `event`, or until the time is over; it isn't yet.
    async fn wait_for(&mut self, event: impl Future<Output = ()>) {
        debug_assert!(!self.over, "a future that has ended isn't polled again");
        tokio::select! {
            biased;
            () = &mut self.cut_short => self.over = true,
            () = event => self.over = Instant::now() >= self.until,
            () = sleep_until(self.until) => self.over = true,
        }
    }
}

/// Reads a page into `page` after the wait that `request` asks for. `cut_short` ends the wait early, as if its time were up.
///
/// A cursor that expires during a wait for more than a record is no error: the page then starts at the oldest retained
/// text.
///
/// # Cancel safety
/// Reading consumes nothing; dropping the future changes nothing.
pub(super) async fn read(
    session: &Session,
    request: ReadRequest,
    cut_short: impl Future<Output = ()>,
    page: &mut Page,
) -> Result<Reading, Refusal> {
    let ReadRequest {
        place,
        limits,
        until,
        wait,
    } = request;
    let cut_short = pin!(cut_short);
    let mut clock = Clock::new(wait, cut_short);
    match until {
        Until::Record => until_record(session, place, limits, &mut clock, page).await,
        Until::End => {
            check(session, place)?;
            let waited = until_settled(session, &mut clock).await;
            Ok(read_now(session, place, limits, waited, page).await)
        }
        Until::Idle(quiet) => {
            check(session, place)?;
            let waited = until_idle(session, quiet, &mut clock).await;
            Ok(read_now(session, place, limits, waited, page).await)
        }
        Until::Pattern(pattern) => {
            until_match(session, place, limits, *pattern, &mut clock, page).await
        }
    }
}

/// Waits until all of the session's output is there and its status is final, then returns its snapshot and an excerpt
/// of everything, consistent with each other.
///
/// # Cancel safety
/// Dropped, the survey goes on; nothing else changes.
pub(super) async fn read_all(
    session: &Session,
    bytes: usize,
    wait: Duration,
    cut_short: impl Future<Output = ()>,
) -> (Snapshot, Excerpt) {
    until_settled(session, &mut Clock::new(wait, pin!(cut_short))).await;
    let mut state = session.state();
    let survey = state.log.end_survey().expect("begun with the session");
    let excerpt = excerpt(&state.log, survey, bytes);
    (session.snapshot_of(&state), excerpt)
}

async fn until_record<C: Future<Output = ()>>(
    session: &Session,
    place: Place,
    limits: PageLimits,
    clock: &mut Clock<'_, C>,
    page: &mut Page,
) -> Result<Reading, Refusal> {
    loop {
        let changed = session.changed.notified();
        tokio::pin!(changed);
        // Registered before the look, or what comes between the two would be missed.
        changed.as_mut().enable();
        let seen = fill(&mut Text::of(session), place, limits, page).await?;
        let waited = match (page.runs.is_empty(), seen.output) {
            (false, _) => Some(Waited::Record),
            (true, Output::Complete | Output::Incomplete) => Some(Waited::End),
            (true, Output::Open) => clock.over.then_some(Waited::Timeout),
        };
        if let Some(waited) = waited {
            return Ok(reading(seen, waited));
        }
        clock.wait_for(changed).await;
    }
}

async fn until_settled<C: Future<Output = ()>>(
    session: &Session,
    clock: &mut Clock<'_, C>,
) -> Waited {
    loop {
        let changed = session.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if is_settled(&session.state()) {
            return Waited::End;
        }
        if clock.over {
            return Waited::Timeout;
        }
        clock.wait_for(changed).await;
    }
}

async fn until_idle<C: Future<Output = ()>>(
    session: &Session,
    quiet: Duration,
    clock: &mut Clock<'_, C>,
) -> Waited {
    let mut seen = session.state().log.next_cursor();
    let mut idle_at = Instant::now() + quiet;
    loop {
        let changed = session.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let next = {
            let state = session.state();
            if is_settled(&state) {
                return Waited::End;
            }
            state.log.next_cursor()
        };
        let now = Instant::now();
        if next != seen {
            seen = next;
            idle_at = now + quiet;
        }
        if now >= idle_at {
            return Waited::Idle;
        }
        if clock.over {
            return Waited::Timeout;
        }
        clock
            .wait_for(async {
                tokio::select! {
                    () = changed => {}
                    () = sleep_until(idle_at) => {}
                }
            })
            .await;
    }
}

async fn until_match<C: Future<Output = ()>>(
    session: &Session,
    place: Place,
    limits: PageLimits,
    pattern: Pattern,
    clock: &mut Clock<'_, C>,
    page: &mut Page,
) -> Result<Reading, Refusal> {
    let mut text = Text::of(session);
    let there = fill(&mut text, place, limits, page).await?.next;
    let from = match place {
        Place::Cursor(cursor) => cursor,
        Place::Tail => start(page),
    };
    let mut searched = Page::default();
    let context = PageLimits {
        bytes: CONTEXT_BYTES,
        ..whole_pages()
    };
    let before = text.page_back(Some(from), 0, context, &mut searched).await;
    let mut at = before.map_or(from, |_| start(&searched));
    let mut watch = Watch::new(pattern, from);
    let mut unsearched = 0;
    loop {
        let changed = session.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let output = loop {
            match text.page(at, whole_pages(), &mut searched).await {
                Ok(seen) => break seen.output,
                Err(CursorError::Expired { base, .. }) => {
                    unsearched += base.saturating_sub(at.max(from));
                    at = base;
                }
                Err(invalid) => return Err(invalid.into()),
            }
        };
        at = searched.next_cursor;
        if let Some((stream, found)) = watch.see(&searched) {
            let mut reading = read_match(session, from, limits, found.end, page).await;
            reading.omitted = count_before(session, from, page, &mut searched).await;
            reading.found = Some((stream, found));
            reading.unsearched = unsearched;
            return Ok(reading);
        }
        let is_all = at == searched.end_cursor;
        let waited = if is_all && output != Output::Open {
            Waited::End
        } else if clock.over && at >= there {
            Waited::Timeout
        } else {
            // Between two pages other calls have their turn, however fast the text comes.
            if clock.over {
                yield_now().await;
            } else if is_all {
                clock.wait_for(changed).await;
            } else {
                clock.wait_for(yield_now()).await;
            }
            continue;
        };
        let mut reading = read_now(session, place, limits, waited, page).await;
        reading.unsearched = unsearched;
        return Ok(reading);
    }
}

/// The page that ends with a match, as much as fits of what lies between `from` and its end.
async fn read_match(
    session: &Session,
    from: u64,
    limits: PageLimits,
    end: u64,
    page: &mut Page,
) -> Reading {
    let mut text = Text::of(session);
    let seen = match text.page_back(Some(end), from, limits, page).await {
        Ok(seen) => seen,
        // Evicted already.
        Err(_) => text.page_at_base(limits, page).await,
    };
    reading(seen, Waited::Pattern)
}

/// Counts the readable text between `from` and the start of `page`, by pages, so that nobody waits for it.
async fn count_before(
    session: &Session,
    from: u64,
    page: &Page,
    scratch: &mut Page,
) -> Option<Gap> {
    let to = start(page);
    let none_from = |from| Gap {
        from,
        to,
        bytes: 0,
        lines: 0,
    };
    let mut gap = none_from(from.max(page.base_cursor));
    let mut at = gap.from;
    let mut text = Text::of(session);
    while at < to {
        let limits = PageLimits {
            bytes: MAX_PAGE_BYTES,
            records: usize::try_from(to - at).unwrap_or(usize::MAX),
            unit: Unit::CodePoints,
        };
        match text.page(at, limits, scratch).await {
            Ok(_) => {
                gap.bytes += scratch.text.len() as u64;
                gap.lines += line_feeds(scratch);
                at = scratch.next_cursor;
            }
            Err(CursorError::Expired { base, .. } | CursorError::Invalid { base, .. }) => {
                // What was counted is gone by now, so the text that is left out starts later.
                at = base.min(to);
                gap = none_from(at);
            }
        }
        yield_now().await;
    }
    (gap.from < gap.to).then_some(gap)
}

/// A cursor that a wait could never serve is refused before it.
fn check(session: &Session, place: Place) -> Result<(), Refusal> {
    let Place::Cursor(cursor) = place else {
        return Ok(());
    };
    Ok(Text::of(session).check(cursor)?)
}

/// The page at `place`, or from the oldest readable text on when its cursor has expired.
async fn read_now(
    session: &Session,
    place: Place,
    limits: PageLimits,
    waited: Waited,
    page: &mut Page,
) -> Reading {
    let mut text = Text::of(session);
    let seen = match fill(&mut text, place, limits, page).await {
        Ok(seen) => seen,
        Err(_) => text.page_at_base(limits, page).await,
    };
    reading(seen, waited)
}

async fn fill(
    text: &mut Text<'_>,
    place: Place,
    limits: PageLimits,
    page: &mut Page,
) -> Result<Seen, CursorError> {
    match place {
        Place::Cursor(cursor) => text.page(cursor, limits, page).await,
        Place::Tail => text.page_back(None, 0, limits, page).await,
    }
}

fn reading(seen: Seen, waited: Waited) -> Reading {
    Reading {
        status: seen.status,
        output: seen.output,
        truncated: seen.base > 0,
        waited,
        found: None,
        omitted: None,
        unsearched: 0,
    }
}

fn is_settled(state: &State) -> bool {
    state.output != Output::Open && state.status.is_final()
}

fn whole_pages() -> PageLimits {
    PageLimits {
        bytes: MAX_PAGE_BYTES,
        records: MAX_PAGE_RECORDS,
        unit: Unit::Runs,
    }
}
