//! Starts per second of `/bin/true` through the engine, against `posix_spawn` and `waitpid` alone.
//!
//! A session is more than a child: three pipes, a pidfd, four tasks, the sweep of its group and the settling of its
//! output. Both sides do one after the other.

#![allow(unsafe_code)]

use std::{
    ffi::CString,
    future::pending,
    ptr,
    time::{Duration, Instant},
};

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::Pid,
};
use sluicegate::{
    arena::{Page, PageLimits, Unit},
    io::Backend,
    supervisor::follow::{Place, ReadRequest, Until},
    supervisor::handle::Handle,
};

mod common;

use common::{
    Bench, backends,
    engine::{Engine, start},
    name,
};

const PROGRAM: &str = "/bin/true";

fn main() {
    let bench = Bench::from_command_line("spawn", 5);
    let starts = bench.size(500, 3);
    for round in 0..bench.rounds {
        let add = |contender, seconds: f64| {
            let rate = starts as f64 / seconds;
            let work = "/bin/true one after the other";
            bench.add(work, "starts", "/s", contender, round, rate);
        };
        add("posix_spawn", timed(|| spawn_and_wait(starts)));
        for backend in backends() {
            add(name(backend), through_the_engine(backend, starts));
        }
    }
    bench.finish();
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
    let engine = Engine::start(vec![PROGRAM.to_owned()], backend, |config| {
        config.max_records = starts;
        config.buffer_bytes = 65_536;
    });
    let seconds = engine.run(async |handle| {
        let before = Instant::now();
        for _ in 0..starts {
            let session = start(handle).await;
            wait(handle, &session).await;
        }
        before.elapsed().as_secs_f64()
    });
    engine.end();
    seconds
}

async fn wait(handle: &Handle, session: &str) {
    let limits = PageLimits {
        bytes: 4,
        records: 1,
        unit: Unit::Runs,
    };
    let mut page = Page::default();
    while !handle.status(session).expect("retained").status.is_final() {
        let request = ReadRequest {
            place: Place::Cursor(0),
            limits,
            until: Until::Record,
            wait: Duration::from_secs(2),
        };
        let read = handle.read(session, request, pending(), &mut page);
        read.await.expect("nothing was evicted");
    }
}
