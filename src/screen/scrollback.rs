//! Lines that have scrolled off the top, as text: a twentieth of what their cells would take.

use std::collections::VecDeque;

/// A line's share of the bytes: a cell for each column, four bytes each. Lines that hold more, with combining marks, cost
/// older ones their place.
const BYTES_PER_CELL: usize = 4;

/// The newest lines, at most as many as it was made for.
#[derive(Debug)]
pub(super) struct Scrollback {
    text: VecDeque<u8>,
    lengths: VecDeque<u32>,
    most: usize,
    most_bytes: usize,
}

impl Scrollback {
    /// For `most` lines of `columns` cells.
    pub(super) fn new(most: usize, columns: usize) -> Scrollback {
        Scrollback {
            text: VecDeque::new(),
            lengths: VecDeque::new(),
            most,
            most_bytes: most.saturating_mul(columns).saturating_mul(BYTES_PER_CELL),
        }
    }

    /// Lines are wider or narrower from now on.
    pub(super) fn set_columns(&mut self, columns: usize) {
        self.most_bytes = self
            .most
            .saturating_mul(columns)
            .saturating_mul(BYTES_PER_CELL);
        self.evict();
    }

    /// Adds a line below the others; the oldest go when there are too many.
    pub(super) fn push(&mut self, line: &str) {
        let line = line.trim_end_matches(' ');
        self.text.extend(line.as_bytes());
        self.lengths
            .push_back(u32::try_from(line.len()).expect("a line is a row of a screen"));
        self.evict();
    }

    fn evict(&mut self) {
        while self.lengths.len() > self.most || self.text.len() > self.most_bytes {
            let Some(length) = self.lengths.pop_front() else {
                break;
            };
            self.text.drain(..length as usize);
        }
    }

    /// Takes the newest line out, if `wanted` says so.
    pub(super) fn take_newest(&mut self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let line = self.newest(1).next().filter(|line| wanted(line))?;
        self.lengths.pop_back();
        self.text.truncate(self.text.len() - line.len());
        Some(line)
    }

    /// Forgets every line.
    pub(super) fn clear(&mut self) {
        self.text = VecDeque::new();
        self.lengths = VecDeque::new();
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// How many lines it keeps at most.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The newest `lines`, or as many as there are, oldest first.
    pub(super) fn newest(&self, lines: usize) -> impl Iterator<Item = String> {
        let skipped = self.len() - lines.min(self.len());
        let newest: usize = self
            .lengths
            .range(skipped..)
            .map(|length| *length as usize)
            .sum();
        let mut start = self.text.len() - newest;
        self.lengths.iter().skip(skipped).map(move |length| {
            let end = start + *length as usize;
            let bytes: Vec<u8> = self.text.range(start..end).copied().collect();
            start = end;
            String::from_utf8(bytes).expect("lines are kept whole")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(scrollback: &Scrollback) -> Vec<String> {
        scrollback.newest(usize::MAX).collect()
    }

    #[test]
    fn the_newest_lines_are_kept_without_blanks_at_their_ends() {
        let mut scrollback = Scrollback::new(3, 10);
        for line in ["one", "  two  ", "", "日本", "five"] {
            scrollback.push(line);
        }
        assert_eq!(kept(&scrollback), ["", "日本", "five"]);
        assert_eq!(scrollback.newest(1).collect::<Vec<_>>(), ["five"]);
        assert_eq!(scrollback.newest(0).count(), 0);
        assert_eq!(scrollback.take_newest(|line| line == "four"), None);
        assert_eq!(
            scrollback.take_newest(|line| line == "five").as_deref(),
            Some("five")
        );
        assert_eq!(kept(&scrollback), ["", "日本"]);
        scrollback.clear();
        assert_eq!((scrollback.len(), kept(&scrollback).len()), (0, 0));
    }

    #[test]
    fn none_are_kept_where_none_are_wanted() {
        let mut scrollback = Scrollback::new(0, 80);
        scrollback.push("x");
        assert_eq!((scrollback.len(), scrollback.text.len()), (0, 0));
    }

    #[test]
    fn lines_with_many_marks_cost_older_ones_their_place() {
        let mut scrollback = Scrollback::new(10, 2);
        for _ in 0..10 {
            scrollback.push(&format!("e{}", "\u{301}".repeat(20)));
        }
        assert!(scrollback.text.len() <= 80, "{}", scrollback.text.len());
        assert_eq!(scrollback.len(), 1);
    }
}
