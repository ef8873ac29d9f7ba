//! The text of one session, oldest first, within a budget.
//!
//! The log is a queue of extents, a block of text each. Small pieces of text are copied behind those
//! before; a well-filled read block is adopted as it is. After each addition the oldest whole code
//! points go, exactly as many as the budget asks for. A cursor is the absolute number of a code
//! point, both streams counted together.
//!
//! Adding, evicting and paging allocate nothing once the page's buffers have grown; the log is made
//! with room for the most extents that its budget can need, [`max_blocks`]. The log doesn't lock:
//! its owner does, and what is done under that lock is one copy of what goes in or out, and counts
//! of no more than an extent or two. A page that starts deep in a block of many short runs walks
//! over the directory entries before it.
//!
//! A log may be told to [keep what leaves](RecordLog::keep_leaving) the budget until a file has it. That text is then
//! packed into blocks of its own, which are pages' text like any other, and handed over block by block.
//!
//! L1: `retained` is the sum of the extents' bytes and at most `budget.bytes`.
//! L2: extents follow each other without a gap, and the last one ends at `next`.
//! L3: `next - base` is at most `budget.records`.

use std::collections::VecDeque;

use super::code_points::{ceil, count, floor};
use super::extent::{Extent, Reach};
use super::leaving::Leaving;
use super::slab::{BLOCK_BYTES, Block, Slab};
use super::slot::Slot;
use super::survey::Survey;
use super::{Budget, CursorError, LineStart, Page, PageLimits, Stream};

mod handover;

/// Text in a read block from which on adopting it is better than copying: less would waste memory,
/// and pin it.
pub const ADOPT_BYTES: usize = 48 * 1024;

/// Least text in a block to which no more could be appended. Text and directory left at most 5
/// bytes free, too few for an entry and a code point of four. With `t` bytes of text there are at
/// most `t - 1` entries of two bytes, so `t + 2(t - 1) >= BLOCK_BYTES - 5`.
const FULL_BYTES: usize = (BLOCK_BYTES - 3).div_ceil(3);

/// Most blocks that the log of a session with `budget_bytes` holds at once.
///
/// The oldest extent may be nearly evicted, the newest nearly empty, and while a block is being
/// adopted the one before it, too. Any other was left behind full, with at least `FULL_BYTES`, or
/// left behind for an adopted one; then the two have at least `2 * FULL_BYTES` between them.
pub const fn max_blocks(budget_bytes: usize) -> usize {
    const { assert!(ADOPT_BYTES >= 2 * FULL_BYTES) };
    3 + budget_bytes / FULL_BYTES
}

/// The retained text of one session.
#[derive(Debug)]
pub struct RecordLog {
    slab: Slab,
    budget: Budget,
    extents: VecDeque<Extent>,
    /// Retained bytes of text.
    retained: usize,
    /// Cursor after the newest code point.
    next: u64,
    sealed: bool,
    survey: Option<Survey>,
    /// Text over the budget, when a file is to have it.
    leaving: Option<Leaving>,
}

impl RecordLog {
    /// An empty log. It holds at most [`max_blocks`] of the slab's blocks.
    ///
    /// # Panics
    /// When the budget is too small for a code point.
    pub fn new(slab: Slab, budget: Budget) -> RecordLog {
        assert!(
            budget.bytes >= 4 && budget.records != Some(0),
            "{budget:?} has no room for a code point"
        );
        RecordLog {
            slab,
            budget,
            extents: VecDeque::with_capacity(max_blocks(budget.bytes)),
            retained: 0,
            next: 0,
            sealed: false,
            survey: None,
            leaving: None,
        }
    }

    /// Keeps the first text within `head` and counts what else is added, until [`RecordLog::end_survey`]. To be called
    /// before anything is added.
    pub fn begin_survey(&mut self, head: PageLimits) {
        self.survey = Some(Survey::new(head));
    }

    /// What was added since the survey began. Further calls return nothing.
    pub fn end_survey(&mut self) -> Option<Survey> {
        self.survey.take()
    }

    /// Cursor of the oldest code point in memory; [`RecordLog::next_cursor`] when there is none.
    pub fn base_cursor(&self) -> u64 {
        let leaving = self
            .leaving
            .as_ref()
            .and_then(|leaving| leaving.extents.front());
        leaving.map_or_else(|| self.retained_from(), Extent::base)
    }

    /// Cursor of the oldest code point within the budget.
    fn retained_from(&self) -> u64 {
        self.extents.front().map_or(self.next, Extent::base)
    }

    /// Cursor after the newest code point.
    pub fn next_cursor(&self) -> u64 {
        self.next
    }

    /// UTF-8 bytes of retained text.
    #[cfg(test)]
    pub(super) fn retained_bytes(&self) -> usize {
        self.retained
    }

    /// Whether anything was evicted.
    pub fn truncated(&self) -> bool {
        self.base_cursor() > 0
    }

    /// Whether `len` bytes of text in a block of their own are better adopted than appended.
    pub fn wants(&self, len: usize) -> bool {
        (ADOPT_BYTES..=self.budget.bytes).contains(&len)
    }

    /// Adds a copy of `text`, which has `code_points` code points, and evicts.
    ///
    /// # Panics
    /// When the log is sealed.
    pub fn append(&mut self, stream: Stream, text: &str, code_points: usize) {
        self.append_bytes(stream, text.as_bytes(), code_points);
    }

    /// Adds `block[start..end]`, UTF-8 text of `code_points` code points, and evicts. Keeps the
    /// block when the log [wants](RecordLog::wants) it; else copies the text and frees the block.
    ///
    /// # Panics
    /// When the log is sealed or the range isn't one of the block.
    pub fn adopt(
        &mut self,
        stream: Stream,
        block: Block,
        start: usize,
        end: usize,
        code_points: usize,
    ) {
        let text = &block.bytes()[start..end];
        if !self.wants(text.len()) {
            self.append_bytes(stream, text, code_points);
            return;
        }
        self.assert_open(text, code_points);
        if let Some(survey) = &mut self.survey {
            survey.add(stream, text, self.next);
        }
        let extent = Extent::adopted(block, stream, start, end, self.next, code_points);
        self.retained += extent.len();
        self.next = extent.next();
        self.extents.push_back(extent);
        self.evict();
    }

    /// Ends the log: no more text may be added. Extents that fill less than half of their block are
    /// moved to exact heap copies, so that a session which wrote little costs little while it is
    /// retained. Sealing again changes nothing.
    pub fn seal(&mut self) {
        self.sealed = true;
        for extent in &mut self.extents {
            extent.shrink();
        }
        if let Some(last) = self
            .leaving
            .as_mut()
            .and_then(|leaving| leaving.extents.back_mut())
        {
            last.shrink();
        }
    }

    /// Copies text from `cursor` on into `out`, in whole code points and as far as `limits` allow;
    /// at least one when there is one. At [`RecordLog::next_cursor`] the page is empty.
    ///
    /// # Errors
    /// When the text at `cursor` was evicted or doesn't exist yet; `out` is then unchanged.
    pub fn page(&self, cursor: u64, limits: PageLimits, out: &mut Page) -> Result<(), CursorError> {
        self.page_behind(&[], cursor, limits, out)
    }

    /// [`RecordLog::page`] of a log that has the text of `slots` before its own, as far as they follow each other up to it.
    /// From slots that don't reach the log's text a page still comes when it starts in one; it ends with the last of them.
    ///
    /// # Errors
    /// As [`RecordLog::page`].
    pub fn page_behind(
        &self,
        slots: &[Slot],
        cursor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<(), CursorError> {
        let (base, next) = (self.base_behind(slots, cursor), self.next);
        if cursor < base {
            return Err(CursorError::Expired { base, next });
        }
        if cursor > next {
            return Err(CursorError::Invalid { base, next });
        }
        debug_assert!(limits.bytes >= 4 && limits.records > 0, "{limits:?}");
        self.copy(slots, cursor, limits, out);
        Ok(())
    }

    /// Copies the text before `end` into `out`, in whole code points, back to `floor` or to the oldest retained code point,
    /// or as far as `limits` allow; at least one when there is one. The page's `next_cursor` is `end`.
    ///
    /// # Errors
    /// When `end` lies before the oldest retained code point or beyond the newest; `out` is then unchanged.
    pub fn page_back(
        &self,
        end: u64,
        floor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<(), CursorError> {
        self.page_back_behind(&[], end, floor, limits, out)
    }

    /// [`RecordLog::page_back`] as [`RecordLog::page_behind`] is to [`RecordLog::page`].
    ///
    /// # Errors
    /// As [`RecordLog::page_back`].
    pub fn page_back_behind(
        &self,
        slots: &[Slot],
        end: u64,
        floor: u64,
        limits: PageLimits,
        out: &mut Page,
    ) -> Result<(), CursorError> {
        // The code point before `end` is the first one wanted.
        let last = end.saturating_sub(1);
        let (base, next) = (self.base_behind(slots, last), self.next);
        if end < base {
            return Err(CursorError::Expired { base, next });
        }
        if end > next {
            return Err(CursorError::Invalid { base, next });
        }
        debug_assert!(limits.bytes >= 4 && limits.records > 0, "{limits:?}");
        let floor = floor.max(base);
        let mut reach = Reach {
            bytes: limits.bytes,
            records: limits.records,
            unit: limits.unit,
            stream: None,
        };
        let mut start = end;
        let behind = self.extents.partition_point(|extent| extent.base() < end);
        let within = self.extents.range(..behind).rev();
        let older = self
            .older(slots, last)
            .rev()
            .filter(|extent| extent.base() < end);
        for extent in within.chain(older) {
            if start <= floor {
                break;
            }
            let (reached, may_go_on) = extent.start_of(end, floor, &mut reach);
            start = reached;
            if !may_go_on {
                break;
            }
        }
        // Exactly the bytes from there to `end`.
        let bytes = limits.bytes - reach.bytes;
        self.copy(slots, start, PageLimits { bytes, ..limits }, out);
        debug_assert_eq!(out.next_cursor, end, "the page ends where it was asked to");
        Ok(())
    }

    /// The slots that a reading at `cursor` can use: those that reach the log's text, or those that hold the cursor.
    fn usable<'s>(&self, slots: &'s [Slot], cursor: u64) -> &'s [Slot] {
        let end = slots.last().map_or(0, Slot::next);
        if end == self.base_cursor() || cursor < end {
            slots
        } else {
            &[]
        }
    }

    /// Oldest cursor that a reading at `cursor` reaches.
    fn base_behind(&self, slots: &[Slot], cursor: u64) -> u64 {
        let first = self.usable(slots, cursor).first();
        first.map_or_else(|| self.base_cursor(), Slot::base)
    }

    /// The extents before those within the budget, for a reading at `cursor`, the oldest first.
    fn older<'l>(
        &'l self,
        slots: &'l [Slot],
        cursor: u64,
    ) -> impl DoubleEndedIterator<Item = &'l Extent> {
        let slots = self.usable(slots, cursor).iter().map(Slot::extent);
        slots.chain(self.leaving.iter().flat_map(|leaving| &leaving.extents))
    }

    fn copy(&self, slots: &[Slot], cursor: u64, limits: PageLimits, out: &mut Page) {
        out.text.clear();
        out.runs.clear();
        out.base_cursor = self.base_behind(slots, cursor);
        out.next_cursor = cursor;
        out.end_cursor = self.next;
        let older = self
            .older(slots, cursor)
            .filter(|extent| extent.next() > cursor);
        let first = self
            .extents
            .partition_point(|extent| extent.next() <= cursor);
        for extent in older.chain(self.extents.range(first..)) {
            // Slots that don't reach the log's text are followed by a gap.
            if extent.base() > out.next_cursor || !extent.copy_into(limits, out) {
                break;
            }
        }
    }

    /// Looks for the start of `stream`'s line that is open at `cursor`, in the text just before it: no more than an
    /// extent, so that a lock around the log is held for a moment only.
    pub fn line_start(&self, stream: Stream, cursor: u64) -> LineStart {
        self.line_start_behind(&[], stream, cursor)
    }

    /// [`RecordLog::line_start`] as [`RecordLog::page_behind`] is to [`RecordLog::page`].
    pub fn line_start_behind(&self, slots: &[Slot], stream: Stream, cursor: u64) -> LineStart {
        let behind = self
            .extents
            .partition_point(|extent| extent.base() < cursor);
        let within = behind.checked_sub(1).map(|index| &self.extents[index]);
        let before = || {
            // A slot holds the code point before the cursor, not the one at it.
            let older = self.older(slots, cursor.saturating_sub(1));
            older
                .rev()
                .find(|extent| extent.base() < cursor && cursor <= extent.next())
        };
        let Some(extent) = within.or_else(before) else {
            return match cursor {
                0 => LineStart::At(0),
                _ => LineStart::Evicted,
            };
        };
        match extent.line_start(stream, cursor) {
            Some(start) => LineStart::At(start),
            None if extent.base() == 0 => LineStart::At(0),
            None => LineStart::Before(extent.base()),
        }
    }

    fn append_bytes(&mut self, stream: Stream, text: &[u8], code_points: usize) {
        self.assert_open(text, code_points);
        if let Some(survey) = &mut self.survey {
            survey.add(stream, text, self.next);
        }
        let (mut rest, mut left) = (text, code_points);
        if text.len() > self.budget.bytes {
            // All that is retained and the start of the text would go at once.
            let skipped = ceil(text, text.len() - self.budget.bytes);
            rest = &text[skipped..];
            left = count_part(rest, text.len(), code_points);
            if let Some(leaving) = &mut self.leaving {
                for extent in &self.extents {
                    extent.each_run(|stream, text, cursor| {
                        leaving.take(&self.slab, stream, text, cursor)
                    });
                }
                leaving.take(&self.slab, stream, &text[..skipped], self.next);
            }
            self.extents.clear();
            self.retained = 0;
            self.next += (code_points - left) as u64;
        }
        while !rest.is_empty() {
            let room = self.extents.back().map_or(0, |tail| tail.room(stream));
            let len = floor(rest, room);
            if len == 0 {
                let block = self.slab.take();
                self.extents
                    .push_back(Extent::empty(block, stream, self.next));
                continue;
            }
            let (piece, behind) = rest.split_at(len);
            let added = if behind.is_empty() {
                left
            } else {
                count_part(piece, rest.len(), left)
            };
            let tail = self.extents.back_mut().expect("it has room");
            tail.push(stream, piece, added);
            self.retained += len;
            self.next += added as u64;
            self.evict();
            (rest, left) = (behind, left - added);
        }
    }

    /// Lets the oldest code points go until the budget is kept (L1, L3).
    fn evict(&mut self) {
        loop {
            let retained_code_points = self.next - self.retained_from();
            let bytes = self.retained.saturating_sub(self.budget.bytes);
            let code_points = self.budget.records.map_or(0, |most| {
                let excess = retained_code_points.saturating_sub(most);
                usize::try_from(excess).expect("no more than one addition")
            });
            if bytes == 0 && code_points == 0 {
                return;
            }
            let front = self.extents.front_mut().expect("L1: over budget is text");
            let mut leave = self.leaving.as_mut().map(|leaving| {
                let slab = &self.slab;
                move |stream, text: &[u8], cursor| leaving.take(slab, stream, text, cursor)
            });
            if front.len() <= bytes || front.code_points() <= code_points {
                if let Some(leave) = &mut leave {
                    front.each_run(leave);
                }
                self.retained -= front.len();
                self.extents.pop_front();
            } else {
                self.retained -= front.evict(bytes, code_points, leave);
                return;
            }
        }
    }

    fn assert_open(&self, text: &[u8], code_points: usize) {
        assert!(!self.sealed, "text for a log whose output has settled");
        debug_assert!(std::str::from_utf8(text).is_ok(), "text is UTF-8");
        debug_assert_eq!(count(text), code_points, "the count is the text's");
    }
}

/// Code points of `part`, a part of a text of `len` bytes and `code_points` code points.
fn count_part(part: &[u8], len: usize, code_points: usize) -> usize {
    if len == code_points {
        part.len()
    } else {
        count(part)
    }
}

#[cfg(test)]
mod tests;
