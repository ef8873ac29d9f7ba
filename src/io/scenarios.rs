//! What the contract promises, played on each backend with real pipes, and on scripts where they apply.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};
use proptest::prelude::*;

use super::{
    Backend, READ_BYTES, Read, Runtime, Sink, Source, Stop, Timer, Watch, Write, probe, scripted,
};
use crate::arena::{Block, Slab};

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

/// Reads until the source says something other than data.
async fn drain(source: &mut Source, stop: &Stop) -> (Vec<u8>, Read) {
    let mut all = Vec::new();
    let mut memory = block();
    loop {
        let (read, back) = source.read(memory, stop).await;
        memory = back;
        match read {
            Read::Data(n) => {
                assert_eq!(memory.filled().len(), n);
                assert!((1..=READ_BYTES).contains(&n));
                all.extend_from_slice(memory.filled());
            }
            end => {
                assert!(memory.filled().is_empty());
                return (all, end);
            }
        }
    }
}

/// Bytes that show when one is lost, doubled or moved.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

/// Ends a blocking writer's thread even when an assertion in the scenario fails first.
fn writer(write: OwnedFd, pieces: Vec<Vec<u8>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut write = File::from(write);
        for piece in pieces {
            if write.write_all(&piece).is_err() {
                return;
            }
        }
    })
}

#[test]
fn each_backend_is_the_one_that_was_asked_for() {
    // Rings of other tests must not come and go in this thread's table.
    own_descriptor_table();
    let before = rings();
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut source = Source::new(backend, read).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_arrive_exactly_whatever_the_chunking(
        lengths in prop::collection::vec(prop_oneof![1..100usize, 4000..4200usize, 1..200_000usize], 0..12),
        seed in any::<u64>(),
        longest in 1..5000usize,
    ) {
        let all = pattern(lengths.iter().sum());
        let mut rest = all.as_slice();
        let pieces = lengths.iter().map(|&length| rest.split_off(..length).unwrap().to_vec()).collect::<Vec<_>>();
        on_each(async |backend| {
            let (read, write) = pipe();
            let thread = writer(write, pieces.clone());
            let mut source = Source::new(backend, read).unwrap();
            let (got, end) = drain(&mut source, &Stop::new()).await;
            assert_eq!(end, Read::Eof);
            assert!(got == all);
            thread.join().unwrap();

            let script = scripted::Source::new(seed, all.clone(), longest, scripted::End::Eof);
            let (got, end) = drain(&mut Source::Scripted(script), &Stop::new()).await;
            assert_eq!(end, Read::Eof);
            assert!(got == all);
        });
    }
}

#[test]
fn packets_of_a_child_that_set_o_direct_come_one_by_one_and_all() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let flags = OFlag::from_bits_retain(fcntl(&write, FcntlArg::F_GETFL).unwrap());
        fcntl(&write, FcntlArg::F_SETFL(flags | OFlag::O_DIRECT)).unwrap();
        for packet in [b"one", b"two", b"six"] {
            assert_eq!(nix::unistd::write(&write, packet), Ok(3));
        }
        let (stop, mut source) = (Stop::new(), Source::new(backend, read).unwrap());
        let mut memory = block();
        // The write end stays open and quiet: after the first short read no further edge comes.
        for packet in [b"one", b"two", b"six"] {
            let (read, back) = source.read(memory, &stop).await;
            assert_eq!((read, back.filled()), (Read::Data(3), &packet[..]));
            memory = back;
        }
    });
}

#[test]
fn an_idle_read_stops_and_the_source_reads_on_afterwards() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut source = Source::new(backend, read).unwrap();
        let stop = Stop::new();
        let request = stop.clone();
        let task = tokio::task::spawn_local(async move { request.request() });
        let (read, memory) = source.read(block(), &stop).await;
        assert_eq!(read, Read::Stopped);
        task.await.unwrap();
        assert_eq!(nix::unistd::write(&write, b"later"), Ok(5));
        let (read, memory) = source.read(memory, &stop).await;
        assert_eq!(
            (read, memory.filled()),
            (Read::Data(5), &b"later"[..]),
            "what arrived wins over the stop"
        );
        assert_eq!(source.read(memory, &stop).await.0, Read::Stopped);
        drop(write);
        assert_eq!(
            source.read(block(), &stop).await.0,
            Read::Eof,
            "and so does the end"
        );
    });
    Runtime::new(Backend::Epoll).unwrap().block_on(async {
        let script = scripted::Source::new(1, b"script".to_vec(), 64, scripted::End::Open);
        let stop = Stop::new();
        stop.request();
        assert_eq!(
            drain(&mut Source::Scripted(script), &stop).await,
            (b"script".to_vec(), Read::Stopped)
        );
    });
}

#[test]
fn thousands_of_stops_race_with_data_and_no_byte_is_lost() {
    const ROUNDS: usize = 4000;
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut source = Source::new(backend, read).unwrap();
        let expected = pattern(ROUNDS * 3);
        // One write for each read, made while that read is being submitted, waits or is being cancelled.
        let reads = Arc::new(AtomicUsize::new(0));
        let (begun, data) = (Arc::clone(&reads), expected.clone());
        let thread = std::thread::spawn(move || {
            for (index, piece) in data.chunks(3).enumerate() {
                while begun.load(Ordering::Acquire) <= index {
                    std::thread::yield_now();
                }
                // At once, and up to some tens of microseconds later: both sides must win now and then.
                for _ in 0..index % 8 * 300 {
                    std::hint::spin_loop();
                }
                assert_eq!(nix::unistd::write(&write, piece), Ok(3));
            }
        });
        let mut got = Vec::new();
        let (mut memory, mut stopped) = (block(), 0);
        let mut round = 0usize;
        loop {
            round += 1;
            reads.store(round, Ordering::Release);
            let stop = Stop::new();
            let request = stop.clone();
            // Requested before the submission, with it, and up to some time after the write.
            let mut timer = Timer::new(backend);
            let task = tokio::task::spawn_local(async move {
                if !round.is_multiple_of(4) {
                    timer
                        .pause(Duration::from_micros(u64::try_from(round % 64).unwrap()))
                        .await;
                }
                request.request();
            });
            if round.is_multiple_of(5) {
                stop.request();
            }
            let (read, back) = source.read(memory, &stop).await;
            memory = back;
            task.await.unwrap();
            match read {
                Read::Data(_) => got.extend_from_slice(memory.filled()),
                Read::Stopped => stopped += 1,
                Read::Eof => break,
                Read::Failed(errno) => panic!("{errno}"),
            }
        }
        thread.join().unwrap();
        assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
        assert!(round >= ROUNDS, "a write waits for its read");
        assert!(
            stopped > 0 && stopped < round,
            "{stopped} of {round} reads were stopped: no race"
        );
        eprintln!("{round} reads, {stopped} of them stopped");
    });
}

#[test]
fn a_stop_that_meets_a_write_in_the_other_task_loses_nothing() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let write = Rc::new(write);
        let mut source = Source::new(backend, read).unwrap();
        let (mut memory, mut sent, mut got, mut races) = (block(), Vec::new(), Vec::new(), [0, 0]);
        for round in 0..3000usize {
            let piece = round.to_le_bytes();
            let stop = Stop::new();
            let (request, end) = (stop.clone(), Rc::clone(&write));
            // One task, no await between: write first or request first, both before the read can complete.
            let task = tokio::task::spawn_local(async move {
                if round % 2 == 0 {
                    request.request();
                }
                assert_eq!(nix::unistd::write(&*end, &piece), Ok(piece.len()));
                request.request();
            });
            sent.extend_from_slice(&piece);
            let (read, back) = source.read(memory, &stop).await;
            memory = back;
            task.await.unwrap();
            assert_eq!(
                read,
                Read::Data(piece.len()),
                "it had arrived when the stop was acted on"
            );
            races[round % 2] += 1;
            got.extend_from_slice(memory.filled());
        }
        assert!(got == sent);
        assert_eq!(races, [1500, 1500]);
    });
}

#[test]
fn a_write_counts_exactly_what_the_pipe_took() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, write).unwrap();
        let stop = Stop::new();
        let data = Bytes::from(pattern(1 << 20));
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(read).read_to_end(&mut all).unwrap();
            all
        });
        let mut rest = data.clone();
        while !rest.is_empty() {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => {
                    assert!(n > 0);
                    rest = rest.slice(n..);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sink.write(Bytes::new(), &stop).await, Write::Accepted(0));
        drop(sink);
        assert!(reader.join().unwrap() == data);
    });
}

#[test]
fn a_full_pipe_stops_with_an_exact_count() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, write).unwrap();
        let stop = Stop::new();
        let request = stop.clone();
        let mut rest = Bytes::from(pattern(1 << 20));
        let mut accepted = 0;
        // The other task runs for the first time when a write waits.
        let task = tokio::task::spawn_local(async move { request.request() });
        let end = loop {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => {
                    accepted += n;
                    rest = rest.slice(n..);
                }
                other => break other,
            }
        };
        task.await.unwrap();
        assert_eq!(end, Write::Stopped);
        drop(sink);
        let mut got = Vec::new();
        File::from(read).read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), accepted);
        assert!(got == pattern(accepted));
    });
}

#[test]
fn a_reader_that_goes_away_ends_a_blocked_write_and_later_ones() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut sink = Sink::new(backend, write).unwrap();
        let stop = Stop::new();
        let closing = tokio::task::spawn_local({
            let full = fcntl(&read, FcntlArg::F_GETPIPE_SZ).unwrap();
            async move {
                // Only when nothing more fits is the write blocked for certain.
                let mut queued = 0;
                while queued < full {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    queued = unread(&read);
                }
                drop(read);
            }
        });
        let mut rest = Bytes::from(pattern(1 << 20));
        let end = loop {
            match sink.write(rest.clone(), &stop).await {
                Write::Accepted(n) => rest = rest.slice(n..),
                other => break other,
            }
        };
        closing.await.unwrap();
        assert_eq!(end, Write::Closed);
        assert_eq!(
            sink.write(Bytes::from_static(b"x"), &stop).await,
            Write::Closed
        );
    });
}

/// Bytes in the pipe.
fn unread(read: &OwnedFd) -> i32 {
    use std::os::fd::AsRawFd;
    let mut count = 0;
    // SAFETY: FIONREAD writes one int, to a local that outlives the call.
    let done = unsafe { libc::ioctl(read.as_raw_fd(), libc::FIONREAD, &mut count) };
    assert_eq!(done, 0);
    count
}

#[test]
fn a_pipe_with_much_to_read_does_not_keep_another_from_its_byte() {
    const FULL: usize = 16 * READ_BYTES;
    on_each(async |backend| {
        let flood = |taken: Rc<Cell<usize>>| {
            let (read, write) = pipe();
            let mut source = Source::new(backend, read).unwrap();
            source.set_pipe_size(FULL).unwrap();
            assert_eq!(nix::unistd::write(&write, &pattern(FULL)), Ok(FULL));
            drop(write);
            tokio::task::spawn_local(async move {
                let (stop, mut memory) = (Stop::new(), block());
                while let (Read::Data(n), back) = source.read(memory, &stop).await {
                    memory = back;
                    taken.set(taken.get() + n);
                }
            })
        };
        let (quiet, write) = pipe();
        assert_eq!(nix::unistd::write(&write, b"x"), Ok(1));
        let (first, last) = (Rc::<Cell<usize>>::default(), Rc::<Cell<usize>>::default());
        // Registered and spawned between the two, so that one of them has its turn before it, whichever way turns go.
        let before = flood(Rc::clone(&first));
        let mut source = Source::new(backend, quiet).unwrap();
        let byte = tokio::task::spawn_local({
            let floods = [Rc::clone(&first), Rc::clone(&last)];
            async move {
                assert_eq!(source.read(block(), &Stop::new()).await.0, Read::Data(1));
                floods.map(|taken| taken.get())
            }
        });
        let after = flood(Rc::clone(&last));
        // Counted in what the others got, not in time.
        let taken = byte.await.unwrap();
        assert!(
            taken.iter().all(|&taken| taken <= FULL / 4),
            "{taken:?} bytes went first"
        );
        before.await.unwrap();
        after.await.unwrap();
        assert_eq!((first.get(), last.get()), (FULL, FULL));
    });
}

#[test]
fn the_pipe_grows_while_data_is_in_it() {
    on_each(async |backend| {
        let (read, write) = pipe();
        assert_eq!(nix::unistd::write(&write, &pattern(60_000)), Ok(60_000));
        let mut source = Source::new(backend, read).unwrap();
        source.set_pipe_size(256 * 1024).unwrap();
        assert_eq!(fcntl(&write, FcntlArg::F_GETPIPE_SZ), Ok(256 * 1024));
        assert_eq!(source.set_pipe_size(4096), Err(Errno::EBUSY));
        drop(write);
        assert_eq!(
            drain(&mut source, &Stop::new()).await,
            (pattern(60_000), Read::Eof)
        );
    });
}

#[test]
fn a_paused_source_loses_nothing_and_is_woken_again() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut write = File::from(write);
        let mut source = Source::new(backend, read).unwrap();
        let mut timer = Timer::new(backend);
        let stop = Stop::new();
        let mut memory = block();
        for round in 0..100 {
            write.write_all(&[round; 3]).unwrap();
            let pause = Duration::from_micros(20);
            source.pause(&mut timer, pause).await;
            let (read, back) = source.read(memory, &stop).await;
            assert_eq!((read, back.filled()), (Read::Data(3), &[round; 3][..]));
            // Paused and empty: the next piece comes while a read waits for it.
            source.pause(&mut timer, pause).await;
            let later = async {
                tokio::task::yield_now().await;
                write.write_all(b"later").unwrap();
            };
            let ((read, back), ()) = tokio::join!(source.read(back, &stop), later);
            assert_eq!((read, back.filled()), (Read::Data(5), &b"later"[..]));
            memory = back;
        }
        source.pause(&mut timer, Duration::ZERO).await;
        stop.request();
        let (read, memory) = source.read(memory, &stop).await;
        assert_eq!(read, Read::Stopped);
        source.pause(&mut timer, Duration::ZERO).await;
        drop(write);
        assert_eq!(source.read(memory, &Stop::new()).await.0, Read::Eof);
    });
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
fn a_script_fails_where_it_says() {
    Runtime::new(Backend::Epoll).unwrap().block_on(async {
        for cut in 0..40 {
            let script =
                scripted::Source::new(7, pattern(cut), 5, scripted::End::Failed(Errno::EIO));
            let played = drain(&mut Source::Scripted(script), &Stop::new()).await;
            assert_eq!(played, (pattern(cut), Read::Failed(Errno::EIO)));
        }
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
                let mut source = Source::new(backend, read).unwrap();
                source.read(block(), &Stop::new()).await
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        drop(write);
    }
}
