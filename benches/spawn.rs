//! Starts per second of `/bin/true` through the engine, against `posix_spawn` and `waitpid` alone.
//!
//! A session is more than a child: three pipes, a pidfd, four tasks, the sweep of its group and the settling of its
//! output. Both sides do one after the other.

#![allow(clippy::print_stdout, unsafe_code)]

use std::{
    ffi::CString,
    future::pending,
    path::PathBuf,
    ptr,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::Pid,
};
use sluicegate::{
    config::{Config, Profile, StdinKind},
    io::{Backend, probe},
    process::Nursery,
    supervisor::handle::{Handle, StartRequest},
};

mod common;

use common::{Options, Table, median, ratio};

const PROGRAM: &str = "/bin/true";

fn main() {
    let options = Options::from_command_line("spawn");
    let starts = options.size(500, 3);
    let mut backends = vec![(Backend::Epoll, "epoll")];
    if probe().is_ok() {
        backends.insert(0, (Backend::Uring, "uring"));
    }
    let mut bare = Vec::new();
    let mut ours: Vec<Vec<f64>> = backends.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        let rate = starts as f64 / timed(|| spawn_and_wait(starts));
        options.record(PROGRAM, "posix_spawn", round, "starts/s", rate);
        bare.push(rate);
        for (&(backend, name), rates) in backends.iter().zip(&mut ours) {
            let rate = starts as f64 / through_the_engine(backend, starts);
            options.record(PROGRAM, name, round, "starts/s", rate);
            rates.push(rate);
        }
    }
    let table = Table::new(&[
        ("work", 30),
        ("baseline", 10),
        ("ours", 10),
        ("ratio", 7),
        ("target", 7),
    ]);
    for ((_, name), rates) in backends.iter().zip(&ours) {
        table.row(&[
            format!("starts/s of {PROGRAM}, {name}"),
            format!("{:.0}", median(&bare)),
            format!("{:.0}", median(rates)),
            format!("{:.2}", ratio(rates, &bare)),
            "0.70".to_owned(),
        ]);
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let before = Instant::now();
    work();
    before.elapsed().as_secs_f64()
}

fn spawn_and_wait(starts: usize) {
    let program = CString::new(PROGRAM).expect("no NUL");
    let argv = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let env = [ptr::null_mut()];
    for _ in 0..starts {
        let mut pid = 0;
        // SAFETY: the program's name is NUL-terminated and lives in this function, both lists end with a null pointer,
        // and null stands for no actions and no attributes.
        let failed = unsafe {
            libc::posix_spawn(
                &mut pid,
                program.as_ptr(),
                ptr::null(),
                ptr::null(),
                argv.as_ptr(),
                env.as_ptr(),
            )
        };
        assert_eq!(failed, 0, "{PROGRAM} can be started");
        let ended = waitpid(Pid::from_raw(pid), None).expect("a child of ours");
        assert!(matches!(ended, WaitStatus::Exited(_, 0)));
    }
}

/// Seconds until the last of `starts` sessions, one after the other, was final.
fn through_the_engine(backend: Backend, starts: usize) -> f64 {
    let root = PathBuf::from("/");
    let profile = Profile {
        stdin: StdinKind::Null,
        ..Profile::new("true", vec![PROGRAM.to_owned()])
    };
    let mut config = Config::with_defaults(vec![root.clone()], root, vec![profile]);
    config.max_records = starts;
    config.buffer_bytes = 65_536;
    let (handle, io_thread) = Handle::start_engine(
        config,
        backend,
        Arc::new(Nursery::start().expect("a nursery")),
    )
    .expect("an engine");
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seconds = client.block_on(async {
        let before = Instant::now();
        for _ in 0..starts {
            let request = StartRequest {
                command_id: "true".to_owned(),
                ..StartRequest::default()
            };
            let started = handle.start(request, pending()).await.expect("a session");
            wait(&handle, &started.session_id).await;
        }
        before.elapsed().as_secs_f64()
    });
    drop(handle);
    io_thread.join().expect("the I/O thread ends");
    seconds
}

async fn wait(handle: &Handle, session: &str) {
    use sluicegate::arena::{Page, PageLimits, Unit};
    let limits = PageLimits {
        bytes: 4,
        records: 1,
        unit: Unit::Runs,
    };
    let mut page = Page::default();
    while !handle.status(session).expect("retained").status.is_final() {
        let read = handle.read(
            session,
            0,
            limits,
            Duration::from_secs(2),
            pending(),
            &mut page,
        );
        read.await.expect("nothing was evicted");
    }
}
