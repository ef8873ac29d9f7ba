//! One stream's lines on their way through a search.

use std::{collections::VecDeque, ops::Range};

use super::{
    FindLimits,
    line::{FoundLine, clip, context_line, offset_of, shown_around},
};
use crate::{
    arena::Stream,
    text::{code_points, pattern::Pattern, spliced::Spliced},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    /// Where its lines of interest start: those around the first that may be found.
    pub(super) begin: u64,
    /// The search's cursor cuts its line.
    pub(super) is_cut: bool,
    /// Lines that had been scanned when the last text was taken.
    pub(super) scanned: u64,
    stream: Stream,
    /// The search's cursor. Before it there are only starts of lines, and lines around others.
    from: u64,
    /// Text whose lines weren't searched yet; the last one may be unfinished.
    text: Spliced,
    /// Where in the text a match may start at the earliest.
    open: usize,
    /// Cursor of the first line, when its start isn't in the text any more.
    headless: Option<u64>,
    /// A giant line that was found before its end came. No more of it is kept.
    giant: Option<FoundLine>,
    /// The giant line, when its end has come.
    ended: Option<FoundLine>,
    /// The last lines before the text, as they are shown around others.
    history: VecDeque<String>,
}

impl Lane {
    pub(super) fn new(stream: Stream, from: u64) -> Lane {
        Lane {
            begin: from,
            is_cut: false,
            scanned: 0,
            stream,
            from,
            text: Spliced::default(),
            open: 0,
            headless: None,
            giant: None,
            ended: None,
            history: VecDeque::new(),
        }
    }

    /// Takes the next text.
    pub(super) fn take(&mut self, cursor: u64, text: &str) {
        let text = &text[offset_of(text, self.begin.saturating_sub(cursor))..];
        let cursor = cursor.max(self.begin);
        let (before, behind) = text.split_at(offset_of(text, self.from.saturating_sub(cursor)));
        if !before.is_empty() {
            self.push(cursor, before);
            let text = self.text.text();
            self.open = if self.is_cut {
                text.len()
            } else {
                memchr::memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1)
            };
        }
        self.push(cursor.max(self.from), behind);
    }

    fn push(&mut self, cursor: u64, text: &str) {
        let (mut cursor, mut text) = (cursor, text);
        if let Some(mut giant) = self.giant.take() {
            let line_feed = memchr::memchr(b'\n', text.as_bytes());
            let taken = line_feed.map_or(text.len(), |at| at + 1);
            if taken > 0 {
                giant.end = cursor + code_points(&text[..taken]) as u64;
            }
            cursor += code_points(&text[..taken]) as u64;
            text = &text[taken..];
            *(if line_feed.is_some() {
                &mut self.ended
            } else {
                &mut self.giant
            }) = Some(giant);
        }
        self.text.push(cursor, text);
    }

    /// Breaks the unfinished line: what comes next doesn't continue it.
    pub(super) fn forget(&mut self) {
        *self = Lane {
            begin: 0,
            ..Lane::new(self.stream, self.from)
        };
    }

    /// Whether a line is unfinished that has a code point at the search's cursor or later.
    pub(super) fn is_open(&self) -> bool {
        let text = self.text.text();
        self.giant.is_some() || !text.is_empty() && self.text.cursor_after(text.len()) > self.from
    }

    /// Whether a line is open that, if no more of it comes, ends before `end`.
    pub(super) fn may_end_before(&self, end: u64) -> bool {
        let text = self.text.text();
        match &self.giant {
            Some(giant) => giant.end < end,
            None => self.is_open() && self.text.cursor_after(text.len()) < end,
        }
    }

    /// Gives `line`, which came before the text, the lines after it.
    pub(super) fn continue_after(&self, line: &mut FoundLine, at_the_end: bool, context: usize) {
        let missing = context - line.after.len();
        let giant = self.ended.iter();
        let giant = giant.chain(self.giant.iter().filter(|_| at_the_end));
        let giant = giant.map(|giant| context_line(&giant.text));
        let lines = self.text.text()[..self.searchable(at_the_end)].split_inclusive('\n');
        let lines = lines.zip(0..).map(|(line, nth)| self.shown(line, nth == 0));
        line.after.extend(giant.chain(lines).take(missing));
    }

    /// Searches the finished lines and drops them; at the end of the search also the unfinished one. Adds no more than
    /// `wanted` to `found`, and none without a pattern.
    pub(super) fn search(
        &mut self,
        pattern: Option<&Pattern>,
        limits: FindLimits,
        at_the_end: bool,
        wanted: usize,
        found: &mut Vec<FoundLine>,
    ) {
        let most = found.len() + wanted;
        if at_the_end {
            self.ended = self.giant.take();
        }
        let end = self.searchable(at_the_end);
        if let Some(mut giant) = self.ended.take() {
            self.remember(context_line(&giant.text), limits.context);
            if pattern.is_some() && wanted > 0 {
                giant.after = self.after(0, end, limits.context);
                found.push(giant);
            }
        }
        let is_covered = !at_the_end || self.is_open();
        if let Some(pattern) = pattern.filter(|_| is_covered) {
            let mut at = self.open;
            while at < end && found.len() < most {
                let Some(line) = self.next_line(pattern, limits, at..end) else {
                    break;
                };
                let (line, line_end) = line;
                found.push(line);
                at = line_end + 1;
            }
        }
        if !at_the_end {
            self.drop_finished(end, limits.context);
            self.shorten(pattern, limits);
        }
    }

    /// End of the text that can be searched: that of the finished lines, and in the end of all.
    fn searchable(&self, at_the_end: bool) -> usize {
        let text = self.text.text();
        if at_the_end {
            return text.len();
        }
        memchr::memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1)
    }

    /// The first line with a match in this range, which ends with a line or with the text, and the offset of the line's end.
    fn next_line(
        &self,
        pattern: &Pattern,
        limits: FindLimits,
        range: Range<usize>,
    ) -> Option<(FoundLine, usize)> {
        let text = self.text.text();
        let end = range.end;
        let unfinished = !text[..end].ends_with('\n');
        let found = pattern.find(text, range)?;
        // At the end of a finished line the next one starts, which isn't there yet.
        if found.start == end && !unfinished {
            return None;
        }
        let bytes = text.as_bytes();
        let start = memchr::memrchr(b'\n', &bytes[..found.start]).map_or(0, |at| at + 1);
        let line_feed = memchr::memchr(b'\n', &bytes[found.end..end]).map(|at| found.end + at);
        let line_end = line_feed.unwrap_or(end);
        let headless = self.headless.filter(|_| start == 0);
        let most = limits.line_bytes();
        let in_line = found.start - start..found.end - start;
        let (shown, shown_clipped) = shown_around(&text[start..line_end], in_line, most);
        let (matched, match_clipped) = clip(&text[found.clone()], most);
        let line = FoundLine {
            cursor: headless.unwrap_or_else(|| self.text.cursor_at(start)),
            stream: self.stream,
            text: shown,
            clipped: shown_clipped || match_clipped || headless.is_some(),
            match_cursor: self.text.cursor_at(found.start),
            matched,
            before: self.before(start, limits.context),
            after: self.after(line_end + 1, end, limits.context),
            end: match line_feed {
                Some(at) => self.text.cursor_at(at) + 1,
                None => self.text.cursor_after(end),
            },
            scanned: 0,
        };
        Some((line, line_end))
    }

    fn drop_finished(&mut self, end: usize, context: usize) {
        if end == 0 {
            return;
        }
        if context > 0 {
            self.history = self.before(end, context).into();
        }
        self.text.drop_front(end);
        self.open = self.open.saturating_sub(end);
        self.headless = None;
    }

    /// Bounds the unfinished line. A match that starts in what would be dropped is taken as it stands.
    fn shorten(&mut self, pattern: Option<&Pattern>, limits: FindLimits) {
        let cut = self.text.excess();
        if cut == 0 {
            return;
        }
        let text = self.text.text();
        let found = pattern.and_then(|pattern| pattern.find(text, self.open..text.len()));
        if let (Some(range), Some(pattern)) = (found, pattern)
            && range.start < cut
        {
            let line = self.next_line(pattern, limits, self.open..text.len());
            self.giant = line.map(|(line, _)| FoundLine {
                clipped: true,
                ..line
            });
            self.text.clear();
            self.open = 0;
            self.headless = None;
            return;
        }
        self.headless.get_or_insert(self.text.cursor_at(0));
        self.text.drop_front(cut);
        // A character stays before the place where a match may start, since the line doesn't start there.
        let first = self.text.text().chars().next();
        self.open = self
            .open
            .saturating_sub(cut)
            .max(first.map_or(0, char::len_utf8));
    }

    /// The last lines before the one that starts at `start`.
    fn before(&self, start: usize, context: usize) -> Vec<String> {
        let text = self.text.text();
        let mut lines = VecDeque::new();
        let mut end = start;
        while end > 0 && lines.len() < context {
            let before = &text.as_bytes()[..end - 1];
            let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
            lines.push_front(self.shown(&text[line_start..end], line_start == 0));
            end = line_start;
        }
        let missing = context - lines.len();
        let earlier = self.history.iter().rev().take(missing).cloned();
        earlier.for_each(|line| lines.push_front(line));
        lines.into()
    }

    /// The lines between two offsets.
    fn after(&self, start: usize, end: usize, context: usize) -> Vec<String> {
        let text = self.text.text()[..end].get(start..).unwrap_or_default();
        let lines = text.split_inclusive('\n').take(context);
        lines.map(context_line).collect()
    }

    fn remember(&mut self, line: String, context: usize) {
        self.history.push_back(line);
        let gone = self.history.len().saturating_sub(context);
        self.history.drain(..gone);
    }

    /// A line around another.
    fn shown(&self, line: &str, is_first: bool) -> String {
        let mut shown = context_line(line);
        if is_first && self.headless.is_some() {
            shown.insert(0, super::line::CLIP);
        }
        shown
    }
}
