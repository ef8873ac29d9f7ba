//! Text of one stream that came in pieces, and the cursors that its code points have in the session.

use super::{code_points, floor};

/// Text behind a known cursor in which another place is looked for by counting, at most.
const STRIDE: usize = 16 * 1024;

/// Unfinished line that is worth keeping, in bytes.
pub const KEPT_BYTES: usize = 256 * 1024;
/// And in pieces between which the other stream came.
const KEPT_PLACES: usize = 8 * 1024;
/// What one of these comes to hold when no more than 64 KiB are added at a time and its [`Spliced::excess`] is dropped:
/// buffers grow by doubling.
pub const MOST_BYTES: usize = 2 * (2 * KEPT_BYTES + 64 * 1024) + 2 * 2 * KEPT_PLACES * PLACE_BYTES;
const PLACE_BYTES: usize = size_of::<(usize, u64)>();

/// See the module.
#[derive(Debug, Default)]
pub struct Spliced {
    text: String,
    /// Offsets and their cursors: of the first byte, behind each place where another stream came in between, and here and
    /// there besides.
    places: Vec<(usize, u64)>,
    /// Cursor after the last code point.
    next: u64,
}

impl Spliced {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds text whose first code point is `cursor`.
    pub fn push(&mut self, cursor: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut text = text;
        if self.places.is_empty() || cursor != self.next {
            self.places.push((self.text.len(), cursor));
            self.next = cursor;
        }
        while !text.is_empty() {
            let (piece, rest) = text.split_at(floor(text, STRIDE));
            let known = self.places.last().map_or(0, |&(at, _)| at);
            if self.text.len() - known >= STRIDE {
                self.places.push((self.text.len(), self.next));
            }
            self.text.push_str(piece);
            self.next += code_points(piece) as u64;
            text = rest;
        }
    }

    /// Cursor of the code point at `offset`; at the end of the text the one after the last.
    ///
    /// # Panics
    /// When there is no text, or `offset` is none of its boundaries.
    pub fn cursor_at(&self, offset: usize) -> u64 {
        let index = self.places.partition_point(|&(at, _)| at <= offset) - 1;
        let (at, cursor) = self.places[index];
        cursor + code_points(&self.text[at..offset]) as u64
    }

    /// Cursor after the code points up to `offset`, a boundary after the first one.
    pub fn cursor_after(&self, offset: usize) -> u64 {
        let last = floor(&self.text, offset - 1);
        self.cursor_at(last) + 1
    }

    /// How many bytes are to be dropped from the front of a line that has grown too long, so that half of what it may have
    /// is left; none of one that hasn't.
    pub fn excess(&self) -> usize {
        let (bytes, places) = (self.text.len(), self.places.len());
        let by_bytes = if bytes > 2 * KEPT_BYTES {
            floor(&self.text, bytes - KEPT_BYTES)
        } else {
            0
        };
        let by_places = if places > 2 * KEPT_PLACES {
            self.places[places - KEPT_PLACES].0
        } else {
            0
        };
        by_bytes.max(by_places)
    }

    /// Drops the first `len` bytes.
    pub fn drop_front(&mut self, len: usize) {
        if len == self.text.len() {
            return self.clear();
        }
        let cursor = self.cursor_at(len);
        let gone = self.places.partition_point(|&(at, _)| at <= len);
        self.places.drain(1..gone);
        self.places[0] = (0, cursor);
        for (at, _) in &mut self.places[1..] {
            *at -= len;
        }
        self.text.drain(..len);
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn cursors_are_those_that_were_given(
            pieces in vec((0u64..3, "[aé第\n]{0,9}", 1usize..4000), 0..8),
            cuts in vec(any::<prop::sample::Index>(), 0..3),
        ) {
            let mut spliced = Spliced::default();
            let mut twin: Vec<(char, u64)> = Vec::new();
            let mut cursor = 7;
            for (gap, piece, repeats) in &pieces {
                let piece = piece.repeat(*repeats);
                cursor += gap;
                spliced.push(cursor, &piece);
                twin.extend(piece.chars().zip(cursor..));
                cursor += piece.chars().count() as u64;
            }
            for cut in cuts {
                let gone = cut.index(twin.len() + 1);
                let len = twin.drain(..gone).map(|(char, _)| char.len_utf8()).sum();
                spliced.drop_front(len);
                let text: String = twin.iter().map(|(char, _)| char).collect();
                prop_assert_eq!(spliced.text(), &text);
                for (index, (at, _)) in text.char_indices().enumerate().step_by(1 + twin.len() / 50) {
                    prop_assert_eq!(spliced.cursor_at(at), twin[index].1);
                    if index > 0 {
                        prop_assert_eq!(spliced.cursor_after(at), twin[index - 1].1 + 1);
                    }
                }
                if let Some((_, last)) = twin.last() {
                    prop_assert_eq!(spliced.cursor_at(text.len()), last + 1);
                }
            }
        }
    }
}
