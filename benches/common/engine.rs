//! The engine under test, without the protocol around it.

use std::{
    fs,
    future::pending,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use sluicegate::{
    audit::Log,
    config::{Config, Profile, StdinKind},
    io::Backend,
    process::Nursery,
    session::snapshot::{Output, Snapshot},
    spool::Store,
    supervisor::handle::{Handle, StartRequest},
};

/// The name of the one profile.
const COMMAND_ID: &str = "command";

/// An engine with one profile, and a client's runtime. One at a time: its I/O thread is found by name.
pub struct Engine {
    handle: Handle,
    io_thread: JoinHandle<()>,
    client: tokio::runtime::Runtime,
}

impl Engine {
    /// Hosts `argv` under the default config, as `adjust` changes it.
    pub fn start(argv: Vec<String>, backend: Backend, adjust: impl FnOnce(&mut Config)) -> Engine {
        let root = PathBuf::from("/");
        let profile = Profile {
            stdin: StdinKind::Null,
            ..Profile::new(COMMAND_ID, argv)
        };
        let mut config = Config::with_defaults(vec![root.clone()], root, vec![profile]);
        config.max_timeout_ms = 3_600_000;
        config.default_timeout_ms = config.max_timeout_ms;
        adjust(&mut config);
        let nursery = Arc::new(Nursery::start().expect("a nursery"));
        let store = config
            .spool
            .as_ref()
            .map(|spool| Store::open(spool).expect("a spool"));
        let (handle, io_thread) =
            Handle::start_engine(config, backend, nursery, Log::off(), store).expect("an engine");
        let client = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        Engine {
            handle,
            io_thread,
            client,
        }
    }

    pub fn run<T>(&self, client: impl AsyncFnOnce(&Handle) -> T) -> T {
        self.client.block_on(client(&self.handle))
    }

    /// CPU seconds of its I/O thread.
    pub fn cpu(&self) -> f64 {
        cpu_of(&PathBuf::from(format!("/proc/self/task/{}", self.io_tid())))
    }

    /// The I/O thread's number.
    pub fn io_tid(&self) -> i32 {
        let tasks = fs::read_dir("/proc/self/task").expect("this process's threads");
        for task in tasks {
            let task = task.expect("a thread").path();
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.trim() == "io" {
                let tid = task.file_name().and_then(|tid| tid.to_str());
                return tid.and_then(|tid| tid.parse().ok()).expect("a number");
            }
        }
        panic!("the engine has an I/O thread")
    }

    pub fn end(self) {
        drop(self.handle);
        self.io_thread.join().expect("the I/O thread ends");
    }
}

/// Starts a session.
pub async fn start(handle: &Handle) -> String {
    let request = StartRequest {
        command_id: COMMAND_ID.to_owned(),
        ..StartRequest::default()
    };
    let started = handle.start(request, |_| (), pending(), pending()).await;
    started.expect("a session").snapshot.session_id
}

/// Waits as little as a client that looks now and then: a long poll would have itself woken by each read.
pub async fn settled(handle: &Handle, session: &str) -> Snapshot {
    loop {
        let now = handle.status(session).expect("the session is retained");
        if now.status.is_final() && now.output != Output::Open {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// CPU seconds of the thread whose folder in /proc this is; none when it has ended.
pub fn cpu_of(task: &Path) -> f64 {
    let times = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let running = times.split_whitespace().next();
    running
        .and_then(|ns| ns.parse::<f64>().ok())
        .map_or(0.0, |ns| ns / 1e9)
}
