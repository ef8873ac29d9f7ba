//! A search for the first match in one stream's text, as it comes.
//!
//! A finished line is searched once, together with those that came with it. The line that isn't finished yet is kept, and
//! walked over once more, byte by byte, by an automaton that stays where it is between two looks: so a giant line that
//! grows in small steps costs no more than its length. Only when the walk says that there is a match is the kept line
//! searched for its bounds.
//!
//! One case isn't walked: a pattern with `\b` or the like, and a line that isn't ASCII. Such a line is searched anew at each
//! look as long as it is short, and beyond `SEARCH_ANEW` when it has grown by a quarter or is finished. Of an
//! unfinished line that is too long, or that the other stream broke into too many pieces, only the end is kept, so a longer
//! match isn't found.

use std::ops::Range;

use super::{
    code_points, floor,
    pattern::{Pattern, Step, Stepper},
    spliced::Spliced,
};

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
    line: Spliced,
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
            line: Spliced::default(),
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
            self.open = self.line.text().len();
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
                    let mut spliced = Spliced::default();
                    spliced.push(cursor, text);
                    return Some(found_in(&spliced, range));
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
        let text = self.line.text();
        if text.len() == self.open {
            return None;
        }
        let from = match self.walked {
            Some(walked) => walked,
            None => {
                self.stepper.start(text, self.open);
                self.open
            }
        };
        self.walked = Some(text.len());
        let step = match self.stepper.walk(&text[from..]) {
            Step::Nothing => self.stepper.if_ended(),
            step => step,
        };
        let due = match step {
            Step::Nothing => false,
            Step::Match => true,
            Step::Unknown => {
                let len = text.len();
                len <= SEARCH_ANEW || len - self.searched >= len / 4
            }
        };
        if !due {
            return None;
        }
        self.searched = text.len();
        let found = self.search_line(pattern);
        if found.is_none() {
            // The match that the walk saw started in what was dropped.
            self.stepper.give_up();
        }
        found
    }

    /// Cursor of the unfinished line's first code point in which a match may start; `None` when there is none.
    pub fn open_from(&self) -> Option<u64> {
        (self.line.text().len() > self.open).then(|| self.line.cursor_at(self.open))
    }

    fn search_line(&self, pattern: &Pattern) -> Option<Found> {
        let text = self.line.text();
        let range = pattern.find(text, self.open..text.len())?;
        // After its line feed the line is over.
        let in_line = !(range.is_empty() && text[..range.start].ends_with('\n'));
        in_line.then(|| found_in(&self.line, range))
    }

    /// Forgets the unfinished line: what comes next doesn't continue it.
    pub fn break_line(&mut self) {
        self.line.clear();
        self.open = 0;
        self.walked = None;
        self.searched = 0;
    }

    fn append(&mut self, cursor: u64, text: &str) {
        self.line.push(cursor, text);
        let cut = self.line.excess();
        if cut > 0 {
            self.line.drop_front(cut);
            // A character stays before the place where a match may start, since the line doesn't start there.
            let first = self.line.text().chars().next();
            let least = first.map_or(0, char::len_utf8);
            self.open = self.open.saturating_sub(cut).max(least);
            self.walked = self.walked.and_then(|walked| walked.checked_sub(cut));
            self.searched = self.searched.saturating_sub(cut);
        }
    }
}

fn found_in(spliced: &Spliced, range: Range<usize>) -> Found {
    let text = spliced.text();
    let start = spliced.cursor_at(range.start);
    let matched = &text[range.clone()];
    let end = if !matched.is_empty() {
        spliced.cursor_after(range.end)
    } else if range.end < text.len() {
        start + 1
    } else {
        start
    };
    let shown = floor(matched, MAX_MATCH_BYTES);
    Found {
        start,
        end,
        text: matched[..shown].to_owned(),
        clipped: shown < matched.len(),
    }
}

#[cfg(test)]
mod tests;
