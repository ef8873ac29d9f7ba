//! The request side's way to the sessions: cheap to clone, `Send`, and never blocked by a pipe or a child.

use std::{
    future::Future,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
    oneshot,
};

use crate::{
    arena::{Budget, CursorError, Page, RecordLog, Slab, max_blocks},
    config::{Config, Profile, StdinKind, limits},
    io::Backend,
    policy::{child_env, open_cwd},
    process::{Launch, Nursery, SpawnError, Spawned, spawn},
    session::{
        Session,
        input::{WriteEnd, WriteJob},
        lifecycle::DEFAULT_GRACE,
        snapshot::{Reason, Snapshot},
    },
    supervisor::{
        engine::{self, Adoption},
        follow::{self, ReadRequest, Reading},
        refusal::Refusal,
        table::Table,
    },
    view::excerpt::{Excerpt, head_limits},
};

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
    /// Written to stdin first.
    pub input: String,
    /// Close stdin after the input.
    pub close_stdin: bool,
    /// Don't answer before the session has ended, or this is over.
    pub wait: Option<StartWait>,
}

/// How long a start waits for the end of its session, and how much of the output it returns.
#[derive(Clone, Copy, Debug)]
pub struct StartWait {
    /// The longest wait.
    pub time: Duration,
    /// UTF-8 bytes of text.
    pub output_bytes: usize,
}

/// A session that was started.
#[derive(Debug)]
pub struct Started {
    /// As it was when it had just been started, or at the end of what the start waited for.
    pub snapshot: Snapshot,
    /// Its output, when the start waited for it.
    pub output: Option<Excerpt>,
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
}

impl Handle {
    /// Reserves the arena and starts the I/O thread. The thread ends when the last handle is gone, and its sessions with it.
    /// Children are started by `nursery`.
    ///
    /// # Errors
    /// The arena's address space, the thread or its runtime can't be had.
    pub fn start_engine(
        config: Config,
        backend: Backend,
        nursery: Arc<Nursery>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let per_record = max_blocks(config.buffer_bytes);
        // Two reads are in flight for each session whose pipes are open: up to `max_sessions` that run and, for a
        // second after their end, finals that still drain; those are retained, so `max_records` bounds both.
        let slab = Slab::new(config.max_records * (per_record + limits::READS_PER_SESSION))?;
        let table = Arc::new(Table::new(config.max_sessions, config.max_records));
        let retention = Duration::from_secs(config.retention_seconds);
        let (adoptions, thread) = engine::start(
            backend,
            slab.clone(),
            Arc::clone(&nursery),
            Arc::clone(&table),
            retention,
        )?;
        let shared = Arc::new(Shared {
            config,
            table,
            slab,
            nursery,
            adoptions,
            launches: Arc::new(Semaphore::new(LAUNCHES)),
        });
        Ok((Self { shared }, thread))
    }

    /// Starts a session, gives it its input, and waits for its end as the request says. A client that cancels never learns
    /// the session's id, so the session is ended at once when `cancelled` resolves before the answer. `cut_short` ends
    /// the wait early, as if its time were up.
    ///
    /// # Cancel safety
    /// Dropped while the child is being spawned, the child is killed and reaped, and its place is given back. Dropped later,
    /// the session goes on.
    pub async fn start(
        &self,
        mut request: StartRequest,
        cancelled: impl Future<Output = ()>,
        cut_short: impl Future<Output = ()>,
    ) -> Result<Started, Refusal> {
        let config = &self.shared.config;
        let profile = config
            .command(&request.command_id)
            .ok_or(Refusal::CommandNotFound)?;
        if request.input.len() > config.max_input_bytes {
            return Err(Refusal::InputTooLarge {
                bytes: request.input.len(),
                max: config.max_input_bytes,
            });
        }
        if profile.stdin == StdinKind::Null && !request.input.is_empty() {
            return Err(Refusal::StdinClosed { accepted: 0 });
        }
        let (close, wait) = (request.close_stdin, request.wait);
        let input = std::mem::take(&mut request.input);
        let reservation = self.shared.table.reserve()?;
        let timeout = request.timeout.unwrap_or_else(|| {
            Duration::from_millis(profile.timeout_ms.unwrap_or(config.default_timeout_ms))
        });

        let child = self.launch_in_thread(profile.clone(), request).await?;
        let place = self
            .shared
            .adoptions
            .reserve()
            .await
            .map_err(|_| Refusal::Internal("the I/O thread is gone"))?;
        let started_at = Instant::now();
        let timeout_at = started_at + timeout;

        let (writes, write_queue) = mpsc::channel(limits::MAX_CALLS_IN_FLIGHT);
        let budget = Budget {
            bytes: config.buffer_bytes,
            records: config.buffer_records,
        };
        let mut log = RecordLog::new(self.shared.slab.clone(), budget);
        if let Some(wait) = wait {
            log.begin_survey(head_limits(wait.output_bytes));
        }
        let session = Arc::new(Session::new(
            uuid::Uuid::new_v4().simple().to_string(),
            profile.id.clone(),
            child.leader.pid().as_raw(),
            log,
            profile.stdin == StdinKind::Null,
            writes,
        ));
        // Before the session's tasks run: what a start answers is a session that runs, however soon it ends.
        let snapshot = session.snapshot();
        let closed = reservation.commit(Arc::clone(&session));
        place.send(Adoption {
            session: Arc::clone(&session),
            child,
            timeout_at,
            allow_detach: profile.allow_detach,
            writes: write_queue,
        });
        if closed {
            session.request_end(Reason::Shutdown, DEFAULT_GRACE);
        }
        let has_input = close || !input.is_empty();
        let written = has_input.then(|| enqueue(&session, input, close));
        let answer = async {
            // What became of the write stands in the session's state.
            if let Some(Ok(written)) = written {
                written.await.ok();
            }
            let (snapshot, output) = match wait {
                Some(StartWait { time, output_bytes }) => {
                    let time = time.saturating_sub(started_at.elapsed());
                    let (snapshot, output) =
                        follow::read_all(&session, output_bytes, time, cut_short).await;
                    (snapshot, Some(output))
                }
                None if has_input => (session.snapshot(), None),
                None => (snapshot, None),
            };
            Ok(Started { snapshot, output })
        };
        tokio::select! {
            biased;
            () = cancelled => {
                session.request_end(Reason::User, Duration::ZERO);
                Ok(Started { snapshot: session.snapshot(), output: None })
            }
            answer = answer => answer,
        }
    }

    /// A directory or an executable on a dead network mount blocks whoever opens it, for ever. That must be neither this
    /// thread, which answers every other call, nor the I/O thread, which drains every other job.
    async fn launch_in_thread(
        &self,
        profile: Profile,
        request: StartRequest,
    ) -> Result<Spawned, Refusal> {
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

    /// Reads a page into `page`, see [`follow::read`].
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
        follow::read(&session, request, cut_short, page).await
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
        cancelled: C,
    ) -> impl Future<Output = Result<Written, Refusal>> + Send + use<C>
    where
        C: Future<Output = ()> + Send,
    {
        let queued = self.queue_write(session_id, text, close_stdin);
        async move {
            let (session, mut end) = queued?;
            tokio::pin!(cancelled);
            let end = tokio::select! {
                biased;
                // First: the answer to a cancelled call never reaches the client, who then can't tell that the write
                // was through already. Only the session can still say so.
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
    }

    fn queue_write(
        &self,
        session_id: &str,
        text: String,
        close: bool,
    ) -> Result<(Arc<Session>, oneshot::Receiver<WriteEnd>), Refusal> {
        let max = self.shared.config.max_input_bytes;
        let session = self.shared.table.find(session_id)?;
        if text.len() > max {
            return Err(Refusal::InputTooLarge {
                bytes: text.len(),
                max,
            });
        }
        let end = enqueue(&session, text, close)?;
        Ok((session, end))
    }

    /// Ends the session's group and resolves when its end is confirmed, or can't be.
    ///
    /// # Cancel safety
    /// The end goes on when the future is dropped.
    pub async fn terminate(&self, session_id: &str, grace: Duration) -> Result<Snapshot, Refusal> {
        let session = self.shared.table.find(session_id)?;
        session.request_end(Reason::User, grace);
        session.ended().await;
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
}

fn enqueue(
    session: &Session,
    text: String,
    close: bool,
) -> Result<oneshot::Receiver<WriteEnd>, Refusal> {
    let (reply, end) = oneshot::channel();
    let job = WriteJob {
        text: Bytes::from(text),
        close,
        reply,
    };
    match session.enqueue(job) {
        Ok(()) => Ok(end),
        Err(TrySendError::Closed(_)) => Err(Refusal::SessionNotRunning { accepted: 0 }),
        // As many writes wait as calls may be in flight, so the wire's own bound comes first.
        Err(TrySendError::Full(_)) => Err(Refusal::Internal("the write queue is full")),
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

/// Everything of a start that may block: resolving the directory, opening it, executing.
fn launch(shared: &Shared, profile: &Profile, request: &StartRequest) -> Result<Spawned, Refusal> {
    let config = &shared.config;
    let variables = child_env(profile, &request.env).map_err(Refusal::Env)?;
    let cwd = match &request.cwd {
        Some(cwd) => Path::new(cwd),
        None => profile.cwd.as_deref().unwrap_or(&config.default_cwd),
    };
    let cwd = open_cwd(cwd, &config.allowed_roots).map_err(Refusal::Cwd)?;
    let launch = Launch::new(&profile.argv, &variables, cwd, profile.stdin);
    launch
        .and_then(|launch| spawn(&launch.restricted(profile.restrictions), &shared.nursery))
        .map_err(Refusal::StartFailed)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::arena::Unit;

    /// A host that approves one command.
    fn host(argv: &[&str]) -> Handle {
        let mut config = Config::demo(Path::new("/"), Path::new("/nonexistent"));
        config.commands.truncate(1);
        config.commands[0].id = "job".to_owned();
        config.commands[0].argv = argv.iter().map(|&arg| arg.to_owned()).collect();
        let nursery = Arc::new(Nursery::start().unwrap());
        Handle::start_engine(config, Backend::Epoll, nursery)
            .unwrap()
            .0
    }

    async fn start(host: &Handle) -> Result<Snapshot, Refusal> {
        let request = StartRequest {
            command_id: "job".to_owned(),
            ..StartRequest::default()
        };
        let started = host.start(request, pending(), pending()).await?;
        Ok(started.snapshot)
    }

    #[tokio::test]
    async fn a_write_that_was_through_when_its_cancellation_came_is_uncertain_all_the_same() {
        let host = host(&["/bin/cat"]);
        let session = start(&host).await.unwrap().session_id;
        let cancelled = host.write(&session, "one".to_owned(), false, ready(()));
        // Writes of a session are made in order: once this one is answered, so is the first.
        let after = host.write(&session, "two".to_owned(), false, pending());
        assert_eq!(after.await.unwrap().accepted, 3);
        assert_eq!(cancelled.await.unwrap().accepted, 3);

        let snapshot = host.status(&session).unwrap();
        assert!(snapshot.input_uncertain && snapshot.stdin_closed);
        let late = host.write(&session, "three".to_owned(), false, pending());
        assert!(matches!(
            late.await,
            Err(Refusal::InputUncertain { accepted: 0 } | Refusal::SessionNotRunning { .. })
        ));
        let limits = PageLimits {
            bytes: 64,
            records: 64,
            unit: Unit::Runs,
        };
        let mut page = Page::default();
        let wait = Duration::from_secs(2);
        host.read(&session, 0, limits, wait, pending(), &mut page)
            .await
            .unwrap();
        assert!(
            page.text.starts_with("one"),
            "what was written stays written"
        );
        host.shut_down(Duration::ZERO).await;
    }

    /// The soft limit only, so that it can be raised again.
    fn limit_memory(bytes: u64) {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
        setrlimit(Resource::RLIMIT_AS, bytes.min(hard), hard).unwrap();
    }

    #[test]
    fn a_start_that_can_have_no_thread_is_refused_and_the_next_one_works() {
        crate::process::testing::in_own_process(
            "supervisor::handle::tests::inner_no_thread",
            "exec",
        );
    }

    #[tokio::test]
    #[ignore = "limits the memory of its process; started by the test above"]
    async fn inner_no_thread() {
        let host = host(&["/bin/true"]);
        limit_memory(1 << 20);
        let refused = start(&host).await;
        limit_memory(u64::MAX);
        assert_eq!(
            refused.unwrap_err(),
            Refusal::StartFailed(SpawnError::OutOfProcesses)
        );
        start(&host).await.unwrap();
        host.shut_down(Duration::ZERO).await;
    }
}
