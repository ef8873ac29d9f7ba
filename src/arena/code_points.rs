//! Code points in UTF-8 bytes: counting them and stepping over them.
//!
//! Everything works on bytes that are known to be UTF-8, without checking it: a code point is a
//! byte that continues none. Counting runs at memory speed (SIMD); so does stepping, which counts
//! piece by piece until the wanted place is near.

/// Number of code points.
pub(super) fn count(text: &[u8]) -> usize {
    bytecount::num_chars(text)
}

/// Offset of code point `n`, counted from 0; the length of `text` when it has exactly `n`.
///
/// # Panics
/// When `text` has fewer than `n` code points.
pub(super) fn advance(text: &[u8], n: usize) -> usize {
    let mut left = n;
    let mut offset = 0;
    for piece_len in [4096, 256] {
        while let Some(piece) = text.get(offset..offset + piece_len) {
            let count = count(piece);
            if count > left {
                break;
            }
            left -= count;
            offset += piece_len;
        }
    }
    // A piece may have ended inside a character, whose rest is skipped here.
    for (index, byte) in text[offset..].iter().enumerate() {
        if starts_code_point(*byte) {
            if left == 0 {
                return offset + index;
            }
            left -= 1;
        }
    }
    assert_eq!(left, 0, "the text has {left} code points fewer than {n}");
    text.len()
}

/// The largest boundary of a code point that is at most `offset`.
pub(super) fn floor(text: &[u8], offset: usize) -> usize {
    if offset >= text.len() {
        return text.len();
    }
    let mut offset = offset;
    while !starts_code_point(text[offset]) {
        offset -= 1;
    }
    offset
}

/// The smallest boundary of a code point that is at least `offset`.
pub(super) fn ceil(text: &[u8], offset: usize) -> usize {
    let mut offset = offset;
    while offset < text.len() && !starts_code_point(text[offset]) {
        offset += 1;
    }
    offset
}

fn starts_code_point(byte: u8) -> bool {
    !(0x80..0xc0).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[should_panic(expected = "fewer than 4")]
    fn advancing_beyond_the_end_is_a_broken_count() {
        advance("abc".as_bytes(), 4);
    }

    proptest! {
        #[test]
        fn places_are_those_of_char_indices(
            text in "([a-z]{0,20}|\u{4e2d}|\u{1f600}|\u{e9}){0,60}",
            repeats in 1usize..40,
        ) {
            let text = text.repeat(repeats);
            let bytes = text.as_bytes();
            let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            prop_assert_eq!(count(bytes), starts.len());
            for n in (0..=starts.len()).step_by(1 + starts.len() / 50) {
                let expected = starts.get(n).copied().unwrap_or(text.len());
                prop_assert_eq!(advance(bytes, n), expected);
            }
            for offset in (0..=text.len()).step_by(1 + text.len() / 50) {
                let before = (0..=offset).rfind(|&at| text.is_char_boundary(at));
                let after = (offset..=text.len()).find(|&at| text.is_char_boundary(at));
                prop_assert_eq!(Some(floor(bytes, offset)), before);
                prop_assert_eq!(Some(ceil(bytes, offset)), after);
            }
        }
    }
}
