//! Draining children that print as fast as their pipe takes it: the host on both backends against a bare loop of
//! `read(2)` into one buffer, which looks at nothing and keeps nothing.
//!
//! The writer is this binary itself in all cases. CPU is that of the reading threads alone.

use std::time::Duration;

use sluicegate::io::Backend;

mod common;

use common::{
    Bench, GIB, KIB, MIB, backends, drain,
    engine::start,
    gigabytes, name,
    writer::{Each, Text, Writes, is_writer},
};

/// What is written, and how much in all.
struct Work {
    name: &'static str,
    writes: Writes,
    total: usize,
}

const fn work(name: &'static str, text: Text, each: Each, pipes: usize, total: usize) -> Work {
    Work {
        name,
        writes: Writes { text, each, pipes },
        total,
    }
}

const WORKS: &[Work] = &[
    work(
        "64 KiB writes",
        Text::Ascii,
        Each::Bytes(64 * KIB),
        1,
        2 * GIB,
    ),
    work("1 MiB writes", Text::Ascii, Each::Bytes(MIB), 1, 2 * GIB),
    work(
        "4 KiB writes",
        Text::Ascii,
        Each::Bytes(4 * KIB),
        1,
        2 * GIB,
    ),
    work(
        "8 KiB writes like those of yes",
        Text::Yes,
        Each::Bytes(8 * KIB),
        1,
        2 * GIB,
    ),
    work("81-byte lines", Text::Lines, Each::Bytes(81), 1, 128 * MIB),
    work(
        "324-byte lines",
        Text::Lines,
        Each::Bytes(324),
        1,
        384 * MIB,
    ),
    work(
        "1400-byte lines",
        Text::Lines,
        Each::Bytes(1400),
        1,
        768 * MIB,
    ),
    work(
        "Chinese and emoji in 64 KiB",
        Text::Mixed,
        Each::Bytes(64 * KIB),
        1,
        2 * GIB,
    ),
    work(
        "random bytes in 64 KiB",
        Text::Random,
        Each::Bytes(64 * KIB),
        1,
        512 * MIB,
    ),
    work(
        "cargo's log line by line",
        Text::CargoLog,
        Each::Line,
        1,
        512 * MIB,
    ),
    work(
        "make's log line by line",
        Text::MakeLog,
        Each::Line,
        1,
        256 * MIB,
    ),
    work(
        "8 pipes of 64 KiB writes",
        Text::Ascii,
        Each::Bytes(64 * KIB),
        8,
        2 * GIB,
    ),
    work(
        "64 pipes of 64 KiB writes",
        Text::Ascii,
        Each::Bytes(64 * KIB),
        64,
        2 * GIB,
    ),
    work(
        "8 pipes of 81-byte lines",
        Text::Lines,
        Each::Bytes(81),
        8,
        128 * MIB,
    ),
];

fn main() {
    if is_writer() {
        return;
    }
    let bench = Bench::from_command_line("flood", 3);
    for work in WORKS {
        if bench.wants(work.name) {
            measure(work, &bench);
        }
    }
    if bench.wants("fairness") {
        fairness(&bench);
    }
    bench.finish();
}

fn measure(work: &Work, bench: &Bench) {
    let total = bench.size(work.total, 2 * MIB.max(work.writes.pipes * 64 * KIB));
    for round in 0..bench.rounds {
        let add = |contender, drained: drain::Drained| {
            let speed = gigabytes(total) / drained.took.as_secs_f64();
            let cpu = drained.cpu / gigabytes(total);
            bench.add(work.name, "speed", "GB/s", contender, round, speed);
            bench.add(work.name, "CPU", "s/GB", contender, round, cpu);
        };
        add("bare", drain::bare(work.writes, total, None));
        let large = Some(drain::LARGE_PIPE);
        add("bare 256K", drain::bare(work.writes, total, large));
        for backend in backends() {
            let drained = drain::ours(work.writes, total, backend, |_, drain| drain());
            add(name(backend), drained);
        }
    }
}

/// How much the slowest and the fastest of eight endless writers get in the same time.
fn fairness(bench: &Bench) {
    let window = Duration::from_millis(bench.size(2_000, 50));
    for round in 0..bench.rounds {
        for backend in backends() {
            let share = share_of_the_slowest(backend, window);
            let work = "slowest of 8 equal floods to the fastest";
            bench.add(work, "share", "", name(backend), round, share);
        }
    }
}

fn share_of_the_slowest(backend: Backend, window: Duration) -> f64 {
    let writes = Writes {
        text: Text::Ascii,
        each: Each::Bytes(64 * KIB),
        pipes: 8,
    };
    let engine = drain::engine(writes, usize::MAX, backend);
    let share = engine.run(async |handle| {
        let mut sessions = Vec::new();
        for _ in 0..writes.pipes {
            sessions.push(start(handle).await);
        }
        let cursors = || -> Vec<u64> {
            let cursor = |session: &String| handle.status(session).expect("retained").next_cursor;
            sessions.iter().map(cursor).collect()
        };
        tokio::time::sleep(window / 4).await;
        let before = cursors();
        tokio::time::sleep(window).await;
        let after = cursors();
        handle.shut_down(Duration::ZERO).await;
        let got = || {
            after
                .iter()
                .zip(&before)
                .map(|(after, before)| after - before)
        };
        got().min().expect("eight") as f64 / got().max().expect("eight") as f64
    });
    engine.end();
    share
}
