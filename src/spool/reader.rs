//! From a cursor to the slots around it. Waits for the disk.

use std::{fs::File, ops::Range, os::unix::fs::FileExt};

use super::folder::Folder;
use crate::arena::{BLOCK_BYTES, HEADER_BYTES, Slot, slot_base};

/// Which text is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// From this cursor on, so many bytes.
    From(u64, usize),
    /// Before this cursor, so many bytes.
    Before(u64, usize),
}

impl Want {
    /// A cursor that is wanted in any case.
    pub fn cursor(self) -> u64 {
        match self {
            Want::From(cursor, _) => cursor,
            Want::Before(end, _) => end.saturating_sub(1),
        }
    }
}

/// A segment was removed, or holds what nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// A spool as one reading sees it.
pub(super) struct Reader<'f> {
    pub(super) folder: &'f Folder,
    pub(super) spool: u64,
    pub(super) slots_per_segment: u64,
    /// The segment that was last read.
    pub(super) open: Option<(u64, File)>,
}

impl Reader<'_> {
    /// The slots that hold what is wanted, in order, one of them among `near`, and all of `there` that are needed.
    pub(super) fn fetch(
        &mut self,
        want: Want,
        near: Range<u64>,
        there: Range<u64>,
    ) -> Result<Vec<Slot>, Unreadable> {
        let found = self.find(want.cursor(), near)?;
        let first = self.slot(found)?;
        if !(first.base()..first.next()).contains(&want.cursor()) {
            return Err(Unreadable);
        }
        let mut slots = vec![first];
        match want {
            Want::From(_, bytes) => {
                // How much of the first slot lies before the cursor isn't known, so it doesn't count.
                let mut have = 0;
                for number in found + 1..there.end {
                    if have >= bytes {
                        break;
                    }
                    slots.push(self.slot(number)?);
                    have += slots.last().map_or(0, Slot::text_bytes);
                }
            }
            Want::Before(_, bytes) => {
                let mut have = 0;
                for number in (there.start..found).rev() {
                    if have >= bytes {
                        break;
                    }
                    let slot = self.slot(number)?;
                    have += slot.text_bytes();
                    slots.push(slot);
                }
                slots.reverse();
            }
        }
        let joined = slots
            .windows(2)
            .all(|pair| pair[0].next() == pair[1].base());
        joined.then_some(slots).ok_or(Unreadable)
    }

    /// The last slot of `near` that begins at `cursor` or before, by halving.
    fn find(&mut self, cursor: u64, near: Range<u64>) -> Result<u64, Unreadable> {
        let (mut low, mut high) = (near.start, near.end);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let mut header = [0; HEADER_BYTES];
            self.read(middle, &mut header)?;
            if slot_base(&header).ok_or(Unreadable)? <= cursor {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn slot(&mut self, number: u64) -> Result<Slot, Unreadable> {
        let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
        self.read(number, &mut bytes)?;
        Slot::decode(bytes).ok_or(Unreadable)
    }

    fn read(&mut self, number: u64, out: &mut [u8]) -> Result<(), Unreadable> {
        let segment = number / self.slots_per_segment;
        let file = match self.open.take() {
            Some((open, file)) if open == segment => file,
            _ => self
                .folder
                .read(self.spool, segment)
                .map_err(|_| Unreadable)?,
        };
        let offset = number % self.slots_per_segment * BLOCK_BYTES as u64;
        let read = file.read_exact_at(out, offset);
        self.open = Some((segment, file));
        read.map_err(|_| Unreadable)
    }
}
