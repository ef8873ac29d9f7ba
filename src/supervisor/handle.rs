//! The request side's way to the sessions: cheap to clone, `Send`, and never blocked by a pipe or a child.

use std::{future::Future, sync::Arc, thread::JoinHandle, time::Duration};

use bytes::Bytes;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use crate::{
    arena::{CursorError, MAX_LEAVING, Page, Slab, max_blocks},
    audit::{Client, Log},
    config::{Config, Profile, limits},
    io::Backend,
    process::Nursery,
    session::{
        Session, Spooling,
        input::{WriteEnd, WriteJob},
        lifecycle::DEFAULT_GRACE,
        snapshot::{Reason, Snapshot},
        tty::MAX_LINE,
    },
    spool::Store,
    supervisor::{
        engine::{self, Adoption},
        follow::{self, ReadRequest, Reading},
        launchers::Launchers,
        refusal::Refusal,
        search::Searches,
        table::Table,
        trail::{self, Ends, WriteTrail},
    },
};

mod changes;
mod readings;
mod starts;
mod tail;
mod terminals;
mod watches;

pub use changes::Changes;
pub use readings::{FindReading, Glance, PlainReading};
pub use starts::{StartRequest, StartWait, Started, TerminalRequest};
pub use terminals::{Line, Piece};
pub use watches::TextWatch;

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes that the pipe took: all of them.
    pub accepted: usize,
    /// Whether stdin is closed now.
    pub stdin_closed: bool,
    /// The session's `next_cursor` when the write's turn came: what the child answers starts here or later.
    pub next_cursor: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    table: Arc<Table>,
    slab: Slab,
    nursery: Arc<Nursery>,
    adoptions: mpsc::Sender<Adoption>,
    launchers: Launchers,
    searches: Searches,
    log: Log,
    ends: Arc<Ends>,
    /// Where text goes that memory has no room for, when the Owner keeps it.
    store: Option<Arc<Store>>,
}

impl Shared {
    /// Where the text of a new session goes.
    fn spooling(&self) -> Option<Spooling> {
        let (store, config) = self.store.as_ref().zip(self.config.spool.as_ref())?;
        Some(Spooling {
            spool: store.spool(),
            when_slow: config.when_slow,
        })
    }
}

impl Handle {
    /// Reserves the arena and starts the I/O thread and those that search. They end when the last handle is gone, and its sessions with them.
    /// Children are started by `nursery`; what clients had done goes to `log`, and what memory has no room for to `store`, which
    /// was opened for this config.
    ///
    /// # Errors
    /// The arena's address space, a thread or its runtime can't be had.
    pub fn start_engine(
        config: Config,
        backend: Backend,
        nursery: Arc<Nursery>,
        log: Log,
        store: Option<Arc<Store>>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let leaving = store.as_ref().map_or(0, |_| MAX_LEAVING);
        let per_record = max_blocks(config.buffer_bytes) + leaving;
        // Two reads are in flight for each session whose pipes are open: up to `max_sessions` that run and, for a
        // second after their end, finals that still drain; those are retained, so `max_records` bounds both.
        let slab = Slab::new(config.max_records * (per_record + limits::READS_PER_SESSION))?;
        let table = Arc::new(Table::new(config.max_sessions, config.max_records));
        let ends = Arc::new(Ends::new(log.clone()));
        let retention = Duration::from_secs(config.retention_seconds);
        let searches = Searches::start()?;
        let (adoptions, thread) = engine::start(
            backend,
            slab.clone(),
            Arc::clone(&nursery),
            Arc::clone(&table),
            Arc::clone(&ends),
            retention,
        )?;
        let shared = Arc::new(Shared {
            config,
            table,
            slab,
            nursery,
            adoptions,
            launchers: Launchers::new(),
            searches,
            log,
            ends,
            store,
        });
        Ok((Self { shared }, thread))
    }

    /// The session as it is now.
    pub fn status(&self, session_id: &str) -> Result<Snapshot, Refusal> {
        Ok(self.shared.table.find(session_id)?.snapshot())
    }

    /// The approved command of this name.
    pub fn approved(&self, command_id: &str) -> Option<&Profile> {
        self.shared.config.command(command_id)
    }

    /// Has the session forgotten as soon as it is over, or now, instead of being retained.
    pub fn forget(&self, session_id: &str) {
        if let Ok(session) = self.shared.table.find(session_id) {
            session.forgotten.notify_one();
        }
    }

    /// Every retained session as it is now, the newest first.
    pub fn sessions(&self) -> Vec<Snapshot> {
        let sessions = self.shared.table.newest_first();
        sessions.iter().map(|session| session.snapshot()).collect()
    }

    /// Reads a page into `page`, see `follow::read`.
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn read(
        &self,
        session_id: &str,
        request: ReadRequest,
        cut_short: impl Future<Output = ()>,
        page: &mut Page,
    ) -> Result<Reading, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let searches = &self.shared.searches;
        follow::read(&session, searches, request, cut_short, page).await
    }

    /// Queues a write at once, in the call itself; the returned future waits for its end. Writes of one session are
    /// made in the order of these calls. When `cancelled` resolves first, the session's input becomes uncertain and
    /// its stdin is closed.
    ///
    /// # Cancel safety
    /// A dropped future leaves the write queued; it's made all the same.
    pub fn write<C>(
        &self,
        session_id: &str,
        text: String,
        close_stdin: bool,
        client: Option<Client>,
        cancelled: C,
    ) -> impl Future<Output = Result<Written, Refusal>> + Send + use<C>
    where
        C: Future<Output = ()> + Send,
    {
        let trail = WriteTrail::of(
            &self.shared.log,
            client,
            session_id,
            &text,
            false,
            close_stdin,
        );
        self.write_on(session_id, text, close_stdin, trail, cancelled)
    }

    /// As [`Handle::write`], of text that nothing must tell of but its length.
    ///
    /// # Cancel safety
    /// As [`Handle::write`].
    pub fn write_secret<C>(
        &self,
        session_id: &str,
        text: String,
        client: Option<Client>,
        cancelled: C,
    ) -> impl Future<Output = Result<Written, Refusal>> + Send + use<C>
    where
        C: Future<Output = ()> + Send,
    {
        let trail = WriteTrail::of(&self.shared.log, client, session_id, &text, true, false);
        self.write_on(session_id, text, false, trail, cancelled)
    }

    fn write_on<C>(
        &self,
        session_id: &str,
        text: String,
        close_stdin: bool,
        mut trail: Option<WriteTrail>,
        cancelled: C,
    ) -> impl Future<Output = Result<Written, Refusal>> + Send + use<C>
    where
        C: Future<Output = ()> + Send,
    {
        let found = self.shared.table.find(session_id);
        if let (Some(trail), Ok(session)) = (&mut trail, &found) {
            trail.found(session);
        }
        let queued = found.and_then(|session| self.queue_write(session, text, close_stdin));
        async move {
            let written = match queued {
                Ok((session, end)) => await_write(&session, end, cancelled).await,
                Err(refusal) => Err(refusal),
            };
            if let Some(trail) = &mut trail {
                trail.ended(written.as_ref().map(|written| written.accepted));
            }
            written
        }
    }

    fn queue_write(
        &self,
        session: Arc<Session>,
        text: String,
        close: bool,
    ) -> Result<(Arc<Session>, oneshot::Receiver<WriteEnd>), Refusal> {
        let max = self.shared.config.max_input_bytes;
        if text.len() > max {
            return Err(Refusal::InputTooLarge {
                bytes: text.len(),
                max,
            });
        }
        let (reply, end) = oneshot::channel();
        let job = WriteJob {
            text: Bytes::from(text),
            close,
            reply,
        };
        match session.enqueue(job) {
            Ok(()) => Ok((session, end)),
            Err(TrySendError::Closed(_)) => Err(Refusal::SessionNotRunning { accepted: 0 }),
            // As many writes wait as calls may be in flight, so the wire's own bound comes first.
            Err(TrySendError::Full(_)) => Err(Refusal::Internal("the write queue is full")),
        }
    }

    /// Ends the session's group and resolves when its end is confirmed, or can't be. When `hurry` resolves first, the
    /// grace is cut to that of a shutdown.
    ///
    /// # Cancel safety
    /// The end goes on when the future is dropped.
    pub async fn terminate(
        &self,
        session_id: &str,
        grace: Duration,
        client: Option<Client>,
        hurry: impl Future<Output = ()>,
    ) -> Result<Snapshot, Refusal> {
        let found = self.shared.table.find(session_id);
        trail::terminate(
            &self.shared.log,
            client.as_ref(),
            session_id,
            grace,
            found.as_deref(),
        );
        let session = found?;
        session.request_end(Reason::User, grace);
        tokio::select! {
            biased;
            () = session.ended() => {}
            () = hurry => {
                session.request_end(Reason::User, DEFAULT_GRACE);
                session.ended().await;
            }
        }
        Ok(session.snapshot())
    }

    /// Refuses every further start and ends all sessions; resolves when each is final. A second call with a shorter
    /// grace shortens it.
    ///
    /// # Cancel safety
    /// The ends go on when the future is dropped.
    pub async fn shut_down(&self, grace: Duration) {
        let table = &self.shared.table;
        for session in table.close() {
            session.request_end(Reason::Shutdown, grace);
        }
        table.starts_settled().await;
        for session in table.close() {
            session.ended().await;
        }
    }

    /// Where calls that never reach a session are told of.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Resolves when the log has the end of every session, which comes with the last of its output. At once without a log.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn ends_logged(&self) {
        self.shared.ends.all_told().await;
    }

    /// Logs of every session whose end the log doesn't have how it stands: the last thing to do with the sessions.
    pub fn log_open_ends(&self) {
        self.shared.ends.tell_all();
    }
}

/// Waits until a queued write is through, or cut off.
async fn await_write(
    session: &Session,
    mut end: oneshot::Receiver<WriteEnd>,
    cancelled: impl Future<Output = ()>,
) -> Result<Written, Refusal> {
    tokio::pin!(cancelled);
    let end = tokio::select! {
        biased;
        // First: the answer to a cancelled call never reaches the client, who then can't tell that the write was through
        // already. Only the session can still say so.
        () = cancelled => {
            session.abandon_input();
            end.await
        }
        end = &mut end => end,
    };
    match end.map_err(|_| Refusal::SessionNotRunning { accepted: 0 })? {
        WriteEnd::Done {
            accepted,
            stdin_closed,
            next_cursor,
        } => Ok(Written {
            accepted,
            stdin_closed,
            next_cursor,
        }),
        WriteEnd::Backpressure { accepted, closed } => {
            Err(Refusal::InputBackpressure { accepted, closed })
        }
        WriteEnd::Uncertain { accepted } => Err(Refusal::InputUncertain { accepted }),
        WriteEnd::LineTooLong { bytes } => Err(Refusal::LineTooLong {
            bytes,
            max: MAX_LINE,
        }),
        WriteEnd::Closed { accepted } => Err(Refusal::StdinClosed { accepted }),
        WriteEnd::NotRunning { accepted } => Err(Refusal::SessionNotRunning { accepted }),
    }
}

impl From<CursorError> for Refusal {
    fn from(error: CursorError) -> Self {
        match error {
            CursorError::Expired { base, next } => Refusal::CursorExpired { base, next },
            CursorError::Invalid { base, next } => Refusal::InvalidCursor { base, next },
        }
    }
}

#[cfg(test)]
mod tests;
