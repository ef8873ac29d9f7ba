//! Waiting for a pattern: the first match at or after a cursor, in either stream's text.
//!
//! Each stream is searched by itself, line by line; an unfinished line counts as it stands when there is no more text. Of
//! several matches the one that ends first is the first one: who goes on reading after it finds the others, except
//! one of the other stream that had begun by then. What is found depends on the text there is at a look, not on how it came
//! in pages or runs.

use crate::{
    arena::{Page, Stream},
    text::{
        matcher::{Found, Matcher},
        pattern::Pattern,
    },
};

/// See the module. Each text is looked at once, however often there is a look.
#[derive(Debug)]
pub struct Watch {
    pattern: Pattern,
    stdout: Lane,
    stderr: Lane,
    /// Where the next page is expected to start.
    next: Option<u64>,
}

#[derive(Debug)]
struct Lane {
    matcher: Matcher,
    found: Option<Found>,
}

impl Watch {
    /// A watch for the first match that starts at `from` or later.
    pub fn new(pattern: Pattern, from: u64) -> Watch {
        let lane = || Lane {
            matcher: Matcher::new(&pattern, from),
            found: None,
        };
        Watch {
            stdout: lane(),
            stderr: lane(),
            pattern,
            next: None,
        }
    }

    /// Looks at the next page. Pages are to follow each other from `from` on, or from somewhere before it: what stands before
    /// counts for the ends of lines and words. A page that starts elsewhere than the one before ended (text was
    /// evicted in between) breaks the lines that were unfinished.
    ///
    /// Returns the match once it is certain, at the latest with the page that ends where the log does. The watch is
    /// then over.
    pub fn see(&mut self, page: &Page) -> Option<(Stream, Found)> {
        if let Some(first) = page.runs.first() {
            if self.next.is_some_and(|next| next != first.cursor) {
                self.stdout.matcher.break_line();
                self.stderr.matcher.break_line();
            }
            self.next = Some(page.next_cursor);
        }
        let mut start = 0;
        for run in &page.runs {
            let text = &page.text[start..run.end];
            start = run.end;
            let lane = match run.stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            if lane.found.is_none() {
                lane.found = lane.matcher.take(&self.pattern, run.cursor, text);
            }
            if self.is_certain() {
                return self.first();
            }
        }
        if page.next_cursor < page.end_cursor {
            return None;
        }
        for lane in [&mut self.stdout, &mut self.stderr] {
            if lane.found.is_none() {
                lane.found = lane.matcher.look(&self.pattern);
            }
        }
        self.first()
    }

    /// Whether a match was found, and the other stream has one, too, or can have none any more that ends earlier.
    fn is_certain(&self) -> bool {
        let (found, other) = match (&self.stdout.found, &self.stderr.found) {
            (Some(_), Some(_)) => return true,
            (Some(found), None) => (found, &self.stderr),
            (None, Some(found)) => (found, &self.stdout),
            (None, None) => return false,
        };
        other
            .matcher
            .open_from()
            .is_none_or(|from| from >= found.end)
    }

    fn first(&mut self) -> Option<(Stream, Found)> {
        let stdout = self
            .stdout
            .found
            .take()
            .map(|found| (Stream::Stdout, found));
        let stderr = self
            .stderr
            .found
            .take()
            .map(|found| (Stream::Stderr, found));
        stdout
            .into_iter()
            .chain(stderr)
            .min_by_key(|(_, found)| found.end)
    }
}

#[cfg(test)]
mod tests;
