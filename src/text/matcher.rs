//! A search for the first match in one stream's text, as it comes.
//!
//! A finished line is searched once, together with those that came with it. The line that isn't finished yet is kept, and
//! walked over once more, byte by byte, by an automaton that stays where it is between two looks: so a giant line that
//! grows in small steps costs no more than its length. Only when the walk says that there is a match is the kept line
//! searched for its bounds.
//!
//! One case isn't walked: a pattern with `\b` or the like, and a line that isn't ASCII. Such a line is searched anew at each
//! look as long as it is short, and beyond `SEARCH_ANEW` when it has grown by a quarter or is finished. Of an
//! unfinished line over `KEPT_BYTES` only the end is kept, so a longer match isn't found.

use std::ops::Range;

use super::{
    code_points, floor,
    pattern::{Pattern, Step, Stepper},
};

/// Unfinished line that is kept, at least, in bytes. Twice as much is the most.
const KEPT_BYTES: usize = 1 << 20;
/// Length in bytes up to which a line that can't be walked is searched at each look.
const SEARCH_ANEW: usize = 64 * 1024;
/// Text of a match that is shown, in bytes.
pub const MAX_MATCH_BYTES: usize = 4096;

/// The first match of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Cursor of its first code point.
    pub start: u64,
    /// Cursor after its last code point. An empty match counts as the code point before which it was found, if there is
    /// one: whoever goes on from here doesn't find it again.
    pub end: u64,
    /// Its text, at most [`MAX_MATCH_BYTES`] of it.
    pub text: String,
    /// Whether `text` is only the start of it.
    pub clipped: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Matcher {
    /// Matches before it don't count.
    from: u64,
    /// The unfinished line, or its end.
    line: String,
    /// Where adjacent code points of the line start: offset and cursor. The first one's offset is 0.
    pieces: Vec<(usize, u64)>,
    /// Cursor after the line's last code point.
    next: u64,
    /// Where in the line a match may start at the earliest.
    open: usize,
    stepper: Stepper,
    /// How much of the line was walked over; `None` before the walk's start.
    walked: Option<usize>,
    /// Length of the line when it was last searched without being walked over.
    searched: usize,
}

impl Matcher {
    /// A matcher of what starts at `from` or later.
    pub fn new(pattern: &Pattern, from: u64) -> Matcher {
        Matcher {
            from,
            line: String::new(),
            pieces: Vec::new(),
            next: 0,
            open: 0,
            stepper: pattern.stepper(),
            walked: None,
            searched: 0,
        }
    }

    /// Takes the stream's next text, whose first code point is `cursor`, and searches the lines that it finishes.
    ///
    /// Text before `from` may come first; nothing is found there, but it counts for the ends of lines and words.
    pub fn take(&mut self, pattern: &Pattern, cursor: u64, text: &str) -> Option<Found> {
        let mut cursor = cursor;
        let mut text = text;
        if cursor < self.from {
            let before = usize::try_from(self.from - cursor).unwrap_or(usize::MAX);
            let at = text
                .char_indices()
                .nth(before)
                .map_or(text.len(), |(at, _)| at);
            let context = &text[..at];
            let line_start = context.rfind('\n').map_or(0, |at| at + 1);
            if line_start > 0 {
                self.break_line();
            }
            let skipped = code_points(&context[..line_start]) as u64;
            self.append(cursor + skipped, &context[line_start..]);
            self.open = self.line.len();
            cursor += code_points(context) as u64;
            text = &text[at..];
        }
        if let Some(end) = text.find('\n') {
            // The line feed is kept for the search: the end of a line isn't the end of the text.
            self.append(cursor, &text[..=end]);
            if let Some(found) = self.search_line(pattern) {
                return Some(found);
            }
            self.break_line();
            let finished = end + 1..text.rfind('\n').map_or(0, |last| last + 1);
            if let Some(range) = pattern.find(text, finished.clone()) {
                // At the very end is no line yet.
                if range.start < finished.end {
                    return Some(found_in(text, &[(0, cursor)], range));
                }
            }
            cursor += code_points(&text[..finished.end]) as u64;
            text = &text[finished.end..];
        }
        self.append(cursor, text);
        None
    }

    /// Searches the unfinished line as if the text ended with it. To be called when all of the text there is was taken.
    pub fn look(&mut self, pattern: &Pattern) -> Option<Found> {
        if self.line.len() == self.open {
            return None;
        }
        let from = match self.walked {
            Some(walked) => walked,
            None => {
                self.stepper.start(&self.line, self.open);
                self.open
            }
        };
        self.walked = Some(self.line.len());
        let step = match self.stepper.walk(&self.line[from..]) {
            Step::Nothing => self.stepper.if_ended(),
            step => step,
        };
        let due = match step {
            Step::Nothing => false,
            Step::Match => true,
            Step::Unknown => {
                let len = self.line.len();
                len <= SEARCH_ANEW || len - self.searched >= len / 4
            }
        };
        if !due {
            return None;
        }
        self.searched = self.line.len();
        let found = self.search_line(pattern);
        if found.is_none() {
            // The match that the walk saw started in what was dropped.
            self.stepper.give_up();
        }
        found
    }

    /// Cursor of the unfinished line's first code point in which a match may start; `None` when there is none.
    pub fn open_from(&self) -> Option<u64> {
        (self.line.len() > self.open).then(|| cursor_at(&self.line, &self.pieces, self.open))
    }

    fn search_line(&self, pattern: &Pattern) -> Option<Found> {
        let range = pattern.find(&self.line, self.open..self.line.len())?;
        // After its line feed the line is over.
        let in_line = !(range.is_empty() && self.line[..range.start].ends_with('\n'));
        in_line.then(|| found_in(&self.line, &self.pieces, range))
    }

    /// Forgets the unfinished line: what comes next doesn't continue it.
    pub fn break_line(&mut self) {
        self.line.clear();
        self.pieces.clear();
        self.open = 0;
        self.walked = None;
        self.searched = 0;
    }

    fn append(&mut self, cursor: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.pieces.is_empty() || cursor != self.next {
            self.pieces.push((self.line.len(), cursor));
        }
        self.line.push_str(text);
        self.next = cursor + code_points(text) as u64;
        if self.line.len() > 2 * KEPT_BYTES {
            self.drop_start();
        }
    }

    fn drop_start(&mut self) {
        let cut = floor(&self.line, self.line.len() - KEPT_BYTES);
        let cursor = cursor_at(&self.line, &self.pieces, cut);
        let gone = self.pieces.partition_point(|&(at, _)| at <= cut);
        self.pieces.drain(..gone);
        for (at, _) in &mut self.pieces {
            *at -= cut;
        }
        self.pieces.insert(0, (0, cursor));
        self.line.drain(..cut);
        // A character stays before the place where a match may start, since the line doesn't start there.
        let least = self.line.chars().next().map_or(0, char::len_utf8);
        self.open = self.open.saturating_sub(cut).max(least);
        self.walked = self.walked.and_then(|walked| walked.checked_sub(cut));
        self.searched = self.searched.saturating_sub(cut);
    }
}

fn found_in(text: &str, pieces: &[(usize, u64)], range: Range<usize>) -> Found {
    let start = cursor_at(text, pieces, range.start);
    let matched = &text[range.clone()];
    let end = match matched.chars().next_back() {
        Some(last) => cursor_at(text, pieces, range.end - last.len_utf8()) + 1,
        None if range.end < text.len() => start + 1,
        None => start,
    };
    let shown = floor(matched, MAX_MATCH_BYTES);
    Found {
        start,
        end,
        text: matched[..shown].to_owned(),
        clipped: shown < matched.len(),
    }
}

/// Cursor of the code point at `offset`; at the end of the text the one after the last.
fn cursor_at(text: &str, pieces: &[(usize, u64)], offset: usize) -> u64 {
    let index = pieces.partition_point(|&(at, _)| at <= offset) - 1;
    let (at, cursor) = pieces[index];
    cursor + code_points(&text[at..offset]) as u64
}

#[cfg(test)]
mod tests;
