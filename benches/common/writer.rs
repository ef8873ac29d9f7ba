//! The process that is drained: a bench's own binary, which writes as fast as its pipe takes it.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
};

use super::{Aligned, MIB, this_program};

/// First argument of the process that writes.
const WRITER: &str = "--writer";

/// What is written, how much at a time, and into how many pipes at once.
#[derive(Clone, Copy)]
pub struct Writes {
    pub text: Text,
    pub each: Each,
    pub pipes: usize,
}

/// How much is written at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Each {
    Bytes(usize),
    /// A line, as a build tool does.
    Line,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Text {
    Ascii,
    /// 81 bytes each.
    Lines,
    Yes,
    /// Chinese and emoji among ASCII.
    Mixed,
    Random,
    /// `cargo build -v`, in colour.
    CargoLog,
    /// `make -j4` with gcc's warnings, in colour.
    MakeLog,
}

const TEXTS: [(Text, &str); 7] = [
    (Text::Ascii, "ascii"),
    (Text::Lines, "lines"),
    (Text::Yes, "yes"),
    (Text::Mixed, "mixed"),
    (Text::Random, "random"),
    (Text::CargoLog, "cargo"),
    (Text::MakeLog, "make"),
];

impl Text {
    /// Whether each byte of it is a code point, so that a cursor counts bytes.
    pub fn is_ascii(self) -> bool {
        matches!(self, Text::Ascii | Text::Lines | Text::Yes)
    }

    fn content(self, bytes: usize) -> Vec<u8> {
        let repeated = |unit: &[u8]| unit.iter().copied().cycle().take(bytes).collect();
        match self {
            Text::Ascii => repeated(b"   Compiling sluicegate v0.1.0 (/home/user/sluicegate)\n"),
            Text::Lines => {
                let mut line = b"2026-01-01T00:00:00Z INFO server: request handled, status=200 duration=1.8ms ok."
                    .to_vec();
                line.resize(80, b'.');
                line.push(b'\n');
                repeated(&line)
            }
            Text::Yes => repeated(b"y\n"),
            Text::Mixed => repeated("第一行 is done 😀 第二行\n".as_bytes()),
            Text::Random => random(bytes),
            Text::CargoLog => repeated(include_bytes!("../../fixtures/logs/cargo-build.log")),
            Text::MakeLog => repeated(include_bytes!("../../fixtures/logs/make.log")),
        }
    }
}

impl Writes {
    /// The command that writes `total` bytes.
    pub fn argv(self, total: usize) -> Vec<String> {
        let (_, text) = TEXTS
            .iter()
            .find(|(text, _)| *text == self.text)
            .expect("all are there");
        let each = match self.each {
            Each::Bytes(bytes) => bytes.to_string(),
            Each::Line => "line".to_owned(),
        };
        vec![
            this_program().to_string_lossy().into_owned(),
            WRITER.to_owned(),
            (*text).to_owned(),
            each,
            total.to_string(),
        ]
    }
}

/// Writes and returns true, when this process was started to.
pub fn is_writer() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, text, each, total] = arguments.as_slice() else {
        return false;
    };
    if first != WRITER {
        return false;
    }
    let (text, _) = TEXTS
        .iter()
        .find(|(_, name)| name == text)
        .expect("a known text");
    let each = match each.as_str() {
        "line" => Each::Line,
        bytes => Each::Bytes(bytes.parse().expect("a number of bytes")),
    };
    write_out(*text, each, total.parse().expect("a number of bytes"));
    true
}

fn write_out(text: Text, each: Each, total: usize) {
    // At least so much that a reader can't find it all in its nearest cache.
    let content = match each {
        Each::Bytes(bytes) => text.content(MIB.div_ceil(bytes) * bytes),
        Each::Line => text.content(MIB),
    };
    let mut aligned = Aligned::new(content.len());
    aligned.copy_from_slice(&content);
    let content = aligned;
    let pieces: Vec<&[u8]> = match each {
        Each::Bytes(bytes) => content.chunks_exact(bytes).collect(),
        Each::Line => content.split_inclusive(|&byte| byte == b'\n').collect(),
    };
    // Not through io::stdout: its line buffer would split the writes.
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let mut stdout = File::from(stdout.expect("a duplicate"));
    let mut left = total;
    for piece in pieces.into_iter().cycle() {
        let piece = &piece[..left.min(piece.len())];
        if piece.is_empty() || stdout.write_all(piece).is_err() {
            return;
        }
        left -= piece.len();
    }
}

/// Uniformly random bytes, the same ones in each run (xorshift64).
pub fn random(bytes: usize) -> Vec<u8> {
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
