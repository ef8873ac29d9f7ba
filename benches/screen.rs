//! What the emulation of a terminal costs: text taken in, beside three crates that do the same, one of which it is built on.

use std::{fs, hint::black_box, num::NonZeroU16, time::Duration};

use alacritty_terminal::{
    Term,
    event::VoidListener,
    grid::Dimensions,
    term::Config,
    vte::ansi::{Processor, StdSyncHandler},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluicegate::{
    screen::{Screen, Size},
    text::floor,
};

const SIZE: Size = Size { rows: 24, cols: 80 };
const SCROLLBACK: usize = 1_000;
/// A read of a terminal seldom brings more.
const PIECE_BYTES: usize = 4_096;
const TEXT_BYTES: usize = 2 << 20;

fn side(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("a usual size")
}

struct Cells;

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        SIZE.rows.into()
    }

    fn columns(&self) -> usize {
        SIZE.cols.into()
    }
}

/// Lines of one kind, one after the other.
fn text(line: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        text.push_str(&line(number));
    }
    text
}

fn plain(number: usize) -> String {
    format!(
        "{number:08} the quick brown fox jumps over the lazy dog and runs into the deep forest\r\n"
    )
}

fn coloured(number: usize) -> String {
    let minor = number % 7;
    format!(
        "\x1b[0m\x1b[1m\x1b[32m   Compiling\x1b[0m crate-{number} v1.{minor}.0 (/build/crate-{number})\r\n\
         \x1b[1m\x1b[33mwarning\x1b[0m\x1b[1m: unused variable: `x{number}`\x1b[0m\r\n"
    )
}

/// A line of a full screen that is drawn again and again, as by a process viewer.
fn redraw(number: usize) -> String {
    let (row, user) = (number % 24 + 1, number % 5);
    format!(
        "\x1b[{row};1H\x1b[30;46m{number:>7}\x1b[39;49m user{user}  \x1b[1m 12.5\x1b[0m \x1b[32m||||||||\x1b[31m||\x1b[90m   \
         \x1b[0m 01:02.03 /usr/bin/process-{number} --flag\x1b[K"
    )
}

fn wide(number: usize) -> String {
    format!("{number:06} コンパイル中 crate — 成功しました ✓ naïve café über 日本語テキスト\r\n")
}

/// A recorded program, over and over.
fn recorded(name: &str) -> String {
    let path = format!(
        "{}/fixtures/terminals/{name}.rec",
        env!("CARGO_MANIFEST_DIR")
    );
    let recording = fs::read_to_string(path).expect("a recording");
    recording.repeat(TEXT_BYTES / recording.len() + 1)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let cut = floor(rest, PIECE_BYTES);
        let (piece, after) = rest.split_at(cut);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn emulate(c: &mut Criterion) {
    let inputs = [
        ("plain_lines", text(plain)),
        ("coloured_log", text(coloured)),
        ("redraws", text(redraw)),
        ("wide_lines", text(wide)),
        ("vim", recorded("vim")),
        ("htop", recorded("htop")),
        ("less", recorded("less")),
        ("fzf", recorded("fzf")),
        ("tmux", recorded("tmux")),
    ];
    for (name, text) in inputs {
        let mut group = c.benchmark_group(format!("screen/{name}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("screen", |b| {
            b.iter(|| {
                let mut screen = Screen::new(SIZE, SCROLLBACK);
                let mut replies = Vec::new();
                for piece in pieces(&text) {
                    screen.feed(piece, &mut replies);
                    replies.clear();
                }
                black_box(screen.rows())
            });
        });
        group.bench_function("alacritty_terminal", |b| {
            b.iter(|| {
                let config = Config {
                    scrolling_history: SCROLLBACK,
                    ..Config::default()
                };
                let mut term = Term::new(config, &Cells, VoidListener);
                let mut processor = Processor::<StdSyncHandler>::new();
                for piece in pieces(&text) {
                    processor.advance(&mut term, piece.as_bytes());
                }
                black_box(term.grid().cursor.point)
            });
        });
        group.bench_function("vt100", |b| {
            b.iter(|| {
                let mut parser = vt100::Parser::new(side(SIZE.rows), side(SIZE.cols), SCROLLBACK);
                for piece in pieces(&text) {
                    parser.process(piece.as_bytes());
                }
                black_box(parser.screen().cursor_position())
            });
        });
        group.bench_function("avt", |b| {
            b.iter(|| {
                let (cols, rows) = (SIZE.cols.into(), SIZE.rows.into());
                let mut terminal = avt::Terminal::with_scrollback(cols, rows, Some(SCROLLBACK))
                    .expect("a usual size");
                for piece in pieces(&text) {
                    terminal.feed(piece);
                }
                black_box(terminal.cursor_position())
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = emulate
}
criterion_main!(benches);
