//! Starting a session: what may be asked, the launch in a thread of its own, the input and the wait at the start.

use std::{
    future::{Future, pending},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::{Handle, Shared};
use crate::{
    arena::{Budget, RecordLog},
    audit::Client,
    config::{Profile, StdinKind, limits},
    policy::{
        Directory, child_env, find_program, inherited_cwd, inherited_env, open_cwd, vet_executable,
    },
    process::{Launch, SpawnError, Spawned, spawn},
    screen::{Screen, Size},
    session::{
        Session,
        lifecycle::DEFAULT_GRACE,
        snapshot::{Reason, Snapshot},
        tty::Tty,
    },
    supervisor::{
        engine::Adoption, follow, launchers::NoResult, refusal::Refusal, trail::StartTrail,
    },
    view::excerpt::{Excerpt, head_limits},
};

/// Longer than any machine is up.
const NO_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

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
    /// Written to stdin first.
    pub input: String,
    /// Close stdin after the input.
    pub close_stdin: bool,
    /// Don't answer before the session has ended, or this is over.
    pub wait: Option<StartWait>,
    /// For a session on a terminal that doesn't go by the profile alone.
    pub terminal: Option<TerminalRequest>,
}

/// What is asked of a terminal. Such a session has no lifetime, unless its profile names one.
#[derive(Clone, Debug)]
pub struct TerminalRequest {
    /// Its size; the profile's, or 24 lines of 80 columns, when absent.
    pub size: Option<Size>,
    /// Lines that are kept of what has left the top of the screen.
    pub scrollback: usize,
    /// Program and arguments of a command that isn't approved, for those whom the Owner lets start any. It has the
    /// server's environment and directory; `command_id` is what it is called.
    pub free: Option<Vec<String>>,
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

impl Handle {
    /// Starts a session, gives it its input, and waits for its end as the request says. `begun` is told the session's id as soon
    /// as it has one. A client that cancels never learns
    /// the session's id, so the session is ended at once when `cancelled` resolves before the answer. `cut_short` ends
    /// the wait early, as if its time were up.
    ///
    /// # Cancel safety
    /// Dropped while the child is being spawned, the child is killed and reaped, and its place is given back. Dropped later,
    /// the session goes on.
    pub async fn start(
        &self,
        request: StartRequest,
        begun: impl FnOnce(&str),
        cancelled: impl Future<Output = ()>,
        cut_short: impl Future<Output = ()>,
    ) -> Result<Started, Refusal> {
        let mut trail = StartTrail::of(&self.shared.log, &request);
        let started = self
            .start_on(request, begun, cancelled, cut_short, trail.as_mut())
            .await;
        if let (Some(trail), Err(refusal)) = (&mut trail, &started) {
            trail.refused(refusal);
        }
        started
    }

    async fn start_on(
        &self,
        mut request: StartRequest,
        begun: impl FnOnce(&str),
        cancelled: impl Future<Output = ()>,
        cut_short: impl Future<Output = ()>,
        trail: Option<&mut StartTrail<'_>>,
    ) -> Result<Started, Refusal> {
        let config = &self.shared.config;
        let profile = match request
            .terminal
            .as_ref()
            .and_then(|terminal| terminal.free.clone())
        {
            Some(argv) => &Profile::new(&request.command_id, argv),
            None => config
                .command(&request.command_id)
                .ok_or(Refusal::CommandNotFound)?,
        };
        // What the five tools give is the text itself; nobody looks at what has left the screen.
        let terminal = request.terminal.as_ref();
        let scrollback = terminal.map_or(0, |terminal| terminal.scrollback);
        let size = size(&request, profile);
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
        let own_timeout = profile.timeout_ms.map(Duration::from_millis);
        let timeout = request.timeout.or(own_timeout);
        let timeout = timeout.unwrap_or(match request.terminal {
            Some(_) => NO_LIFETIME,
            None => Duration::from_millis(config.default_timeout_ms),
        });

        let client = request.client.clone();
        let (mut child, cwd) = self.launch_in_thread(profile.clone(), request).await?;
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
        let terminal = child.terminal.take().zip(size);
        let tty = terminal.map(|(line, size)| Tty::new(line, Screen::new(size, scrollback)));
        let session = Arc::new(Session::new(
            uuid::Uuid::new_v4().simple().to_string(),
            profile.id.clone(),
            child.leader.pid().as_raw(),
            log,
            self.shared.spooling(),
            tty,
            profile.stdin == StdinKind::Null,
            writes,
        ));
        // Before the session's tasks run: what a start answers is a session that runs, however soon it ends.
        let snapshot = session.snapshot();
        if let Some(trail) = trail {
            trail.started(&session, &cwd, timeout);
        }
        self.shared.ends.expect(&session, client.clone());
        let closed = reservation.commit(Arc::clone(&session));
        begun(session.id());
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
        let written = has_input.then(|| self.write(session.id(), input, close, client, pending()));
        let answer = async {
            if let Some(written) = written {
                // What became of it stands in the session's state.
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

    async fn launch_in_thread(
        &self,
        profile: Profile,
        request: StartRequest,
    ) -> Result<(Spawned, PathBuf), Refusal> {
        let shared = Arc::clone(&self.shared);
        // A child that nobody waits for any more is killed and reaped as its value is dropped.
        let work =
            move |is_wanted: &dyn Fn() -> bool| launch(&shared, &profile, &request, is_wanted);
        let launched = self.shared.launchers.run(work).await;
        launched.unwrap_or_else(|no_result| {
            Err(match no_result {
                NoResult::NoThread => Refusal::StartFailed(SpawnError::OutOfProcesses),
                NoResult::Busy => Refusal::StartsBusy,
                NoResult::Hangs => Refusal::StartHangs,
                NoResult::Panicked => Refusal::Internal("the starting thread panicked"),
            })
        })
    }
}

/// The arguments with the program's place in its name's stead.
fn found(argv: &[String]) -> Result<Vec<String>, Refusal> {
    let program = argv.first().and_then(|name| find_program(name));
    let program = program.and_then(|path| path.into_os_string().into_string().ok());
    let program = program.ok_or(Refusal::StartFailed(SpawnError::NotFound))?;
    let arguments = argv.iter().skip(1).cloned();
    Ok([program].into_iter().chain(arguments).collect())
}

/// The size of the terminal that is to be had, if one is.
fn size(request: &StartRequest, profile: &Profile) -> Option<Size> {
    match &request.terminal {
        Some(terminal) => Some(terminal.size.or(profile.tty).unwrap_or(Size::USUAL)),
        None => profile.tty,
    }
}

/// Everything of a start that may block: resolving the directory, opening it, executing. Returns where the child is, too.
fn launch(
    shared: &Shared,
    profile: &Profile,
    request: &StartRequest,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(Spawned, PathBuf), Refusal> {
    let config = &shared.config;
    let size = size(request, profile);
    let is_free = request
        .terminal
        .as_ref()
        .is_some_and(|terminal| terminal.free.is_some());
    let (argv, variables, Directory { descriptor, place }) = if is_free {
        let directory = inherited_cwd().map_err(Refusal::Cwd)?;
        (found(&profile.argv)?, inherited_env(), directory)
    } else {
        let variables = child_env(profile, &request.env, size.is_some()).map_err(Refusal::Env)?;
        let cwd = match &request.cwd {
            Some(cwd) => Path::new(cwd),
            None => profile.cwd.as_deref().unwrap_or(&config.default_cwd),
        };
        let directory = open_cwd(cwd, &config.allowed_roots).map_err(Refusal::Cwd)?;
        vet_executable(Path::new(&profile.argv[0])).map_err(Refusal::Executable)?;
        (profile.argv.clone(), variables, directory)
    };
    let launch = Launch::new(&argv, &variables, descriptor, profile.stdin);
    let launch = launch
        .map(|launch| {
            launch
                .on_terminal(size)
                .restricted(profile.restrictions)
                .pinned(profile.sha256)
        })
        .and_then(|launch| launch.sandboxed(profile.sandbox.as_ref()))
        .map_err(Refusal::StartFailed)?;
    if !is_wanted() {
        // The caller was told that a path doesn't answer; nothing may run of it now.
        return Err(Refusal::StartHangs);
    }
    spawn(&launch, &shared.nursery)
        .map(|child| (child, place))
        .map_err(Refusal::StartFailed)
}
