//! Draining children that print as fast as their pipe takes it: the host on both backends against a bare loop of
//! `read(2)` into one buffer, which looks at nothing and keeps nothing.
//!
//! The writer is this binary itself in all cases. Ours is the whole way of a byte: read, decode, count, append, evict,
//! with the default budgets. CPU is that of the reading threads alone.

#![allow(clippy::print_stdout)]

use std::{
    fs,
    future::pending,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::resource::{UsageWho, getrusage},
    unistd::read,
};
use sluicegate::{
    config::{Config, Profile, StdinKind},
    io::{Backend, probe},
    process::Nursery,
    session::snapshot::{Output, Snapshot},
    supervisor::handle::{Handle, StartRequest},
};

mod common;

use common::{Options, Table, median, ratio};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// First argument of the process that writes.
const WRITER: &str = "--writer";
/// The pipe that a pump asks for when its writer fills the default one.
const LARGE_PIPE: i32 = 256 * 1024;
const READ_BYTES: usize = 64 * KIB;

/// What is written, how much at a time, and how much in all.
struct Work {
    name: &'static str,
    text: &'static str,
    write_bytes: usize,
    total: usize,
    pipes: usize,
    target: &'static str,
}

const fn one(
    name: &'static str,
    text: &'static str,
    write_bytes: usize,
    total: usize,
    target: &'static str,
) -> Work {
    Work {
        name,
        text,
        write_bytes,
        total,
        pipes: 1,
        target,
    }
}

const GIB: usize = 1024 * MIB;
const WORKS: &[Work] = &[
    one(
        "64K writes",
        "ascii",
        64 * KIB,
        2 * GIB,
        ">=2.0 of bare; >=.95 of 256K, cpu <=1.25",
    ),
    one(
        "1M writes",
        "ascii",
        MIB,
        2 * GIB,
        ">=2.0 of bare; >=.95 of 256K, cpu <=1.25",
    ),
    one("4K writes", "ascii", 4 * KIB, 2 * GIB, ">=.95 of bare"),
    one("yes-like 8K", "yes", 8 * KIB, 2 * GIB, ">=.95 of bare"),
    one(
        "81-byte lines",
        "lines",
        81,
        128 * MIB,
        ">=1.3 of bare, cpu <=.6",
    ),
    one(
        "CJK+emoji 64K",
        "mixed",
        64 * KIB,
        2 * GIB,
        ">=.9 of our 64K ASCII",
    ),
    one(
        "random bytes 64K",
        "random",
        64 * KIB,
        512 * MIB,
        ">=.3 GB/s",
    ),
    Work {
        name: "8 pipes, 64K",
        text: "ascii",
        write_bytes: 64 * KIB,
        total: 2 * GIB,
        pipes: 8,
        target: "",
    },
    Work {
        name: "64 pipes, 64K",
        text: "ascii",
        write_bytes: 64 * KIB,
        total: 2 * GIB,
        pipes: 64,
        target: "",
    },
    Work {
        name: "8 pipes, lines",
        text: "lines",
        write_bytes: 81,
        total: 128 * MIB,
        pipes: 8,
        target: "",
    },
];

/// Who drains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contender {
    /// One thread for each pipe, which reads 64 KiB at a time from a pipe of this size; the default one when absent.
    Bare(Option<i32>),
    Ours(Backend),
}

impl Contender {
    const ALL: [Contender; 4] = [
        Contender::Bare(None),
        Contender::Bare(Some(LARGE_PIPE)),
        Contender::Ours(Backend::Uring),
        Contender::Ours(Backend::Epoll),
    ];

    fn name(self) -> &'static str {
        match self {
            Contender::Bare(None) => "bare",
            Contender::Bare(Some(_)) => "bare 256K",
            Contender::Ours(Backend::Uring) => "uring",
            Contender::Ours(Backend::Epoll) => "epoll",
        }
    }
}

/// One run.
struct Run {
    /// GB/s.
    speed: f64,
    /// CPU seconds of the reading side per GB.
    cpu: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, text, write_bytes, total] = arguments.as_slice()
        && first == WRITER
    {
        return write_out(text, number(write_bytes), number(total));
    }
    let options = Options::from_command_line("flood");
    let contenders: Vec<Contender> = Contender::ALL
        .into_iter()
        .filter(|&contender| contender != Contender::Ours(Backend::Uring) || probe().is_ok())
        .collect();
    println!(
        "GB/s (CPU s per GB of the reading side); ratios are medians of {} rounds\n",
        options.rounds
    );
    let table = Table::new(&[
        ("work", 16),
        ("bare", 12),
        ("bare 256K", 12),
        ("uring", 12),
        ("epoll", 12),
        ("uring/bare", 11),
        ("cpu", 5),
        ("uring/256K", 11),
        ("cpu", 5),
        ("epoll/uring", 11),
        ("target", 0),
    ]);
    for work in WORKS.iter().filter(|work| options.wants(work.name)) {
        bench(work, &contenders, &options, &table);
    }
    if options.wants("fairness") {
        fairness(&contenders, &options);
    }
}

fn bench(work: &Work, contenders: &[Contender], options: &Options, table: &Table) {
    let total = options.size(work.total, 2 * MIB.max(work.pipes * 64 * KIB));
    let mut speeds: Vec<Vec<f64>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut cpus = speeds.clone();
    for round in 0..options.rounds {
        for (index, &contender) in contenders.iter().enumerate() {
            let run = match contender {
                Contender::Bare(pipe) => bare(work, total, pipe),
                Contender::Ours(backend) => ours(work, total, backend),
            };
            options.record(work.name, contender.name(), round, "GB/s", run.speed);
            options.record(work.name, contender.name(), round, "cpu s/GB", run.cpu);
            speeds[index].push(run.speed);
            cpus[index].push(run.cpu);
        }
    }
    let of = |wanted: Contender| contenders.iter().position(|&contender| contender == wanted);
    let cell = |contender| {
        of(contender).map_or("-".to_owned(), |index| {
            format!(
                "{:.2} ({:.3})",
                median(&speeds[index]),
                median(&cpus[index])
            )
        })
    };
    let between = |values: &[Vec<f64>], contender, base| match (of(contender), of(base)) {
        (Some(index), Some(base)) => format!("{:.2}", ratio(&values[index], &values[base])),
        _ => "-".to_owned(),
    };
    let [bare, large, uring, epoll] = Contender::ALL;
    table.row(&[
        work.name.to_owned(),
        cell(bare),
        cell(large),
        cell(uring),
        cell(epoll),
        between(&speeds, uring, bare),
        between(&cpus, uring, bare),
        between(&speeds, uring, large),
        between(&cpus, uring, large),
        between(&speeds, epoll, uring),
        work.target.to_owned(),
    ]);
}

fn gigabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e9
}

/// The baseline.
fn bare(work: &Work, total: usize, pipe: Option<i32>) -> Run {
    let each = total / work.pipes;
    let writers: Vec<(Child, OwnedFd)> =
        (0..work.pipes).map(|_| writer(work, each, pipe)).collect();
    let before = Instant::now();
    let cpu: f64 = thread::scope(|scope| {
        let drains: Vec<_> = writers
            .into_iter()
            .map(|(mut child, pipe)| {
                scope.spawn(move || {
                    let drained = drain(&pipe);
                    let cpu = cpu_of_this_thread();
                    child.wait().expect("the writer ends");
                    assert_eq!(drained, each, "every byte was read");
                    cpu
                })
            })
            .collect();
        drains
            .into_iter()
            .map(|drain| drain.join().expect("a drain ends"))
            .sum()
    });
    Run {
        speed: gigabytes(total) / before.elapsed().as_secs_f64(),
        cpu: cpu / gigabytes(total),
    }
}

fn writer(work: &Work, total: usize, pipe: Option<i32>) -> (Child, OwnedFd) {
    let (ours, theirs) = io::pipe().expect("a pipe");
    if let Some(size) = pipe {
        fcntl(&ours, FcntlArg::F_SETPIPE_SZ(size)).expect("a larger pipe");
    }
    let child = Command::new(this_program())
        .args([
            WRITER,
            work.text,
            &work.write_bytes.to_string(),
            &total.to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(theirs)
        .spawn();
    (child.expect("a writer"), ours.into())
}

fn drain(pipe: &OwnedFd) -> usize {
    let mut buffer = vec![0; READ_BYTES];
    let mut drained = 0;
    loop {
        match read(pipe, &mut buffer).expect("a pipe can be read") {
            0 => return drained,
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

fn ours(work: &Work, total: usize, backend: Backend) -> Run {
    let each = total / work.pipes;
    let host = Host::start(work, each, backend);
    let ended: Vec<Snapshot> = host.run(async |handle| {
        let mut sessions = Vec::new();
        for _ in 0..work.pipes {
            sessions.push(start(handle).await);
        }
        let mut ended = Vec::new();
        for session in sessions {
            ended.push(settled(handle, &session).await);
        }
        ended
    });
    let first = ended.iter().map(|session| session.created_at).min();
    let last = ended.iter().filter_map(|session| session.ended_at).max();
    let took = first
        .zip(last)
        .and_then(|(first, last)| last.duration_since(first).ok());
    for session in &ended {
        assert_eq!(session.output, Output::Complete);
        if matches!(work.text, "ascii" | "lines" | "yes") {
            assert_eq!(
                session.next_cursor, each as u64,
                "every byte was kept or evicted"
            );
        }
    }
    Run {
        speed: gigabytes(total) / took.expect("every session ended").as_secs_f64(),
        cpu: host.end() / gigabytes(total),
    }
}

/// An engine with one profile, and a client's runtime.
struct Host {
    handle: Handle,
    io_thread: thread::JoinHandle<()>,
    client: tokio::runtime::Runtime,
}

impl Host {
    fn start(work: &Work, total: usize, backend: Backend) -> Host {
        let root = std::path::PathBuf::from("/");
        let argv = [
            this_program().to_string_lossy().into_owned(),
            WRITER.to_owned(),
            work.text.to_owned(),
            work.write_bytes.to_string(),
            total.to_string(),
        ];
        let profile = Profile {
            stdin: StdinKind::Null,
            ..Profile::new("writer", argv.into())
        };
        let mut config = Config::with_defaults(vec![root.clone()], root, vec![profile]);
        config.max_sessions = work.pipes;
        config.max_records = config.max_records.max(work.pipes);
        config.default_timeout_ms = config.max_timeout_ms;
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
        Host {
            handle,
            io_thread,
            client,
        }
    }

    fn run<T>(&self, client: impl AsyncFnOnce(&Handle) -> T) -> T {
        self.client.block_on(client(&self.handle))
    }

    /// Ends the engine and returns the CPU seconds of its I/O thread.
    fn end(self) -> f64 {
        let cpu = cpu_of_io_thread();
        drop(self.handle);
        self.io_thread.join().expect("the I/O thread ends");
        cpu
    }
}

async fn start(handle: &Handle) -> String {
    let request = StartRequest {
        command_id: "writer".to_owned(),
        ..StartRequest::default()
    };
    handle
        .start(request, pending())
        .await
        .expect("a session")
        .session_id
}

/// Waits as little as a client that looks now and then: a long poll would have itself woken by each read.
async fn settled(handle: &Handle, session: &str) -> Snapshot {
    loop {
        let now = handle.status(session).expect("the session is retained");
        if now.status.is_final() && now.output != Output::Open {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn cpu_of_io_thread() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").expect("this process's threads");
    for task in tasks {
        let task = task.expect("a thread").path();
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.trim() == "io" {
            let times = fs::read_to_string(task.join("schedstat")).expect("the scheduler's times");
            let running = times
                .split_whitespace()
                .next()
                .expect("time on a CPU first");
            return running.parse::<f64>().expect("in ns") / 1e9;
        }
    }
    panic!("the engine has an I/O thread")
}

/// How much the slowest and the fastest of eight endless writers get in the same time.
fn fairness(contenders: &[Contender], options: &Options) {
    const WRITERS: usize = 8;
    let work = Work {
        name: "fairness",
        text: "ascii",
        write_bytes: 64 * KIB,
        total: usize::MAX,
        pipes: WRITERS,
        target: "",
    };
    let window = Duration::from_millis(options.size(2_000, 50));
    println!(
        "\nslowest of {WRITERS} equal floods as part of the fastest, over {} ms (target .70)\n",
        window.as_millis()
    );
    let table = Table::new(&[("work", 16), ("uring", 8), ("epoll", 8)]);
    let mut cells = vec!["8 pipes, 64K".to_owned()];
    for wanted in [Backend::Uring, Backend::Epoll] {
        if !contenders.contains(&Contender::Ours(wanted)) {
            cells.push("-".to_owned());
            continue;
        }
        let mut shares = Vec::new();
        for round in 0..options.rounds {
            let host = Host::start(&work, work.total, wanted);
            let share = host.run(async |handle| {
                let mut sessions = Vec::new();
                for _ in 0..WRITERS {
                    sessions.push(start(handle).await);
                }
                let cursors = || -> Vec<u64> {
                    let cursor =
                        |session: &String| handle.status(session).expect("retained").next_cursor;
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
            host.end();
            let name = Contender::Ours(wanted).name();
            options.record(work.name, name, round, "slowest/fastest", share);
            shares.push(share);
        }
        cells.push(format!("{:.2}", median(&shares)));
    }
    table.row(&cells);
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("this program has a path")
}

fn number(argument: &str) -> usize {
    argument.parse().expect("a number of bytes")
}

/// The writer: `total` bytes to standard output, `write_bytes` at a time.
fn write_out(text: &str, write_bytes: usize, total: usize) {
    // At least so much that a reader can't find it all in its nearest cache.
    let pieces = MIB.div_ceil(write_bytes);
    let buffer = content(text, pieces * write_bytes);
    // Not through io::stdout: its line buffer would split the writes.
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let mut stdout = fs::File::from(stdout.expect("a duplicate"));
    let mut left = total;
    for piece in buffer.chunks_exact(write_bytes).cycle() {
        let piece = &piece[..left.min(write_bytes)];
        if piece.is_empty() || stdout.write_all(piece).is_err() {
            return;
        }
        left -= piece.len();
    }
}

fn content(text: &str, bytes: usize) -> Vec<u8> {
    let repeated = |unit: &[u8]| unit.iter().copied().cycle().take(bytes).collect();
    match text {
        "ascii" => repeated(b"   Compiling sluicegate v0.1.0 (/home/user/sluicegate)\n"),
        "lines" => {
            let mut line =
                b"2026-01-01T00:00:00Z INFO server: request handled, status=200 duration=1.8ms ok."
                    .to_vec();
            line.resize(80, b'.');
            line.push(b'\n');
            repeated(&line)
        }
        "yes" => repeated(b"y\n"),
        "mixed" => repeated("第一行 is done 😀 第二行\n".as_bytes()),
        "random" => random(bytes),
        other => panic!("there is no text {other:?}"),
    }
}

/// Uniformly random bytes, the same ones in each run (xorshift64).
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    })
    .take(bytes)
    .collect()
}
