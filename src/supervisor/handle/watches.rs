//! Patterns that are waited for in text that the caller makes of a session's. They are matched where all patterns are, so that
//! a slow one holds up nothing else.

use std::ops::ControlFlow;

use super::Handle;
use crate::{
    supervisor::{
        refusal::Refusal,
        search::{self, Purpose},
    },
    text::across::Across,
};

/// Text is matched in pieces of so many bytes, and other searches have their turn between two.
const PIECE_BYTES: usize = 16 * 1024;

/// A pattern on its way through a text, and its place among the searches.
#[derive(Debug)]
pub struct TextWatch {
    across: Across,
    /// Not yet matched, from `at` on.
    text: String,
    at: usize,
    is_all: bool,
    _place: search::Place,
}

impl TextWatch {
    fn step(&mut self) -> ControlFlow<bool> {
        let to = crate::text::floor(&self.text, self.at + PIECE_BYTES);
        let is_last = to == self.text.len();
        let piece = &self.text[self.at..to];
        self.at = to;
        match self.across.take(piece, is_last && self.is_all) {
            true => ControlFlow::Break(true),
            false if is_last => ControlFlow::Break(false),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Handle {
    /// Compiles a pattern for a text that begins with the first [`Handle::see`], and takes a place among the waits.
    ///
    /// # Errors
    /// The pattern is none, or as many calls wait for one as may.
    ///
    /// # Cancel safety
    /// Dropping the future gives the place back.
    pub async fn watch(&self, pattern: String) -> Result<TextWatch, Refusal> {
        let search = self.prepare(Purpose::Watch, pattern, false).await?;
        Ok(TextWatch {
            across: Across::new(search.pattern),
            text: String::new(),
            at: 0,
            is_all: false,
            _place: search.place,
        })
    }

    /// Gives the watch the next text; `is_all` says that there is no more for now. Tells whether the pattern has matched.
    ///
    /// # Cancel safety
    /// Dropped, the watch ends with its turn.
    pub async fn see(
        &self,
        mut watch: TextWatch,
        text: String,
        is_all: bool,
    ) -> Result<(TextWatch, bool), Refusal> {
        (watch.text, watch.at, watch.is_all) = (text, 0, is_all);
        loop {
            let (back, seen) = self.shared.searches.turn(watch, TextWatch::step).await?;
            watch = back;
            if let Some(matched) = seen {
                return Ok((watch, matched));
            }
        }
    }
}
