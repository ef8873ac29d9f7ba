//! An extent to and from a slot of a file.

use super::{Extent, Store, other};
use crate::arena::{
    code_points::floor,
    slot::{HEADER_BYTES, Header},
};

impl Extent {
    /// The extent that `encode` made `slot` of, whose text is UTF-8 of as many code points as its header says
    /// and doesn't reach into the directory. `None` when the directory doesn't fit the text.
    pub(in crate::arena) fn stored(slot: Box<[u8]>, header: &Header) -> Option<Extent> {
        let mut extent = Extent {
            store: Store::Heap(slot),
            base: header.base,
            code_points: header.code_points,
            head: HEADER_BYTES,
            end: header.end,
            entries: header.entries,
            gone: 0,
            front_start: HEADER_BYTES,
            front_stream: header.stream,
            last_start: HEADER_BYTES,
            last_stream: header.stream,
        };
        for index in 0..header.entries {
            let run = extent.entry(index);
            let start = extent.last_start + run;
            let text = extent.store.bytes();
            if run == 0 || start >= header.end || floor(&text[..header.end], start) != start {
                return None;
            }
            extent.last_start = start;
            extent.last_stream = other(extent.last_stream);
        }
        Some(extent)
    }

    /// Adds the extent, made by [`Extent::empty_behind`] a header and never evicted from, to `out` as a slot.
    pub(in crate::arena) fn encode(&self, out: &mut Vec<u8>) {
        assert_eq!(
            (self.head, self.gone),
            (HEADER_BYTES, 0),
            "whole, behind a header"
        );
        let at = out.len();
        out.extend_from_slice(self.store.bytes());
        let header = Header {
            base: self.base,
            code_points: self.code_points,
            end: self.end,
            entries: self.entries,
            stream: self.front_stream,
        };
        header.write(&mut out[at..]);
    }
}
