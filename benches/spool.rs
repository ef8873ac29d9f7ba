//! Keeping all of what a child prints: the host with a spool against the same child writing into a file on the same disk, and
//! how long a page at any cursor takes then.
//!
//! The writer is this binary itself in all cases. Files lie below `SPOOL_BENCH_DIR`, or else in the temporary directory, which should be
//! on a disk. Neither contender syncs; both go as fast as the page cache and then the disk let them.

use std::{
    env,
    fs::File,
    future::pending,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sluicegate::{
    arena::{Page, PageLimits, Unit},
    config::{Spool, WhenSlow},
    io::Backend,
    supervisor::follow::{Place, ReadRequest, Until},
};

mod common;

use common::{
    Bench, GIB, KIB, MIB, backends,
    engine::{Engine, settled, start},
    gigabytes, name,
    writer::{Each, Text, Writes, is_writer},
};

const WRITES: Writes = Writes {
    text: Text::Ascii,
    each: Each::Bytes(64 * KIB),
    pipes: 1,
};
/// Pages that are read at random cursors in each round.
const PAGES: usize = 2_000;

fn main() {
    if is_writer() {
        return;
    }
    let bench = Bench::from_command_line("spool", 3);
    let gigabytes_asked = env::var("SPOOL_BENCH_GIB")
        .ok()
        .and_then(|size| size.parse().ok());
    let total = bench.size(gigabytes_asked.unwrap_or(10) * GIB, 8 * MIB);
    let work = "64 KiB writes kept whole";
    if bench.wants(work) {
        for round in 0..bench.rounds {
            let dir = directory();
            let took = into_file(dir.path(), total);
            bench.add(
                work,
                "speed",
                "GB/s",
                "file",
                round,
                gigabytes(total) / took.as_secs_f64(),
            );
            drop(dir);
            for backend in backends() {
                spooled(&bench, work, backend, round, total);
            }
        }
    }
    bench.finish();
}

fn directory() -> tempfile::TempDir {
    let below = env::var_os("SPOOL_BENCH_DIR").map_or_else(env::temp_dir, PathBuf::from);
    tempfile::tempdir_in(below).expect("a directory on the disk")
}

/// `cmd > file`, from its start to its end.
fn into_file(dir: &Path, total: usize) -> Duration {
    let argv = WRITES.argv(total);
    let file = File::create(dir.join("file")).expect("a file");
    let before = Instant::now();
    let ended = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(file)
        .status();
    assert!(ended.expect("the writer starts").success());
    before.elapsed()
}

fn spooled(bench: &Bench, work: &str, backend: Backend, round: usize, total: usize) {
    let dir = directory();
    let spool = Spool {
        dir: dir.path().join("spool"),
        bytes_per_session: 1 << 40,
        bytes_total: 1 << 40,
        when_slow: WhenSlow::Block,
    };
    let engine = Engine::start(WRITES.argv(total), backend, |config| {
        config.spool = Some(spool);
    });
    let times = engine.run(async |handle| {
        let before = Instant::now();
        let session = start(handle).await;
        let end = settled(handle, &session).await;
        let took = before.elapsed();
        assert_eq!(
            (end.base_cursor, end.next_cursor),
            (0, total as u64),
            "all of it is kept"
        );
        let speed = gigabytes(total) / took.as_secs_f64();
        bench.add(work, "speed", "GB/s", name(backend), round, speed);
        let mut page = Page::default();
        let mut times = Vec::with_capacity(PAGES);
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..bench.size(PAGES, 20) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let cursor = seed % (total as u64 - 64 * KIB as u64);
            let request = ReadRequest {
                place: Place::Cursor(cursor),
                limits: PageLimits {
                    bytes: 64 * KIB,
                    records: 1_024,
                    unit: Unit::Runs,
                },
                until: Until::Record,
                wait: Duration::ZERO,
            };
            let before = Instant::now();
            let read = handle.read(&session, request, pending(), &mut page).await;
            times.push(before.elapsed().as_secs_f64() * 1e3);
            read.expect("it is kept");
            assert_eq!(page.text.len(), 64 * KIB);
        }
        times
    });
    bench.add_p50_p99(
        "64 KiB page at a random cursor",
        "ms",
        name(backend),
        round,
        &times,
    );
    engine.end();
}
