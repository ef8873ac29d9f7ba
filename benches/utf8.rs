//! Decoding one full read of 64 KiB, against `String::from_utf8_lossy`, which gives the same text.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::text::code_points;
use sluicegate::text::utf8::{Decoder, Scratch};

mod common;

use common::writer::random;

const INPUT_BYTES: usize = 64 * 1024;

/// `pattern` over and over, to exactly [`INPUT_BYTES`].
fn repeated(pattern: &[u8]) -> Vec<u8> {
    pattern.iter().copied().cycle().take(INPUT_BYTES).collect()
}

fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let ascii = repeated(b"   Compiling sluicegate v0.1.0 (/home/user/sluicegate)\n");
    let wide = repeated("第一行 is done 😀 第二行\n".as_bytes());
    let latin1 =
        repeated(b"Le ch\xe2teau \xe9tait d\xe9j\xe0 ferm\xe9 quand nous sommes arriv\xe9s.\n");
    let with_one_bad_byte = |mut bytes: Vec<u8>| {
        bytes[INPUT_BYTES / 2] = 0xff;
        bytes
    };
    vec![
        ("ascii_one_bad_byte", with_one_bad_byte(ascii.clone())),
        ("cjk_emoji_one_bad_byte", with_one_bad_byte(wide.clone())),
        ("ascii", ascii),
        ("cjk_emoji", wide),
        ("latin1", latin1),
        ("random", random(INPUT_BYTES)),
    ]
}

fn decode(c: &mut Criterion) {
    let mut scratch = Scratch::new(INPUT_BYTES);
    for (name, input) in inputs() {
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(&input, &mut scratch);
        let mut text = decoded.body.text().to_owned();
        text.extend(decoder.finish());
        assert!(text == String::from_utf8_lossy(&input), "{name}");

        let mut group = c.benchmark_group(format!("utf8/{name}"));
        group.throughput(Throughput::Bytes(INPUT_BYTES as u64));
        group.bench_function("decoder", |b| {
            b.iter(|| {
                let mut decoder = Decoder::new();
                let decoded = decoder.decode(black_box(&input), &mut scratch);
                black_box(decoded.body.text().len())
            });
        });
        group.bench_function("std_lossy", |b| {
            b.iter(|| black_box(String::from_utf8_lossy(black_box(&input)).len()));
        });
        group.finish();
    }
}

fn count(c: &mut Criterion) {
    let text = "第一行 is done 😀\n".repeat(2048);
    let mut group = c.benchmark_group("utf8/code_points");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("simd", |b| b.iter(|| code_points(black_box(&text))));
    group.bench_function("std_chars", |b| b.iter(|| black_box(&text).chars().count()));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = decode, count
}
criterion_main!(benches);
