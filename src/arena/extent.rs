//! One extent of a record log: a block with a contiguous piece of a session's text in it.
//!
//! Text grows from the front of the block. The *run directory* grows downward from its end: the
//! lengths of all runs but the last, two bytes each, little-endian. It gets an entry only when the
//! stream changes, so the text of one stream costs nothing beyond itself. As there are two streams,
//! each run is of the stream that the run before is not of. The block is full when text and
//! directory would meet.
//!
//! ```text
//! 0      head                         end                  BLOCK_BYTES
//! | evicted | retained text            | free | len 2 | len 1 | len 0 |
//! ```
//!
//! E1: `bytes[head..end]` is UTF-8 text of `code_points` code points, at least one.
//! E2: `front_start <= head`, and `head` lies in the run that starts there, number `gone`.

use super::code_points::{advance, ceil, count, floor};
use super::slab::{BLOCK_BYTES, Block};
use super::{Page, PageLimits, Run, Stream, Unit};

mod stored;

/// Bytes of one directory entry.
const ENTRY_BYTES: usize = 2;

#[derive(Debug)]
pub(super) struct Extent {
    store: Store,
    /// Cursor of the first retained code point.
    base: u64,
    /// Retained code points.
    code_points: usize,
    head: usize,
    end: usize,
    /// Runs with a directory entry, evicted ones included.
    entries: usize,
    /// Runs that were wholly evicted.
    gone: usize,
    /// Where the run that holds `head` starts, and its stream.
    front_start: usize,
    front_stream: Stream,
    /// Where the last run starts, and its stream.
    last_start: usize,
    last_stream: Stream,
}

/// How much further back a page may begin.
#[derive(Debug)]
pub(super) struct Reach {
    /// Bytes that still fit.
    pub(super) bytes: usize,
    /// Records that still fit, counted in `unit`.
    pub(super) records: usize,
    pub(super) unit: Unit,
    /// Stream of the text behind.
    pub(super) stream: Option<Stream>,
}

#[derive(Debug)]
enum Store {
    Block(Block),
    /// An exact copy, laid out like a block of its size. Takes no more text.
    Heap(Box<[u8]>),
}

impl Store {
    fn bytes(&self) -> &[u8] {
        match self {
            Store::Block(block) => block.bytes(),
            Store::Heap(bytes) => bytes,
        }
    }
}

impl Extent {
    /// An extent without text, to be given some at once (E1).
    pub(super) fn empty(block: Block, stream: Stream, base: u64) -> Extent {
        Extent::empty_behind(0, block, stream, base)
    }

    /// The same, with the first `reserved` bytes of the block left alone.
    pub(super) fn empty_behind(reserved: usize, block: Block, stream: Stream, base: u64) -> Extent {
        Extent::adopted(block, stream, reserved, reserved, base, 0)
    }

    /// Shows the retained text run by run, each with the cursor of its first code point.
    pub(super) fn each_run(&self, mut see: impl FnMut(Stream, &[u8], u64)) {
        self.runs_until(self.end, &mut see);
    }

    /// [`Extent::each_run`], up to offset `to` of the block.
    fn runs_until(&self, to: usize, see: &mut impl FnMut(Stream, &[u8], u64)) {
        let bytes = self.store.bytes();
        let (mut start, mut cursor) = (self.head, self.base);
        for (stream, end) in self.run_ends() {
            let end = end.min(to);
            if start >= end {
                continue;
            }
            let run = &bytes[start..end];
            see(stream, run, cursor);
            cursor += self.count(run) as u64;
            start = end;
        }
    }

    /// An extent of the text that already lies in `block`.
    pub(super) fn adopted(
        block: Block,
        stream: Stream,
        start: usize,
        end: usize,
        base: u64,
        code_points: usize,
    ) -> Extent {
        Extent {
            store: Store::Block(block),
            base,
            code_points,
            head: start,
            end,
            entries: 0,
            gone: 0,
            front_start: start,
            front_stream: stream,
            last_start: start,
            last_stream: stream,
        }
    }

    /// Cursor of the first retained code point.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Cursor after the last code point.
    pub(super) fn next(&self) -> u64 {
        self.base + self.code_points as u64
    }

    /// Retained bytes of text.
    pub(super) fn len(&self) -> usize {
        self.end - self.head
    }

    /// Retained code points.
    pub(super) fn code_points(&self) -> usize {
        self.code_points
    }

    /// Whether a block of the slab lies behind the extent.
    #[cfg(test)]
    pub(super) fn holds_block(&self) -> bool {
        matches!(self.store, Store::Block(_))
    }

    /// Bytes of `stream`'s text that still fit.
    pub(super) fn room(&self, stream: Stream) -> usize {
        let Store::Block(_) = self.store else {
            return 0;
        };
        let mut entries = self.entries;
        if stream != self.last_stream {
            // A run of more bytes than an entry can say must stay the last one.
            if self.end - self.last_start > usize::from(u16::MAX) {
                return 0;
            }
            entries += 1;
        }
        // Nothing is left when the new entry itself doesn't fit.
        BLOCK_BYTES.saturating_sub(self.end + ENTRY_BYTES * entries)
    }

    /// Adds text, not empty and of no more than [`Extent::room`] bytes.
    pub(super) fn push(&mut self, stream: Stream, text: &[u8], code_points: usize) {
        let fits = !text.is_empty() && text.len() <= self.room(stream);
        let Store::Block(block) = &mut self.store else {
            panic!("E: text for an extent that was closed");
        };
        assert!(fits, "E: {} bytes don't fit", text.len());
        let bytes = block.bytes_mut();
        if stream != self.last_stream {
            let len = u16::try_from(self.end - self.last_start).expect("room() has checked it");
            let at = BLOCK_BYTES - ENTRY_BYTES * (self.entries + 1);
            bytes[at..at + ENTRY_BYTES].copy_from_slice(&len.to_le_bytes());
            self.entries += 1;
            self.last_start = self.end;
            self.last_stream = stream;
        }
        bytes[self.end..self.end + text.len()].copy_from_slice(text);
        self.end += text.len();
        self.code_points += code_points;
    }

    /// Evicts the fewest oldest code points that make at least `bytes` bytes and at least
    /// `code_points` code points, both less than the extent has. Returns the bytes evicted, after they were shown to `see`
    /// run by run, each with the cursor of its first code point.
    pub(super) fn evict(
        &mut self,
        bytes: usize,
        code_points: usize,
        mut see: Option<impl FnMut(Stream, &[u8], u64)>,
    ) -> usize {
        assert!(bytes < self.len() && code_points < self.code_points);
        let text = &self.store.bytes()[self.head..self.end];
        let (evicted, evicted_code_points) = if self.is_ascii() {
            let evicted = bytes.max(code_points);
            (evicted, evicted)
        } else {
            let cut = ceil(text, bytes);
            // The shorter side is the cheaper one to count.
            let counted = if cut <= text.len() / 2 {
                count(&text[..cut])
            } else {
                self.code_points - count(&text[cut..])
            };
            if counted >= code_points {
                (cut, counted)
            } else {
                let further = advance(&text[cut..], code_points - counted);
                (cut + further, code_points)
            }
        };
        if let Some(see) = &mut see {
            self.runs_until(self.head + evicted, see);
        }
        self.head += evicted;
        self.base += evicted_code_points as u64;
        self.code_points -= evicted_code_points;
        while self.gone < self.entries && self.head >= self.front_start + self.entry(self.gone) {
            self.front_start += self.entry(self.gone);
            self.front_stream = other(self.front_stream);
            self.gone += 1;
        }
        evicted
    }

    /// Continues the page `out` at its `next_cursor`, which lies in this extent, as far as `limits`
    /// allow. Returns whether they allow more.
    pub(super) fn copy_into(&self, limits: PageLimits, out: &mut Page) -> bool {
        let bytes = self.store.bytes();
        let from = self.locate(out.next_cursor);
        let text_before = out.text.len();
        let page_start = out.runs.first().map_or(out.next_cursor, |run| run.cursor);
        let mut to = from;
        let mut may_go_on = true;
        for (stream, run_end) in self.run_ends() {
            if run_end <= from {
                continue;
            }
            let continues = out.runs.last().is_some_and(|run| run.stream == stream);
            let mut most_bytes = limits.bytes - text_before - (to - from);
            let mut most_code_points = usize::MAX;
            match limits.unit {
                Unit::Runs if !continues && out.runs.len() >= limits.records => most_bytes = 0,
                Unit::Runs => {}
                Unit::CodePoints => {
                    let taken = out.next_cursor - page_start;
                    most_code_points =
                        limits.records - usize::try_from(taken).expect("no more than `records`");
                    // So many code points lie within four times as many bytes.
                    most_bytes = most_bytes.min(most_code_points.saturating_mul(4));
                }
            }
            let mut piece = &bytes[to..run_end];
            piece = &piece[..floor(piece, most_bytes)];
            let mut taken = self.count(piece);
            if taken > most_code_points {
                taken = most_code_points;
                piece = &piece[..self.offset_of(piece, taken)];
            }
            may_go_on = piece.len() == run_end - to;
            if piece.is_empty() {
                break;
            }
            to += piece.len();
            let end = text_before + (to - from);
            match out.runs.last_mut() {
                Some(run) if continues => run.end = end,
                _ => out.runs.push(Run {
                    cursor: out.next_cursor,
                    stream,
                    end,
                }),
            }
            out.next_cursor += taken as u64;
            if !may_go_on {
                break;
            }
        }
        // Validated again, at a small part of the price of the copy's consumers: so no one who
        // hands in a wrong range can make an invalid `String`.
        let text = simdutf8::basic::from_utf8(&bytes[from..to]).expect("E1: extents hold UTF-8");
        out.text.push_str(text);
        may_go_on
    }

    /// Cursor after the last line feed of `stream` before `cursor`, if the extent holds one.
    pub(super) fn line_start(&self, stream: Stream, cursor: u64) -> Option<u64> {
        let bytes = self.store.bytes();
        let limit = if cursor < self.next() {
            self.locate(cursor)
        } else {
            self.end
        };
        for (run_stream, start, end) in self.runs_back() {
            let end = end.min(limit);
            if run_stream != stream || start >= end {
                continue;
            }
            if let Some(at) = memchr::memrchr(b'\n', &bytes[start..end]) {
                let before = self.count(&bytes[self.head..=start + at]);
                return Some(self.base + before as u64);
            }
        }
        None
    }

    /// Goes back from offset `to` of the block as far as `reach` allows, to `floor` at most; returns the offset reached.
    fn reach_back(&self, to: usize, floor: usize, reach: &mut Reach) -> usize {
        let bytes = self.store.bytes();
        let mut at = to;
        for (stream, run_start, _) in self.runs_back() {
            if run_start >= to {
                continue;
            }
            let start = run_start.max(floor);
            let mut from =
                start + ceil(&bytes[start..at], (at - start).saturating_sub(reach.bytes));
            let record = match reach.unit {
                Unit::Runs => usize::from(reach.stream != Some(stream)),
                Unit::CodePoints => {
                    let within = self.count(&bytes[from..at]);
                    let taken = within.min(reach.records);
                    from += self.offset_of(&bytes[from..at], within - taken);
                    taken
                }
            };
            if record > reach.records || from == at {
                break;
            }
            reach.records -= record;
            reach.bytes -= at - from;
            reach.stream = Some(stream);
            at = from;
            if at > run_start || at == floor {
                break;
            }
        }
        at
    }

    /// As far back from `end` (or from the extent's end) as `reach` allows, to `floor` at most: the cursor reached, and
    /// whether the extents before this one may be gone back over, too.
    pub(super) fn start_of(&self, end: u64, floor: u64, reach: &mut Reach) -> (u64, bool) {
        let to = self.locate(end.min(self.next()));
        let floor = self.locate(floor.max(self.base));
        let at = self.reach_back(to, floor, reach);
        let cursor = self.base + self.count(&self.store.bytes()[self.head..at]) as u64;
        (cursor, at == self.head)
    }

    /// Moves the text to an exact heap copy when that takes less than half of a block.
    pub(super) fn shrink(&mut self) {
        let entries = self.entries - self.gone;
        let size = self.len() + ENTRY_BYTES * entries;
        let Store::Block(block) = &self.store else {
            return;
        };
        if size > BLOCK_BYTES / 2 {
            return;
        }
        let mut bytes = vec![0; size].into_boxed_slice();
        bytes[..self.len()].copy_from_slice(&block.bytes()[self.head..self.end]);
        let mut start = self.front_start;
        for index in 0..entries {
            let run_end = start + self.entry(self.gone + index);
            // Of the first run only the part from `head` on is there.
            let len = u16::try_from(run_end - start.max(self.head)).expect("no longer than before");
            let at = size - ENTRY_BYTES * (index + 1);
            bytes[at..at + ENTRY_BYTES].copy_from_slice(&len.to_le_bytes());
            start = run_end;
        }
        self.last_start = self.last_start.max(self.head) - self.head;
        self.end -= self.head;
        self.head = 0;
        self.front_start = 0;
        self.entries = entries;
        self.gone = 0;
        self.store = Store::Heap(bytes);
    }

    fn is_ascii(&self) -> bool {
        self.len() == self.code_points
    }

    /// Offset of the code point at `cursor` in the block.
    fn locate(&self, cursor: u64) -> usize {
        let n = usize::try_from(cursor - self.base).expect("a cursor in this extent");
        self.head + self.offset_of(&self.store.bytes()[self.head..self.end], n)
    }

    /// Offset of code point `n` of a part of the text.
    fn offset_of(&self, part: &[u8], n: usize) -> usize {
        if self.is_ascii() { n } else { advance(part, n) }
    }

    /// Code points of a part of the text.
    fn count(&self, part: &[u8]) -> usize {
        if part.len() == self.len() {
            self.code_points
        } else if self.is_ascii() {
            part.len()
        } else {
            count(part)
        }
    }

    /// Length of run `index`.
    fn entry(&self, index: usize) -> usize {
        let bytes = self.store.bytes();
        let at = bytes.len() - ENTRY_BYTES * (index + 1);
        usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
    }

    /// Stream, start and end offset of each run that is retained, the last one first.
    fn runs_back(&self) -> impl Iterator<Item = (Stream, usize, usize)> {
        let mut end = self.end;
        let mut start = self.last_start;
        let mut stream = self.last_stream;
        (self.gone..=self.entries).rev().map(move |index| {
            let run = (stream, start.max(self.head), end);
            end = start;
            if index > self.gone {
                start -= self.entry(index - 1);
            }
            stream = other(stream);
            run
        })
    }

    /// Stream and end offset of each run that is retained, wholly or in part.
    fn run_ends(&self) -> impl Iterator<Item = (Stream, usize)> {
        let mut start = self.front_start;
        let mut stream = self.front_stream;
        (self.gone..=self.entries).map(move |index| {
            let end = if index == self.entries {
                self.end
            } else {
                start + self.entry(index)
            };
            let run = (stream, end);
            start = end;
            stream = other(stream);
            run
        })
    }
}

fn other(stream: Stream) -> Stream {
    match stream {
        Stream::Stdout => Stream::Stderr,
        Stream::Stderr => Stream::Stdout,
    }
}
