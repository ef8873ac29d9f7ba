//! Reading a session's text, at once or after what the client waits for.
//!
//! A wait looks at the session whenever something changed, under short locks.

use std::{
    future::{Future, ready},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

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
        search::{Search, Searches},
    },
    text::matcher::Found,
    view::excerpt::{Excerpt, Gap, excerpt},
};

mod until_match;

use until_match::until_match;

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
    Pattern(Box<Search>),
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

    /// Looks whether the time is over.
    async fn look(&mut self) {
        if !self.over {
            self.wait_for(ready(())).await;
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
    session: &Arc<Session>,
    searches: &Searches,
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
        Until::Pattern(search) => {
            let place = (place, limits);
            until_match(session, searches, place, *search, &mut clock, page).await
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
    session: &Arc<Session>,
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

/// A cursor that a wait could never serve is refused before it.
fn check(session: &Arc<Session>, place: Place) -> Result<(), Refusal> {
    let Place::Cursor(cursor) = place else {
        return Ok(());
    };
    Ok(Text::of(session).check(cursor)?)
}

/// The page at `place`, or from the oldest readable text on when its cursor has expired.
async fn read_now(
    session: &Arc<Session>,
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
    text: &mut Text,
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
