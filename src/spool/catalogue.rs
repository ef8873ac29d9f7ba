//! Which slots of which segments hold which cursors.
//!
//! Slots are numbered from 0 over the life of a session, and segments by their first slot's number over
//! [`Layout::segment`]. The cursor of every [`Layout::stride`]-th slot is kept; between two of those a reader looks at headers. Both
//! grow with the budget, so the catalogue never holds more than some thousand numbers.

use std::{collections::VecDeque, ops::Range};

/// Most slots whose cursors are kept, at the budget; up to a segment more while the oldest is still there.
const MOST_CURSORS: u64 = 4_096;
/// Segments that a full budget is made of: dropping one costs so small a part of what is kept.
const SEGMENTS: u64 = 64;

/// How slots are laid out, given by a session's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Slots that a session may have.
    pub(super) slots: u64,
    /// Slots of a segment.
    pub(super) segment: u64,
    /// Slots from one whose cursor is kept to the next.
    pub(super) stride: u64,
}

impl Layout {
    /// For a budget of `slots`, at least 1.
    pub(super) fn of(slots: u64) -> Layout {
        let stride = slots.div_ceil(MOST_CURSORS);
        Layout {
            slots,
            segment: stride * (slots / stride / SEGMENTS).max(1),
            stride,
        }
    }

    /// The most memory that a catalogue takes, in bytes.
    pub(super) fn memory(self) -> usize {
        let cursors = (self.slots + self.segment).div_ceil(self.stride) + 2;
        let segments = self.slots / self.segment + 2;
        usize::try_from(8 * (cursors + segments)).expect("bounded by constants")
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Catalogue {
    layout: Layout,
    /// Number of the oldest slot.
    first: u64,
    /// Number of the slot after the newest.
    end: u64,
    /// Cursor after the newest slot's last code point.
    next: u64,
    /// Cursors of the slots `first`, `first + stride`, and so on.
    cursors: VecDeque<u64>,
    /// When each segment was begun, in the store's order.
    births: VecDeque<u64>,
    /// No slot will be added.
    closed: bool,
}

impl Catalogue {
    pub(super) fn new(layout: Layout) -> Catalogue {
        Catalogue {
            layout,
            first: 0,
            end: 0,
            next: 0,
            cursors: VecDeque::new(),
            births: VecDeque::new(),
            closed: false,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Slots that are there.
    pub(super) fn slots(&self) -> u64 {
        self.end - self.first
    }

    /// Number of the slot after the newest.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Cursor of the oldest code point, and the one after the newest. `None` when there is no text.
    pub(super) fn cursors(&self) -> Option<Range<u64>> {
        self.cursors.front().map(|&base| base..self.next)
    }

    /// Whether the next slot is the first of its segment.
    pub(super) fn at_segment_start(&self) -> bool {
        self.end.is_multiple_of(self.layout.segment)
    }

    /// Adds a slot that was written. `birth` numbers its segment when it is the first of it.
    pub(super) fn push(&mut self, base: u64, next: u64, birth: u64) {
        assert!(
            self.cursors.is_empty() || base == self.next,
            "P1: a slot follows the one before"
        );
        if self.cursors.is_empty() {
            self.cursors.reserve_exact(self.layout.memory() / 8);
        }
        if (self.end - self.first).is_multiple_of(self.layout.stride) {
            self.cursors.push_back(base);
        }
        if self.at_segment_start() {
            self.births.push_back(birth);
        }
        self.end += 1;
        self.next = next;
    }

    /// When the oldest segment was begun, if it may be dropped: it is not the one that is being written.
    pub(super) fn oldest_birth(&self) -> Option<u64> {
        let complete = self.first + self.layout.segment <= self.end;
        self.births
            .front()
            .copied()
            .filter(|_| complete || self.closed)
    }

    /// Drops the oldest segment, one that may be. Returns its number and how many slots it had.
    pub(super) fn drop_oldest(&mut self) -> (u64, u64) {
        let segment = self.first / self.layout.segment;
        let dropped = self.layout.segment.min(self.slots());
        self.births.pop_front();
        let kept = dropped.div_ceil(self.layout.stride);
        self.cursors.drain(..usize::try_from(kept).expect("P3"));
        self.first += dropped;
        (segment, dropped)
    }

    /// Drops everything. Returns the numbers of the segments, one that was begun and has no slot yet among them, and how many
    /// slots they had.
    pub(super) fn clear(&mut self) -> (Range<u64>, u64) {
        let segment = self.layout.segment;
        let (segments, slots) = (self.first / segment..self.end / segment + 1, self.slots());
        self.births.clear();
        self.cursors.clear();
        // What follows goes into a segment of its own.
        self.end = (self.end / segment + 1) * segment;
        self.first = self.end;
        (segments, slots)
    }

    /// No slot will be added.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The slots among which the one that holds `cursor` is. `None` when none does.
    pub(super) fn locate(&self, cursor: u64) -> Option<Range<u64>> {
        let cursors = self.cursors()?;
        if !cursors.contains(&cursor) {
            return None;
        }
        let after = self.cursors.partition_point(|&base| base <= cursor) as u64;
        let first = self.first + (after - 1) * self.layout.stride;
        Some(first..(first + self.layout.stride).min(self.end))
    }

    /// All slots.
    pub(super) fn range(&self) -> Range<u64> {
        self.first..self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::limits::SPOOL_CATALOGUE_BYTES;

    #[test]
    fn no_budget_makes_the_catalogue_large() {
        // From 1 MiB to 1 TiB, in slots.
        for slots in [15, 16, 1_000, 4_096, 4_097, 154_202, 15_790_320] {
            let layout = Layout::of(slots);
            assert!(layout.memory() <= SPOOL_CATALOGUE_BYTES, "{layout:?}");
            assert!(
                layout.segment * SEGMENTS <= slots.max(SEGMENTS),
                "{layout:?}"
            );
            assert!(layout.segment.is_multiple_of(layout.stride));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Drop,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            30 => (1u64..100).prop_map(Step::Push),
            3 => Just(Step::Drop),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn every_cursor_is_found_where_a_list_of_slots_has_it(
            slots in 1u64..20_000,
            steps in prop::collection::vec(step(), 0..300),
        ) {
            let layout = Layout::of(slots);
            let mut catalogue = Catalogue::new(layout);
            // Number and cursors of each slot.
            let mut twin: Vec<(u64, Range<u64>)> = Vec::new();
            let (mut cursor, mut birth) = (0, 0);
            for step in steps {
                match step {
                    Step::Push(code_points) => {
                        birth += 1;
                        let number = catalogue.end();
                        catalogue.push(cursor, cursor + code_points, birth);
                        twin.push((number, cursor..cursor + code_points));
                        cursor += code_points;
                    }
                    Step::Drop => {
                        if catalogue.oldest_birth().is_some() {
                            let (segment, dropped) = catalogue.drop_oldest();
                            let before = twin.len();
                            twin.retain(|(number, _)| number / layout.segment != segment);
                            prop_assert_eq!((before - twin.len()) as u64, dropped);
                        }
                    }
                    Step::Clear => {
                        let (segments, dropped) = catalogue.clear();
                        prop_assert_eq!(dropped, twin.len() as u64);
                        let is_among = |number: u64| segments.contains(&(number / layout.segment));
                        prop_assert!(twin.iter().all(|(number, _)| is_among(*number)));
                        prop_assert!(!is_among(catalogue.end()), "a cleared name isn't used again");
                        twin.clear();
                        // Text is lost in between.
                        cursor += 7;
                    }
                }
                prop_assert_eq!(catalogue.slots(), twin.len() as u64);
                let all = twin.first().map(|(_, first)| first.start..cursor);
                prop_assert_eq!(catalogue.cursors(), all.clone());
                for (number, cursors) in &twin {
                    for cursor in [cursors.start, cursors.end - 1] {
                        let found = catalogue.locate(cursor).expect("it is there");
                        prop_assert!(found.contains(number) && found.end - found.start <= layout.stride);
                    }
                }
                if let Some(all) = all {
                    prop_assert_eq!(catalogue.locate(all.end), None);
                    prop_assert_eq!(all.start.checked_sub(1).and_then(|cursor| catalogue.locate(cursor)), None);
                }
            }
        }
    }
}
