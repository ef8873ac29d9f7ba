use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    arena::{Budget, RecordLog, Slab, max_blocks},
    text::code_points,
};

use Stream::{Stderr, Stdout};

const MIB: usize = 1 << 20;
const LIMITS: FindLimits = FindLimits {
    matches: 200,
    context: 0,
    bytes: 65_536,
};

fn log(bytes: usize) -> RecordLog {
    let slab = Slab::new(max_blocks(bytes)).unwrap();
    RecordLog::new(
        slab,
        Budget {
            bytes,
            records: None,
        },
    )
}

fn add(log: &mut RecordLog, stream: Stream, text: &str) {
    log.append(stream, text, code_points(text));
}

fn of(text: &str) -> RecordLog {
    let mut log = log(2 * MIB);
    add(&mut log, Stdout, text);
    log
}

fn find(
    log: &RecordLog,
    pattern: &str,
    from: u64,
    limits: FindLimits,
) -> Result<Find, CursorError> {
    let mut find = Find::new(Pattern::new(pattern, false).unwrap(), from, limits);
    while find.step(log)? == Progress::More {}
    Ok(find)
}

/// Cursor of line and match, line and match.
fn told(find: &Find) -> Vec<(u64, u64, &str, &str)> {
    let lines = find.lines.iter();
    lines
        .map(|line| {
            (
                line.cursor,
                line.match_cursor,
                line.text.as_str(),
                line.matched.as_str(),
            )
        })
        .collect()
}

#[test]
fn lines_are_found_by_their_first_match_with_those_around() {
    let log = of("one\ntwo\nerror: a error\r\nthree\n\nwarn error\nfour");
    let limits = FindLimits {
        context: 2,
        ..LIMITS
    };
    let found = find(&log, "error|four", 0, limits).unwrap();
    assert_eq!(
        told(&found),
        [
            (8, 8, "error: a error", "error"),
            (31, 36, "warn error", "error"),
            (42, 42, "four", "four"),
        ]
    );
    assert_eq!(found.lines[0].before, ["one", "two"]);
    assert_eq!(found.lines[0].after, ["three", ""]);
    assert_eq!(found.lines[1].before, ["three", ""]);
    assert_eq!(found.lines[1].after, ["four"]);
    assert_eq!(found.lines[2].before, ["", "warn error"]);
    assert!(found.lines[2].after.is_empty());
    assert_eq!(
        (found.lines_scanned, found.next_cursor, found.has_more),
        (7, 46, false)
    );
}

#[test]
fn a_line_that_the_cursor_cuts_counts_from_there_on() {
    let log = of("a1\na2\na3 a4\na5\n");
    let limits = FindLimits {
        context: 3,
        ..LIMITS
    };
    let found = find(&log, "a.", 9, limits).unwrap();
    assert_eq!(told(&found), [(6, 9, "a3 a4", "a4"), (12, 12, "a5", "a5")]);
    assert_eq!(found.lines[0].before, ["a1", "a2"]);
    assert_eq!(found.lines_scanned, 2);
    assert!(find(&log, "^a4", 9, LIMITS).unwrap().lines.is_empty());
    assert!(find(&log, "a", 15, LIMITS).unwrap().lines.is_empty());
    let invalid = CursorError::Invalid { base: 0, next: 15 };
    assert_eq!(find(&log, "a", 16, LIMITS).unwrap_err(), invalid);
}

#[test]
fn a_line_that_the_other_stream_broke_into_is_found_whole_once_it_has_ended() {
    let mut log = log(MIB);
    add(&mut log, Stdout, "an er");
    add(&mut log, Stderr, "error 1\n");
    let found = find(&log, "error", 0, LIMITS).unwrap();
    assert_eq!(told(&found), [(5, 5, "error 1", "error")]);
    assert_eq!((found.next_cursor, found.has_more), (13, false));
    add(&mut log, Stdout, "ror 2\n");
    let found = find(&log, "error", 13, LIMITS).unwrap();
    assert_eq!(told(&found), [(0, 3, "an error 2", "error")]);
    assert_eq!((found.next_cursor, found.lines_scanned), (19, 1));
}

#[test]
fn going_on_at_the_next_cursor_finds_the_others() {
    let log = of(&"x\nerror\n".repeat(10));
    let limits = FindLimits {
        matches: 3,
        ..LIMITS
    };
    let (mut cursor, mut cursors, mut scanned) = (0, Vec::new(), 0);
    loop {
        let found = find(&log, "error", cursor, limits).unwrap();
        cursors.extend(found.lines.iter().map(|line| line.match_cursor));
        scanned += found.lines_scanned;
        cursor = found.next_cursor;
        if !found.has_more {
            break;
        }
        assert_eq!(found.lines.len(), 3);
    }
    let expected: Vec<u64> = (0..10).map(|n| 2 + 8 * n).collect();
    assert_eq!((cursors, scanned, cursor), (expected, 20, 80));
}

#[test]
fn an_unfinished_line_counts_and_is_searched_again_until_it_matches() {
    let mut log = of("one\nerr");
    let found = find(&log, "error", 0, LIMITS).unwrap();
    assert_eq!(
        (found.lines.len(), found.next_cursor, found.lines_scanned),
        (0, 4, 2)
    );
    add(&mut log, Stderr, "noise\n");
    add(&mut log, Stdout, "or!");
    let found = find(&log, "error", 4, LIMITS).unwrap();
    assert_eq!(told(&found), [(4, 4, "error!", "error")]);
    assert_eq!((found.next_cursor, found.has_more), (16, false));
    add(&mut log, Stdout, " and\nerror\n");
    let found = find(&log, "error", 16, LIMITS).unwrap();
    assert_eq!(told(&found), [(21, 21, "error", "error")]);
}

#[test]
fn streams_are_searched_by_themselves_and_told_in_the_order_of_their_ends() {
    let mut log = log(MIB);
    add(&mut log, Stderr, "an err");
    add(&mut log, Stdout, "error 1\n");
    add(&mut log, Stderr, "or\nx\n");
    let limits = FindLimits {
        context: 1,
        ..LIMITS
    };
    let found = find(&log, "error", 0, limits).unwrap();
    assert_eq!(
        told(&found),
        [(6, 6, "error 1", "error"), (0, 3, "an error", "error")]
    );
    assert_eq!(
        (found.lines[0].stream, found.lines[1].stream),
        (Stdout, Stderr)
    );
    assert_eq!(
        (found.lines[0].after.len(), &found.lines[1].after[..]),
        (0, &["x".to_owned()][..])
    );
    let one = FindLimits {
        matches: 1,
        ..LIMITS
    };
    let one = find(&log, "error", 0, one).unwrap();
    assert_eq!(
        (told(&one).len(), one.next_cursor, one.has_more),
        (1, 14, true)
    );
}

#[test]
fn a_giant_line_is_clipped_around_its_match() {
    let text = format!(
        "{}needle{}\n{}needle\nneedle{}",
        "é".repeat(300_000),
        "b".repeat(300_000),
        "a".repeat(9_000),
        "c".repeat(9_000)
    );
    let log = of(&text);
    let found = find(&log, "needle", 0, LIMITS).unwrap();
    assert_eq!(found.lines.len(), 3);
    for line in &found.lines {
        assert!(line.clipped && line.text.len() <= LINE_BYTES && line.text.len() > LINE_BYTES - 16);
        assert!(line.text.contains("needle"));
    }
    assert!(found.lines[0].text.starts_with("…é") && found.lines[0].text.ends_with("b…"));
    assert!(found.lines[1].text.starts_with("…a") && found.lines[1].text.ends_with("needle"));
    assert!(found.lines[2].text.starts_with("needlec") && found.lines[2].text.ends_with("c…"));
    assert_eq!(
        (found.lines[0].cursor, found.lines[0].match_cursor),
        (0, 300_000)
    );
    let found = find(&log, "a+n", 0, LIMITS).unwrap();
    assert!(found.lines[0].clipped && found.lines[0].matched.len() <= LINE_BYTES);
    assert!(found.lines[0].matched.ends_with("a…"));
}

#[test]
fn an_answer_holds_no_more_text_than_it_may_and_one_match_at_least() {
    let log = of(&format!("{}\n", "error ".repeat(10)).repeat(100));
    let limits = FindLimits {
        matches: 200,
        context: 2,
        bytes: 1000,
    };
    let found = find(&log, "error", 0, limits).unwrap();
    let bytes: usize = found.lines.iter().map(FoundLine::bytes).sum();
    assert!(bytes <= 1000 && bytes > 600, "{bytes}");
    assert_eq!(
        (found.has_more, found.next_cursor),
        (true, 61 * found.lines.len() as u64)
    );
    let found = find(&log, "error", 610, FindLimits { bytes: 4, ..limits }).unwrap();
    assert_eq!(
        (
            found.lines.len(),
            found.lines[0].before.len(),
            found.lines[0].after.len()
        ),
        (1, 0, 0)
    );
    assert_eq!(found.next_cursor, 671);
}

#[test]
fn of_a_line_beyond_all_bounds_the_end_is_searched_on() {
    let giant = "x".repeat(3 * MIB);
    let mut log = log(8 * MIB);
    add(
        &mut log,
        Stderr,
        &format!("before\n{giant}needle{giant}\nafter\n"),
    );
    let limits = FindLimits {
        context: 1,
        ..LIMITS
    };
    let found = find(&log, "needle", 0, limits).unwrap();
    let [line] = &found.lines[..] else {
        panic!("{} lines", found.lines.len());
    };
    let half = 3 * MIB as u64;
    assert_eq!((line.cursor, line.match_cursor), (7, 7 + half));
    assert!(line.clipped && line.text.starts_with('…') && line.text.ends_with('…'));
    assert_eq!(
        (&line.before[..], &line.after[..]),
        (&["before".to_owned()][..], &["after".to_owned()][..])
    );
    assert_eq!(
        (found.lines_scanned, found.next_cursor),
        (3, log.next_cursor())
    );
    assert!(find(&log, "^needle", 0, LIMITS).unwrap().lines.is_empty());
    // A line around another shows its start, or says that it doesn't.
    let found = find(&log, "after", 0, limits).unwrap();
    assert!(found.lines[0].before[0].starts_with("…x") && found.lines[0].before[0].ends_with("x…"));
    let found = find(&log, "before", 0, limits).unwrap();
    assert!(found.lines[0].after[0].ends_with("x…"));
    // Unfinished, it counts as it stands.
    add(&mut log, Stdout, &format!("{giant}needle{giant}"));
    let found = find(
        &log,
        "needle",
        0,
        FindLimits {
            matches: 1,
            ..LIMITS
        },
    );
    let expired = CursorError::Expired {
        base: log.base_cursor(),
        next: log.next_cursor(),
    };
    assert_eq!(found.unwrap_err(), expired);
    let found = find(&log, "needle", log.base_cursor(), LIMITS).unwrap();
    assert_eq!(found.lines.len(), 1);
    assert_eq!(
        (found.next_cursor, found.has_more),
        (log.next_cursor(), false)
    );
}

#[test]
fn what_is_evicted_before_it_is_searched_is_told() {
    let mut log = log(MIB);
    for line in 0..200_000 {
        add(&mut log, Stdout, &format!("{line}\n"));
    }
    let base = log.base_cursor();
    let expired = CursorError::Expired {
        base,
        next: log.next_cursor(),
    };
    assert_eq!(find(&log, "x", base - 1, LIMITS).unwrap_err(), expired);
    let mut search = Find::new(Pattern::new("^needle", false).unwrap(), base, LIMITS);
    while !matches!(search.phase, Phase::Search) {
        search.step(&log).unwrap();
    }
    search.step(&log).unwrap();
    let (seen, end) = (search.seen, search.end);
    add(
        &mut log,
        Stdout,
        &format!("{}\nneedle\n", "x".repeat(500_000)),
    );
    let gone = log.base_cursor() - seen;
    while search.step(&log).unwrap() == Progress::More {}
    assert_eq!(search.unsearched, gone);
    // What came after its beginning is for the next one.
    assert!(search.lines.is_empty() && search.has_more);
    assert_eq!(search.next_cursor, end);
    let found = find(&log, "^needle", search.next_cursor, LIMITS).unwrap();
    assert_eq!(found.lines.len(), 1);
}

#[test]
fn a_search_that_is_stopped_is_gone_on_with_where_it_was() {
    let log = of(&"0123456789abcde\n".repeat(100_000));
    let mut search = Find::new(Pattern::new("nowhere", false).unwrap(), 0, LIMITS);
    for _ in 0..9 {
        assert_eq!(search.step(&log), Ok(Progress::More));
    }
    search.stop();
    assert!(search.has_more && search.next_cursor > 0 && search.next_cursor < 1_600_000);
    assert_eq!(search.lines_scanned, search.next_cursor / 16);
}

/// The naive twin: the lines of each stream, each searched by itself.
type Twin = Vec<(Stream, char)>;
type Told = (u64, u64, Stream, String, String, Vec<String>, Vec<String>);

fn naive(twin: &Twin, pattern: &Pattern, from: u64, context: usize) -> Vec<Told> {
    let mut all = Vec::new();
    for wanted in [Stdout, Stderr] {
        let chars = (0u64..)
            .zip(twin)
            .filter(|(_, (stream, _))| *stream == wanted);
        let chars: Vec<(u64, char)> = chars.map(|(cursor, (_, char))| (cursor, *char)).collect();
        let lines: Vec<&[(u64, char)]> = chars.split_inclusive(|(_, char)| *char == '\n').collect();
        let texts: Vec<String> = lines
            .iter()
            .map(|line| line.iter().map(|(_, char)| char).collect())
            .collect();
        let shown = |text: &String| {
            let text = text.strip_suffix('\n').unwrap_or(text);
            text.strip_suffix('\r').unwrap_or(text).to_owned()
        };
        for (index, line) in lines.iter().enumerate() {
            let text = &texts[index];
            let body = text.strip_suffix('\n').unwrap_or(text).len();
            let at: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if line[line.len() - 1].0 < from {
                continue;
            }
            let before = from.checked_sub(1).map(|before| twin[before as usize]);
            let is_cut = before.is_some_and(|(stream, char)| stream == wanted && char != '\n');
            let open = if is_cut {
                line.iter().filter(|(cursor, _)| *cursor < from).count()
            } else {
                0
            };
            let found = pattern.find(text, at[open]..text.len());
            let Some(range) = found.filter(|range| range.end <= body) else {
                continue;
            };
            let place = at.partition_point(|&at| at < range.start);
            let last = line[line.len() - 1].0 + 1;
            let match_cursor = line.get(place).map_or(last, |(cursor, _)| *cursor);
            let end = shown(text).len().max(range.end);
            let line = (
                line[0].0,
                match_cursor,
                wanted,
                text[..end].to_owned(),
                text[range].to_owned(),
                texts[index.saturating_sub(context)..index]
                    .iter()
                    .map(shown)
                    .collect(),
                texts[index + 1..texts.len().min(index + 1 + context)]
                    .iter()
                    .map(shown)
                    .collect(),
            );
            all.push((last, line));
        }
    }
    all.sort_by_key(|(end, _)| *end);
    all.into_iter().map(|(_, line)| line).collect()
}

fn all_told(find: &Find) -> Vec<Told> {
    let lines = find.lines.iter().cloned();
    lines
        .map(|line| {
            (
                line.cursor,
                line.match_cursor,
                line.stream,
                line.text,
                line.matched,
                line.before,
                line.after,
            )
        })
        .collect()
}

const PATTERNS: &[&str] = &[
    "a", "^b", "a$", "ab+", "^$", "é.*a", r"\bb", "[^a]", r"\r", "b*",
];

fn pieces() -> impl Strategy<Value = Vec<(Stream, String)>> {
    let stream = prop_oneof![Just(Stdout), Just(Stderr)];
    vec((stream, "[ab é\n\n\r]{1,9}"), 0..20)
}

proptest! {
    #[test]
    fn finds_what_the_naive_twin_finds(
        pieces in pieces(),
        index in 0..PATTERNS.len(),
        place in any::<prop::sample::Index>(),
        context in 0usize..4,
    ) {
        let pattern = Pattern::new(PATTERNS[index], false).unwrap();
        let (mut log, mut twin) = (log(MIB), Twin::new());
        for (stream, text) in &pieces {
            add(&mut log, *stream, text);
            twin.extend(text.chars().map(|char| (*stream, char)));
        }
        let from = place.index(twin.len() + 1) as u64;
        let limits = FindLimits { context, ..LIMITS };
        let found = find(&log, PATTERNS[index], from, limits).unwrap();
        prop_assert_eq!(all_told(&found), naive(&twin, &pattern, from, context));
        prop_assert!(!found.has_more);
    }

    #[test]
    fn going_on_tells_each_line_once(
        pieces in pieces(),
        index in 0..PATTERNS.len(),
        matches in 1usize..4,
        bytes in prop_oneof![Just(65_536), 4usize..40],
        context in 0usize..3,
    ) {
        let pattern = Pattern::new(PATTERNS[index], false).unwrap();
        let (mut log, mut twin) = (log(MIB), Twin::new());
        for (stream, text) in &pieces {
            add(&mut log, *stream, text);
            twin.extend(text.chars().map(|char| (*stream, char)));
        }
        let limits = FindLimits { matches, context, bytes };
        let (mut cursor, mut all, mut scanned) = (0, Vec::new(), 0);
        loop {
            let found = find(&log, PATTERNS[index], cursor, limits).unwrap();
            let told: usize = found.lines.iter().map(FoundLine::bytes).sum();
            prop_assert!(told <= bytes, "{} bytes", told);
            scanned += found.lines_scanned;
            all.extend(found.lines.iter().map(|line| (line.cursor, line.match_cursor)));
            if !found.has_more {
                break;
            }
            prop_assert!(found.next_cursor > cursor);
            cursor = found.next_cursor;
        }
        let expected: Vec<_> = naive(&twin, &pattern, 0, 0).iter().map(|line| (line.0, line.1)).collect();
        prop_assert_eq!(all, expected);
        let feeds = twin.iter().filter(|(_, char)| *char == '\n').count() as u64;
        prop_assert!(scanned >= feeds && scanned <= feeds + 2, "{} of {}", scanned, feeds);
    }

    #[test]
    fn who_follows_a_log_that_grows_is_told_of_each_line(
        pieces in pieces(),
        index in 0..PATTERNS.len(),
        matches in 1usize..4,
    ) {
        let pattern = Pattern::new(PATTERNS[index], false).unwrap();
        let (mut log, mut twin) = (log(MIB), Twin::new());
        let limits = FindLimits { matches, ..LIMITS };
        let (mut cursor, mut all) = (0, Vec::new());
        for (stream, text) in &pieces {
            add(&mut log, *stream, text);
            twin.extend(text.chars().map(|char| (*stream, char)));
            loop {
                let found = find(&log, PATTERNS[index], cursor, limits).unwrap();
                for line in &found.lines {
                    let finished = twin[line.end as usize - 1].1 == '\n';
                    prop_assert!(!all.contains(&(line.cursor, true)), "{:?} again", line);
                    all.push((line.cursor, finished));
                }
                cursor = found.next_cursor;
                if !found.has_more {
                    break;
                }
            }
        }
        for line in naive(&twin, &pattern, 0, 0) {
            prop_assert!(all.iter().any(|told| told.0 == line.0), "{:?} was missed", line);
        }
    }
}

#[test]
fn text_of_many_pieces_is_searched_as_one() {
    let line = "a line of ordinary text, of which there are many here, 第一\n";
    let mut log = log(4 * MIB);
    let mut twin = Twin::new();
    for number in 0..20_000 {
        let text = if number % 4_999 == 7 {
            "a needle in it\n"
        } else {
            line
        };
        let stream = if number % 7 == 0 { Stderr } else { Stdout };
        add(&mut log, stream, text);
        twin.extend(text.chars().map(|char| (stream, char)));
    }
    for context in [0, 10] {
        let found = find(&log, "needle", 0, FindLimits { context, ..LIMITS }).unwrap();
        let pattern = Pattern::new("needle", false).unwrap();
        assert_eq!(all_told(&found), naive(&twin, &pattern, 0, context));
        assert_eq!(found.lines_scanned, 20_000);
        assert_eq!(found.lines.len(), 4);
    }
}
