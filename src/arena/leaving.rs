//! Text that has left a log's budget and isn't in a file yet: packed into blocks laid out as slots, in order, readable
//! as before.
//!
//! V1: the extents follow each other without a gap, and the last one ends where the log's own begin.
//! V2: there are at most [`MAX_LEAVING`] of them. When there would be one more, all of them are given up.

use std::collections::VecDeque;

use super::Stream;
use super::code_points::{count, floor};
use super::extent::Extent;
use super::slab::Slab;
use super::slot::HEADER_BYTES;

/// Full blocks from which on whoever may wait should wait for the file.
pub const CROWDED: usize = 8;

/// Most blocks of one session's text on its way to a file. Beyond [`CROWDED`] there is room for what two enlarged pipes
/// still hold when their writers are gone.
pub const MAX_LEAVING: usize = 28;

/// See the module.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) extents: VecDeque<Extent>,
    /// Whether text is taken; if not, it is evicted as it would be without a file.
    pub(super) open: bool,
    /// How often text was given up for want of room.
    pub(super) overflows: u64,
}

impl Leaving {
    pub(super) fn new() -> Leaving {
        Leaving {
            extents: VecDeque::with_capacity(MAX_LEAVING),
            open: true,
            overflows: 0,
        }
    }

    /// Takes text whose first code point is `cursor`, where the text before ended.
    pub(super) fn take(&mut self, slab: &Slab, stream: Stream, text: &[u8], cursor: u64) {
        if !self.open {
            return;
        }
        debug_assert!(
            self.extents.back().is_none_or(|tail| tail.next() == cursor),
            "V1: text follows on text"
        );
        let (mut rest, mut cursor) = (text, cursor);
        while !rest.is_empty() {
            let room = self.extents.back().map_or(0, |tail| tail.room(stream));
            let len = floor(rest, room);
            if len == 0 {
                if self.extents.len() == MAX_LEAVING {
                    self.extents.clear();
                    self.overflows += 1;
                }
                let block = slab.take();
                let extent = Extent::empty_behind(HEADER_BYTES, block, stream, cursor);
                self.extents.push_back(extent);
                continue;
            }
            let (piece, behind) = rest.split_at(len);
            let code_points = count(piece);
            let tail = self.extents.back_mut().expect("it has room");
            tail.push(stream, piece, code_points);
            cursor += code_points as u64;
            rest = behind;
        }
    }

    /// Extents that take no more text: all but the last.
    pub(super) fn full(&self) -> usize {
        self.extents.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
