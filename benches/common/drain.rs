//! Draining writers to their end: a bare loop of `read(2)`, which looks at nothing and keeps nothing, and the engine.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::resource::{UsageWho, getrusage},
    unistd::read,
};
use sluicegate::{
    config::Config,
    io::Backend,
    session::snapshot::{Output, Snapshot},
};

use super::{
    Aligned, KIB,
    engine::{Engine, settled, start},
    writer::Writes,
};

/// The pipe that a pump asks for when its writer fills the default one.
pub const LARGE_PIPE: i32 = 256 * 1024;
const READ_BYTES: usize = 64 * KIB;

/// One run.
pub struct Drained {
    /// From the first start to the last end.
    pub took: Duration,
    /// CPU seconds of the reading threads.
    pub cpu: f64,
    /// System calls of the bare loop. The engine doesn't count its own.
    pub calls: usize,
}

/// One thread for each pipe, which reads 64 KiB at a time from a pipe of this size; the default one when absent.
pub fn bare(writes: Writes, total: usize, pipe: Option<i32>) -> Drained {
    let each = total / writes.pipes;
    let writers: Vec<(Child, OwnedFd)> = (0..writes.pipes)
        .map(|_| spawn(writes, each, pipe))
        .collect();
    let before = Instant::now();
    let (cpu, calls) = thread::scope(|scope| {
        let drains: Vec<_> = writers
            .into_iter()
            .map(|(mut child, pipe)| {
                scope.spawn(move || {
                    let (drained, calls) = drain(&pipe);
                    let cpu = cpu_of_this_thread();
                    child.wait().expect("the writer ends");
                    assert_eq!(drained, each, "every byte was read");
                    (cpu, calls)
                })
            })
            .collect();
        let ends = drains
            .into_iter()
            .map(|drain| drain.join().expect("a drain ends"));
        ends.fold((0.0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1))
    });
    Drained {
        took: before.elapsed(),
        cpu,
        calls,
    }
}

fn spawn(writes: Writes, total: usize, pipe: Option<i32>) -> (Child, OwnedFd) {
    let (ours, theirs) = io::pipe().expect("a pipe");
    if let Some(size) = pipe {
        fcntl(&ours, FcntlArg::F_SETPIPE_SZ(size)).expect("a larger pipe");
    }
    let argv = writes.argv(total);
    let child = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(theirs)
        .spawn();
    (child.expect("a writer"), ours.into())
}

/// Bytes and calls.
fn drain(pipe: &OwnedFd) -> (usize, usize) {
    let mut buffer = Aligned::new(READ_BYTES);
    let (mut drained, mut calls) = (0, 0);
    loop {
        calls += 1;
        match read(pipe, &mut buffer).expect("a pipe can be read") {
            0 => return (drained, calls),
            n => drained += n,
        }
    }
}

fn cpu_of_this_thread() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread's own usage");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum()
}

/// An engine that hosts one such writer for each pipe.
pub fn engine(writes: Writes, each: usize, backend: Backend) -> Engine {
    Engine::start(writes.argv(each), backend, |config: &mut Config| {
        config.max_sessions = writes.pipes;
        config.max_records = config.max_records.max(writes.pipes);
    })
}

/// The whole way of a byte: read, decode, count, append, evict, with the default budgets. `around` runs the drain, and
/// may watch the engine meanwhile.
pub fn ours(
    writes: Writes,
    total: usize,
    backend: Backend,
    around: impl FnOnce(&Engine, &mut dyn FnMut()),
) -> Drained {
    let each = total / writes.pipes;
    let engine = engine(writes, each, backend);
    let mut ended: Vec<Snapshot> = Vec::new();
    around(&engine, &mut || {
        ended = engine.run(async |handle| {
            let mut sessions = Vec::new();
            for _ in 0..writes.pipes {
                sessions.push(start(handle).await);
            }
            let mut ended = Vec::new();
            for session in sessions {
                ended.push(settled(handle, &session).await);
            }
            ended
        });
    });
    let first = ended.iter().map(|session| session.created_at).min();
    let last = ended.iter().filter_map(|session| session.ended_at).max();
    let took = first
        .zip(last)
        .and_then(|(first, last)| last.duration_since(first).ok());
    for session in &ended {
        assert_eq!(session.output, Output::Complete);
        if writes.text.is_ascii() {
            assert_eq!(
                session.next_cursor, each as u64,
                "every byte was kept or evicted"
            );
        }
    }
    let cpu = engine.cpu();
    engine.end();
    Drained {
        took: took.expect("every session ended"),
        cpu,
        calls: 0,
    }
}
