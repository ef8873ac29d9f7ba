//! Where patterns are compiled and matched: a few threads for all searches, which take turns on them.
//!
//! A pattern can be slow, so no search runs on the request thread, which answers every other call, nor on the I/O thread.
//! Each search is a state and a step, about a piece of text. A turn is a few milliseconds of steps, at least one; then
//! whoever waits has its turn, and the caller has a look whether the search is still wanted. So one slow pattern holds up
//! one of the threads, for no longer than its step.
//!
//! How many searches there may be is bounded, since each holds text and automata. Waits that are over the bound are
//! refused, for they would sit out their time; finds are short and wait for a place.

use std::{
    fmt, io,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    config::limits::{MAX_FINDS, MAX_PATTERN_WAITS},
    supervisor::refusal::Refusal,
    text::{
        pattern::{self, Pattern, PatternError},
        spliced,
    },
    view::find,
};

/// Threads: one that a slow pattern may hold up, and one for the others.
const THREADS: usize = 2;
/// How long a search goes on while others wait.
const TURN: Duration = Duration::from_millis(5);

/// Bytes that one search holds at most: its pattern, both streams' unfinished lines, and what was found.
pub const SEARCH_BYTES: usize =
    pattern::MOST_BYTES + 2 * spliced::MOST_BYTES + find::MOST_FOUND_BYTES;

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Waiting for a match.
    Wait,
    /// Finding the lines with a match.
    Find,
    /// Waiting for a match in text as a whole.
    Watch,
}

/// A pattern, ready to be searched for, and its place among the searches, which is free again when this is dropped.
#[derive(Debug)]
pub struct Search {
    pub(super) pattern: Pattern,
    pub(super) place: Place,
}

/// See [`Search`].
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

type Turn = Box<dyn FnOnce() + Send>;

/// See the module.
pub(super) struct Searches {
    turns: mpsc::SyncSender<Turn>,
    waits: Arc<Semaphore>,
    finds: Arc<Semaphore>,
}

impl fmt::Debug for Searches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Searches").finish_non_exhaustive()
    }
}

impl Searches {
    /// Starts the threads. They end when this is dropped, after the turns under way.
    ///
    /// # Errors
    /// A thread can't be had.
    pub(super) fn start() -> io::Result<Self> {
        // A search has one turn in the queue at most, so there is always room.
        let (turns, queue) = mpsc::sync_channel::<Turn>(MAX_PATTERN_WAITS + MAX_FINDS);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name("search".into())
                .spawn(move || {
                    loop {
                        // Whoever waits for a turn keeps the lock meanwhile; the others would wait for the same.
                        let turn = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        match turn {
                            Ok(turn) => turn(),
                            Err(_) => return,
                        }
                    }
                })?;
        }
        Ok(Self {
            turns,
            waits: Arc::new(Semaphore::new(MAX_PATTERN_WAITS)),
            finds: Arc::new(Semaphore::new(MAX_FINDS)),
        })
    }

    /// Compiles a pattern for a search that may begin at once.
    ///
    /// # Errors
    /// A bad pattern, or too many waits.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place back.
    pub(super) async fn prepare(
        &self,
        purpose: Purpose,
        pattern: String,
        ignore_case: bool,
    ) -> Result<Search, Refusal> {
        let refused = |error: PatternError| Refusal::Pattern { purpose, error };
        // Before it waits for a place: what waits is to be small.
        pattern::check_length(&pattern).map_err(refused)?;
        let permit = match purpose {
            Purpose::Wait | Purpose::Watch => Arc::clone(&self.waits)
                .try_acquire_owned()
                .map_err(|_| Refusal::TooManyWaits)?,
            Purpose::Find => Arc::clone(&self.finds)
                .acquire_owned()
                .await
                .expect("nobody closes it"),
        };
        let place = Place { _permit: permit };
        let compiled = self
            .run(move || {
                let compiled = match purpose {
                    Purpose::Wait | Purpose::Find => Pattern::new(&pattern, ignore_case),
                    Purpose::Watch => Pattern::across_lines(&pattern),
                };
                compiled.map(|pattern| Search { pattern, place })
            })
            .await?;
        compiled.map_err(refused)
    }

    /// Gives a search its turn: takes steps until one breaks, or for as long as a turn is. Returns the search with what it
    /// broke with.
    ///
    /// # Errors
    /// A step panicked.
    ///
    /// # Cancel safety
    /// Dropped, the search ends with its turn.
    pub(super) async fn turn<S: Send + 'static, R: Send + 'static>(
        &self,
        mut search: S,
        step: fn(&mut S) -> ControlFlow<R>,
    ) -> Result<(S, Option<R>), Refusal> {
        self.run(move || {
            let began = Instant::now();
            loop {
                match step(&mut search) {
                    ControlFlow::Break(result) => return (search, Some(result)),
                    ControlFlow::Continue(()) if began.elapsed() >= TURN => return (search, None),
                    ControlFlow::Continue(()) => {}
                }
            }
        })
        .await
    }

    async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let gone = |_| Refusal::Internal("a search panicked");
        let (answer, result) = oneshot::channel();
        let turn = Box::new(move || {
            // Nobody may wait for it any more.
            drop(answer.send(work()));
        });
        self.turns
            .try_send(turn)
            .map_err(|_| Refusal::Internal("no search thread takes a turn"))?;
        result.await.map_err(gone)
    }
}
