//! Frames of the incoming stream: one JSON-RPC message a line, at most [`MAX_FRAME_BYTES`] long.
//!
//! Owns the read buffer and nothing else: bytes are put into [`Frames::room`], and frames come out of [`Frames::next_frame`].
//! What must hold: of one frame no more than [`MAX_FRAME_BYTES`] bytes are ever buffered; the state lies here and in no
//! future, so that whoever reads can be dropped at any await without losing a byte.
//!
//! How a line becomes a frame: the newline goes, then one carriage return before it, then a UTF-8 byte order mark at its
//! start. What is then empty or only white space is no frame. The end of the stream ends the last line as a newline does.

use std::ops::Range;

use rmcp::model::RequestId;

use crate::{config::limits::MAX_FRAME_BYTES, mcp::id_scan::IdScan};

/// Most bytes asked for in one read.
const READ_BYTES: usize = 65_536;
/// Size of a buffer that has never been full. Most requests are a tenth of it.
const FIRST_BYTES: usize = 4_096;
/// Capacity that an idle buffer keeps.
const IDLE_BYTES: usize = 65_536;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One line of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A line that is within the limit; not yet known to be JSON.
    Line(&'a [u8]),
    /// A line beyond the limit, skipped; with the id that its sender waits on, if it is a request.
    TooLong(Option<RequestId>),
}

/// Cuts the stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// `buffer[head..tail]` holds what was read and not yet handed out; the rest is room.
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
    /// `buffer[head..searched]` holds no newline.
    searched: usize,
    /// Set from the moment that a line passed the limit to its newline.
    skipping: Option<IdScan>,
    ended: bool,
}

impl Frames {
    /// Where the next bytes belong. Never empty, never so long that a frame could be buffered past the limit.
    ///
    /// To be called when [`Self::next_frame`] had nothing more.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let held = self.tail - self.head;
        assert!(
            held < MAX_FRAME_BYTES,
            "a full frame was left in the buffer"
        );
        if held == 0 {
            (self.head, self.tail, self.searched) = (0, 0, 0);
            if self.buffer.len() > IDLE_BYTES {
                self.buffer.truncate(IDLE_BYTES);
                self.buffer.shrink_to_fit();
            }
        } else if self.tail == self.buffer.len() && self.head > 0 {
            self.buffer.copy_within(self.head..self.tail, 0);
            self.searched -= self.head;
            (self.head, self.tail) = (0, held);
        }
        if self.tail == self.buffer.len() {
            let grown = (self.buffer.len() * 2).clamp(FIRST_BYTES, MAX_FRAME_BYTES);
            self.buffer.resize(grown, 0);
        }
        let length = READ_BYTES
            .min(MAX_FRAME_BYTES - held)
            .min(self.buffer.len() - self.tail);
        &mut self.buffer[self.tail..self.tail + length]
    }

    /// Takes note that `count` bytes were put at the start of the last [`Self::room`].
    pub(super) fn filled(&mut self, count: usize) {
        self.tail += count;
        assert!(
            self.tail <= self.buffer.len(),
            "more bytes than there was room for"
        );
    }

    /// Takes note that no more bytes will come; a line without newline is handed out like any other.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// The next complete line that holds something.
    pub(super) fn next_frame(&mut self) -> Option<Frame<'_>> {
        loop {
            let newline = memchr::memchr(b'\n', &self.buffer[self.searched..self.tail])
                .map(|offset| self.searched + offset);
            let (end, next) = match newline {
                Some(at) => (at, at + 1),
                None if self.ended && (self.head < self.tail || self.skipping.is_some()) => {
                    (self.tail, self.tail)
                }
                None => {
                    self.searched = self.tail;
                    self.skip_if_too_long();
                    return None;
                }
            };
            let start = std::mem::replace(&mut self.head, next);
            self.searched = next;
            if let Some(mut scan) = self.skipping.take() {
                scan.feed(&self.buffer[start..end]);
                return Some(Frame::TooLong(scan.id()));
            }
            let content = content_of(&self.buffer[start..end]);
            if !content.is_empty() {
                return Some(Frame::Line(
                    &self.buffer[start + content.start..start + content.end],
                ));
            }
        }
    }

    /// Gives up a line that can't end within the limit any more.
    fn skip_if_too_long(&mut self) {
        let held = &self.buffer[self.head..self.tail];
        if self.skipping.is_none() && held.len() < MAX_FRAME_BYTES {
            return;
        }
        self.skipping.get_or_insert_default().feed(held);
        self.head = self.tail;
    }
}

/// Where the message lies in a line without its newline; empty when there is none.
fn content_of(line: &[u8]) -> Range<usize> {
    let end = line.len() - usize::from(line.ends_with(b"\r"));
    let start = if line[..end].starts_with(BOM) {
        BOM.len()
    } else {
        0
    };
    if line[start..end].iter().all(u8::is_ascii_whitespace) {
        return start..start;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame that owns its line, so that several can be kept.
    #[derive(Debug, PartialEq, Eq)]
    enum Owned {
        Line(Vec<u8>),
        TooLong(Option<RequestId>),
    }

    /// Plays `stream` in reads of the given sizes (the last one repeats) and returns the frames and the largest buffer.
    fn play(stream: &[u8], reads: &[usize]) -> (Vec<Owned>, usize) {
        let mut frames = Frames::default();
        let (mut found, mut rest, mut turn, mut largest) = (Vec::new(), stream, 0, 0);
        loop {
            while let Some(frame) = frames.next_frame() {
                found.push(match frame {
                    Frame::Line(line) => Owned::Line(line.to_vec()),
                    Frame::TooLong(id) => Owned::TooLong(id),
                });
            }
            if frames.ended {
                return (found, largest);
            }
            let wanted = reads
                .get(turn)
                .or(reads.last())
                .copied()
                .unwrap_or(1)
                .max(1);
            turn += 1;
            let room = frames.room();
            let count = wanted.min(room.len()).min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            frames.filled(count);
            rest = &rest[count..];
            largest = largest.max(frames.buffer.capacity());
            if count == 0 {
                frames.end();
            }
        }
    }

    /// The same rules, on the whole stream at once.
    fn twin(stream: &[u8]) -> Vec<Owned> {
        let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        let mut found = Vec::new();
        for line in lines {
            if line.len() >= MAX_FRAME_BYTES {
                let id = serde_json::from_slice::<serde_json::Value>(line)
                    .ok()
                    .and_then(|value| serde_json::from_value(value["id"].clone()).ok());
                found.push(Owned::TooLong(id));
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = line.strip_prefix(BOM).unwrap_or(line);
            if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                found.push(Owned::Line(line.to_vec()));
            }
        }
        found
    }

    fn padded(length: usize, id: u32) -> Vec<u8> {
        let (before, after) = (
            r#"{"jsonrpc":"2.0","method":"ping","params":{"pad":""#,
            format!(r#""}},"id":{id}}}"#),
        );
        let pad = "x".repeat(length - before.len() - after.len());
        format!("{before}{pad}{after}").into_bytes()
    }

    #[test]
    fn a_frame_of_the_limit_passes_and_one_byte_more_does_not() {
        let mut stream = padded(MAX_FRAME_BYTES - 1, 1);
        stream.push(b'\n');
        stream.extend(padded(MAX_FRAME_BYTES, 2));
        stream.extend(b"\n{}\n");
        for reads in [vec![65_536], vec![1 << 20], vec![4_095]] {
            let (found, largest) = play(&stream, &reads);
            assert_eq!(
                found,
                [
                    Owned::Line(padded(MAX_FRAME_BYTES - 1, 1)),
                    Owned::TooLong(Some(RequestId::Number(2))),
                    Owned::Line(b"{}".to_vec()),
                ]
            );
            assert!(largest <= MAX_FRAME_BYTES);
        }
    }

    #[test]
    fn a_line_of_64_mib_is_skipped_in_the_same_memory() {
        let mut stream = padded(64 << 20, 7);
        stream.extend(b"\n{}");
        let (found, largest) = play(&stream, &[65_536]);
        assert_eq!(
            found,
            [
                Owned::TooLong(Some(RequestId::Number(7))),
                Owned::Line(b"{}".to_vec()),
            ]
        );
        assert!(largest <= MAX_FRAME_BYTES, "{largest} bytes");
    }

    #[test]
    fn line_ends_marks_and_empty_lines_follow_one_rule() {
        let (found, _) = play(
            b"\n\r\n \t\n\xEF\xBB\xBF{}\r\n\xEF\xBB\xBF\r\n{ }\r\r\nlast\r",
            &[3],
        );
        assert_eq!(
            found,
            [
                Owned::Line(b"{}".to_vec()),
                Owned::Line(b"{ }\r".to_vec()),
                Owned::Line(b"last".to_vec()),
            ]
        );
    }

    #[test]
    fn an_idle_buffer_gives_its_memory_back() {
        let mut frames = Frames::default();
        let frame = [padded(500_000, 1), vec![b'\n']].concat();
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            assert_eq!(frames.next_frame(), None);
            let room = frames.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            frames.filled(count);
            rest = &rest[count..];
        }
        assert!(matches!(frames.next_frame(), Some(Frame::Line(_))));
        assert_eq!(frames.next_frame(), None);
        frames.room();
        assert!(frames.buffer.capacity() <= 2 * IDLE_BYTES);
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => prop::collection::vec(any::<u8>(), 0..40),
            4 => Just(b"\n".to_vec()),
            2 => Just(b"\r\n".to_vec()),
            1 => Just(BOM.to_vec()),
            4 => (80usize..3_000, any::<u32>()).prop_map(|(length, id)| padded(length, id)),
            1 => (0usize..3, any::<u32>()).prop_map(|(more, id)| padded(MAX_FRAME_BYTES - 2 + more, id)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn frames_are_those_of_splitting_the_whole_stream(
            pieces in prop::collection::vec(piece(), 0..24),
            reads in prop::collection::vec(1usize..70_000, 1..12),
        ) {
            let stream = pieces.concat();
            let (found, largest) = play(&stream, &reads);
            prop_assert!(largest <= MAX_FRAME_BYTES);
            let expected = twin(&stream);
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                match (found, expected) {
                    // A line that isn't JSON may still show its id to the scan.
                    (Owned::TooLong(_), Owned::TooLong(None)) => {}
                    _ => prop_assert_eq!(found, expected),
                }
            }
        }
    }
}
