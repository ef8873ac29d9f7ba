//! An extent as a file holds it: its block as it lies in memory, behind a header that says what is in it.
//!
//! ```text
//! 0        HEADER_BYTES         end                  BLOCK_BYTES
//! | header | text               | free | len 2 | len 1 | len 0 |
//! ```
//!
//! All slots are of one size, so that the place of a slot in a file follows from its number alone, and a cursor is found
//! among them by halving.

use super::Stream;
use super::code_points::count;
use super::extent::Extent;
use super::slab::BLOCK_BYTES;

/// What stands before the text: magic, cursor, code points, end of the text, runs with a directory entry, stream of the
/// first run.
pub const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"SGs1";

/// A piece of a session's text that was read from a file.
#[derive(Debug)]
pub struct Slot(Extent);

impl Slot {
    /// Takes what `RecordLog::encode_leaving` made. `None` when it is anything else: then the file was changed or is broken.
    pub fn decode(bytes: Box<[u8]>) -> Option<Slot> {
        let header = Header::read(&bytes)?;
        let is_whole = bytes.len() == BLOCK_BYTES
            && header.end > HEADER_BYTES
            && header.end <= BLOCK_BYTES
            && header.entries <= (BLOCK_BYTES - header.end) / 2;
        if !is_whole {
            return None;
        }
        let text = &bytes[HEADER_BYTES..header.end];
        simdutf8::basic::from_utf8(text).ok()?;
        if count(text) != header.code_points {
            return None;
        }
        Extent::stored(bytes, &header).map(Slot)
    }

    /// Cursor of the first code point.
    pub fn base(&self) -> u64 {
        self.0.base()
    }

    /// Cursor after the last code point.
    pub fn next(&self) -> u64 {
        self.0.next()
    }

    /// UTF-8 bytes of text.
    pub fn text_bytes(&self) -> usize {
        self.0.len()
    }

    pub(super) fn extent(&self) -> &Extent {
        &self.0
    }
}

/// Cursor of a slot's first code point, by the first [`HEADER_BYTES`] of the slot. `None` when they are no header.
pub fn slot_base(header: &[u8]) -> Option<u64> {
    Header::read(header).map(|header| header.base)
}

/// See [`HEADER_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) base: u64,
    pub(super) code_points: usize,
    pub(super) end: usize,
    pub(super) entries: usize,
    pub(super) stream: Stream,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let number = |at: usize| {
            let number =
                u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            usize::try_from(number).ok()
        };
        if bytes[..4] != MAGIC {
            return None;
        }
        Some(Header {
            base: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            code_points: number(16)?,
            end: number(20)?,
            entries: number(24)?,
            stream: match bytes[28] {
                1 => Stream::Stdout,
                2 => Stream::Stderr,
                _ => return None,
            },
        })
    }

    /// Writes it over the start of a slot.
    pub(super) fn write(&self, slot: &mut [u8]) {
        let number = |count: usize| {
            u32::try_from(count)
                .expect("no more than a block's bytes")
                .to_le_bytes()
        };
        let header = &mut slot[..HEADER_BYTES];
        header.fill(0);
        header[..4].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&self.base.to_le_bytes());
        header[16..20].copy_from_slice(&number(self.code_points));
        header[20..24].copy_from_slice(&number(self.end));
        header[24..28].copy_from_slice(&number(self.entries));
        header[28] = match self.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        };
    }
}
