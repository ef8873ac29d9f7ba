//! The end of a session's text as a terminal would show it, in one piece.

use tokio::task::yield_now;

use super::{Handle, readings::fill_plain};
use crate::{
    arena::{CursorError, Page, PageLimits, Unit},
    config::limits::{MAX_PAGE_BYTES, MAX_PAGE_RECORDS},
    supervisor::{reach::Text, refusal::Refusal},
    view::{
        excerpt::start,
        plain::{Plain, PlainLimits},
    },
};

impl Handle {
    /// The plain view of the last `bytes` of the session's text, and no more than so many bytes of it: its start is cut off, after
    /// a line feed if there is one. Both streams are in it, line by line, as in a plain page.
    ///
    /// # Cancel safety
    /// Reading consumes nothing; dropping the future changes nothing.
    pub async fn tail_plain(&self, session_id: &str, bytes: usize) -> Result<String, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let mut text = Text::of(&session);
        let mut page = Page::default();
        // What comes from now on isn't waited for: it may come faster than it can be shown.
        let end = text.now().next;
        let mut from = tail_start(&mut text, end, bytes, &mut page).await;
        let mut shown = String::new();
        loop {
            let limits = PlainLimits {
                bytes: MAX_PAGE_BYTES,
                records: MAX_PAGE_RECORDS,
            };
            let mut plain = Plain::new(from, limits);
            match fill_plain(&mut text, &mut plain, &mut page).await {
                Ok(()) => from = plain.next_cursor,
                // Evicted meanwhile.
                Err(CursorError::Expired { base, .. } | CursorError::Invalid { base, .. }) => {
                    from = base;
                    continue;
                }
            }
            shown.push_str(&plain.text);
            keep_end(&mut shown, bytes);
            if from >= end {
                return Ok(shown);
            }
        }
    }
}

/// Where the last `bytes` before `end` start, or what is readable of them.
async fn tail_start(text: &mut Text, end: u64, bytes: usize, page: &mut Page) -> u64 {
    let (mut from, mut left) = (end, bytes);
    // Less than a code point may have no room.
    while left >= 4 {
        let limits = PageLimits {
            bytes: left.min(MAX_PAGE_BYTES),
            records: MAX_PAGE_RECORDS,
            unit: Unit::Runs,
        };
        let before = text.page_back(Some(from), 0, limits, page).await;
        if before.is_err() || page.text.is_empty() {
            break;
        }
        left -= page.text.len();
        from = start(page);
        yield_now().await;
    }
    from
}

/// Cuts the start off what is longer than `bytes`, after a line feed if there is one with something behind it.
fn keep_end(shown: &mut String, bytes: usize) {
    if shown.len() <= bytes {
        return;
    }
    let over = shown.len() - bytes;
    let boundary = (over..)
        .find(|at| shown.is_char_boundary(*at))
        .expect("the end is one");
    let line = memchr::memchr(b'\n', &shown.as_bytes()[boundary - 1..]);
    let after = line.map_or(boundary, |at| boundary + at);
    let cut = if after < shown.len() { after } else { boundary };
    shown.drain(..cut);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_from_the_start_of_a_line_on() {
        for (text, bytes, kept) in [
            ("one\ntwo\n", 8, "one\ntwo\n"),
            ("one\ntwo\n", 7, "two\n"),
            ("one\ntwo\n", 4, "two\n"),
            ("one\ntwo\n", 3, "wo\n"),
            ("one\ntwo", 4, "two"),
            ("no line feed", 4, "feed"),
            ("äöü", 3, "ü"),
            ("äöü", 4, "öü"),
        ] {
            let mut shown = text.to_owned();
            keep_end(&mut shown, bytes);
            assert_eq!(shown, kept, "{bytes} bytes of {text:?}");
        }
    }
}
