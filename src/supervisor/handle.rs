//! The request side's way to the sessions: cheap to clone, `Send`, and never blocked by a pipe or a child.

use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{
        Semaphore,
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Instant, sleep_until},
};

use crate::{
    arena::{Budget, CursorError, Page, PageLimits, RecordLog, Slab, max_blocks},
    audit::{Client, Log},
    config::{Config, Profile, StdinKind, limits},
    io::Backend,
    policy::{Directory, child_env, open_cwd, vet_executable},
    process::{Launch, Nursery, SpawnError, Spawned, spawn},
    session::{
        Session,
        input::{WriteEnd, WriteJob},
        lifecycle::DEFAULT_GRACE,
        snapshot::{Output, Reason, Snapshot, Status},
    },
    supervisor::{
        engine::{self, Adoption},
        refusal::Refusal,
        table::Table,
        trail::{self, Ends, StartTrail, WriteTrail},
    },
};

pub mod readings;

/// Starts that may block at once, for example on a dead network mount, before further ones wait.
const LAUNCHES: usize = 4;

/// What a client asks to be started. Already of the right types; not yet checked against the policy.
#[derive(Clone, Debug, Default)]
pub struct StartRequest {
    /// Name of an approved command.
    pub command_id: String,
    /// Working directory; the profile's or the config's default when absent.
    pub cwd: Option<String>,
    /// Variables, in the client's order.
    pub env: Vec<(String, String)>,
    /// Lifetime; the profile's or the config's default when absent. In range.
    pub timeout: Option<Duration>,
    /// Who asks.
    pub client: Option<Client>,
}

/// What stands beside a page. Consistent with the page: both were taken under one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFacts {
    /// The session's status.
    pub status: Status,
    /// Whether more output may come.
    pub output: Output,
    /// Whether anything was ever evicted.
    pub truncated: bool,
}

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
    /// One permit for each start that may be in its thread.
    launches: Arc<Semaphore>,
    log: Log,
    ends: Arc<Ends>,
}

impl Handle {
    /// Reserves the arena and starts the I/O thread. The thread ends when the last handle is gone, and its sessions with it.
    /// Children are started by `nursery`; what clients had done goes to `log`.
    ///
    /// # Errors
    /// The arena's address space, the thread or its runtime can't be had.
    pub fn start_engine(
        config: Config,
        backend: Backend,
        nursery: Arc<Nursery>,
        log: Log,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let per_record = max_blocks(config.buffer_bytes);
        // Two reads are in flight for each session whose pipes are open: up to `max_sessions` that run and, for a
        // second after their end, finals that still drain; those are retained, so `max_records` bounds both.
        let slab = Slab::new(config.max_records * (per_record + limits::READS_PER_SESSION))?;
        let table = Arc::new(Table::new(config.max_sessions, config.max_records));
        let ends = Arc::new(Ends::new(log.clone()));
        let retention = Duration::from_secs(config.retention_seconds);
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
            launches: Arc::new(Semaphore::new(LAUNCHES)),
            log,
            ends,
        });
        Ok((Self { shared }, thread))
    }

    /// Starts a session. When `cancelled` has resolved by the time that the child runs, the child is ended at once.
    ///
    /// # Cancel safety
    /// Dropped while the child is being spawned, the child is killed and reaped, and its place is given back.
    pub async fn start(
        &self,
        request: StartRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Snapshot, Refusal> {
        let mut trail = StartTrail::of(&self.shared.log, &request);
        let started = self.start_on(request, cancelled, trail.as_mut()).await;
        if let (Some(trail), Err(refusal)) = (&mut trail, &started) {
            trail.refused(refusal);
        }
        started
    }

    async fn start_on(
        &self,
        request: StartRequest,
        cancelled: impl Future<Output = ()>,
        trail: Option<&mut StartTrail<'_>>,
    ) -> Result<Snapshot, Refusal> {
        let config = &self.shared.config;
        let profile = config
            .command(&request.command_id)
            .ok_or(Refusal::CommandNotFound)?;
        let reservation = self.shared.table.reserve()?;
        let timeout = request.timeout.unwrap_or_else(|| {
            Duration::from_millis(profile.timeout_ms.unwrap_or(config.default_timeout_ms))
        });

        let client = request.client.clone();
        let (child, cwd) = self.launch_in_thread(profile.clone(), request).await?;
        let place = self
            .shared
            .adoptions
            .reserve()
            .await
            .map_err(|_| Refusal::Internal("the I/O thread is gone"))?;
        let timeout_at = Instant::now() + timeout;

        let (writes, write_queue) = mpsc::channel(limits::MAX_CALLS_IN_FLIGHT);
        let budget = Budget {
            bytes: config.buffer_bytes,
            records: config.buffer_records,
        };
        let session = Arc::new(Session::new(
            uuid::Uuid::new_v4().simple().to_string(),
            profile.id.clone(),
            child.leader.pid().as_raw(),
            RecordLog::new(self.shared.slab.clone(), budget),
            profile.stdin == StdinKind::Null,
            writes,
        ));
        // Before the session's tasks run: what a start answers is a session that runs, however soon it ends.
        let snapshot = session.snapshot();
        if let Some(trail) = trail {
            trail.started(&session, &cwd, timeout);
        }
        self.shared.ends.expect(&session, client);
        let closed = reservation.commit(Arc::clone(&session));
        place.send(Adoption {
            session: Arc::clone(&session),
            child,
            timeout_at,
            allow_detach: profile.allow_detach,
            writes: write_queue,
        });
        tokio::select! {
            biased;
            () = cancelled => session.request_end(Reason::User, Duration::ZERO),
            () = std::future::ready(()) => {}
        }
        if closed {
            session.request_end(Reason::Shutdown, DEFAULT_GRACE);
        }
        Ok(snapshot)
    }

    /// A directory or an executable on a dead network mount blocks whoever opens it, for ever. That must be neither this
    /// thread, which answers every other call, nor the I/O thread, which drains every other job.
    async fn launch_in_thread(
        &self,
        profile: Profile,
        request: StartRequest,
    ) -> Result<(Spawned, PathBuf), Refusal> {
        let slot = Arc::clone(&self.shared.launches)
            .acquire_owned()
            .await
            .expect("nobody closes it");
        let shared = Arc::clone(&self.shared);
        let (answer, child) = oneshot::channel();
        // Not tokio's blocking pool, which panics when it can't have its first thread.
        thread::Builder::new()
            .name("start".into())
            .spawn(move || {
                let child = launch(&shared, &profile, &request);
                // A child that nobody waits for any more is killed and reaped as its value is dropped.
                answer.send(child).ok();
                drop(slot);
            })
            .map_err(|_| Refusal::StartFailed(SpawnError::OutOfProcesses))?;
        child
            .await
            .map_err(|_| Refusal::Internal("the starting thread panicked"))?
    }

    /// The session as it is now.
    pub fn status(&self, session_id: &str) -> Result<Snapshot, Refusal> {
        Ok(self.shared.table.find(session_id)?.snapshot())
    }

    /// Every retained session as it is now, the newest first.
    pub fn sessions(&self) -> Vec<Snapshot> {
        let sessions = self.shared.table.newest_first();
        sessions.iter().map(|session| session.snapshot()).collect()
    }

    /// Copies a page into `page`, waiting up to `wait` while there is nothing at `cursor` and more may come.
    /// `cut_short` ends the wait early, as if its time were up.
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn read(
        &self,
        session_id: &str,
        cursor: u64,
        limits: PageLimits,
        wait: Duration,
        cut_short: impl Future<Output = ()>,
        page: &mut Page,
    ) -> Result<PageFacts, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let wait_until = Instant::now() + wait;
        let mut waiting = !wait.is_zero();
        tokio::pin!(cut_short);
        loop {
            let changed = session.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, or what comes between the two would be missed.
            changed.as_mut().enable();
            {
                let state = session.state();
                state
                    .log
                    .page(cursor, limits, page)
                    .map_err(Refusal::from)?;
                let nothing_yet = page.runs.is_empty() && state.output == Output::Open;
                if !(waiting && nothing_yet) {
                    return Ok(PageFacts {
                        status: state.status,
                        output: state.output,
                        truncated: state.log.truncated(),
                    });
                }
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(wait_until) => waiting = false,
                () = &mut cut_short => waiting = false,
            }
        }
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
        let mut trail = WriteTrail::of(&self.shared.log, client, session_id, &text, close_stdin);
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
        match session.enqueue(WriteJob {
            text: Bytes::from(text),
            close,
            reply,
        }) {
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
        WriteEnd::Backpressure { accepted } => Err(Refusal::InputBackpressure { accepted }),
        WriteEnd::Uncertain { accepted } => Err(Refusal::InputUncertain { accepted }),
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

/// Everything of a start that may block: resolving the directory, opening it, executing. Returns where the child is, too.
fn launch(
    shared: &Shared,
    profile: &Profile,
    request: &StartRequest,
) -> Result<(Spawned, PathBuf), Refusal> {
    let config = &shared.config;
    let variables = child_env(profile, &request.env).map_err(Refusal::Env)?;
    let cwd = match &request.cwd {
        Some(cwd) => Path::new(cwd),
        None => profile.cwd.as_deref().unwrap_or(&config.default_cwd),
    };
    let Directory { descriptor, place } =
        open_cwd(cwd, &config.allowed_roots).map_err(Refusal::Cwd)?;
    vet_executable(Path::new(&profile.argv[0])).map_err(Refusal::Executable)?;
    let launch = Launch::new(&profile.argv, &variables, descriptor, profile.stdin);
    launch
        .map(|launch| {
            launch
                .restricted(profile.restrictions)
                .pinned(profile.sha256)
        })
        .and_then(|launch| launch.sandboxed(profile.sandbox.as_ref()))
        .and_then(|launch| spawn(&launch, &shared.nursery))
        .map(|child| (child, place))
        .map_err(Refusal::StartFailed)
}

#[cfg(test)]
mod tests;
