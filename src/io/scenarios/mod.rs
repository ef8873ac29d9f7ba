//! What the contract promises, played on each backend with real pipes, and on scripts where they apply.

#![allow(unsafe_code)]

use std::{collections::BTreeSet, os::fd::OwnedFd, time::Duration};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};

use super::{
    Backend, Channel, READ_BYTES, Read, Runtime, Sink, Source, Stop, Timer, Watch, Write, probe,
    scripted,
};
use crate::arena::{Block, Slab};

mod reads;
mod writes;

fn block() -> Block {
    Slab::new(1).unwrap().take()
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe2(OFlag::O_CLOEXEC).unwrap()
}

/// Runs the scenario on each backend that works here.
fn on_each(scenario: impl AsyncFn(Backend)) {
    let mut backends = vec![Backend::Epoll];
    match probe() {
        Ok(()) => backends.push(Backend::Uring),
        Err(refused) => eprintln!("NOT TESTED on io_uring, which is refused here: {refused}"),
    }
    for backend in backends {
        eprintln!("on {backend:?}");
        Runtime::new(backend).unwrap().block_on(scenario(backend));
    }
}

/// Bytes that show when one is lost, doubled or moved.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

#[test]
fn each_backend_is_the_one_that_was_asked_for() {
    // Rings of other tests must not come and go in this thread's table.
    own_descriptor_table();
    let before = rings();
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
        let nonblocking =
            fcntl(source.descriptor().unwrap(), FcntlArg::F_GETFL).unwrap() & libc::O_NONBLOCK != 0;
        assert_eq!(nonblocking, backend == Backend::Epoll);
        assert_eq!(nix::unistd::write(&write, b"x"), Ok(1));
        assert_eq!(source.read(block(), &Stop::new()).await.0, Read::Data(1));
        let new = rings().difference(&before).cloned().collect::<Vec<_>>();
        match (backend, new.as_slice()) {
            (Backend::Epoll, []) => {}
            (Backend::Uring, [ring]) => assert!(submitted(ring) >= 1),
            (backend, rings) => panic!("{backend:?} with the rings {rings:?}"),
        }
    });
}

/// Descriptors of the rings in this thread's table.
fn rings() -> BTreeSet<String> {
    let descriptors = std::fs::read_dir("/proc/thread-self/fd").unwrap();
    let ring = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|to| to.as_os_str() == "anon_inode:[io_uring]")
    };
    let rings = descriptors
        .map(Result::unwrap)
        .filter(|entry| ring(&entry.path()));
    rings
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// How many operations were submitted to a ring that is idle now.
fn submitted(ring: &str) -> u64 {
    let info = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{ring}")).unwrap();
    let tail = info
        .lines()
        .find_map(|line| line.strip_prefix("SqTail:"))
        .unwrap();
    tail.trim().parse().unwrap()
}

fn own_descriptor_table() {
    // SAFETY: an integer argument. This thread's table becomes a copy, which ends with the thread; the descriptors of other
    // threads' values stay open in theirs.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
}

#[test]
fn pauses_return_also_the_shortest_and_after_one_that_was_given_up() {
    on_each(async |backend| {
        let mut timer = Timer::new(backend);
        for micros in [0, 1, 50, 200, 2000] {
            timer.pause(Duration::from_micros(micros)).await;
        }
        tokio::select! {
            biased;
            () = timer.pause(Duration::from_secs(3600)) => panic!("an hour is not over"),
            () = tokio::task::yield_now() => {}
        }
        let begun = std::time::Instant::now();
        timer.pause(Duration::from_micros(500)).await;
        assert!(
            begun.elapsed() >= Duration::from_micros(500),
            "the pause that was given up must not count"
        );
    });
}

#[test]
fn a_watch_sees_the_end_and_goes_on_seeing_it() {
    on_each(async |_| {
        let (read, write) = pipe();
        let watch = Watch::new(read).unwrap();
        drop(write);
        watch.ready().await.unwrap();
        watch.ready().await.unwrap();
    });
}

#[test]
fn dropping_a_runtime_with_reads_in_flight_returns() {
    for backend in [Backend::Epoll, Backend::Uring] {
        if backend == Backend::Uring && probe().is_err() {
            eprintln!("NOT TESTED on io_uring, which is refused here");
            continue;
        }
        let runtime = Runtime::new(backend).unwrap();
        let (read, write) = pipe();
        runtime.block_on(async {
            tokio::task::spawn_local(async move {
                let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
                source.read(block(), &Stop::new()).await
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        drop(write);
    }
}
