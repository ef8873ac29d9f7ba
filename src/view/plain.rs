//! Plain pages: what a terminal would show, line by line, for a reader who goes from cursor to cursor.
//!
//! A cursor is all that is known of a reader, so the rule has to work with it alone:
//!
//! - A page covers the code points from its cursor up to its `next_cursor`. It shows each line whose **line feed** lies there,
//!   whole: from its start, which is looked up in the text before the cursor. Pages that follow each other cover each line feed
//!   once, so no finished line is repeated or lost, whatever the other stream had in between.
//! - A page that ends where the log does also shows each **unfinished** line that has a code point in what the page
//!   covers, as it stands, without a line feed. Once it is finished, the page that covers its line feed shows all of
//!   it, with the cursor of its start.
//!
//! Lines come in the order in which they were finished. Each has the cursor of its first code point. Lines of one stream that
//! followed each other directly and are shown as they came are one record, in which, as in a raw page, a code point's place
//! tells its cursor; a line that was folded or that the other stream broke into is a record of its own.
//!
//! A line longer than the page may be is cut, and marked. So is one whose start was evicted.
//!
//! Time is linear in the text from page to page: a line is folded for the page that shows it, and at most once more for the
//! page in which there was no room for it.

use super::{Look, PIECE, Progress, Source, runs};
use crate::{
    arena::{CursorError, LineStart, Page, Stream},
    text::{code_points, floor, fold::Fold},
};

/// A line or several, as a terminal would show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Cursor of the first code point of the (first) line as it came.
    pub cursor: u64,
    /// Where the text came from.
    pub stream: Stream,
    /// Byte offset into [`Plain::text`] where the record's text ends; it starts where the record before ends.
    pub end: usize,
    /// Something of the line is missing.
    pub cut: bool,
}

/// Bounds of one plain page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainLimits {
    /// UTF-8 bytes of text, at least 4.
    pub bytes: usize,
    /// Records, at least 2.
    pub records: usize,
}

/// A page on its way, and the page. See the module.
#[derive(Debug)]
pub struct Plain {
    /// The text of all records, one after the other.
    pub text: String,
    /// The records, in order.
    pub records: Vec<Record>,
    /// Where the next page starts.
    pub next_cursor: u64,
    from: u64,
    limits: PlainLimits,
    stdout: Lane,
    stderr: Lane,
    /// How far the text was gone through.
    seen: u64,
    /// What has to be read again before the text can be gone through further.
    back: Option<Back>,
    piece: Page,
    /// Cursor at which a line would have to start to continue the last record.
    joint: Option<u64>,
}

/// One stream's line on its way.
#[derive(Debug, Default)]
struct Lane {
    fold: Fold,
    /// What is before in the log belongs to the line, too, and wasn't read yet.
    begun_before: bool,
    /// Cursor of the line's first code point.
    start: Option<u64>,
    /// Cursor after its last one.
    next: u64,
    /// The other stream broke into it.
    broken: bool,
    /// The page covers a code point of it.
    covered: bool,
    /// Its start was evicted.
    headless: bool,
}

/// A line's text that is read again: from its start, which is looked for first, up to `until`.
#[derive(Clone, Copy, Debug)]
struct Back {
    stream: Stream,
    at: u64,
    found: bool,
    until: u64,
}

/// Whether a line found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Taken,
    None,
}

impl Lane {
    fn take(&mut self, cursor: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        self.broken |= self.start.is_some() && self.next != cursor;
        self.start.get_or_insert(cursor);
        self.next = cursor + code_points(text) as u64;
        self.fold.take(text);
    }

    fn open(&self, stream: Stream) -> Open {
        let mut text = String::new();
        let shown = self.fold.show(&mut text);
        Open {
            start: self.start.unwrap_or(self.next),
            stream,
            text,
            as_it_came: shown.verbatim && !self.broken && !self.headless,
            cut: shown.cut || self.headless,
        }
    }

    fn clear(&mut self) {
        self.fold.clear();
        self.start = None;
        self.broken = false;
        self.headless = false;
    }
}

/// An unfinished line as it stands.
#[derive(Debug)]
struct Open {
    start: u64,
    stream: Stream,
    text: String,
    as_it_came: bool,
    cut: bool,
}

impl Open {
    fn cut_to(&mut self, bytes: usize) {
        self.cut |= bytes < self.text.len();
        self.text.truncate(floor(&self.text, bytes));
    }
}

impl Plain {
    /// A page that starts at `cursor`.
    pub fn new(cursor: u64, limits: PlainLimits) -> Plain {
        let lane = || Lane {
            begun_before: cursor > 0,
            ..Lane::default()
        };
        Plain {
            text: String::new(),
            records: Vec::new(),
            next_cursor: cursor,
            from: cursor,
            limits,
            stdout: lane(),
            stderr: lane(),
            seen: cursor,
            back: None,
            piece: Page::default(),
            joint: None,
        }
    }

    /// The one look at the source that the next step takes, for who has to fetch it first.
    pub fn look(&self) -> Look {
        match self.back {
            Some(back) if back.found => Look::Page(back.at, PIECE),
            Some(back) => Look::LineStart(back.stream, back.at),
            None => Look::Page(self.seen, PIECE),
        }
    }

    /// Goes on with the page, by no more than a piece of the log.
    ///
    /// # Errors
    /// When the text at the page's cursor was evicted or doesn't exist yet.
    pub fn step(&mut self, source: &impl Source) -> Result<Progress, CursorError> {
        let mut piece = std::mem::take(&mut self.piece);
        let progress = match self.back {
            Some(back) => {
                self.read_back(source, back, &mut piece);
                Ok(Progress::More)
            }
            None => match source.page(self.seen, PIECE, &mut piece) {
                Ok(()) => Ok(self.go_through(&piece)),
                // Text went while the page was made. What it has is whole; the next page's cursor tells of the loss.
                Err(_) if self.next_cursor > self.from => Ok(Progress::Done),
                Err(error) => Err(error),
            },
        };
        self.piece = piece;
        progress
    }

    fn lane(&mut self, stream: Stream) -> &mut Lane {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Takes the lines that the piece finishes; and the unfinished ones when it is the last.
    fn go_through(&mut self, piece: &Page) -> Progress {
        for (cursor, stream, text) in runs(piece) {
            let (mut cursor, mut text) = (cursor, text);
            while let Some(at) = memchr::memchr(b'\n', text.as_bytes()) {
                let line_feed = cursor + code_points(&text[..at]) as u64;
                if self.lane(stream).begun_before {
                    self.read_again(stream, line_feed);
                    return Progress::More;
                }
                self.lane(stream).take(cursor, &text[..at]);
                if self.finish_line(stream, line_feed) == Room::None {
                    return Progress::Done;
                }
                text = &text[at + 1..];
                cursor = line_feed + 1;
            }
            let lane = self.lane(stream);
            lane.covered |= !text.is_empty();
            if !lane.begun_before {
                lane.take(cursor, text);
            }
            self.seen = cursor + code_points(text) as u64;
        }
        if piece.next_cursor < piece.end_cursor {
            return Progress::More;
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            let lane = self.lane(stream);
            if lane.covered && lane.begun_before {
                self.read_again(stream, piece.end_cursor);
                return Progress::More;
            }
        }
        self.show_unfinished();
        Progress::Done
    }

    /// Lets a line be read from its start up to `until`, from where the going through goes on.
    fn read_again(&mut self, stream: Stream, until: u64) {
        self.seen = until;
        self.back = Some(Back {
            stream,
            at: self.from,
            found: false,
            until,
        });
    }

    /// Looks for the start of a line, then reads it.
    fn read_back(&mut self, source: &impl Source, back: Back, piece: &mut Page) {
        let next = if back.found {
            self.reread(source, back, piece)
        } else {
            match source.line_start(back.stream, back.at) {
                LineStart::At(at) => Back {
                    at,
                    found: true,
                    ..back
                },
                LineStart::Before(at) => Back { at, ..back },
                LineStart::Evicted => {
                    self.lane(back.stream).headless = true;
                    Back {
                        at: 0,
                        found: true,
                        ..back
                    }
                }
            }
        };
        let over = next.found && next.at >= next.until;
        self.back = (!over).then_some(next);
        if over {
            self.lane(back.stream).begun_before = false;
        }
    }

    fn reread(&mut self, source: &impl Source, back: Back, piece: &mut Page) -> Back {
        if let Err(error) = source.page(back.at, PIECE, piece) {
            let (CursorError::Expired { base, .. } | CursorError::Invalid { base, .. }) = error;
            let lane = self.lane(back.stream);
            lane.clear();
            lane.headless = true;
            return Back { at: base, ..back };
        }
        let lane = self.lane(back.stream);
        for (cursor, stream, text) in runs(piece) {
            if stream == back.stream && cursor < back.until {
                let most = usize::try_from(back.until - cursor).unwrap_or(usize::MAX);
                let end = text.char_indices().nth(most);
                lane.take(cursor, &text[..end.map_or(text.len(), |(at, _)| at)]);
            }
        }
        Back {
            at: piece.next_cursor,
            ..back
        }
    }

    /// Shows the line that ends with the line feed at `line_feed`, if there is room for it. There is for the first one,
    /// cut if need be.
    fn finish_line(&mut self, stream: Stream, line_feed: u64) -> Room {
        let lane = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let start = lane.start.unwrap_or(line_feed);
        let before = self.text.len();
        let shown = lane.fold.show(&mut self.text);
        let broken = lane.broken || lane.start.is_some() && lane.next != line_feed;
        let mut cut = shown.cut || lane.headless;
        if before == 0 && self.text.len() >= self.limits.bytes {
            self.text.truncate(floor(&self.text, self.limits.bytes - 1));
            cut = true;
        }
        self.text.push('\n');
        let as_it_came = shown.verbatim && !broken && !cut;
        let joins = as_it_came && self.joins(stream, start);
        let has_room = joins || self.records.len() < self.limits.records;
        if self.text.len() > self.limits.bytes || !has_room {
            self.text.truncate(before);
            return Room::None;
        }
        let lane = self.lane(stream);
        lane.clear();
        lane.covered = false;
        self.record(joins, start, stream, cut);
        self.next_cursor = line_feed + 1;
        self.joint = as_it_came.then_some(self.next_cursor);
        Room::Taken
    }

    /// Shows what is unfinished at the end of the log, if there is room for it. There is when nothing else is shown, cut if
    /// need be.
    fn show_unfinished(&mut self) {
        let lanes = [
            (Stream::Stdout, &self.stdout),
            (Stream::Stderr, &self.stderr),
        ];
        let mut open: Vec<Open> = lanes
            .into_iter()
            .filter(|(_, lane)| lane.covered)
            .map(|(stream, lane)| lane.open(stream))
            .filter(|open| !open.text.is_empty())
            .collect();
        open.sort_by_key(|open| open.start);
        let bytes: usize = open.iter().map(|open| open.text.len()).sum();
        let has_room = self.text.len() + bytes <= self.limits.bytes
            && self.records.len() + open.len() <= self.limits.records;
        if !has_room && self.next_cursor > self.from {
            return;
        }
        if let [first, rest @ ..] = &mut open[..] {
            let behind = rest.first().map_or(0, |open| open.text.len());
            let half = self.limits.bytes / (1 + rest.len());
            let left = self.limits.bytes - self.text.len();
            first.cut_to(left.saturating_sub(behind).max(half));
            let left = left - first.text.len();
            rest.iter_mut().for_each(|open| open.cut_to(left));
        }
        for open in open {
            let joins = open.as_it_came && self.joins(open.stream, open.start);
            self.text.push_str(&open.text);
            self.record(joins, open.start, open.stream, open.cut);
            self.joint = None;
        }
        self.next_cursor = self.seen;
    }

    /// Whether text that starts at `start` continues the last record.
    fn joins(&self, stream: Stream, start: u64) -> bool {
        let last = self.records.last();
        self.joint == Some(start) && last.is_some_and(|last| last.stream == stream)
    }

    /// Makes a record of the text that no record has yet.
    fn record(&mut self, joins: bool, cursor: u64, stream: Stream, cut: bool) {
        let end = self.text.len();
        match self.records.last_mut() {
            Some(last) if joins => {
                last.end = end;
                last.cut |= cut;
            }
            _ => self.records.push(Record {
                cursor,
                stream,
                end,
                cut,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
