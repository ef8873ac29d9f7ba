//! Replacing invalid UTF-8, fast when errors are rare and when nearly every byte is one.
//!
//! Two ways of working take turns. *Seeking* lets the SIMD validator find the next error and
//! copies the valid text before it; a validator restarts at each error, so this is good only while
//! errors lie far apart. *Transcoding* takes a span of input through a table, with a fixed amount of
//! work for each byte and no branch on its value, or, where the only bytes outside ASCII stand alone
//! (8-bit text), copies between them. The span doubles as long as seeking finds nothing worth its
//! start-up, and is dropped as soon as it does.
//!
//! Transcoded bytes are validated before they become text, so a wrong table could give wrong text
//! or a panic but no invalid `str`. It costs a few per cent of the transcoding.

use simdutf8::compat::Utf8Error;

/// Valid text found by seeking that is worth another search.
const WORTH_SEEKING: usize = 64;
/// Input bytes that are transcoded between two searches: the first span, and the longest.
const SPAN: std::ops::RangeInclusive<usize> = 16..=8192;
/// Input bytes that are transcoded at a time; the output for them lies on the stack.
const STRETCH: usize = 512;
/// Bytes that are looked at together.
const GROUP: usize = 64;
/// Bytes that are copied together.
const LANE: usize = 16;
/// Bytes at the front of a group that are worth copying between lone bytes.
const WORTH_COPYING: usize = 16;
/// Output of one stretch, and what the last fixed-size stores may write behind it.
const OUTPUT: usize = 3 * STRETCH + GROUP;

const REPLACEMENT: &str = "\u{fffd}";
/// U+FFFD as a little-endian word.
const REPLACEMENT_WORD: u64 = 0xbd_bfef;

/// Appends `input` to `text`, U+FFFD for each maximal subpart of its errors. `error` is the first
/// one. An incomplete character at the end counts as an error.
pub(super) fn replace(input: &[u8], error: Utf8Error, text: &mut String) {
    let mut rest = input;
    let mut found = Err(error);
    let mut span = 0;
    loop {
        match found {
            Ok(valid) => {
                text.push_str(valid);
                return;
            }
            Err(error) => {
                let (valid, bad) = rest.split_at(error.valid_up_to());
                text.push_str(validated(valid));
                text.push_str(REPLACEMENT);
                rest = &bad[error.error_len().unwrap_or(bad.len())..];
                span = if valid.len() >= WORTH_SEEKING {
                    0
                } else {
                    (2 * span).clamp(*SPAN.start(), *SPAN.end())
                };
            }
        }
        let mut left = span.min(rest.len());
        // A shorter end may be nothing but an incomplete character, which seeking deals with.
        while left > 3 {
            let stretch = &rest[..left.min(STRETCH)];
            let mut output = [0; OUTPUT];
            let (consumed, written) = transcode(stretch, &mut output);
            text.push_str(validated(&output[..written]));
            rest = &rest[consumed..];
            left -= consumed;
        }
        found = simdutf8::compat::from_utf8(rest);
    }
}

/// Text that is valid unless this module is wrong.
fn validated(bytes: &[u8]) -> &str {
    simdutf8::basic::from_utf8(bytes).expect("transcoded text is valid UTF-8")
}

/// Transcodes one stretch. Returns how many bytes of it were consumed, all but an incomplete
/// character at its end, and how many were written.
fn transcode(input: &[u8], output: &mut [u8; OUTPUT]) -> (usize, usize) {
    let mut at = 0;
    let mut written = 0;
    let mut state = START;
    while at < input.len() {
        if state == START
            && let Some(window) = input[at..].first_chunk::<{ GROUP + LANE }>()
            && let (lone, len) = lone_bytes(window)
            && len >= WORTH_COPYING
        {
            written = copy_between(window, lone, len, output, written);
            at += len;
            continue;
        }
        let group = &input[at..input.len().min(at + GROUP)];
        for &byte in group {
            let step = &STEPS[usize::from(state | CLASSES[usize::from(byte)])];
            written -= usize::from(step.back);
            let word = step.word | u64::from(byte) * u64::from(step.place);
            output[written..written + 8].copy_from_slice(&word.to_le_bytes());
            written += usize::from(step.len);
            state = step.next;
        }
        at += group.len();
    }
    let pending = usize::from(PENDING[usize::from(state >> 4)]);
    (at - pending, written - pending)
}

/// How many bytes at the front of the group are ASCII or stand alone between ASCII bytes, and the
/// positions of those, as bits. A lone byte is an error whatever its value.
fn lone_bytes(window: &[u8; GROUP + LANE]) -> (u64, usize) {
    let mut high = 0;
    for (index, word) in window[..GROUP].as_chunks::<8>().0.iter().enumerate() {
        // Gathers the top bits of eight bytes in one byte: bit 8k+7 is moved to bit 56+k.
        let bits = (u64::from_le_bytes(*word) & 0x8080_8080_8080_8080) >> 7;
        high |= (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * index);
    }
    // The group's last byte may have a neighbour behind the group.
    let joined = high & (high >> 1) | high & 1 << (GROUP - 1);
    let len = joined.trailing_zeros();
    (
        high & 1u64.checked_shl(len).map_or(u64::MAX, |bit| bit - 1),
        len as usize,
    )
}

/// Copies the first `len` bytes of a group, with U+FFFD for each byte in `lone`. Returns the new end of the output.
fn copy_between(
    window: &[u8; GROUP + LANE],
    mut lone: u64,
    len: usize,
    output: &mut [u8; OUTPUT],
    mut written: usize,
) -> usize {
    let mut from = 0;
    loop {
        let to = (lone.trailing_zeros() as usize).min(len);
        let mut copied = 0;
        loop {
            let lane = &window[from + copied..from + copied + LANE];
            output[written + copied..written + copied + LANE].copy_from_slice(lane);
            copied += LANE;
            if copied >= to - from {
                break;
            }
        }
        written += to - from;
        if to == len {
            return written;
        }
        output[written..written + 3].copy_from_slice(REPLACEMENT.as_bytes());
        written += 3;
        from = to + 1;
        lone &= lone - 1;
    }
}

/// What one byte does in one state. The bytes of an unfinished character are already written; an
/// error takes them back.
#[derive(Clone, Copy)]
struct Step {
    /// U+FFFD once, twice or not at all.
    word: u64,
    /// Factor that puts the byte behind them, or drops it.
    place: u32,
    /// Written bytes to take back first.
    back: u8,
    /// Bytes of the word that count.
    len: u8,
    /// The next state.
    next: u8,
}

// Byte classes: ranges of bytes that no state tells apart.
const ASCII: u8 = 0;
const CONTINUATION_80_8F: u8 = 1;
const CONTINUATION_90_9F: u8 = 2;
const CONTINUATION_A0_BF: u8 = 3;
const LEAD_TWO: u8 = 4;
const LEAD_E0: u8 = 5;
const LEAD_THREE: u8 = 6;
const LEAD_ED: u8 = 7;
const LEAD_F0: u8 = 8;
const LEAD_FOUR: u8 = 9;
const LEAD_F4: u8 = 10;
const NEVER: u8 = 11;

// States, in the upper half of a byte so that a class can be added. The name says what was seen.
const START: u8 = 0;
const AFTER_LEAD_TWO: u8 = 1 << 4;
const AFTER_E0: u8 = 2 << 4;
const AFTER_LEAD_THREE: u8 = 3 << 4;
const AFTER_ED: u8 = 4 << 4;
const AFTER_F0: u8 = 5 << 4;
const AFTER_LEAD_FOUR: u8 = 6 << 4;
const AFTER_F4: u8 = 7 << 4;
const TWO_OF_THREE: u8 = 8 << 4;
const TWO_OF_FOUR: u8 = 9 << 4;
const THREE_OF_FOUR: u8 = 10 << 4;

/// Bytes of an unfinished character that are written in each state.
const PENDING: [u8; 16] = [0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 0, 0, 0, 0, 0];

static CLASSES: [u8; 256] = {
    let mut classes = [ASCII; 256];
    let mut byte = 0x80;
    while byte < 256 {
        classes[byte] = match byte {
            0x80..=0x8f => CONTINUATION_80_8F,
            0x90..=0x9f => CONTINUATION_90_9F,
            0xa0..=0xbf => CONTINUATION_A0_BF,
            0xc2..=0xdf => LEAD_TWO,
            0xe0 => LEAD_E0,
            0xed => LEAD_ED,
            0xe1..=0xef => LEAD_THREE,
            0xf0 => LEAD_F0,
            0xf1..=0xf3 => LEAD_FOUR,
            0xf4 => LEAD_F4,
            _ => NEVER,
        };
        byte += 1;
    }
    classes
};

/// The state after a byte that continues the character, by table 3-7 of the Unicode standard.
const fn continued(state: u8, class: u8) -> Option<u8> {
    let continues = matches!(
        class,
        CONTINUATION_80_8F | CONTINUATION_90_9F | CONTINUATION_A0_BF
    );
    match (state, class) {
        (AFTER_E0, CONTINUATION_A0_BF) => Some(TWO_OF_THREE),
        (AFTER_ED, CONTINUATION_80_8F | CONTINUATION_90_9F) => Some(TWO_OF_THREE),
        (AFTER_F0, CONTINUATION_90_9F | CONTINUATION_A0_BF) => Some(TWO_OF_FOUR),
        (AFTER_F4, CONTINUATION_80_8F) => Some(TWO_OF_FOUR),
        (AFTER_LEAD_THREE, _) if continues => Some(TWO_OF_THREE),
        (AFTER_LEAD_FOUR, _) if continues => Some(TWO_OF_FOUR),
        (TWO_OF_FOUR, _) if continues => Some(THREE_OF_FOUR),
        (AFTER_LEAD_TWO | TWO_OF_THREE | THREE_OF_FOUR, _) if continues => Some(START),
        _ => None,
    }
}

/// The state after a byte that starts a character, or is one.
const fn started(class: u8) -> Option<u8> {
    match class {
        ASCII => Some(START),
        LEAD_TWO => Some(AFTER_LEAD_TWO),
        LEAD_E0 => Some(AFTER_E0),
        LEAD_THREE => Some(AFTER_LEAD_THREE),
        LEAD_ED => Some(AFTER_ED),
        LEAD_F0 => Some(AFTER_F0),
        LEAD_FOUR => Some(AFTER_LEAD_FOUR),
        LEAD_F4 => Some(AFTER_F4),
        _ => None,
    }
}

/// Indexed by state plus class; a full 256 entries so that no index needs a check.
static STEPS: [Step; 256] = {
    let unused = Step {
        word: 0,
        place: 0,
        back: 0,
        len: 0,
        next: START,
    };
    let mut steps = [unused; 256];
    let mut state = START;
    while state <= THREE_OF_FOUR {
        let mut class = ASCII;
        while class <= NEVER {
            let pending = PENDING[(state >> 4) as usize];
            steps[(state | class) as usize] = match (continued(state, class), started(class)) {
                (Some(next), _) => Step {
                    word: 0,
                    place: 1,
                    back: 0,
                    len: 1,
                    next,
                },
                (None, Some(next)) if pending == 0 => Step {
                    word: 0,
                    place: 1,
                    back: 0,
                    len: 1,
                    next,
                },
                (None, Some(next)) => Step {
                    word: REPLACEMENT_WORD,
                    place: 1 << 24,
                    back: pending,
                    len: 4,
                    next,
                },
                (None, None) if pending == 0 => Step {
                    word: REPLACEMENT_WORD,
                    place: 0,
                    back: 0,
                    len: 3,
                    next: START,
                },
                (None, None) => Step {
                    word: REPLACEMENT_WORD | REPLACEMENT_WORD << 24,
                    place: 0,
                    back: pending,
                    len: 6,
                    next: START,
                },
            };
            class += 1;
        }
        state += 1 << 4;
    }
    steps
};
