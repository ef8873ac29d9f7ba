//! A session's output as a stream: each read takes what came since the one before.

use crate::{
    config::Truncation,
    supervisor::{handle::Handle, refusal::Refusal},
    text::{floor, strip::Strip},
};

use super::truncate::truncate;

/// Text that is taken at once, in bytes.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// How far the stream was read.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) cursor: u64,
    /// A sequence may be cut by the end of a read.
    strip: Strip,
    /// Commands that had ended by the last read.
    pub(super) finished: u64,
}

/// How output is returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) strip_ansi: bool,
    pub(super) truncation: Truncation,
    /// Bytes of one answer.
    pub(super) max_output_bytes: usize,
    /// Bytes that are kept between two reads.
    pub(super) max_buffer_bytes: usize,
}

/// What a read has taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) output: String,
    /// As they came.
    pub(super) bytes: usize,
    /// Something is missing.
    pub(super) truncated: bool,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            cursor: 0,
            strip: Strip::without_left_screens(),
            finished: 0,
        }
    }
}

impl Stream {
    /// Reads on there.
    pub(super) fn skip_to(&mut self, cursor: u64) {
        self.cursor = cursor;
    }

    /// Takes what there is up to `end`, or up to where it ends now.
    ///
    /// # Errors
    /// There is no such session.
    pub(super) fn take(
        &mut self,
        handle: &Handle,
        id: &str,
        end: Option<u64>,
        form: Form,
    ) -> Result<Taken, Refusal> {
        // What comes while this is taken is left for the next read.
        let end = match end {
            Some(end) => end,
            None => handle.status(id)?.next_cursor,
        };
        let mut taken = Taken::default();
        while self.cursor < end {
            let piece = match handle.text(id, self.cursor, PIECE_BYTES) {
                Ok(piece) => piece,
                Err(Refusal::CursorExpired { base, .. }) => {
                    self.cursor = base;
                    self.strip = Strip::without_left_screens();
                    taken.truncated = true;
                    continue;
                }
                Err(other) => return Err(other),
            };
            let (text, _) = split_chars(&piece.text, end - self.cursor);
            self.cursor = piece.next_cursor.min(end);
            taken.bytes += text.len();
            if form.strip_ansi {
                self.strip.take(text, &mut taken.output);
            } else {
                self.strip.take(text, &mut String::new());
                taken.output.push_str(text);
            }
            if taken.output.len() > 2 * form.max_buffer_bytes {
                taken.keep_end(form.max_buffer_bytes);
            }
        }
        taken.keep_end(form.max_buffer_bytes);
        Ok(taken.cut(form))
    }
}

impl Taken {
    fn keep_end(&mut self, bytes: usize) {
        if self.output.len() > bytes {
            let mut cut = self.output.len() - bytes;
            while !self.output.is_char_boundary(cut) {
                cut += 1;
            }
            self.output.drain(..cut);
            self.truncated = true;
        }
    }

    /// Cut to what an answer may hold.
    pub(super) fn cut(mut self, form: Form) -> Taken {
        let (cut, missing) = truncate(&self.output, form.max_output_bytes, form.truncation);
        if missing {
            self.output = cut.into_owned();
            self.truncated = true;
        }
        self
    }
}

/// Splits a text after so many of its characters, or at its end.
pub(super) fn split_chars(text: &str, count: u64) -> (&str, &str) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count >= text.len() {
        return (text, "");
    }
    let at = text
        .char_indices()
        .nth(count)
        .map_or(text.len(), |(at, _)| at);
    text.split_at(floor(text, at))
}
