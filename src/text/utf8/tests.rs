//! The decoder against literals of CPython's and against `String::from_utf8_lossy` as its twin.

use super::*;
use proptest::prelude::*;

/// Bytes of a whole stream, and what CPython 3's
/// `codecs.getincrementaldecoder("utf-8")("replace").decode(bytes, True)` makes of them.
const CPYTHON: &[(&[u8], &str)] = &[
    (b"", ""),
    (b"plain", "plain"),
    (b"\x80", "\u{fffd}"),
    (b"\xbf\xbf", "\u{fffd}\u{fffd}"),
    (b"\xc0\x80", "\u{fffd}\u{fffd}"),
    (b"\xc1\xbf", "\u{fffd}\u{fffd}"),
    (b"\xc2", "\u{fffd}"),
    (b"\xc2A", "\u{fffd}A"),
    (b"\xc2\x80", "\u{80}"),
    (b"\xdf\xbf", "\u{7ff}"),
    (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xe0\x9f\xbf", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xe0\xa0", "\u{fffd}"),
    (b"\xe0\xa0\x80", "\u{800}"),
    (b"\xe0A", "\u{fffd}A"),
    (b"\xe2\x82", "\u{fffd}"),
    (b"\xe2\x82\xac", "\u{20ac}"),
    (b"\xe2\x82A", "\u{fffd}A"),
    (b"\xe2\xe2\x82\xac", "\u{fffd}\u{20ac}"),
    (b"\xe2\x82\xe2\x82\xac", "\u{fffd}\u{20ac}"),
    (b"\xed\x9f\xbf", "\u{d7ff}"),
    (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xed\xbf\xbf", "\u{fffd}\u{fffd}\u{fffd}"),
    (
        b"\xed\xa0\xbd\xed\xb8\x80",
        "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
    ),
    (b"\xee\x80\x80", "\u{e000}"),
    (b"\xef\xbf\xbd", "\u{fffd}"),
    (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xf0\x8f\xbf\xbf", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xf0\x90\x80\x80", "\u{10000}"),
    (b"\xf0\x9f\x98", "\u{fffd}"),
    (b"\xf0\x9f\x98\x80", "\u{1f600}"),
    (b"\xf0\x9f\x98A", "\u{fffd}A"),
    (b"\xf0\x9f", "\u{fffd}"),
    (b"\xf0\x9fA", "\u{fffd}A"),
    (b"\xf0\x9f\xf0\x9f\x98\x80", "\u{fffd}\u{1f600}"),
    (b"\xf4\x8f\xbf\xbf", "\u{10ffff}"),
    (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (
        b"\xf8\x88\x80\x80\x80",
        "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
    ),
    (b"\xfe\xff", "\u{fffd}\u{fffd}"),
    (b"ok\xe2\x82", "ok\u{fffd}"),
    (
        b"a\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd",
        "a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}d",
    ),
    (b"\x00\x1b[0m\x0d\x0a\x7f", "\u{0}\u{1b}[0m\u{d}\u{a}\u{7f}"),
    (b"\xef\xbb\xbfbom", "\u{feff}bom"),
];

/// Decodes a stream that arrives in `chunks`.
fn decode_all<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut scratch = Scratch::new(1 << 16);
    let capacity = scratch.text.capacity();
    let mut decoder = Decoder::new();
    let mut text = String::new();
    for chunk in chunks {
        let decoded = decoder.decode(chunk, &mut scratch);
        if let Body::Clean { start, end, text } = decoded.body {
            assert_eq!(&chunk[start..end], text.as_bytes());
        }
        text.extend(decoded.head);
        text.push_str(decoded.body.text());
    }
    text.extend(decoder.finish());
    assert_eq!(decoder.finish(), None);
    assert_eq!(scratch.text.capacity(), capacity, "the scratch has grown");
    text
}

/// Cuts `bytes` at `cuts`, each taken modulo what is left.
fn cut<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for cut in cuts {
        let (chunk, rest) = bytes.split_at(cut % (bytes.len() + 1));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks.push(bytes);
    chunks
}

#[test]
fn replaces_as_cpython_does() {
    for (bytes, text) in CPYTHON {
        assert_eq!(decode_all([*bytes]), *text, "{bytes:x?}");
    }
}

#[test]
fn splitting_anywhere_changes_nothing() {
    for (bytes, text) in CPYTHON {
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(decode_all(chunks), *text, "{bytes:x?} at {first}, {second}");
            }
        }
        assert_eq!(decode_all(bytes.chunks(1)), *text, "{bytes:x?} bytewise");
    }
}

#[test]
fn each_error_is_found_at_each_place_of_a_long_text() {
    for (bytes, text) in CPYTHON {
        for before in 0..200 {
            for (filler, after) in [("a", 0), ("a", 150), ("\u{4e2d}", 70)] {
                let mut input = vec![b'.'; before];
                input.extend(b"\xff");
                input.extend(filler.repeat(before % 67).bytes());
                input.extend(*bytes);
                input.extend(filler.repeat(after).bytes());
                let expected = String::from_utf8_lossy(&input);
                assert_eq!(decode_all([&input[..]]), expected);
                assert!(after == 0 || bytes.is_empty() || expected.contains(text));
            }
        }
    }
}

#[test]
fn a_character_split_over_reads_is_the_head_of_the_last() {
    let mut scratch = Scratch::new(16);
    let mut decoder = Decoder::new();
    for part in [&b"\xf0"[..], b"\x9f\x98"] {
        let decoded = decoder.decode(part, &mut scratch);
        assert_eq!((decoded.head, decoded.body.text()), (None, ""));
    }
    let decoded = decoder.decode(b"\x80ab", &mut scratch);
    assert_eq!(decoded.head, Some('\u{1f600}'));
    assert_eq!(
        decoded.body,
        Body::Clean {
            start: 1,
            end: 3,
            text: "ab"
        }
    );
}

#[test]
fn carried_bytes_that_cannot_go_on_are_replaced_before_the_body() {
    let mut scratch = Scratch::new(16);
    let mut decoder = Decoder::new();
    decoder.decode(b"\xe2\x82", &mut scratch);
    let decoded = decoder.decode(b"\xe2\x82\xacx", &mut scratch);
    assert_eq!(decoded.head, Some('\u{fffd}'));
    assert_eq!(decoded.body.text(), "\u{20ac}x");
}

#[test]
#[should_panic(expected = "exceeds the scratch")]
fn an_input_larger_than_the_scratch_is_refused() {
    Decoder::new().decode(b"12345", &mut Scratch::new(4));
}

/// Pieces that make interesting byte strings when put side by side.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<Vec<u8>> = CPYTHON.iter().map(|(bytes, _)| bytes.to_vec()).collect();
    prop_oneof![
        4 => prop::sample::select(fixed),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => (0usize..300).prop_map(|len| vec![b'x'; len]),
        1 => (0usize..300).prop_map(|len| "\u{4e2d}\u{6587}\u{1f600}".repeat(len).into_bytes()),
        1 => (1usize..40, 0usize..100)
            .prop_map(|(gap, count)| [&vec![b'x'; gap][..], b"\xe9"].concat().repeat(count)),
        1 => prop::collection::vec(any::<u8>(), 0..2000),
    ]
}

proptest! {
    #[test]
    fn random_bytes_decode_as_the_whole_does(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        prop_assert_eq!(decode_all(cut(&bytes, &cuts)), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn fragments_decode_as_the_whole_does(
        fragments in prop::collection::vec(fragment(), 0..24),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let bytes = fragments.concat();
        prop_assume!(bytes.len() <= 1 << 16);
        prop_assert_eq!(decode_all(cut(&bytes, &cuts)), String::from_utf8_lossy(&bytes));
        prop_assert_eq!(decode_all(bytes.chunks(7)), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn code_points_are_counted_as_std_counts_them(text in ".{0,400}") {
        prop_assert_eq!(crate::text::code_points(&text), text.chars().count());
    }
}
