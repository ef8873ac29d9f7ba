//! Reads of pipes, their stops and their pauses.

use std::{
    cell::Cell,
    fs::File,
    io::Write as _,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nix::errno::Errno;
use proptest::prelude::*;

use super::{
    scripted::{End, Event},
    *,
};

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

/// A script of `bytes` in pieces of at most `longest`, among what may come between them.
fn script(bytes: &[u8], longest: usize, end: End) -> Source {
    let between = [
        Event::Yield,
        Event::Error(Errno::EINTR),
        Event::Quiet(Duration::from_millis(3)),
        Event::Late(Duration::from_millis(2)),
        Event::Error(Errno::EAGAIN),
    ];
    let pieces = bytes.chunks(longest).map(<[u8]>::to_vec).map(Event::Bytes);
    let events = pieces.zip(between.into_iter().cycle());
    let events = events.flat_map(|(piece, other)| [other, piece]).collect();
    Source::Scripted(scripted::Source::new(events, end, Rc::new(())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_arrive_exactly_whatever_the_chunking(
        lengths in prop::collection::vec(prop_oneof![1..100usize, 4000..4200usize, 1..200_000usize], 0..12),
        longest in 1..5000usize,
    ) {
        let all = pattern(lengths.iter().sum());
        let mut rest = all.as_slice();
        let pieces = lengths.iter().map(|&length| rest.split_off(..length).unwrap().to_vec()).collect::<Vec<_>>();
        on_each(async |backend| {
            let (read, write) = pipe();
            let thread = writer(write, pieces.clone());
            let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
            let (got, end) = drain(&mut source, &Stop::new()).await;
            assert_eq!(end, Read::Eof);
            assert!(got == all);
            thread.join().unwrap();

        });
        Runtime::new(Backend::Scripted).unwrap().block_on(async {
            let (got, end) = drain(&mut script(&all, longest, End::Eof), &Stop::new()).await;
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
        let (stop, mut source) = (
            Stop::new(),
            Source::new(backend, Channel::Pipe, read).unwrap(),
        );
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
fn good_pieces_are_gathered_into_one_block_and_small_ones_are_not() {
    const PACKET: usize = 4096;
    on_each(async |backend| {
        let (read, write) = pipe();
        let flags = OFlag::from_bits_retain(fcntl(&write, FcntlArg::F_GETFL).unwrap());
        // Packets, of which no read takes two.
        fcntl(&write, FcntlArg::F_SETFL(flags | OFlag::O_DIRECT)).unwrap();
        let all = pattern(3 * PACKET + 2 * 81);
        let (good, small) = all.split_at(3 * PACKET);
        for packet in good.chunks(PACKET).chain(small.chunks(81)) {
            assert_eq!(nix::unistd::write(&write, packet), Ok(packet.len()));
        }
        drop(write);
        let (stop, mut source) = (
            Stop::new(),
            Source::new(backend, Channel::Pipe, read).unwrap(),
        );
        let (first, memory) = source.read(block(), &stop).await;
        let (head, last) = all.split_at(3 * PACKET + 81);
        assert_eq!(
            first,
            Read::Data(head.len()),
            "three good ones and one that was small"
        );
        assert!(memory.filled() == head);
        let (second, memory) = source.read(memory, &stop).await;
        assert_eq!(second, Read::Data(last.len()));
        assert!(memory.filled() == last);
        assert_eq!(source.read(memory, &stop).await.0, Read::Eof);
    });
}

#[test]
fn an_idle_read_stops_and_the_source_reads_on_afterwards() {
    on_each(async |backend| {
        let (read, write) = pipe();
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
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
    Runtime::new(Backend::Scripted).unwrap().block_on(async {
        let script = vec![Event::Bytes(b"script".to_vec())];
        let script = scripted::Source::new(script, End::Open, Rc::new(()));
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
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
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
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
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
fn a_pipe_with_much_to_read_does_not_keep_another_from_its_byte() {
    const FULL: usize = 16 * READ_BYTES;
    on_each(async |backend| {
        let flood = |taken: Rc<Cell<usize>>| {
            let (read, write) = pipe();
            let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
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
        let mut source = Source::new(backend, Channel::Pipe, quiet).unwrap();
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
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
        source.set_pipe_size(256 * 1024).unwrap();
        assert_eq!(fcntl(&write, FcntlArg::F_GETPIPE_SZ), Ok(256 * 1024));
        assert_eq!(source.pipe_size(), Some(256 * 1024), "from our end too");
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
        let mut source = Source::new(backend, Channel::Pipe, read).unwrap();
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
fn a_script_fails_where_it_says() {
    Runtime::new(Backend::Scripted).unwrap().block_on(async {
        for cut in 0..40 {
            let mut script = script(&pattern(cut), 5, End::Failed(Errno::EIO));
            let played = drain(&mut script, &Stop::new()).await;
            assert_eq!(played, (pattern(cut), Read::Failed(Errno::EIO)));
        }
    });
}
