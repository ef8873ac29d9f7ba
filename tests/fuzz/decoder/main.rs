//! The decoder in any pieces, against the whole stream decoded by the standard library.

#![no_main]

mod text;

use text::utf8::{Body, Decoder, Scratch};

// Input whose first four bytes say how the rest is cut; a byte above 0xF8, which is no part of UTF-8, repeats what stands
// before it, so that short inputs reach the spans of the replacing path.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&cuts, rest)) = data.split_first_chunk::<4>() else {
        return;
    };
    let mut stream = Vec::with_capacity(rest.len());
    for &byte in rest {
        let period = usize::from(byte.saturating_sub(0xF8));
        if period > 0 && stream.len() >= period && stream.len() < 1 << 15 {
            let tail = stream[stream.len() - period..].to_vec();
            stream.extend(tail.iter().cycle().take(61));
        } else {
            stream.push(byte);
        }
    }
    let expected = String::from_utf8_lossy(&stream);
    assert_eq!(decoded(&stream, [usize::MAX; 4]), expected, "in one piece");
    assert_eq!(
        decoded(&stream, cuts.map(usize::from)),
        expected,
        "cut by {cuts:?}"
    );
});

fn decoded(stream: &[u8], cuts: [usize; 4]) -> String {
    let (mut decoder, mut scratch) = (Decoder::new(), Scratch::new(stream.len()));
    let (mut text, mut rest) = (String::new(), stream);
    for turn in 0.. {
        let (piece, behind) = rest.split_at(cuts[turn % cuts.len()].max(1).min(rest.len()));
        let decoded = decoder.decode(piece, &mut scratch);
        match decoded.body {
            Body::Clean { start, end, text } => assert_eq!(&piece[start..end], text.as_bytes()),
            Body::Replaced(text) => assert!(text.contains('\u{fffd}')),
        }
        text.extend(decoded.head);
        text.push_str(decoded.body.text());
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    text.extend(decoder.finish());
    assert_eq!(decoder.finish(), None);
    text
}
