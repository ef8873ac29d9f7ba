//! Text as a JSON string, as `serde_json` writes it and several times as fast.
//!
//! A page is escaped twice, as a record's text and once more inside the text block, and looking up each byte by itself, as
//! `serde_json` does, was two fifths of the server's work for it. Here 64 bytes are looked at together and what lies
//! between two escapes is copied whole. The SIMD crates for it read beyond the text's end and ask for six times its length.

use wide::u8x16;

const LANE: usize = 16;
/// Bytes looked at together, a bit each.
const WINDOW: usize = 64;

/// Appends `text` with its quotes.
pub(super) fn push(text: &str, out: &mut Vec<u8>) {
    // Room for an escape every sixteenth byte, and the quotes.
    out.reserve(text.len() + text.len() / 16 + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for start in (0..bytes.len()).step_by(WINDOW) {
        let mut padded = [b' '; WINDOW];
        let window = bytes[start..].first_chunk().unwrap_or_else(|| {
            padded[..bytes.len() - start].copy_from_slice(&bytes[start..]);
            &padded
        });
        let mut escaped = to_escape(window);
        while escaped != 0 {
            let at = start + escaped.trailing_zeros() as usize;
            escaped &= escaped - 1;
            out.extend_from_slice(&bytes[copied..at]);
            push_escape(bytes[at], out);
            copied = at + 1;
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// A bit for each byte that a string can't hold as it is (RFC 8259, section 7).
fn to_escape(window: &[u8; WINDOW]) -> u64 {
    let (lanes, _) = window.as_chunks::<LANE>();
    let mut word = 0;
    for (index, &lane) in lanes.iter().enumerate() {
        let lane = u8x16::from(lane);
        let control = lane.simd_lt(u8x16::splat(b' '));
        let quote = lane.simd_eq(u8x16::splat(b'"'));
        let backslash = lane.simd_eq(u8x16::splat(b'\\'));
        word |= u64::from((control | quote | backslash).to_bitmask()) << (LANE * index);
    }
    word
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 0xf)];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pushed(text: &str) -> String {
        let mut out = b"before".to_vec();
        push(text, &mut out);
        String::from_utf8(out.split_off(6)).unwrap()
    }

    #[test]
    fn every_character_at_every_place_of_a_window_is_as_serde_json_has_it() {
        let others = ["\u{7f}", "\u{80}", "\u{2028}", "\u{1f600}"];
        let ascii = (0..0x80).map(|byte| char::from(byte).to_string());
        for character in ascii.chain(others.map(str::to_owned)) {
            for before in 0..2 * WINDOW {
                let text = format!("{}{character}x", "a".repeat(before));
                assert_eq!(pushed(&text), serde_json::to_string(&text).unwrap());
            }
        }
        assert_eq!(pushed(""), "\"\"");
    }

    proptest! {
        #[test]
        fn any_text_is_as_serde_json_has_it(text in "([\\x00-\\x1f\"\\\\]|[a-z]{0,80}|\\PC){0,40}") {
            prop_assert_eq!(pushed(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
