//! The beginning and the end of all that a session printed, with what was left out between the two counted.

use crate::arena::{Page, PageLimits, RecordLog, Survey, Unit};

/// Records of an excerpt's head and tail. Together no more than a page has.
const HEAD_RECORDS: usize = 256;
const TAIL_RECORDS: usize = 768;

/// Text between two others that isn't shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Cursor of its first code point.
    pub from: u64,
    /// Cursor after its last code point.
    pub to: u64,
    /// UTF-8 bytes.
    pub bytes: u64,
    /// Line feeds in it.
    pub lines: u64,
}

/// See the module. Without a gap the tail continues the head.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    /// The first text; all of it when it fits.
    pub head: Page,
    /// What lies between the two.
    pub gap: Option<Gap>,
    /// The last text.
    pub tail: Page,
}

/// What a survey has to keep for an excerpt of `bytes`.
pub fn head_limits(bytes: usize) -> PageLimits {
    PageLimits {
        bytes: bytes * 3 / 10,
        records: HEAD_RECORDS,
        unit: Unit::Runs,
    }
}

/// An excerpt of at most `bytes` of text, at least 256: the whole when it fits and is retained, else three tenths of the
/// bytes for the head and seven for the tail. `survey` is the log's, begun with [`head_limits`] of the same `bytes`.
///
/// Head and tail end and start at lines, unless that would cost half of one: a giant line is better shown in part.
pub fn excerpt(log: &RecordLog, survey: Survey, bytes: usize) -> Excerpt {
    let mut head = survey.head;
    let mut tail = Page::default();
    let whole = PageLimits {
        bytes,
        records: HEAD_RECORDS + TAIL_RECORDS,
        unit: Unit::Runs,
    };
    let next = log.next_cursor();
    if log.page(0, whole, &mut tail).is_ok() && tail.next_cursor == next {
        return Excerpt {
            head: tail,
            ..Excerpt::default()
        };
    }
    if let Some(at) = memchr::memrchr(b'\n', head.text.as_bytes())
        && at + 1 >= head.text.len() / 2
    {
        cut_end(&mut head, at + 1);
    }
    let limits = PageLimits {
        bytes: bytes - head_limits(bytes).bytes,
        records: TAIL_RECORDS,
        unit: Unit::Runs,
    };
    log.page_back(next, head.next_cursor, limits, &mut tail)
        .expect("the end of the log is a cursor of it");
    let mut from = start(&tail);
    if from > head.next_cursor
        && let Some(at) = memchr::memchr(b'\n', tail.text.as_bytes())
        && at < tail.text.len() / 2
    {
        cut_start(&mut tail, at + 1);
        from = start(&tail);
    }
    let gap = (from > head.next_cursor).then(|| Gap {
        from: head.next_cursor,
        to: from,
        bytes: survey.bytes - (head.text.len() + tail.text.len()) as u64,
        lines: survey.lines - line_feeds(&head) - line_feeds(&tail),
    });
    Excerpt { head, gap, tail }
}

/// Cursor of the first code point of a page, or of the place where it would be.
pub fn start(page: &Page) -> u64 {
    page.runs.first().map_or(page.next_cursor, |run| run.cursor)
}

/// Line feeds on a page.
pub fn line_feeds(page: &Page) -> u64 {
    bytecount::count(page.text.as_bytes(), b'\n') as u64
}

/// Drops the text from offset `at` on.
fn cut_end(page: &mut Page, at: usize) {
    page.next_cursor -= code_points(&page.text[at..]);
    page.text.truncate(at);
    let kept = page.runs.partition_point(|run| run.end < at) + 1;
    page.runs.truncate(kept);
    if let Some(last) = page.runs.last_mut() {
        last.end = at;
    }
}

/// Drops the text before offset `at`, where some is left.
fn cut_start(page: &mut Page, at: usize) {
    let gone = page.runs.partition_point(|run| run.end <= at);
    let run_start = gone
        .checked_sub(1)
        .map_or(0, |before| page.runs[before].end);
    page.runs[gone].cursor += code_points(&page.text[run_start..at]);
    page.runs.drain(..gone);
    for run in &mut page.runs {
        run.end -= at;
    }
    page.text.drain(..at);
}

fn code_points(text: &str) -> u64 {
    bytecount::num_chars(text.as_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arena::{Budget, Slab, Stream, max_blocks};

    /// All characters of a page with stream and cursor.
    fn chars(page: &Page) -> Vec<(u64, Stream, char)> {
        let mut all = Vec::new();
        let mut at = 0;
        for run in &page.runs {
            let text = &page.text[at..run.end];
            all.extend(
                text.chars()
                    .zip(run.cursor..)
                    .map(|(c, cursor)| (cursor, run.stream, c)),
            );
            at = run.end;
        }
        all
    }

    fn log_of(text: &[(Stream, String)], budget: usize, bytes: usize) -> RecordLog {
        let slab = Slab::new(max_blocks(budget)).expect("map");
        let mut log = RecordLog::new(
            slab,
            Budget {
                bytes: budget,
                records: None,
            },
        );
        log.begin_survey(head_limits(bytes));
        for (stream, piece) in text {
            log.append(*stream, piece, piece.chars().count());
        }
        log
    }

    fn excerpt_of(text: &str, budget: usize, bytes: usize) -> Excerpt {
        let mut log = log_of(&[(Stream::Stdout, text.to_owned())], budget, bytes);
        let survey = log.end_survey().expect("begun");
        excerpt(&log, survey, bytes)
    }

    #[test]
    fn what_fits_is_whole() {
        let excerpt = excerpt_of("one\ntwo\n", 4096, 256);
        assert_eq!(
            (excerpt.head.text.as_str(), excerpt.gap),
            ("one\ntwo\n", None)
        );
    }

    #[test]
    fn a_long_log_is_cut_at_lines_and_the_gap_is_counted() {
        let text: String = (1..=1000).map(|n| format!("{n}\n")).collect();
        let excerpt = excerpt_of(&text, 65_536, 256);
        assert!(excerpt.head.text.starts_with("1\n2\n") && excerpt.head.text.ends_with('\n'));
        assert!(excerpt.tail.text.ends_with("\n1000\n"));
        let gap = excerpt.gap.expect("it doesn't fit");
        let hidden = &text[gap.from as usize..gap.to as usize];
        assert_eq!(gap.bytes, hidden.len() as u64);
        assert_eq!(gap.lines, hidden.matches('\n').count() as u64);
        let first = excerpt.tail.text.lines().next().expect("a line");
        assert!(hidden.ends_with(&format!(
            "\n{}\n",
            first.parse::<u32>().expect("a number") - 1
        )));
    }

    #[test]
    fn a_giant_line_is_shown_in_part() {
        let excerpt = excerpt_of(&("x".repeat(10_000) + "\n"), 65_536, 1_000);
        assert_eq!(
            (excerpt.head.text.len(), excerpt.tail.text.len()),
            (300, 700)
        );
    }

    proptest! {
        #[test]
        fn head_gap_and_tail_add_up_to_everything(
            text in prop::collection::vec(
                (any::<bool>(), "([a-z]{0,30}\n|中|😀|[a-z]{0,9}){0,30}"), 0..40),
            budget in prop_oneof![4usize..400, 1_000usize..20_000],
            bytes in 256usize..2_000,
        ) {
            let text: Vec<_> = text
                .into_iter()
                .filter(|(_, piece)| !piece.is_empty())
                .map(|(err, piece)| (if err { Stream::Stderr } else { Stream::Stdout }, piece))
                .collect();
            let all: Vec<(u64, Stream, char)> = text
                .iter()
                .flat_map(|(stream, piece)| piece.chars().map(move |c| (*stream, c)))
                .zip(0..)
                .map(|((stream, c), cursor)| (cursor, stream, c))
                .collect();
            let mut log = log_of(&text, budget, bytes);
            let survey = log.end_survey().expect("begun");
            let excerpt = excerpt(&log, survey, bytes);
            prop_assert!(excerpt.head.text.len() + excerpt.tail.text.len() <= bytes);
            let (head, tail) = (chars(&excerpt.head), chars(&excerpt.tail));
            let (from, to) = excerpt
                .gap
                .map_or((head.len(), head.len()), |gap| (gap.from as usize, gap.to as usize));
            prop_assert_eq!(&head[..], &all[..from]);
            prop_assert_eq!(&tail[..], &all[to..]);
            if let Some(gap) = excerpt.gap {
                let hidden = &all[from..to];
                let bytes: usize = hidden.iter().map(|(_, _, c)| c.len_utf8()).sum();
                prop_assert_eq!(gap.bytes, bytes as u64);
                let lines = hidden.iter().filter(|(_, _, c)| *c == '\n').count();
                prop_assert_eq!(gap.lines, lines as u64);
            }
        }
    }
}
