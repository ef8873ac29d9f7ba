//! A line with a match: what is shown of it, and how much of all of them fits.

use std::ops::Range;

use super::super::runs;
use crate::{
    arena::{Page, Stream},
    text::floor,
};

/// Bytes that are shown of a line in which there is a match, and of the match.
pub(super) const LINE_BYTES: usize = 4096;
/// Bytes that are shown of a line around one.
pub(super) const CONTEXT_BYTES: usize = 1024;
/// Shown in place of what was clipped.
pub(super) const CLIP: char = '…';
/// A line with its match and those before it.
pub(super) const MOST_BYTES: usize = 2 * LINE_BYTES + 10 * CONTEXT_BYTES;

/// A line with a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// Cursor of the line's first code point.
    pub cursor: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The line without its end; clipped around the match, with `…` where something is missing.
    pub text: String,
    /// Whether `text` or `matched` isn't all.
    pub clipped: bool,
    /// Cursor of the match's first code point.
    pub match_cursor: u64,
    /// The match.
    pub matched: String,
    /// The stream's lines before this one, clipped at their ends.
    pub before: Vec<String>,
    /// The stream's lines after it, clipped at their ends.
    pub after: Vec<String>,
    /// Cursor after the line feed, or after the last code point of an unfinished line.
    pub(super) end: u64,
    /// Lines that were scanned when this one was.
    pub(super) scanned: u64,
}

impl FoundLine {
    pub(super) fn bytes(&self) -> usize {
        let around = self.before.iter().chain(&self.after);
        self.text.len() + self.matched.len() + around.map(String::len).sum::<usize>()
    }

    /// Drops the farthest line around it; `false` when there is none.
    fn shorten(&mut self) -> bool {
        if self.after.len() >= self.before.len() {
            return self.after.pop().is_some();
        }
        self.before.remove(0);
        true
    }
}

/// How many lines fit into `bytes`. The first one does, with fewer lines around it if need be.
pub(super) fn fitting(lines: &mut [FoundLine], bytes: usize) -> usize {
    let Some((first, rest)) = lines.split_first_mut() else {
        return 0;
    };
    while first.bytes() > bytes && first.shorten() {}
    let mut left = bytes.saturating_sub(first.bytes());
    let fits = |line: &&mut FoundLine| match left.checked_sub(line.bytes()) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    };
    1 + rest.iter_mut().take_while(fits).count()
}

/// A line around one with a match.
pub(super) fn context_line(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    clip(line, CONTEXT_BYTES).0
}

/// The text, or its start and a mark; and whether it is clipped. Where there is hardly room for the mark it is left out.
pub(super) fn clip(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let mark = mark_within(most);
    let kept = &text[..floor(text, most - mark.len())];
    (format!("{kept}{mark}"), true)
}

/// What is shown of a line with a match in `range`, and whether something is missing.
pub(super) fn shown_around(line: &str, range: Range<usize>, most: usize) -> (String, bool) {
    let end = line.strip_suffix('\r').map_or(line.len(), str::len);
    let line = &line[..end.max(range.end)];
    if line.len() <= most {
        return (line.to_owned(), false);
    }
    let mark = mark_within(most);
    let room = most - 2 * mark.len();
    // The match in the middle, as far as the line's ends allow.
    let matched = range.len().min(room);
    let start = range.start.saturating_sub((room - matched) / 2);
    let start = floor(line, start.min(line.len() - room));
    let end = floor(line, start + room);
    let before = if start > 0 { mark } else { "" };
    let behind = if end < line.len() { mark } else { "" };
    (format!("{before}{}{behind}", &line[start..end]), true)
}

fn mark_within(most: usize) -> &'static str {
    if most >= 4 * CLIP.len_utf8() {
        "…"
    } else {
        ""
    }
}

/// Offset of code point `n` of a text; its length when there are fewer.
pub(super) fn offset_of(text: &str, n: u64) -> usize {
    match usize::try_from(n) {
        Ok(0) => 0,
        Ok(n) if n < text.len() => {
            let at = text.char_indices().nth(n);
            at.map_or(text.len(), |(at, _)| at)
        }
        _ => text.len(),
    }
}

/// Counts lines over a piece of the log, from one cursor to the next.
pub(super) struct Feeds<'a> {
    runs: Box<dyn Iterator<Item = (u64, Stream, &'a str)> + 'a>,
    /// What is left of a run.
    rest: (u64, &'a str),
    count: u64,
}

impl<'a> Feeds<'a> {
    /// A count that starts at `from` with what was counted before the piece.
    pub(super) fn new(piece: &'a Page, from: u64, before: u64) -> Feeds<'a> {
        let runs = runs(piece).map(move |(cursor, stream, text)| {
            let skipped = offset_of(text, from.saturating_sub(cursor));
            (cursor.max(from), stream, &text[skipped..])
        });
        Feeds {
            runs: Box::new(runs),
            rest: (0, ""),
            count: before,
        }
    }

    /// Line feeds before `end`, which is no less than the time before.
    pub(super) fn up_to(&mut self, end: u64) -> u64 {
        loop {
            let (cursor, text) = self.rest;
            let counted = offset_of(text, end.saturating_sub(cursor));
            self.count += line_feeds(&text[..counted]);
            if counted < text.len() {
                self.rest = (end.max(cursor), &text[counted..]);
                return self.count;
            }
            let Some((cursor, _, text)) = self.runs.next() else {
                self.rest = (0, "");
                return self.count;
            };
            self.rest = (cursor, text);
        }
    }
}

pub(super) fn line_feeds(text: &str) -> u64 {
    bytecount::count(text.as_bytes(), b'\n') as u64
}
