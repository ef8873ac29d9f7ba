//! Replacing invalid UTF-8, fast when errors are rare and when nearly every byte is one.
//!
//! Two ways of working take turns. *Seeking* lets the SIMD validator find the next error and
//! copies the valid text before it; a validator restarts at each error, so this is good only while
//! errors lie far apart. *Sorting* takes a span of input 64 bytes at a time: comparisons give one
//! bit for each byte and class, shifts of those words tell of every byte whether it is kept,
//! replaced or dropped, and nothing branches on its value. The span doubles as long as seeking finds
//! nothing worth its start-up, and starts small again as soon as it does.
//!
//! Sorted bytes are validated before they become text, so a wrong sorting could give wrong text
//! or a panic but no invalid `str`. It costs a tenth of the sorting.

use simdutf8::compat::Utf8Error;
use wide::u8x16;

/// Valid text found by seeking that is worth another search.
const WORTH_SEEKING: usize = 64;
/// Input bytes that are sorted between two searches: the first span, and the longest.
const SPAN: std::ops::RangeInclusive<usize> = 16..=8192;
/// Bytes that are sorted together, one for each bit of a word.
const WINDOW: usize = 64;
/// Bytes that are compared or copied together.
const LANE: usize = 16;
/// Bytes of a window that aren't kept, up to which what lies between them is copied in lanes.
const FEW: u32 = 12;
/// What a window may write: three bytes for each of its own, and what the last store has beyond them.
const ROOM: usize = {
    assert!(3 * WINDOW + LANE <= 256);
    // Places below 256 need no check, as the store at the last of them ends here.
    256 + size_of::<u64>()
};
/// Output that is put together on the stack.
const OUTPUT: usize = 4 * ROOM;

const REPLACEMENT: &str = "\u{fffd}";
/// U+FFFD as a little-endian word.
const REPLACEMENT_WORD: u64 = 0xbd_bfef;

/// Appends `input` to `text`, U+FFFD for each maximal subpart of its errors. `error` is the first
/// one. An incomplete character at the end counts as an error.
pub(super) fn replace(input: &[u8], error: Utf8Error, text: &mut String) {
    let mut rest = input;
    let mut found = Err(error);
    let mut span = *SPAN.start();
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
        rest = sort(rest, span, text);
        found = simdutf8::compat::from_utf8(rest);
    }
}

/// Text that is valid unless this module is wrong.
fn validated(bytes: &[u8]) -> &str {
    simdutf8::basic::from_utf8(bytes).expect("sorted text is valid UTF-8")
}

/// Appends the text of `span` bytes, of up to a window more, or of all there are. Returns what is left.
fn sort<'a>(mut rest: &'a [u8], span: usize, text: &mut String) -> &'a [u8] {
    let mut output = [0; OUTPUT];
    let mut written = 0;
    let mut left = span.min(rest.len());
    while left > 0 {
        let mut padded = [0; WINDOW + LANE];
        let window = rest.first_chunk().unwrap_or_else(|| {
            // ASCII behind the end, which completes no character.
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let sorted = Sorted::new(window, rest.len().min(WINDOW));
        let room = output[written..].first_chunk_mut();
        written += sorted.write(window, room.expect("it was emptied when less was left"));
        rest = &rest[sorted.len..];
        left = left.saturating_sub(sorted.len);
        if written > OUTPUT - ROOM {
            text.push_str(validated(&output[..written]));
            written = 0;
        }
    }
    text.push_str(validated(&output[..written]));
    rest
}

/// What becomes of the bytes of a window. Bit `i` of a word is byte `i`.
struct Sorted {
    /// Bytes that are taken: of the window's first `len` all but a character that the window's end
    /// may have cut, and those are the next window's.
    len: usize,
    /// Bytes of whole characters.
    kept: u64,
    /// First bytes of maximal subparts. The other bytes of those are neither kept nor replaced.
    replaced: u64,
}

impl Sorted {
    /// Sorts the first `len` bytes, at least 1, which start with a character or an error. More
    /// behind them are looked at; by table 3-7 of the Unicode standard.
    fn new(window: &[u8; WINDOW + LANE], len: usize) -> Sorted {
        let from = |first| bits(window, |lane| lane.simd_ge(u8x16::splat(first)));
        let is = |wanted| bits(window, |lane| lane.simd_eq(u8x16::splat(wanted)));
        let (from_80, from_c0, from_c2) = (from(0x80), from(0xc0), from(0xc2));
        let (from_e0, from_f0, from_f5) = (from(0xe0), from(0xf0), from(0xf5));
        let continuing = from_80 & !from_c0;
        let of_two = from_c2 & !from_e0;
        let of_three = from_e0 & !from_f0;
        let of_four = from_f0 & !from_f5;
        let leading = of_two | of_three | of_four;

        // Four leading bytes are followed by a part of the continuing bytes only.
        let (from_90, from_a0) = (from(0x90), from(0xa0));
        let refused = ((is(0xe0) << 1) & !from_a0)
            | ((is(0xed) << 1) & from_a0)
            | ((is(0xf0) << 1) & !from_90)
            | ((is(0xf4) << 1) & from_90);
        // Bytes that go on with the character before them.
        let second = (leading << 1) & continuing & !refused;
        let third = ((of_three | of_four) << 2) & (second << 1) & continuing;
        let fourth = (of_four << 3) & (third << 1) & continuing;

        // Leading bytes of characters that are whole.
        let whole_two = of_two & (second >> 1);
        let whole_three = of_three & (third >> 2);
        let whole_four = of_four & (fourth >> 3);
        let whole = whole_two | whole_three | whole_four;
        let kept =
            !from_80 | whole | (whole << 1) | ((whole_three | whole_four) << 2) | (whole_four << 3);

        let stray = continuing & !(second | third | fourth);
        let never = (from_c0 & !from_c2) | from_f5;
        let replaced = stray | never | (leading & !whole);

        // A leading byte near the window's end whose character is right as far as it goes.
        let cut = (leading & (1 << 63))
            | ((of_three | of_four) & (second >> 1) & (1 << 62))
            | (of_four & (third >> 2) & (1 << 61));
        let len = len.min(cut.trailing_zeros() as usize);
        let taken = u64::MAX >> (WINDOW - len);
        Sorted {
            len,
            kept: kept & taken,
            replaced: replaced & taken,
        }
    }

    /// Writes what becomes of the bytes, and returns how many bytes that are. More behind those are
    /// overwritten.
    fn write(&self, window: &[u8; WINDOW + LANE], room: &mut [u8; ROOM]) -> usize {
        if self.kept.count_ones() + FEW >= self.len as u32 {
            self.write_runs(window, room)
        } else {
            self.write_pairs(window, room)
        }
    }

    /// Copies what lies between the bytes that aren't kept.
    fn write_runs(&self, window: &[u8; WINDOW + LANE], room: &mut [u8; ROOM]) -> usize {
        let mut others = !self.kept;
        let mut from = 0;
        let mut written = 0;
        loop {
            let to = (others.trailing_zeros() as usize).min(self.len);
            let mut copied = 0;
            // One lane always: most gaps are shorter, and a test for none would be mispredicted.
            loop {
                let lane = &window[from + copied..from + copied + LANE];
                room[written + copied..written + copied + LANE].copy_from_slice(lane);
                copied += LANE;
                if copied >= to - from {
                    break;
                }
            }
            written += to - from;
            if to == self.len {
                return written;
            }
            if (self.replaced >> to) & 1 == 1 {
                room[written..written + REPLACEMENT.len()].copy_from_slice(REPLACEMENT.as_bytes());
                written += REPLACEMENT.len();
            }
            from = to + 1;
            others &= others - 1;
        }
    }

    /// Writes two bytes' output at a time.
    fn write_pairs(&self, window: &[u8; WINDOW + LANE], room: &mut [u8; ROOM]) -> usize {
        let (mut kept, mut replaced) = (self.kept, self.replaced);
        let mut written = 0;
        for &bytes in window[..WINDOW].as_chunks::<2>().0 {
            let pair = &PAIRS[((kept & 3) | ((replaced & 3) << 2)) as usize];
            kept >>= 2;
            replaced >>= 2;
            let bytes = u64::from(u16::from_le_bytes(bytes)) & pair.mask;
            let word = (bytes * pair.factor + pair.replacements) >> 8;
            // No more than 3 * WINDOW, which the compiler can't know.
            let at = usize::from(written as u8);
            room[at..at + size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
            written += pair.len;
        }
        written
    }
}

/// Output of two bytes, made without a branch on which of them are kept.
struct Pair {
    /// Picks those that are.
    mask: u64,
    /// Moves them one byte beyond their places in the output; so the second can move to the front.
    factor: u64,
    /// U+FFFD where it belongs, moved likewise.
    replacements: u64,
    /// Bytes of output.
    len: usize,
}

/// By the bits: 0 and 1, which are kept; 2 and 3, which are replaced.
static PAIRS: [Pair; 16] = {
    const NOTHING: Pair = Pair {
        mask: 0,
        factor: 0,
        replacements: 0,
        len: 0,
    };
    let mut pairs = [NOTHING; 16];
    let mut bits = 0;
    while bits < pairs.len() {
        let kept = [bits & 1, (bits >> 1) & 1];
        let replaced = [(bits >> 2) & 1, (bits >> 3) & 1];
        // No byte is both, which leaves the other rows unused.
        let first_len = if kept[0] == 1 { 1 } else { 3 * replaced[0] };
        let second_len = if kept[1] == 1 { 1 } else { 3 * replaced[1] };
        let first = REPLACEMENT_WORD * replaced[0] as u64;
        let second = REPLACEMENT_WORD * replaced[1] as u64;
        pairs[bits] = Pair {
            mask: (0xff * kept[0] + 0xff00 * kept[1]) as u64,
            // The second byte is one beyond the first as it is.
            factor: 1 << (8 * if kept[1] == 1 { first_len } else { 1 }),
            replacements: (first | (second << (8 * first_len))) << 8,
            len: first_len + second_len,
        };
        bits += 1;
    }
    pairs
};

/// One bit for each byte of the window proper: whether the test holds, which answers with all bits of a byte or none.
fn bits(window: &[u8; WINDOW + LANE], test: impl Fn(u8x16) -> u8x16) -> u64 {
    let mut word = 0;
    for (index, &lane) in window[..WINDOW].as_chunks::<LANE>().0.iter().enumerate() {
        word |= u64::from(test(u8x16::from(lane)).to_bitmask()) << (LANE * index);
    }
    word
}
