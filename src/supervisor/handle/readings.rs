//! Readings of a session's text that take more than one look at it: the session is locked for one piece at a time, and other
//! calls have their turn in between.

use std::{
    future::{Future, ready},
    ops::ControlFlow,
    pin::pin,
    time::Duration,
};

use tokio::{task::yield_now, time::sleep};

use super::Handle;
use crate::{
    arena::{CursorError, Page, PageLimits, Unit},
    session::snapshot::{Output, Status},
    spool::Want,
    supervisor::{
        follow::{ReadRequest, Reading},
        reach::Text,
        refusal::Refusal,
        search::{self, Purpose, Search},
    },
    view::{
        Progress,
        excerpt::start,
        find::{Find, FindLimits},
        last_line::last_line,
        plain::{Plain, PlainLimits},
    },
};

/// How long a find may take. Clients give calls up after 60 s, and one that a slow pattern makes wait for its turn has to be
/// answered, too.
const FIND_TIME: Duration = Duration::from_secs(20);

/// Text at the end of the log in which its last line is looked for: more than a line has, or several redraws of it.
const GLANCE: PageLimits = PageLimits {
    bytes: 4_096,
    records: 1_024,
    unit: Unit::Runs,
};

/// How far a session is.
#[derive(Debug)]
pub struct Glance {
    /// Bytes read of both pipes.
    pub output_bytes: u64,
    /// The last line as a terminal would show it; empty when there is none.
    pub last_line: String,
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

/// Lines that were found, with what stands beside them: as it was when the search was done, all at one time.
#[derive(Debug)]
pub struct FindReading {
    /// The search that is done.
    pub find: Find,
    /// Cursor of the oldest retained code point.
    pub base_cursor: u64,
    /// The session's status.
    pub status: Status,
    /// Whether more output may come.
    pub output: Output,
    /// Whether anything was ever evicted.
    pub truncated: bool,
}

/// A search on its way.
struct Finding {
    text: Text,
    find: Find,
    scratch: Page,
    _place: search::Place,
}

/// Why a search takes no further step.
enum Stop {
    Done(Result<(), CursorError>),
    /// This has to be fetched first.
    Fetch(Want),
}

impl Finding {
    fn step(&mut self) -> ControlFlow<Stop> {
        let answer = match self.text.answer(self.find.look(), &mut self.scratch) {
            Ok(answer) => answer,
            Err(want) => return ControlFlow::Break(Stop::Fetch(want)),
        };
        let progress = self.find.step(&answer);
        answer.give_back(&mut self.scratch);
        match progress {
            Ok(Progress::More) => ControlFlow::Continue(()),
            Ok(Progress::Done) => ControlFlow::Break(Stop::Done(Ok(()))),
            Err(error) => ControlFlow::Break(Stop::Done(Err(error))),
        }
    }
}

impl Handle {
    /// Compiles a pattern, and takes a place among the searches.
    ///
    /// # Errors
    /// The pattern is none, or as many calls wait for one as may.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place back.
    pub async fn prepare(
        &self,
        purpose: Purpose,
        pattern: String,
        ignore_case: bool,
    ) -> Result<Search, Refusal> {
        let searches = &self.shared.searches;
        searches.prepare(purpose, pattern, ignore_case).await
    }

    /// Finds the lines with a match from `cursor` on. After 20 s, or when `cut_short` resolves, it answers with what
    /// it has; the next search then goes on with the rest.
    ///
    /// # Cancel safety
    /// Dropped, the search ends with its turn.
    pub async fn find(
        &self,
        session_id: &str,
        cursor: u64,
        limits: FindLimits,
        search: Search,
        cut_short: impl Future<Output = ()>,
    ) -> Result<FindReading, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let mut finding = Finding {
            text: Text::of(&session),
            find: Find::new(search.pattern, cursor, limits),
            scratch: Page::default(),
            _place: search.place,
        };
        let cut_short = pin!(cut_short);
        let mut over = pin!(async {
            tokio::select! {
                () = cut_short => {}
                () = sleep(FIND_TIME) => {}
            }
        });
        loop {
            let turn = self.shared.searches.turn(finding, Finding::step);
            let (back, stop) = turn.await?;
            finding = back;
            match stop {
                Some(Stop::Done(done)) => {
                    done?;
                    break;
                }
                Some(Stop::Fetch(want)) => finding.text.fetch(want).await,
                None => {}
            }
            let is_over = tokio::select! {
                biased;
                () = &mut over => true,
                () = ready(()) => false,
            };
            if is_over {
                finding.find.stop();
                break;
            }
        }
        let now = finding.text.now();
        Ok(FindReading {
            base_cursor: now.base,
            status: now.status,
            output: now.output,
            truncated: now.base > 0,
            find: finding.find,
        })
    }

    /// How far the session is, with at most `chars` characters of its last line.
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn glance(&self, session_id: &str, chars: usize) -> Result<Glance, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let mut page = Page::default();
        Text::of(&session)
            .page_back(None, 0, GLANCE, &mut page)
            .await?;
        let output_bytes = session.state().output_bytes;
        Ok(Glance {
            output_bytes,
            last_line: last_line(&page, chars),
        })
    }

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
        fill_plain(&mut text, &mut plain, &mut page).await?;
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

/// Makes the plain page that `plain` begins, with `scratch` for the pieces.
///
/// # Errors
/// When the text at the page's cursor was evicted or doesn't exist yet.
pub(super) async fn fill_plain(
    text: &mut Text,
    plain: &mut Plain,
    scratch: &mut Page,
) -> Result<(), CursorError> {
    loop {
        let answer = match text.answer(plain.look(), scratch) {
            Ok(answer) => answer,
            Err(want) => {
                text.fetch(want).await;
                continue;
            }
        };
        let progress = plain.step(&answer);
        answer.give_back(scratch);
        if progress? == Progress::Done {
            return Ok(());
        }
        yield_now().await;
    }
}
