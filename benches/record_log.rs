//! Adding to a record log, evicting from it, and cutting pages out of it.

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::arena::{Block, READ_BYTES, RecordLog, Slab, max_blocks};
use sluicegate::arena::{Budget, Page, PageLimits, Stream, Unit};
use sluicegate::text::code_points;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const ASCII: &str = "   Compiling sluicegate v0.1.0 (/home/user/sluicegate/src)\n";
const WIDE: &str = "第一行 is done 😀 第二行\n";

/// Whole repetitions of `line` in at most `most` bytes.
fn lines(line: &str, most: usize) -> String {
    line.repeat(most / line.len())
}

fn log(budget: Budget) -> (Slab, RecordLog) {
    let slab = Slab::new(max_blocks(budget.bytes) + 1).expect("map");
    (slab.clone(), RecordLog::new(slab, budget))
}

/// A log whose budget of `bytes` is used up.
fn full_log(bytes: usize, line: &str) -> (Slab, RecordLog) {
    let (slab, mut log) = log(Budget {
        bytes,
        records: None,
    });
    let text = lines(line, READ_BYTES);
    let count = code_points(&text);
    while !log.truncated() {
        log.adopt(Stream::Stdout, block_of(&slab, &text), 0, text.len(), count);
    }
    (slab, log)
}

fn block_of(slab: &Slab, text: &str) -> Block {
    let mut block = slab.take();
    block.extend_from_slice(text.as_bytes());
    block
}

fn adopt(c: &mut Criterion) {
    let mut group = c.benchmark_group("record_log/adopt_and_evict_64k");
    for (name, line) in [("ascii", ASCII), ("cjk_emoji", WIDE)] {
        let text = lines(line, READ_BYTES);
        let count = code_points(&text);
        let (slab, mut log) = full_log(MIB, line);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| {
            b.iter_batched(
                || block_of(&slab, &text),
                |block| log.adopt(Stream::Stdout, block, 0, text.len(), count),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn append(c: &mut Criterion) {
    let line = "x".repeat(80) + "\n";
    let mut group = c.benchmark_group("record_log/append");
    for (name, bytes) in [
        ("81_byte_lines", 81),
        ("4k", 4 * KIB),
        ("64k_copied", 64 * KIB),
    ] {
        let text = line.repeat(bytes.div_ceil(81));
        let text = &text[..bytes];
        let (_slab, mut log) = full_log(MIB, ASCII);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |b| {
            b.iter(|| log.append(Stream::Stdout, black_box(text), bytes));
        });
    }
    let (_slab, mut log) = full_log(MIB, ASCII);
    group.throughput(Throughput::Bytes(2 * 81));
    group.bench_function("81_byte_lines_on_both_streams", |b| {
        b.iter(|| {
            log.append(Stream::Stdout, black_box(&line), 81);
            log.append(Stream::Stderr, black_box(&line), 81);
        });
    });
    group.finish();
}

fn evict(c: &mut Criterion) {
    let mut group = c.benchmark_group("record_log/evict_per_code_point");
    for (name, bytes, records) in [("bytes", MIB, None), ("records", MIB, Some(65_536))] {
        let (_slab, mut log) = log(Budget { bytes, records });
        let text = lines(WIDE, READ_BYTES);
        let count = code_points(&text);
        while !log.truncated() {
            log.append(Stream::Stdout, &text, count);
        }
        group.bench_function(name, |b| {
            b.iter(|| log.append(Stream::Stdout, black_box("中"), 1));
        });
    }
    group.finish();
}

fn page(c: &mut Criterion) {
    for (name, line) in [("ascii", ASCII), ("cjk_emoji", WIDE)] {
        let mut group = c.benchmark_group(format!("record_log/page_{name}"));
        for log_bytes in [KIB, 64 * KIB, MIB, 16 * MIB] {
            let (_slab, log) = full_log(log_bytes, line);
            let middle = (log.base_cursor() + log.next_cursor()) / 2;
            let mut out = Page::default();
            for page_bytes in [KIB, 16 * KIB, 64 * KIB] {
                let limits = PageLimits {
                    bytes: page_bytes,
                    records: KIB,
                    unit: Unit::Runs,
                };
                log.page(middle, limits, &mut out).expect("in range");
                group.throughput(Throughput::Bytes(out.text.len() as u64));
                let id = BenchmarkId::new(format!("{}k_of", page_bytes / KIB), log_bytes);
                group.bench_with_input(id, &limits, |b, limits| {
                    b.iter(|| log.page(black_box(middle), *limits, &mut out));
                });
            }
        }
        group.finish();
    }
    let mut group = c.benchmark_group("record_log/page_1024_runs");
    let (_slab, mut log) = log(Budget {
        bytes: MIB,
        records: None,
    });
    while !log.truncated() {
        log.append(Stream::Stdout, "out\n", 4);
        log.append(Stream::Stderr, "err\n", 4);
    }
    let limits = PageLimits {
        bytes: 64 * KIB,
        records: KIB,
        unit: Unit::Runs,
    };
    let middle = (log.base_cursor() + log.next_cursor()) / 2;
    let mut out = Page::default();
    group.bench_function("alternating", |b| {
        b.iter(|| log.page(black_box(middle), limits, &mut out));
    });
    assert_eq!(out.runs.len(), KIB);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = adopt, append, evict, page
}
criterion_main!(benches);
