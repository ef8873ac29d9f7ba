//! What the contract promises of text and input, computed in the most naive way from what passed through the pipes.

use std::str;

use crate::{
    arena::{Budget, Page, PageLimits, Stream, Unit},
    session::State,
};

/// The text of a session, as a list of characters that only grows.
#[derive(Debug)]
pub(super) struct Model {
    budget: Budget,
    chars: Vec<(Stream, char)>,
    /// How many characters at the front are evicted.
    base: usize,
    /// Bytes of the others.
    retained: usize,
    /// Of each stream: bytes that may yet become a character.
    open: [Vec<u8>; 2],
}

impl Model {
    pub(super) fn new(budget: Budget) -> Model {
        Model {
            budget,
            chars: Vec::new(),
            base: 0,
            retained: 0,
            open: [Vec::new(), Vec::new()],
        }
    }

    /// Bytes came.
    pub(super) fn add(&mut self, stream: Stream, bytes: &[u8]) {
        let mut bytes = [self.open[stream as usize].as_slice(), bytes].concat();
        loop {
            let error = match str::from_utf8(&bytes) {
                Ok(text) => {
                    self.push(stream, text);
                    bytes.clear();
                    break;
                }
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            self.push(stream, str::from_utf8(valid).unwrap());
            let Some(bad) = error.error_len() else {
                bytes = rest.to_vec();
                break;
            };
            self.push(stream, "\u{fffd}");
            bytes = rest[bad..].to_vec();
        }
        self.open[stream as usize] = bytes;
    }

    /// No more bytes come.
    pub(super) fn end(&mut self, stream: Stream) {
        if !std::mem::take(&mut self.open[stream as usize]).is_empty() {
            self.push(stream, "\u{fffd}");
        }
    }

    fn push(&mut self, stream: Stream, text: &str) {
        for char in text.chars() {
            self.chars.push((stream, char));
            self.retained += char.len_utf8();
            while self.retained > self.budget.bytes
                || self
                    .budget
                    .records
                    .is_some_and(|most| (self.chars.len() - self.base) as u64 > most)
            {
                self.retained -= self.chars[self.base].1.len_utf8();
                self.base += 1;
            }
        }
    }

    /// Compares the log with this, at its ends and in one page somewhere.
    pub(super) fn check(&self, state: &State, at: usize) {
        let (base, next) = (self.base as u64, self.chars.len() as u64);
        let log = &state.log;
        assert_eq!(
            (log.base_cursor(), log.next_cursor()),
            (base, next),
            "cursors"
        );
        assert_eq!(log.truncated(), base > 0, "truncated");
        let from = self.base + at % (self.chars.len() - self.base + 1);
        let limits = PageLimits {
            bytes: 64,
            records: 1_024,
            unit: Unit::Runs,
        };
        self.check_page(state, from, limits);
    }

    /// Compares everything that is retained.
    pub(super) fn check_all(&self, state: &State) {
        let mut from = self.base;
        while from < self.chars.len() {
            let limits = PageLimits {
                bytes: 65_536,
                records: 1_024,
                unit: Unit::CodePoints,
            };
            from = self.check_page(state, from, limits);
        }
        let mut page = Page::default();
        let limits = PageLimits {
            bytes: 4,
            records: 1,
            unit: Unit::Runs,
        };
        let next = self.chars.len() as u64;
        assert!(state.log.page(next + 1, limits, &mut page).is_err());
        if self.base > 0 {
            let evicted = self.base as u64 - 1;
            assert!(state.log.page(evicted, limits, &mut page).is_err());
        }
    }

    /// Returns where the page ends.
    fn check_page(&self, state: &State, from: usize, limits: PageLimits) -> usize {
        let mut page = Page::default();
        state
            .log
            .page(from as u64, limits, &mut page)
            .expect("a retained cursor");
        let mut start = 0;
        let mut got = Vec::new();
        for run in &page.runs {
            assert_eq!(run.cursor, (from + got.len()) as u64, "a run's cursor");
            got.extend(
                page.text[start..run.end]
                    .chars()
                    .map(|char| (run.stream, char)),
            );
            start = run.end;
        }
        assert!(page.text.len() <= limits.bytes && page.runs.len() <= limits.records);
        assert!(
            !got.is_empty() || from == self.chars.len(),
            "an empty page before the end"
        );
        assert_eq!(
            got,
            self.chars[from..from + got.len()],
            "text from {from} on"
        );
        from + got.len()
    }
}
