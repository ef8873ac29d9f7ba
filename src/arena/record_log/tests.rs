//! The log against a twin that keeps a list of characters, and the examples of its promises.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::arena::slab::READ_BYTES;
use crate::arena::{Run, Unit};

use Stream::{Stderr, Stdout};

/// The naive log: a list of characters.
struct Twin {
    budget: Budget,
    chars: VecDeque<(Stream, char)>,
    bytes: usize,
    base: u64,
}

impl Twin {
    fn add(&mut self, stream: Stream, text: &str) {
        self.chars.extend(text.chars().map(|c| (stream, c)));
        self.bytes += text.len();
        while self.bytes > self.budget.bytes
            || self
                .budget
                .records
                .is_some_and(|most| self.chars.len() as u64 > most)
        {
            self.bytes -= self.chars.pop_front().expect("over budget").1.len_utf8();
            self.base += 1;
        }
    }

    fn next(&self) -> u64 {
        self.base + self.chars.len() as u64
    }

    fn page(&self, cursor: u64, limits: PageLimits) -> Result<Page, CursorError> {
        let (base, next) = (self.base, self.next());
        if cursor < base {
            return Err(CursorError::Expired { base, next });
        }
        if cursor > next {
            return Err(CursorError::Invalid { base, next });
        }
        let mut page = Page {
            base_cursor: base,
            next_cursor: cursor,
            end_cursor: next,
            ..Page::default()
        };
        for &(stream, c) in self.chars.iter().skip((cursor - base) as usize) {
            let continues = page.runs.last().is_some_and(|run| run.stream == stream);
            let records = match limits.unit {
                Unit::Runs => page.runs.len() + usize::from(!continues),
                Unit::CodePoints => (page.next_cursor - cursor) as usize + 1,
            };
            if records > limits.records || page.text.len() + c.len_utf8() > limits.bytes {
                break;
            }
            page.text.push(c);
            let end = page.text.len();
            match page.runs.last_mut() {
                Some(run) if continues => run.end = end,
                _ => page.runs.push(Run {
                    cursor: page.next_cursor,
                    stream,
                    end,
                }),
            }
            page.next_cursor += 1;
        }
        Ok(page)
    }

    fn page_back(&self, end: u64, floor: u64, limits: PageLimits) -> Result<Page, CursorError> {
        let (base, next) = (self.base, self.next());
        if end < base {
            return Err(CursorError::Expired { base, next });
        }
        if end > next {
            return Err(CursorError::Invalid { base, next });
        }
        let floor = floor.max(base);
        let (mut start, mut bytes, mut records, mut behind) = (end, 0, 0, None);
        while start > floor {
            let (stream, c) = self.chars[(start - 1 - base) as usize];
            let new = limits.unit == Unit::CodePoints || behind != Some(stream);
            if bytes + c.len_utf8() > limits.bytes || records + usize::from(new) > limits.records {
                break;
            }
            bytes += c.len_utf8();
            records += usize::from(new);
            behind = Some(stream);
            start -= 1;
        }
        self.page(start, PageLimits { bytes, ..limits })
    }
}

/// The first of `chars` that fit, and the counts of all.
fn survey_of(chars: &[(Stream, char)], head: PageLimits) -> (Page, u64, u64) {
    let twin = Twin {
        budget: Budget {
            bytes: usize::MAX,
            records: None,
        },
        chars: chars.iter().copied().collect(),
        bytes: 0,
        base: 0,
    };
    let bytes = chars.iter().map(|(_, c)| c.len_utf8() as u64).sum();
    let lines = chars.iter().filter(|(_, c)| *c == '\n').count() as u64;
    (twin.page(0, head).expect("retained"), bytes, lines)
}

impl Twin {
    /// Cursor after the last line feed of `stream` before `cursor`.
    fn line_start(&self, stream: Stream, cursor: u64) -> Option<u64> {
        let before = (cursor - self.base) as usize;
        let chars = self.chars.iter().take(before);
        let at = chars
            .enumerate()
            .rfind(|(_, char)| **char == (stream, '\n'))?;
        Some(self.base + at.0 as u64 + 1)
    }
}

/// Looks back extent by extent.
fn look_back(log: &RecordLog, stream: Stream, cursor: u64) -> Option<u64> {
    let mut at = cursor;
    loop {
        match log.line_start(stream, at) {
            LineStart::At(start) => return Some(start),
            LineStart::Before(cursor) => {
                assert!(cursor < at);
                at = cursor;
            }
            LineStart::Evicted => return None,
        }
    }
}

fn slab_for(budget: Budget) -> Slab {
    // One block more for the read that is to be adopted.
    Slab::new(max_blocks(budget.bytes) + 1).expect("map")
}

fn log(bytes: usize, records: Option<u64>) -> RecordLog {
    let budget = Budget { bytes, records };
    RecordLog::new(slab_for(budget), budget)
}

fn add(log: &mut RecordLog, stream: Stream, text: &str) {
    log.append(stream, text, text.chars().count());
}

fn limits(bytes: usize, records: usize, unit: Unit) -> PageLimits {
    PageLimits {
        bytes,
        records,
        unit,
    }
}

fn page(log: &RecordLog, cursor: u64, limits: PageLimits) -> Page {
    let mut page = Page::default();
    log.page(cursor, limits, &mut page).expect("a good cursor");
    page
}

fn assert_same(page: &Result<Page, CursorError>, twin: &Result<Page, CursorError>) {
    match (page, twin) {
        (Ok(page), Ok(twin)) => {
            assert_eq!(page.text, twin.text);
            assert_eq!(page.runs, twin.runs);
            assert_eq!(page.base_cursor, twin.base_cursor);
            assert_eq!(page.next_cursor, twin.next_cursor);
            assert_eq!(page.end_cursor, twin.end_cursor);
        }
        _ => assert_eq!(page.as_ref().err(), twin.as_ref().err()),
    }
}

#[test]
fn eviction_takes_whole_code_points_and_no_more_than_needed() {
    let mut ten = log(10, None);
    add(&mut ten, Stdout, "中中中中");
    assert_eq!((ten.base_cursor(), ten.next_cursor()), (1, 4));
    assert_eq!(page(&ten, 1, limits(64, 64, Unit::Runs)).text, "中中中");
    assert!(ten.truncated());

    let mut four = log(4, None);
    add(&mut four, Stdout, "中中中中");
    assert_eq!((four.base_cursor(), four.next_cursor()), (3, 4));
    assert_eq!(page(&four, 3, limits(64, 64, Unit::Runs)).text, "中");
}

#[test]
fn a_full_budget_is_not_truncated() {
    let mut log = log(12, Some(4));
    add(&mut log, Stdout, "中中中中");
    assert_eq!((log.retained_bytes(), log.truncated()), (12, false));
    add(&mut log, Stderr, "x");
    assert_eq!((log.retained_bytes(), log.base_cursor()), (10, 1));
}

#[test]
fn three_mebibytes_into_one_leave_the_last() {
    let mut log = log(1 << 20, Some(1 << 20));
    let mut left = 3_145_728;
    while left > 0 {
        let mut block = log.slab.take();
        let len = left.min(READ_BYTES);
        block.extend_from_slice(&vec![b'x'; len]);
        log.adopt(Stdout, block, 0, len, len);
        left -= len;
    }
    add(&mut log, Stdout, "END\n");
    assert_eq!(log.next_cursor(), 3_145_732);
    assert_eq!(log.base_cursor(), 2_097_156);
    let mut cursor = log.base_cursor();
    let mut text = String::new();
    while cursor < log.next_cursor() {
        let page = page(&log, cursor, limits(65_536, 1024, Unit::Runs));
        assert_eq!(page.runs.len(), 1);
        text.push_str(&page.text);
        cursor = page.next_cursor;
    }
    assert_eq!(text.len(), 1 << 20);
    assert!(text.ends_with("xEND\n"));
    assert_eq!(
        log.page(2_097_155, limits(4, 1, Unit::Runs), &mut Page::default()),
        Err(CursorError::Expired {
            base: 2_097_156,
            next: 3_145_732
        })
    );
}

#[test]
fn the_smallest_page_holds_any_code_point() {
    let mut log = log(64, None);
    add(&mut log, Stdout, "😀😀😀");
    for cursor in 0..3 {
        for unit in [Unit::Runs, Unit::CodePoints] {
            let page = page(&log, cursor, limits(4, 1024, unit));
            assert_eq!((page.text.as_str(), page.next_cursor), ("😀", cursor + 1));
        }
    }
}

#[test]
fn pages_of_any_size_add_up_to_the_text() {
    let text = "中".repeat(40_000) + "\n";
    let mut log = log(1 << 20, None);
    add(&mut log, Stdout, &text);
    for bytes in [4096, 4, 5, 65_535, 65_536] {
        for unit in [Unit::Runs, Unit::CodePoints] {
            let mut read = String::new();
            let mut out = Page::default();
            let mut cursor = 0;
            while cursor < log.next_cursor() {
                log.page(cursor, limits(bytes, 1024, unit), &mut out)
                    .expect("a good cursor");
                assert!(out.text.len() <= bytes && out.next_cursor > cursor);
                read.push_str(&out.text);
                cursor = out.next_cursor;
            }
            assert_eq!(cursor, 40_001);
            assert!(read == text, "pages of {bytes} bytes in {unit:?}");
        }
    }
}

#[test]
fn a_cursor_outside_the_log_is_told_the_range() {
    let mut log = log(4, None);
    add(&mut log, Stdout, "abcdefghij");
    let mut out = Page::default();
    let any = limits(4, 1, Unit::Runs);
    let (base, next) = (6, 10);
    for (cursor, error) in [
        (0, CursorError::Expired { base, next }),
        (5, CursorError::Expired { base, next }),
        (11, CursorError::Invalid { base, next }),
        (u64::MAX, CursorError::Invalid { base, next }),
    ] {
        assert_eq!(log.page(cursor, any, &mut out), Err(error));
    }
    assert_eq!(page(&log, 10, any).runs, []);
}

#[test]
fn runs_of_one_stream_join_over_extents() {
    let mut log = log(1 << 20, None);
    add(&mut log, Stderr, "e");
    let mut block = log.slab.take();
    block.extend_from_slice(&[b'x'; READ_BYTES]);
    log.adopt(Stdout, block, 3, READ_BYTES, READ_BYTES - 3);
    add(&mut log, Stdout, &"y".repeat(BLOCK_BYTES));
    let page = page(&log, 0, limits(1 << 20, 1024, Unit::Runs));
    let streams: Vec<_> = page
        .runs
        .iter()
        .map(|run| (run.cursor, run.stream))
        .collect();
    assert_eq!(streams, [(0, Stderr), (1, Stdout)]);
}

#[test]
fn a_run_too_long_for_its_entry_is_not_followed_in_its_block() {
    let mut log = log(1 << 20, None);
    let long = "x".repeat(usize::from(u16::MAX) + 1);
    add(&mut log, Stdout, &long);
    add(&mut log, Stderr, "e");
    assert_eq!(log.extents.len(), 2);
    let page = page(&log, 65_535, limits(8, 8, Unit::Runs));
    assert_eq!(page.text, "xe");
    assert_eq!(page.runs[1].cursor, 65_536);
}

#[test]
fn the_slack_behind_a_full_read_takes_what_comes_next() {
    let mut log = log(1 << 20, None);
    let mut block = log.slab.take();
    block.extend_from_slice(&[b'x'; 65_000]);
    log.adopt(Stdout, block, 0, 65_000, 65_000);
    add(&mut log, Stdout, "中");
    add(&mut log, Stderr, "e");
    assert_eq!(log.extents.len(), 1);
    assert_eq!(page(&log, 64_999, limits(9, 9, Unit::Runs)).text, "x中e");
}

#[test]
fn sealed_tiny_logs_hold_no_block() {
    let mut log = log(1 << 20, None);
    add(&mut log, Stdout, "out");
    add(&mut log, Stderr, "err");
    let before = page(&log, 0, limits(64, 64, Unit::Runs));
    log.seal();
    log.seal();
    assert!(!log.extents[0].holds_block());
    assert_eq!(log.slab.free_blocks(), max_blocks(1 << 20) + 1);
    let after = page(&log, 0, limits(64, 64, Unit::Runs));
    assert_same(&Ok(after), &Ok(before));
}

#[test]
#[should_panic(expected = "settled")]
fn a_sealed_log_takes_no_text() {
    let mut log = log(64, None);
    log.seal();
    add(&mut log, Stdout, "late");
}

#[test]
fn streams_that_alternate_bytewise_stay_within_the_bound() {
    for bytes in [4, 1000, FULL_BYTES, 4 * FULL_BYTES, 1 << 18] {
        let mut log = log(bytes, None);
        let capacity = log.extents.capacity();
        let mut most = 0;
        for turn in 0..2 * bytes + 4 * FULL_BYTES {
            let stream = if turn % 2 == 0 { Stdout } else { Stderr };
            log.append(stream, "x", 1);
            most = most.max(log.extents.len());
        }
        assert!(most <= max_blocks(bytes), "{most} blocks for {bytes}");
        assert_eq!(log.extents.capacity(), capacity);
    }
}

#[test]
fn each_adoption_may_leave_a_nearly_empty_block_behind() {
    let budget = 16 * ADOPT_BYTES;
    let mut log = log(budget, None);
    for _ in 0..64 {
        let mut block = log.slab.take();
        block.extend_from_slice(&[b'x'; ADOPT_BYTES]);
        log.adopt(Stdout, block, 0, ADOPT_BYTES, ADOPT_BYTES);
        // Exhausts the slack with the least text, and opens a block for one byte.
        for turn in 0.. {
            let stream = if turn % 2 == 0 { Stderr } else { Stdout };
            let extents = log.extents.len();
            log.append(stream, "x", 1);
            if log.extents.len() > extents {
                break;
            }
        }
        assert!(log.extents.len() <= max_blocks(budget));
    }
    assert!(log.truncated());
}

/// What happens to a log.
#[derive(Clone, Debug)]
enum Step {
    Append(Stream, String),
    /// So many appends of one character, on changing streams.
    Alternate(char, usize),
    /// A text to adopt, and how many bytes lie before it in the block.
    Adopt(Stream, String, usize),
    /// Where to read, as a fraction of the range and one beyond on each side.
    Page(f64, PageLimits),
}

fn text(most: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[ -~\n]{0,12}",
        2 => "[a-c\u{e9}\u{4e2d}\u{1f600}]{0,12}",
        1 => ("[a\u{e9}\u{4e2d}\u{1f600}]{1,8}|[a-z]{1,8}\n?", 0..=most)
            .prop_map(|(piece, len)| piece.repeat(len / piece.len())),
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stdout), Just(Stderr)]
}

fn any_limits() -> impl Strategy<Value = PageLimits> {
    let unit = prop_oneof![Just(Unit::Runs), Just(Unit::CodePoints)];
    let bytes = prop_oneof![4usize..40, 4usize..=65_536, Just(1 << 20)];
    let records = prop_oneof![1usize..10, 1usize..=1024, Just(1 << 20)];
    (bytes, records, unit).prop_map(|(bytes, records, unit)| limits(bytes, records, unit))
}

fn step(most_text: usize) -> impl Strategy<Value = Step> {
    let adopted = (text(READ_BYTES), any::<bool>()).prop_map(|(text, grow)| {
        let repeats = if grow && !text.is_empty() {
            (READ_BYTES / text.len()).max(1)
        } else {
            1
        };
        text.repeat(repeats)
    });
    prop_oneof![
        4 => (stream(), text(most_text)).prop_map(|(stream, text)| Step::Append(stream, text)),
        1 => (stream(), adopted, 0usize..4)
            .prop_map(|(stream, text, before)| Step::Adopt(stream, text, before)),
        1 => (prop::sample::select(vec!['x', '\u{e9}', '\u{4e2d}', '\u{1f600}']), 0..=most_text / 2)
            .prop_map(|(c, count)| Step::Alternate(c, count)),
        3 => (-0.1f64..1.1, any_limits()).prop_map(|(place, limits)| Step::Page(place, limits)),
    ]
}

/// Plays `steps` on a log and on its twin, then seals the log and reads all of it.
fn play(budget: Budget, steps: Vec<Step>) {
    let slab = slab_for(budget);
    let mut log = RecordLog::new(slab.clone(), budget);
    let capacity = log.extents.capacity();
    let mut twin = Twin {
        budget,
        chars: VecDeque::new(),
        bytes: 0,
        base: 0,
    };
    let mut out = Page::default();
    let mut all: Vec<(Stream, char)> = Vec::new();
    let head = limits(budget.bytes.min(1000), 1 + budget.bytes % 7, Unit::Runs);
    log.begin_survey(head);
    for step in steps {
        match &step {
            Step::Append(stream, text) | Step::Adopt(stream, text, _) => {
                all.extend(text.chars().map(|c| (*stream, c)));
            }
            Step::Alternate(c, count) => {
                all.extend((0..*count).map(|turn| ([Stdout, Stderr][turn % 2], *c)));
            }
            Step::Page(..) => {}
        }
        match step {
            Step::Append(stream, text) => {
                add(&mut log, stream, &text);
                twin.add(stream, &text);
            }
            Step::Alternate(c, count) => {
                for turn in 0..count {
                    let stream = if turn % 2 == 0 { Stdout } else { Stderr };
                    add(&mut log, stream, c.encode_utf8(&mut [0; 4]));
                    twin.add(stream, c.encode_utf8(&mut [0; 4]));
                }
            }
            Step::Adopt(stream, text, before) => {
                let before = before.min(READ_BYTES - text.len());
                let mut block = slab.take();
                block.extend_from_slice(&vec![b'?'; before]);
                block.extend_from_slice(text.as_bytes());
                let end = before + text.len();
                log.adopt(stream, block, before, end, text.chars().count());
                twin.add(stream, &text);
            }
            Step::Page(place, limits) => {
                let retained = twin.chars.len() as f64;
                let cursor = (twin.base as f64 + place * (retained + 2.0)).max(0.0) as u64;
                let page = log.page(cursor, limits, &mut out).map(|()| out.clone());
                assert_same(&page, &twin.page(cursor, limits));
                if page.is_ok() {
                    for stream in [Stdout, Stderr] {
                        let start = twin.line_start(stream, cursor);
                        let start = start.or((twin.base == 0).then_some(0));
                        assert_eq!(look_back(&log, stream, cursor), start);
                    }
                }
                for floor in [0, cursor.saturating_sub(limits.records as u64)] {
                    let page = log.page_back(cursor, floor, limits, &mut out);
                    let page = page.map(|()| out.clone());
                    assert_same(&page, &twin.page_back(cursor, floor, limits));
                }
            }
        }
        assert_eq!(log.base_cursor(), twin.base);
        assert_eq!(log.next_cursor(), twin.next());
        assert_eq!(log.retained_bytes(), twin.bytes);
        assert_eq!(log.truncated(), twin.base > 0);
        assert!(log.extents.len() <= max_blocks(budget.bytes));
        let held = max_blocks(budget.bytes) + 1 - slab.free_blocks();
        assert_eq!(held, log.extents.len());
    }
    assert_eq!(log.extents.capacity(), capacity, "the queue has grown");
    let survey = log.end_survey().expect("it was begun");
    let (page_of_head, bytes, lines) = survey_of(&all, head);
    assert_eq!((survey.bytes, survey.lines), (bytes, lines));
    assert_eq!(survey.head.text, page_of_head.text);
    assert_eq!(survey.head.runs, page_of_head.runs);
    assert_eq!(survey.head.next_cursor, page_of_head.next_cursor);
    let all = limits(1 << 24, 1 << 24, Unit::Runs);
    for _ in 0..2 {
        assert_same(&Ok(page(&log, twin.base, all)), &twin.page(twin.base, all));
        let mid = (twin.base + twin.next()) / 2;
        assert_same(&Ok(page(&log, mid, all)), &twin.page(mid, all));
        log.seal();
    }
    drop(log);
    assert_eq!(slab.free_blocks(), max_blocks(budget.bytes) + 1);
}

fn records(most: u64) -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (1..=most).prop_map(Some)]
}

proptest! {
    #[test]
    fn small_budgets_agree_with_the_twin(
        bytes in 4usize..200,
        records in records(200),
        steps in prop::collection::vec(step(300), 0..80),
    ) {
        play(Budget { bytes, records }, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn budgets_of_several_blocks_agree_with_the_twin(
        bytes in prop_oneof![200usize..600_000, Just(ADOPT_BYTES), Just(65_536)],
        records in records(400_000),
        steps in prop::collection::vec(step(100_000), 0..30),
    ) {
        play(Budget { bytes, records }, steps);
    }
}
