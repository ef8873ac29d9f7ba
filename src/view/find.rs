//! Finding lines: those of a log in which a pattern matches, with the lines around them.
//!
//! As in a plain page, a cursor is all that is known of a reader, so the rule works with it alone:
//!
//! - A search looks at each line that **ends** at its cursor or later, whole, each stream's by themselves, up to the end of the
//!   log as it was when the search began. A line that is unfinished there counts as it stands.
//! - Of a line that the cursor itself cuts (the code point before the cursor is the line's) only the rest is looked at.
//! - A line is found by its first match. Lines are told in the order of their ends, and the next search starts after the end of
//!   the last one told. So searches that follow each other tell each finished line once, whatever the other stream had in
//!   between. The end of an unfinished line without a match is not passed, since the rest of it may bring one.
//!
//! Of an unfinished line that has become giant, only its end is kept, as in a wait for a pattern: there a match longer than
//! that isn't found.

use std::time::Instant;

use super::{Look, PIECE, Progress, Source, Stride, runs};
use crate::{
    arena::{CursorError, LineStart, Page, PageLimits, Stream, Unit},
    text::{code_points, pattern::Pattern},
};

mod lane;
mod line;

use lane::Lane;
pub use line::FoundLine;
use line::{Feeds, LINE_BYTES, fitting, line_feeds, offset_of};

/// Text of all lines told.
const MOST_TEXT_BYTES: usize = 64 * 1024;
/// What a search comes to hold of lines: those that fit and one more, with the lines after them, which are counted last.
pub const MOST_FOUND_BYTES: usize =
    MOST_TEXT_BYTES + line::MOST_BYTES + MOST_MATCHES * MOST_CONTEXT * line::CONTEXT_BYTES;
const MOST_MATCHES: usize = 200;
const MOST_CONTEXT: usize = 10;

/// Runs of a piece: what is known of each takes memory.
const MOST_RUNS: usize = 8 * 1024;

/// How much is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindLimits {
    /// Most lines, at least one and at most 200.
    pub matches: usize,
    /// Lines shown before and after each, at most 10.
    pub context: usize,
    /// Most UTF-8 bytes of text in all, at least 4 and at most 65536.
    pub bytes: usize,
}

impl FindLimits {
    /// Bytes that are shown of a line, and of its match: so that one line fits in any case.
    fn line_bytes(self) -> usize {
        LINE_BYTES.min(self.bytes / 2)
    }
}

/// A search on its way, and what it found. See the module.
#[derive(Debug)]
pub struct Find {
    /// The lines, in the order of their ends.
    pub lines: Vec<FoundLine>,
    /// Lines that end in the text that was searched, unfinished ones at its end included.
    pub lines_scanned: u64,
    /// Where the next search starts.
    pub next_cursor: u64,
    /// Whether there is text that wasn't searched.
    pub has_more: bool,
    /// Code points that were evicted before they could be searched.
    pub unsearched: u64,
    pattern: Pattern,
    limits: FindLimits,
    from: u64,
    phase: Phase,
    /// The end of the log when the search began.
    end: u64,
    /// How far the text was gone through.
    seen: u64,
    /// Cursor after the last line feed that was seen.
    line_end: u64,
    /// Stream of the last code point that was seen.
    last: Option<Stream>,
    /// UTF-8 bytes of what was found, but for the lines after.
    bytes: usize,
    /// Nothing more is to be found; lines after those found may still be missing.
    is_full: bool,
    stdout: Lane,
    stderr: Lane,
    piece: Page,
    stride: Stride,
}

/// One code point.
const ONE: PageLimits = PageLimits {
    bytes: 4,
    records: 1,
    unit: Unit::CodePoints,
};

/// What the next step does.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Begin,
    /// Looks at the code point before the cursor.
    Before,
    /// Looks in one stream before the cursor for the start of a line; so many are wanted.
    LookBack(Stream, u64, usize),
    Search,
}

impl Find {
    /// A search from `from` on.
    pub fn new(pattern: Pattern, from: u64, limits: FindLimits) -> Find {
        debug_assert!(limits.matches <= MOST_MATCHES && limits.context <= MOST_CONTEXT);
        debug_assert!(limits.bytes <= MOST_TEXT_BYTES);
        Find {
            lines: Vec::new(),
            lines_scanned: 0,
            next_cursor: from,
            has_more: false,
            unsearched: 0,
            pattern,
            limits,
            from,
            phase: Phase::Begin,
            end: from,
            seen: from,
            line_end: from,
            last: None,
            bytes: 0,
            is_full: false,
            stdout: Lane::new(Stream::Stdout, from),
            stderr: Lane::new(Stream::Stderr, from),
            piece: Page::default(),
            stride: Stride::default(),
        }
    }

    /// The one look at the source that the next step takes.
    pub fn look(&self) -> Look {
        match self.phase {
            Phase::Begin => Look::Page(self.from, ONE),
            Phase::Before => Look::Page(self.from - 1, ONE),
            Phase::LookBack(stream, at, _) => Look::LineStart(stream, at),
            Phase::Search => Look::Page(self.seen, self.stride()),
        }
    }

    /// Goes on with the search, by no more than a piece of the log.
    ///
    /// # Errors
    /// When the text at the search's cursor was evicted or doesn't exist yet.
    pub fn step(&mut self, source: &impl Source) -> Result<Progress, CursorError> {
        let mut piece = std::mem::take(&mut self.piece);
        let progress = match self.phase {
            Phase::Begin => self.begin(source, &mut piece),
            Phase::Before => {
                self.look_before(source, &mut piece);
                Ok(Progress::More)
            }
            Phase::LookBack(stream, at, wanted) => {
                self.look_back(source, stream, at, wanted);
                Ok(Progress::More)
            }
            Phase::Search => Ok(self.search(source, &mut piece)),
        };
        self.piece = piece;
        progress
    }

    /// Ends the search where it is. It can be gone on with from its `next_cursor`.
    pub fn stop(&mut self) {
        let reached = if self.line_end > self.from {
            self.line_end
        } else {
            // Rather a match missed over this place than a search that never gets on.
            self.seen.max(self.from)
        };
        self.conclude(reached, true);
    }

    fn begin(&mut self, source: &impl Source, piece: &mut Page) -> Result<Progress, CursorError> {
        source.page(self.from, ONE, piece)?;
        self.end = piece.end_cursor;
        if self.from > 0 {
            self.phase = Phase::Before;
        } else {
            self.begin_looking_back();
        }
        Ok(Progress::More)
    }

    fn look_before(&mut self, source: &impl Source, piece: &mut Page) {
        // Before the oldest readable code point there is none that could tell.
        if source.page(self.from - 1, ONE, piece).is_ok() && piece.text != "\n" {
            for (_, stream, _) in runs(piece) {
                self.lane(stream).is_cut = true;
            }
        }
        self.begin_looking_back();
    }

    fn begin_looking_back(&mut self) {
        self.phase = Phase::LookBack(Stream::Stdout, self.from, 1 + self.limits.context);
    }

    fn look_back(&mut self, source: &impl Source, stream: Stream, at: u64, wanted: usize) {
        let next = match source.line_start(stream, at) {
            LineStart::At(start) => {
                self.lane(stream).begin = start;
                // The line feed itself belongs to the line before.
                (wanted > 1 && start > 0).then(|| (start - 1, wanted - 1))
            }
            LineStart::Before(at) => Some((at, wanted)),
            LineStart::Evicted => {
                self.lane(stream).begin = 0;
                None
            }
        };
        self.phase = match (next, stream) {
            (Some((at, wanted)), _) => Phase::LookBack(stream, at, wanted),
            (None, Stream::Stdout) => {
                Phase::LookBack(Stream::Stderr, self.from, 1 + self.limits.context)
            }
            (None, Stream::Stderr) => {
                self.seen = self.stdout.begin.min(self.stderr.begin);
                Phase::Search
            }
        };
    }

    fn stride(&self) -> PageLimits {
        PageLimits {
            bytes: self.stride.bytes,
            records: MOST_RUNS,
            ..PIECE
        }
    }

    fn search(&mut self, source: &impl Source, piece: &mut Page) -> Progress {
        if let Err(error) = source.page(self.seen, self.stride(), piece) {
            // The text went before it was searched, or what stands before the cursor had gone before.
            let (CursorError::Expired { base, .. } | CursorError::Invalid { base, .. }) = error;
            self.unsearched += base.min(self.end).saturating_sub(self.seen.max(self.from));
            self.seen = base.min(self.end);
            self.line_end = self.line_end.max(self.seen);
            self.stdout.forget();
            self.stderr.forget();
        } else {
            let began = Instant::now();
            self.go_through(piece);
            self.stride.took(began.elapsed());
        }
        if self.seen >= self.end {
            self.see_the_end(piece.end_cursor);
            return Progress::Done;
        }
        if self.is_full && self.is_certain() {
            self.conclude(self.end, false);
            return Progress::Done;
        }
        Progress::More
    }

    /// Takes a piece, and searches the lines that it ends.
    fn go_through(&mut self, piece: &Page) {
        let before = self.lines_scanned;
        for (cursor, stream, text) in runs(piece) {
            // What came after the search's beginning isn't looked at.
            let text = &text[..offset_of(text, self.end.saturating_sub(cursor))];
            if text.is_empty() {
                break;
            }
            self.lane(stream).take(cursor, text);
            self.last = Some(stream);
            self.seen = cursor + code_points(text) as u64;
            if let Some(at) = memchr::memrchr(b'\n', text.as_bytes()) {
                let line_end = self.seen - code_points(&text[at + 1..]) as u64;
                self.line_end = self.line_end.max(line_end);
            }
            let skipped = offset_of(text, self.from.saturating_sub(cursor));
            self.lines_scanned += line_feeds(&text[skipped..]);
            self.lane(stream).scanned = self.lines_scanned;
        }
        let mut found = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.search_lane(stream, false, &mut found);
        }
        self.tell(found, piece, before);
    }

    /// Searches a lane's finished lines, or at the end also the unfinished one, and gives its lines to those that were found
    /// before.
    fn search_lane(&mut self, stream: Stream, at_the_end: bool, found: &mut Vec<FoundLine>) {
        // A full answer may still have to take in an unfinished line.
        let wanted = if at_the_end {
            1
        } else {
            self.limits.matches - self.lines.len()
        };
        let (lane, lines) = match stream {
            Stream::Stdout => (&mut self.stdout, &mut self.lines),
            Stream::Stderr => (&mut self.stderr, &mut self.lines),
        };
        for line in lines.iter_mut().filter(|line| line.stream == stream) {
            lane.continue_after(line, at_the_end, self.limits.context);
        }
        let pattern = (at_the_end || !self.is_full).then_some(&self.pattern);
        lane.search(pattern, self.limits, at_the_end, wanted, found);
    }

    /// Adds lines in the order of their ends, as long as they fit.
    fn tell(&mut self, mut found: Vec<FoundLine>, piece: &Page, scanned_before: u64) {
        if found.is_empty() || self.is_full {
            return;
        }
        found.sort_by_key(|line| line.end);
        let mut counted = Feeds::new(piece, self.from, scanned_before);
        for mut line in found {
            let bytes = line.bytes();
            let fits = self.lines.is_empty() || self.bytes + bytes <= self.limits.bytes;
            self.is_full |= !fits;
            if self.is_full {
                return;
            }
            line.scanned = counted.up_to(line.end);
            self.bytes += bytes;
            self.lines.push(line);
            self.is_full = self.lines.len() == self.limits.matches;
        }
    }

    /// Whether no text to come can change what a full answer tells.
    fn is_certain(&self) -> bool {
        let end = self.lines.last().map_or(self.from, |line| line.end);
        let context = self.limits.context;
        self.lines.iter().all(|line| line.after.len() >= context)
            // A line that stays as it is would have to be told before the last one.
            && ![&self.stdout, &self.stderr].iter().any(|lane| lane.may_end_before(end))
    }

    /// All was gone through: unfinished lines count as they stand.
    fn see_the_end(&mut self, end_now: u64) {
        let scanned = self.lines_scanned;
        let mut found = Vec::new();
        let mut last_is_untold = false;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let is_open = self.lane(stream).is_open();
            self.lines_scanned += u64::from(is_open);
            let before = found.len();
            self.search_lane(stream, true, &mut found);
            last_is_untold |= is_open && found.len() == before && self.last == Some(stream);
        }
        found.sort_by_key(|line| line.end);
        for (line, nth) in found.into_iter().zip(1..) {
            self.tell_unfinished(line, nth);
        }
        debug_assert!(self.lines_scanned - scanned <= 2, "a line for each stream");
        let reached = if last_is_untold {
            self.line_end
        } else {
            self.end
        };
        self.conclude(reached.max(self.from), end_now > self.end);
    }

    /// Tells the `nth` unfinished line in its place, unless that is beyond what may be told.
    fn tell_unfinished(&mut self, mut line: FoundLine, nth: u64) {
        let place = self.lines.partition_point(|told| told.end < line.end);
        if self.is_full && place == self.lines.len() {
            return;
        }
        for later in &mut self.lines[place..] {
            later.scanned += 1;
        }
        line.scanned = self.lane(line.stream).scanned + nth;
        self.lines.insert(place, line);
        self.is_full |= self.lines.len() >= self.limits.matches;
        self.lines.truncate(self.limits.matches);
    }

    /// Settles what is told and where to go on: at `reached`, or after the last line told if there are more.
    fn conclude(&mut self, reached: u64, has_more: bool) {
        let found = self.lines.len();
        let told = fitting(&mut self.lines, self.limits.bytes);
        self.lines.truncate(told);
        let last = self.lines.last();
        if let Some(last) = last
            && (told < found || self.is_full)
        {
            self.next_cursor = last.end;
            self.lines_scanned = last.scanned;
            self.has_more = self.next_cursor < self.end || has_more;
        } else {
            self.next_cursor = reached.max(last.map_or(0, |last| last.end));
            self.has_more = has_more;
        }
    }

    fn lane(&mut self, stream: Stream) -> &mut Lane {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

#[cfg(test)]
mod tests;
