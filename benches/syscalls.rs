//! System calls of the reading side for each MiB that it drains, with 1, 8 and 64 busy pipes.
//!
//! The engine's are counted by the kernel: `perf stat -e raw_syscalls:sys_enter` follows its I/O thread, and nothing is
//! slowed or reordered by it as under strace. The bare loop, a thread for each pipe, counts its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

mod common;

use common::{
    Bench, KIB, MIB, backends, drain,
    engine::Engine,
    name, tables,
    writer::{Each, Text, Writes, is_writer},
};

const EVENT: &str = "raw_syscalls:sys_enter";

fn main() {
    if is_writer() {
        return;
    }
    let bench = Bench::from_command_line("syscalls", 3);
    if !perf_works() {
        eprintln!(
            "SKIPPED every row: `perf stat -e {EVENT} true` doesn't work here (perf missing, or not root)"
        );
        return;
    }
    for (text, each, total, name) in [
        (
            Text::Ascii,
            Each::Bytes(64 * KIB),
            512 * MIB,
            "64 KiB writes",
        ),
        (Text::Ascii, Each::Bytes(4 * KIB), 512 * MIB, "4 KiB writes"),
        (Text::Lines, Each::Bytes(81), 64 * MIB, "81-byte lines"),
    ] {
        for pipes in [1, 8, 64] {
            let work = tables::into_pipes(name, pipes);
            if bench.wants(&work) {
                measure(&work, Writes { text, each, pipes }, total, &bench);
            }
        }
    }
    bench.finish();
}

fn measure(work: &str, writes: Writes, total: usize, bench: &Bench) {
    let total = bench.size(total, writes.pipes * 128 * KIB);
    let per_mib = |calls: usize| calls as f64 / (total as f64 / MIB as f64);
    for round in 0..bench.rounds {
        let add = |contender: &str, calls: usize| {
            bench.add(
                work,
                "system calls",
                "per MiB",
                contender,
                round,
                per_mib(calls),
            );
        };
        add("bare", drain::bare(writes, total, None).calls);
        for backend in backends() {
            let mut calls = 0;
            drain::ours(writes, total, backend, |engine, drain| {
                calls = counted(engine, drain)
            });
            add(name(backend), calls);
        }
    }
}

fn perf_works() -> bool {
    let perf = Command::new("perf")
        .args(["stat", "-e", EVENT, "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    perf.is_ok_and(|status| status.success())
}

/// System calls of the engine's I/O thread while `drain` runs.
fn counted(engine: &Engine, drain: &mut dyn FnMut()) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    // Counts for as long as its own child runs, which says that counting has begun and ends with its input.
    let mut perf = Command::new("perf")
        .args([
            "stat",
            "-x",
            ";",
            "-e",
            EVENT,
            "-t",
            &engine.io_tid().to_string(),
            "-o",
        ])
        .arg(&report)
        .args(["--", "/bin/sh", "-c", "echo counting; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("perf starts");
    let mut first = String::new();
    let output = perf.stdout.take().expect("piped");
    BufReader::new(output)
        .read_line(&mut first)
        .expect("perf's child speaks");
    assert_eq!(first, "counting\n");
    drain();
    drop(perf.stdin.take());
    assert!(perf.wait().expect("perf ends").success());
    count_in(&report)
}

fn count_in(report: &Path) -> usize {
    let report = fs::read_to_string(report).expect("perf wrote its report");
    let line = report.lines().find(|line| line.contains(EVENT));
    let count = line.and_then(|line| line.split(';').next());
    count
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("no count of {EVENT} in: {report}"))
}
