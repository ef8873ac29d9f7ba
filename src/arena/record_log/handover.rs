//! What a log keeps of the text that leaves its budget, until a file has it.

use super::RecordLog;
use crate::arena::{
    extent::Extent,
    leaving::{CROWDED, Leaving},
};

impl RecordLog {
    /// Keeps text that leaves the budget, in up to [`MAX_LEAVING`](crate::arena::MAX_LEAVING) blocks more, until
    /// [`RecordLog::left`] says that it may go. To be called before anything is added.
    pub fn keep_leaving(&mut self) {
        self.leaving = Some(Leaving::new());
    }

    /// Whether text that leaves the budget from now on is kept, when it was to be kept at all. Shut, what waits is given up,
    /// and text is evicted as it is without a file.
    pub fn open_leaving(&mut self, open: bool) {
        if let Some(leaving) = &mut self.leaving {
            leaving.open = open;
            if !open {
                leaving.extents.clear();
            }
        }
    }

    /// Blocks that are ready to be handed over.
    pub fn full_leaving(&self) -> usize {
        self.leaving.as_ref().map_or(0, Leaving::full)
    }

    /// Whether so many blocks are ready that whoever may wait should wait until some are gone.
    pub fn is_crowded(&self) -> bool {
        self.full_leaving() >= CROWDED
    }

    /// How often text that was leaving was given up, since it came faster than it could go.
    pub fn overflows(&self) -> u64 {
        self.leaving.as_ref().map_or(0, |leaving| leaving.overflows)
    }

    /// Adds block `index` of those that are ready to `out` as a slot; returns the cursors of its first code point and after
    /// its last one. `None` when no such block is ready.
    pub fn encode_leaving(&self, index: usize, out: &mut Vec<u8>) -> Option<(u64, u64)> {
        let leaving = self
            .leaving
            .as_ref()
            .filter(|leaving| index < leaving.full())?;
        let extent = &leaving.extents[index];
        extent.encode(out);
        Some((extent.base(), extent.next()))
    }

    /// Lets the text before `cursor`, the end of a block that was ready and starts at `base`, go from memory: a file has it.
    /// Returns false, and nothing happens, when it was given up meanwhile.
    pub fn left(&mut self, base: u64, cursor: u64) -> bool {
        let Some(leaving) = &mut self.leaving else {
            return false;
        };
        if leaving.extents.front().map(Extent::base) != Some(base) {
            return false;
        }
        while leaving
            .extents
            .front()
            .is_some_and(|front| front.next() <= cursor)
        {
            leaving.extents.pop_front();
        }
        true
    }
}
