//! The program's own two files, compiled into this target, and their twin.

use std::fmt;

use rmcp::model::RequestId;
use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::config::limits::MAX_FRAME_BYTES;

#[path = "../../../src/mcp/frame.rs"]
mod frame;
#[path = "../../../src/mcp/id_scan.rs"]
mod id_scan;

use frame::{Frame, Frames};
use id_scan::IdScan;

/// Where the last of the first four bytes is below this, `FILLER` becomes filler: an input of few bytes makes frames around
/// the limit. Elsewhere it stands for itself, since such runs take a hundred times as long.
const FILLED: u8 = 16;
const FILLER: u8 = 0x00;
/// Divides the limit into a few pieces, and not evenly.
const FILLER_BYTES: usize = 13_000;
/// Reads of a few bytes; a stream of many KiB in nothing else would take too long.
const MAX_SMALL_READS: usize = 2_000;
/// Lines that are scanned byte by byte as well.
const SHORT_LINE_BYTES: usize = 8_192;
/// Raw bytes of the longest id that the scan takes.
const MAX_ID_BYTES: usize = 1_024;

#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Line(Vec<u8>),
    TooLong(Option<RequestId>),
}

/// The first four bytes say how the rest is cut into reads.
pub fn compare(data: &[u8]) {
    let Some((&cuts, rest)) = data.split_first_chunk::<4>() else {
        return;
    };
    let mut stream = Vec::with_capacity(rest.len());
    for &byte in rest {
        match byte {
            FILLER if cuts[3] < FILLED && stream.len() > 4 * MAX_FRAME_BYTES => {}
            FILLER if cuts[3] < FILLED => stream.resize(stream.len() + FILLER_BYTES, b'x'),
            byte => stream.push(byte),
        }
    }
    let found = play(&stream, cuts);
    let expected = twin(&stream);
    assert_eq!(found.len(), expected.len(), "frames");
    for (found, expected) in found.iter().zip(&expected) {
        match (found, expected) {
            (Owned::Line(found), Expected::Line(expected)) => assert_eq!(found, expected),
            (Owned::TooLong(found), Expected::TooLong(line)) => {
                assert_eq!(*found, IdScan::of(line), "the scan depends on the reads");
            }
            (found, expected) => panic!("{found:?} for {expected:?}"),
        }
    }
    for line in stream.split(|&byte| byte == b'\n') {
        check_id(line);
    }
}

/// What a line's id is, where a parser can tell; elsewhere only that the pieces don't matter.
fn check_id(line: &[u8]) {
    let id = IdScan::of(line);
    if line.len() <= SHORT_LINE_BYTES {
        let mut bytewise = IdScan::default();
        for byte in line.chunks(1) {
            bytewise.feed(byte);
        }
        assert_eq!(bytewise.id(), id, "the scan depends on the pieces");
    }
    let json = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if let Some(expected) = parsed_id(json) {
        assert_eq!(id, expected, "{}", String::from_utf8_lossy(json));
    }
}

fn play(stream: &[u8], cuts: [u8; 4]) -> Vec<Owned> {
    let mut frames = Frames::default();
    let (mut found, mut rest) = (Vec::new(), stream);
    for turn in 0.. {
        while let Some(frame) = frames.next_frame() {
            found.push(match frame {
                Frame::Line(line) => {
                    assert!(line.len() < MAX_FRAME_BYTES);
                    Owned::Line(line.to_vec())
                }
                Frame::TooLong(id) => Owned::TooLong(id),
            });
        }
        let wanted = match cuts[turn % cuts.len()] {
            small @ 1..=64 if turn < MAX_SMALL_READS => usize::from(small),
            large => 1 + usize::from(large) * 257,
        };
        let room = frames.room();
        assert!(!room.is_empty());
        let count = wanted.min(room.len()).min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        frames.filled(count);
        rest = &rest[count..];
        if count == 0 {
            frames.end();
            break;
        }
    }
    while let Some(frame) = frames.next_frame() {
        found.push(match frame {
            Frame::Line(line) => Owned::Line(line.to_vec()),
            Frame::TooLong(id) => Owned::TooLong(id),
        });
    }
    found
}

#[derive(Debug)]
enum Expected<'a> {
    Line(&'a [u8]),
    TooLong(&'a [u8]),
}

fn twin(stream: &[u8]) -> Vec<Expected<'_>> {
    let mut lines: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let mut found = Vec::new();
    for line in lines {
        if line.len() >= MAX_FRAME_BYTES {
            found.push(Expected::TooLong(line));
            continue;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            found.push(Expected::Line(line));
        }
    }
    found
}

/// The id that a JSON parser finds; the outer `None` when this is no JSON object.
fn parsed_id(line: &[u8]) -> Option<Option<RequestId>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Option<RequestId>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut id, mut is_reply) = (None, false);
            while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                is_reply |= key == "result" || key == "error";
                if key == "id" {
                    let raw = value.get();
                    let short = raw.len() <= MAX_ID_BYTES;
                    id = short.then(|| serde_json::from_str(raw).ok()).flatten();
                }
            }
            Ok(id.filter(|_| !is_reply))
        }
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let id = deserializer.deserialize_map(Members).ok()?;
    deserializer.end().ok()?;
    Some(id)
}
