//! `sluicegate stdio`: the server, from its config to its exit.

use std::{
    io,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::geteuid,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    fail, file_pages,
    log::{self, LogLevel},
    served::{self, ServedArgs},
};
use crate::{
    audit::{Clip, Event, Log},
    config::Config,
    io::{Backend, Choice, Refused},
    mcp::{self, Protocol, Settings},
    process::{Nursery, reap_strangers},
    session::lifecycle::DEFAULT_GRACE,
    spool::Store,
    supervisor::handle::Handle,
};

/// From the first reason to end until the process is gone, at most, less the time that answers already took when input
/// ended. Sessions need their grace and the confirmation of
/// the KILL that may follow; the rest is for answers that the client may still read.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(2_400);
/// How long sessions may take after a second signal: KILL needs no grace, only the kernel's time.
const KILL_LIMIT: Duration = Duration::from_millis(500);
/// How long the exit is held up for keepers that end what their sessions have left, once all handles are gone.
const CLOSE_LIMIT: Duration = Duration::from_millis(200);
/// How long the exit is held up for output that would make the audit log's last lines exact: of killed processes there is
/// little left to read.
const SETTLE_LIMIT: Duration = Duration::from_millis(250);
/// How long the exit is held up for the removal of spooled text, which the next start takes over otherwise.
const UNLINK_LIMIT: Duration = Duration::from_millis(250);
/// As [`SHUTDOWN_LIMIT`], until the audit log's lines are given up.
const EXIT_LIMIT: Duration = Duration::from_millis(2_950);
/// Descriptors that the server holds before its first session, and a few to spare.
pub(super) const OWN_DESCRIPTORS: u64 = 24;
/// Descriptors that a running session holds.
pub(super) const SESSION_DESCRIPTORS: u64 = 7;

// `stdio`'s command line.
#[derive(Debug, Args)]
pub(super) struct StdioArgs {
    #[command(flatten)]
    served: ServedArgs,
    /// How pipes are read and written.
    #[arg(long, value_enum, default_value_t)]
    io: IoChoice,
    /// What goes to stderr.
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    log_level: LogLevel,
}

/// The backends as the command line names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum IoChoice {
    /// io_uring, or epoll where the kernel refuses io_uring.
    #[default]
    Auto,
    /// io_uring, or a failed start.
    Uring,
    /// epoll.
    Epoll,
}

impl IoChoice {
    /// The word on the command line.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            IoChoice::Auto => "auto",
            IoChoice::Uring => "uring",
            IoChoice::Epoll => "epoll",
        }
    }
}

impl From<IoChoice> for Choice {
    fn from(choice: IoChoice) -> Self {
        match choice {
            IoChoice::Auto => Choice::Auto,
            IoChoice::Uring => Choice::Uring,
            IoChoice::Epoll => Choice::Epoll,
        }
    }
}

/// Serves until stdin ends, the client is gone or a signal comes. Exit code 0 then; 1 when it could not start.
pub(super) fn run(args: &StdioArgs) -> ExitCode {
    if let Err(message) = enough_descriptors() {
        return fail(&message);
    }
    // Before everything else: what this process holds now is what every keeper is a copy of.
    let nursery = match Nursery::start() {
        Ok(nursery) => Arc::new(nursery),
        Err(unfit) => return fail(&unfit),
    };
    reap_strangers();
    log::start(args.log_level);
    let Prepared {
        handle,
        protocol,
        settings,
        log,
        store,
    } = match prepare(args, &nursery) {
        Ok(prepared) => prepared,
        Err(message) => return fail(&message),
    };
    file_pages::forget();
    let served = serve(&handle, protocol, settings);
    handle.log_open_ends();
    // The last handle: without one the I/O thread ends, and the sessions with it.
    drop(handle);
    if !nursery.close(CLOSE_LIMIT) {
        tracing::info!("keepers are still at work, with what may stay or what has not died yet");
    }
    let (reason, exit_by) = match &served {
        Ok(left) => (left.reason, left.exit_by),
        Err(_) => ("failed", Instant::now() + SETTLE_LIMIT),
    };
    if let Some(store) = store
        && !store.close(Instant::now() + UNLINK_LIMIT)
    {
        tracing::error!("the spool's disk hangs; its files are left to the next start");
    }
    log.record(|| Event::ServerStop { reason });
    if !log.flush(exit_by) {
        tracing::error!("the audit log hangs; its last lines are lost");
    }
    match served {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Why the server leaves, and until when it may take.
struct Left {
    reason: &'static str,
    exit_by: Instant,
}

/// What serving needs.
struct Prepared {
    handle: Handle,
    protocol: Protocol,
    settings: Settings,
    log: Log,
    store: Option<Arc<Store>>,
}

/// Everything that can fail before the first message. Nothing has been read from stdin or written to stdout then.
fn prepare(args: &StdioArgs, nursery: &Arc<Nursery>) -> Result<Prepared, String> {
    let config = served::config(&args.served, |name| std::env::var_os(name))?;
    let log = match &config.audit_log {
        Some(path) => Log::open(path).map_err(|error| error.to_string())?,
        None => Log::off(),
    };
    let store = match &config.spool {
        Some(spool) => Some(Store::open(spool).map_err(|error| error.to_string())?),
        None => None,
    };
    let settings = Settings::from(&config);
    let handle = start_engine(args.io.into(), &config, nursery, &log, store.as_ref())?;
    let protocol =
        Protocol::take().map_err(|error| format!("can't use stdin and stdout: {error}"))?;
    let config = args.served.config.as_deref().map(std::path::absolute);
    let config = config.and_then(Result::ok).unwrap_or_default();
    let config = config.to_string_lossy();
    log.record(|| Event::ServerStart {
        version: env!("CARGO_PKG_VERSION"),
        config: Clip(&config),
        user_id: geteuid().as_raw(),
    });
    Ok(Prepared {
        handle,
        protocol,
        settings,
        log,
        store,
    })
}

/// Without as many no nursery can be had, or the runtimes can't be built and say so by a panic.
fn enough_descriptors() -> Result<(), String> {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft < OWN_DESCRIPTORS => Err(format!(
            "only {soft} descriptors may be open, the server itself needs {OWN_DESCRIPTORS}, and each running session \
             {SESSION_DESCRIPTORS} more; raise the limit (ulimit -n)"
        )),
        _ => Ok(()),
    }
}

/// Over io_uring where it is allowed, or over what was chosen. The ring itself may still be refused when a small one to try
/// was not, and then it is as if that had been.
fn start_engine(
    choice: Choice,
    config: &Config,
    nursery: &Arc<Nursery>,
    log: &Log,
    store: Option<&Arc<Store>>,
) -> Result<Handle, String> {
    let demanded = |refused: &Refused| format!("--io uring: {refused}");
    let start = |backend| {
        let (handle, _io_thread) = Handle::start_engine(
            config.clone(),
            backend,
            Arc::clone(nursery),
            log.clone(),
            store.cloned(),
        )?;
        Ok(handle)
    };
    let (backend, mut refused) = choice.resolve().map_err(|refused| demanded(&refused))?;
    let mut started: io::Result<Handle> = start(backend);
    if let Err(error) = &started
        && let Some(late) = error.get_ref().and_then(|source| source.downcast_ref())
    {
        if choice == Choice::Uring {
            return Err(demanded(late));
        }
        refused = Some(*late);
        started = start(Backend::Epoll);
    }
    if let Some(refused) = refused {
        tracing::warn!("using epoll: {refused}");
    }
    started.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::OutOfMemory => {
                "; fewer or smaller buffers (max_records, buffer_bytes) need less"
            }
            _ => "",
        };
        format!("can't start: {error}{hint}")
    })
}

fn serve(handle: &Handle, protocol: Protocol, settings: Settings) -> io::Result<Left> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve_until_told(handle, protocol, settings))
}

async fn serve_until_told(
    handle: &Handle,
    protocol: Protocol,
    settings: Settings,
) -> io::Result<Left> {
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let serving = mcp::serve(handle.clone(), settings, protocol, stop.clone());
    tokio::pin!(serving);
    let mut client_left = false;
    let reason = tokio::select! {
        ended = &mut serving => {
            let ended = ended?;
            tracing::info!(?ended, "the client left");
            client_left = true;
            ended.as_str()
        }
        name = signals.next() => {
            tracing::info!("{name}: ending");
            name
        }
    };
    let spent = if client_left {
        mcp::GRACE
    } else {
        Duration::ZERO
    };
    let left = Left {
        reason,
        exit_by: Instant::now() + EXIT_LIMIT - spent,
    };
    let limit = SHUTDOWN_LIMIT - spent;
    let shutdown = async {
        // A client that is still there may ask how its sessions ended until the last one has.
        let all_ended = handle.shut_down(DEFAULT_GRACE);
        tokio::pin!(all_ended);
        tokio::select! {
            () = &mut all_ended => {}
            _ = &mut serving, if !client_left => {
                client_left = true;
                all_ended.await;
            }
        }
        tokio::time::timeout(SETTLE_LIMIT, handle.ends_logged())
            .await
            .ok();
        stop.cancel();
        if !client_left {
            serving.await.ok();
        }
    };
    tokio::select! {
        () = shutdown => {}
        name = signals.next() => {
            tracing::warn!("{name} again: killing");
            tokio::time::timeout(KILL_LIMIT, handle.shut_down(Duration::ZERO)).await.ok();
        }
        () = tokio::time::sleep(limit) => {
            tracing::warn!("not everything ended in time; leaving it behind");
        }
    }
    Ok(left)
}

/// The signals that end the server.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
            _ = self.hup.recv() => "SIGHUP",
        }
    }
}
