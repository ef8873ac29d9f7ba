//! Replacing invalid UTF-8, fast when errors are rare and when nearly every byte is one.
//!
//! Two ways of working take turns. *Seeking* lets the SIMD validator find the next error and
//! copies the valid text before it; a validator restarts at each error, so this is good only while
//! errors lie far apart. *Transcoding* takes a span of input through a table, with a fixed amount of
//! work for each byte and no branch on its value, or, where the only bytes outside ASCII stand alone
//! (8-bit text), copies between them. The span doubles as long as seeking finds nothing worth its
//! start-up, and starts small again as soon as it does; there it deals with the other bytes of what
//! was one damaged character.
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
    let mut span = *SPAN.start();
    let mut output = [0; OUTPUT];
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
                    *SPAN.start()
                } else {
                    (2 * span).min(*SPAN.end())
                };
            }
        }
        let mut left = span.min(rest.len());
        // A shorter end may be nothing but an incomplete character, which seeking deals with.
        while left > 3 {
            let stretch = &rest[..left.min(STRETCH)];
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
    // Bytes of an unfinished character; they are written already, and taken back if it fails.
    let mut pending = 0;
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
            let cell = ROWS[usize::from(byte)] >> state;
            let action = &ACTIONS[usize::from(cell.to_le_bytes()[0] & ACTION_BITS)];
            state = cell & STATE_BITS;
            written -= pending & usize::from(action.taken_back);
            let word = action.word | (u64::from(byte) * u64::from(action.place));
            output[written..written + 8].copy_from_slice(&word.to_le_bytes());
            written += usize::from(action.len);
            pending = (pending & usize::from(action.kept)) + usize::from(action.added);
        }
        at += group.len();
    }
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
    let joined = (high & (high >> 1)) | (high & (1 << (GROUP - 1)));
    let len = joined.trailing_zeros();
    (
        high & 1u64.checked_shl(len).map_or(u64::MAX, |bit| bit - 1),
        len as usize,
    )
}

/// Copies the first `len` bytes of a group, with U+FFFD for each byte in `lone`. Returns the new end
/// of the output. A lane may be read beyond the group, and written beyond that end.
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
        // One lane always: most gaps are shorter, and a test for none would be mispredicted.
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

/// What one byte does to the output, without a branch on which action it is.
#[derive(Clone, Copy)]
struct Action {
    /// Mask: whether the pending bytes are taken back first.
    taken_back: u8,
    /// U+FFFD once, twice or not at all.
    word: u64,
    /// Factor that puts the byte behind them, or drops it.
    place: u32,
    /// Bytes of the word that count.
    len: u8,
    /// Mask: whether bytes that were pending are so still.
    kept: u8,
    /// Whether the byte itself is pending.
    added: u8,
}

/// The byte starts or continues a character.
const PUT: u8 = 0;
/// The byte starts a character, where another was to go on.
const REPLACE_AND_PUT: u8 = 1;
/// The byte starts nothing.
const REPLACE: u8 = 2;
/// The byte starts nothing, where a character was to go on.
const REPLACE_BOTH: u8 = 3;
/// Added to the first two when the byte's character is unfinished.
const UNFINISHED: u8 = 4;

static ACTIONS: [Action; 8] = {
    let put = Action {
        taken_back: 0,
        word: 0,
        place: 1,
        len: 1,
        kept: 0,
        added: 0,
    };
    let replace = Action {
        word: REPLACEMENT_WORD,
        place: 0,
        len: 3,
        ..put
    };
    let replace_and_put = Action {
        taken_back: u8::MAX,
        place: 1 << 24,
        len: 4,
        ..replace
    };
    let replace_both = Action {
        taken_back: u8::MAX,
        word: REPLACEMENT_WORD | (REPLACEMENT_WORD << 24),
        len: 6,
        ..replace
    };
    let mut actions = [put; 8];
    actions[REPLACE as usize] = replace;
    actions[REPLACE_BOTH as usize] = replace_both;
    actions[REPLACE_AND_PUT as usize] = replace_and_put;
    actions[(PUT | UNFINISHED) as usize] = Action {
        kept: u8::MAX,
        added: 1,
        ..put
    };
    actions[(REPLACE_AND_PUT | UNFINISHED) as usize] = Action {
        added: 1,
        ..replace_and_put
    };
    actions
};

// States: what may follow. Each is the place of its cell in a row, in bits.
const START: u64 = 0;
const ONE_MORE: u64 = 8;
const TWO_MORE: u64 = 16;
const THREE_MORE: u64 = 24;
const AFTER_E0: u64 = 32;
const AFTER_ED: u64 = 40;
const AFTER_F0: u64 = 48;
const AFTER_F4: u64 = 56;

/// The bits of a cell that are the next state; below them is the action.
const STATE_BITS: u64 = 0x38;
const ACTION_BITS: u8 = 0x07;

/// For each byte its cells for all states. A state's transition is then one shift, which keeps the
/// chain from byte to byte short: what is loaded depends on the byte alone.
static ROWS: [u64; 256] = {
    let mut rows = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = START;
        while state <= AFTER_F4 {
            rows[byte] |= cell(state, byte) << state;
            state += 8;
        }
        byte += 1;
    }
    rows
};

const fn cell(state: u64, byte: usize) -> u64 {
    let (next, action) = match (continued(state, byte), started(byte)) {
        (Some(next), _) => (next, PUT),
        (None, Some(next)) if state == START => (next, PUT),
        (None, Some(next)) => (next, REPLACE_AND_PUT),
        (None, None) if state == START => (START, REPLACE),
        (None, None) => (START, REPLACE_BOTH),
    };
    let unfinished = if next == START { 0 } else { UNFINISHED };
    next | (action | unfinished) as u64
}

/// The state after a byte that continues a character, by table 3-7 of the Unicode standard.
const fn continued(state: u64, byte: usize) -> Option<u64> {
    match (state, byte) {
        (ONE_MORE, 0x80..=0xbf) => Some(START),
        (TWO_MORE, 0x80..=0xbf) => Some(ONE_MORE),
        (THREE_MORE, 0x80..=0xbf) => Some(TWO_MORE),
        (AFTER_E0, 0xa0..=0xbf) => Some(ONE_MORE),
        (AFTER_ED, 0x80..=0x9f) => Some(ONE_MORE),
        (AFTER_F0, 0x90..=0xbf) => Some(TWO_MORE),
        (AFTER_F4, 0x80..=0x8f) => Some(TWO_MORE),
        _ => None,
    }
}

/// The state after a byte that starts a character, or is one.
const fn started(byte: usize) -> Option<u64> {
    match byte {
        0x00..=0x7f => Some(START),
        0xc2..=0xdf => Some(ONE_MORE),
        0xe0 => Some(AFTER_E0),
        0xed => Some(AFTER_ED),
        0xe1..=0xef => Some(TWO_MORE),
        0xf0 => Some(AFTER_F0),
        0xf1..=0xf3 => Some(THREE_MORE),
        0xf4 => Some(AFTER_F4),
        _ => None,
    }
}
