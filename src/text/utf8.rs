//! The incremental UTF-8 decoder of one stream.
//!
//! Invalid bytes become U+FFFD as CPython's incremental decoder with `errors="replace"` and the
//! WHATWG standard have it: one for each maximal subpart, that is, for the longest start of a
//! character that is there, or for the one byte that starts none. The result depends on the bytes
//! alone, never on how they were cut into reads: up to three bytes at the end of an input that may
//! yet become a character are carried to the next one.
//!
//! Valid input is recognised in one SIMD pass and handed back as a range of itself, so that a
//! caller may keep the buffer and copy nothing. Input with errors is the `replace` module's, which
//! writes into a [`Scratch`] made beforehand. Neither path allocates.

use super::replace;

/// The decoder's memory between inputs: the start of a character, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// `carried[..len]` is empty or a proper prefix of a well-formed character.
    carried: [u8; 3],
    len: usize,
}

/// Where replaced text is put together. One serves all decoders of a thread, in turn.
#[derive(Debug)]
pub struct Scratch {
    text: String,
    largest_input: usize,
}

/// The text of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The character that the carried bytes became, or U+FFFD for them; it comes before `body`.
    /// One is enough: carried bytes are a prefix of one character, so they are completed, replaced
    /// as one maximal subpart, or carried on.
    pub head: Option<char>,
    /// All other text of the input.
    pub body: Body<'a>,
}

/// Text that an input holds, or that was made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// `input[start..end]`, valid as it stands. May be empty.
    Clean {
        /// Offset of the first byte in the input.
        start: usize,
        /// Offset after the last byte in the input.
        end: usize,
        /// The range as text.
        text: &'a str,
    },
    /// Text with replacements; lies in the scratch. Never empty.
    Replaced(&'a str),
}

impl Body<'_> {
    /// The text, wherever it lies.
    pub fn text(&self) -> &str {
        match self {
            Body::Clean { text, .. } | Body::Replaced(text) => text,
        }
    }
}

impl Scratch {
    /// Room for inputs of up to `largest_input` bytes: each byte may become the three of U+FFFD.
    pub fn new(largest_input: usize) -> Scratch {
        Scratch {
            text: String::with_capacity(3 * largest_input),
            largest_input,
        }
    }
}

impl Decoder {
    /// A decoder at the start of its stream.
    pub const fn new() -> Decoder {
        Decoder {
            carried: [0; 3],
            len: 0,
        }
    }

    /// Decodes the next bytes of the stream.
    ///
    /// # Panics
    /// When `input` is longer than what `scratch` was made for.
    pub fn decode<'a>(&mut self, input: &'a [u8], scratch: &'a mut Scratch) -> Decoded<'a> {
        assert!(
            input.len() <= scratch.largest_input,
            "an input of {} bytes exceeds the scratch, made for {}",
            input.len(),
            scratch.largest_input
        );
        let (head, start) = self.resume(input);
        let end = input.len() - incomplete_suffix(&input[start..]);
        let body = match simdutf8::compat::from_utf8(&input[start..end]) {
            Ok(text) => Body::Clean { start, end, text },
            Err(error) => {
                scratch.text.clear();
                replace::replace(&input[start..end], error, &mut scratch.text);
                Body::Replaced(&scratch.text)
            }
        };
        // Bytes that are still carried have eaten the whole input, and then `end` is its end.
        if end < input.len() {
            self.len = input.len() - end;
            self.carried[..self.len].copy_from_slice(&input[end..]);
        }
        Decoded { head, body }
    }

    /// Ends the stream: bytes that are still carried become one U+FFFD. The decoder is then as new.
    pub fn finish(&mut self) -> Option<char> {
        let carried = std::mem::take(&mut self.len);
        (carried > 0).then_some(char::REPLACEMENT_CHARACTER)
    }

    /// Feeds `input` to the carried bytes until their fate is known. Returns what they became and
    /// how many bytes of the input that took.
    fn resume(&mut self, input: &[u8]) -> (Option<char>, usize) {
        let mut taken = 0;
        while self.len > 0 {
            let Some(&byte) = input.get(taken) else {
                break;
            };
            let mut candidate = [0; 4];
            candidate[..self.len].copy_from_slice(&self.carried[..self.len]);
            candidate[self.len] = byte;
            match std::str::from_utf8(&candidate[..=self.len]) {
                Ok(text) => {
                    self.len = 0;
                    return (text.chars().next(), taken + 1);
                }
                Err(error) if error.error_len().is_none() => {
                    self.carried[self.len] = byte;
                    self.len += 1;
                    taken += 1;
                }
                // The byte doesn't continue the character: it is looked at again, as the body's.
                Err(_) => {
                    self.len = 0;
                    return (Some(char::REPLACEMENT_CHARACTER), taken);
                }
            }
        }
        (None, taken)
    }
}

/// How many bytes at the end of `bytes` are the start of a character whose rest may yet come.
fn incomplete_suffix(bytes: &[u8]) -> usize {
    for len in 1..=bytes.len().min(3) {
        let suffix = &bytes[bytes.len() - len..];
        match suffix[0] {
            0x80..=0xbf => continue,
            0x00..=0x7f => return 0,
            0xc0..=0xff => {
                return match std::str::from_utf8(suffix) {
                    Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => len,
                    _ => 0,
                };
            }
        }
    }
    0
}

#[cfg(test)]
mod tests;
