//! Finding the lines that match in a log of 16 MiB, against `rg -c` on the same bytes in a file, its start included, and
//! against the `regex` engine over one slice, which knows neither streams, cursors nor lines around.
//!
//! A tenth of the lines is stderr's. Each pattern has a few matches, so that all of the log is searched.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use regex_automata::meta::Regex;
use sluicegate::{
    arena::{Budget, RecordLog, Slab, Stream, max_blocks},
    text::{code_points, pattern::Pattern},
    view::{
        Progress,
        find::{Find, FindLimits},
    },
};

mod common;

use common::{Bench, MIB};

const LIMITS: FindLimits = FindLimits {
    matches: 200,
    context: 2,
    bytes: 65_536,
};

/// What is looked for, and in which lines.
const WORKS: &[(&str, &str, &str)] = &[
    ("a word", "deadlock", ASCII),
    ("one of three words", "deadlock|panicked at|SIGSEGV", ASCII),
    ("words and numbers", r"item \d+ failed after \d+ ms$", ASCII),
    ("a word in Chinese and emoji", "deadlock", WIDE),
];
const ASCII: &str = "INFO worker finished its item of the queue; the next one is due";
const WIDE: &str = "第一行 is done 😀 第二行 第三行 is due";

fn main() {
    let bench = Bench::from_command_line("search", 15);
    // The least in which each of the things to find is there.
    let bytes = bench.size(16 * MIB, 2 * MIB);
    let dir = tempfile::tempdir().expect("a temporary directory");
    for &(work, pattern, line) in WORKS {
        if !bench.wants(work) {
            continue;
        }
        let (text, log) = log_of(line, bytes);
        let file = dir.path().join("log");
        fs::write(&file, &text).expect("the log fits");
        let regex = Regex::builder()
            .syntax(regex_automata::util::syntax::Config::new().multi_line(true))
            .build(pattern)
            .expect("a pattern");
        for round in 0..bench.rounds {
            let add = |contender, (count, ms): (usize, f64)| {
                assert!((1..LIMITS.matches).contains(&count), "{contender}: {count}");
                bench.add(work, "time", "ms", contender, round, ms);
                count
            };
            let ours = add("ours", timed(|| find(&log, pattern)));
            let slice = add("slice", timed(|| regex.find_iter(&text).count()));
            assert_eq!(ours, slice, "{work}");
            match timed(|| rg(pattern, &file)) {
                (Some(count), ms) => assert_eq!(add("rg", (count, ms)), ours, "{work}"),
                (None, _) => eprintln!("SKIPPED rg: it can't be run"),
            }
        }
    }
    bench.finish();
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = Instant::now();
    let result = work();
    (result, before.elapsed().as_secs_f64() * 1e3)
}

/// Lines like `line`, numbered, with something to find here and there; and a log of them.
fn log_of(line: &str, bytes: usize) -> (String, RecordLog) {
    let mut text = String::with_capacity(bytes);
    let slab = Slab::new(max_blocks(bytes)).expect("map");
    let budget = Budget {
        bytes,
        records: None,
    };
    let mut log = RecordLog::new(slab, budget);
    let mut next = String::new();
    for number in 0.. {
        next.clear();
        write!(
            next,
            "2026-11-30T12:00:00.{:03}Z {number} {line}",
            number % 1000
        )
        .expect("a string");
        match number % 20_000 {
            7_000 => next.push_str(": item 17 failed after 250 ms"),
            13_000 => next.push_str(": a deadlock"),
            16_000 => next.push_str(": panicked at its start"),
            _ => {}
        }
        next.push('\n');
        if text.len() + next.len() > bytes {
            return (text, log);
        }
        text.push_str(&next);
        let stream = if number % 10 == 9 {
            Stream::Stderr
        } else {
            Stream::Stdout
        };
        log.append(stream, &next, code_points(&next));
    }
    unreachable!("the numbers have no end")
}

/// With the compilation of the pattern, as in a call.
fn find(log: &RecordLog, pattern: &str) -> usize {
    let pattern = Pattern::new(pattern, false).expect("a pattern");
    let mut find = Find::new(pattern, 0, LIMITS);
    while find.step(log).expect("all is retained") == Progress::More {}
    assert!(!find.has_more);
    find.lines.len()
}

fn rg(pattern: &str, file: &Path) -> Option<usize> {
    let answer = Command::new("rg")
        .args(["--no-config", "--count", "-e", pattern])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let count = String::from_utf8(answer.stdout).expect("a number");
    Some(count.trim().parse().expect("a number"))
}
