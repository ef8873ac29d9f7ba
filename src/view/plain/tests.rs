use proptest::{collection::vec, prelude::*};

use super::*;
use crate::arena::{Budget, RecordLog, Slab, max_blocks};

use Stream::{Stderr, Stdout};

const MIB: usize = 1 << 20;

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

const PAGE: PlainLimits = PlainLimits {
    bytes: 65_536,
    records: 1024,
};

fn make(log: &RecordLog, cursor: u64, limits: PlainLimits) -> Result<Plain, CursorError> {
    let mut plain = Plain::new(cursor, limits);
    while plain.step(log)? == Progress::More {}
    Ok(plain)
}

type Shown = (u64, Stream, String, bool);

fn shown(plain: &Plain) -> Vec<Shown> {
    let mut start = 0;
    let records = plain.records.iter().map(|record| {
        let text = plain.text[start..record.end].to_owned();
        start = record.end;
        (record.cursor, record.stream, text, record.cut)
    });
    records.collect()
}

#[track_caller]
fn page(log: &RecordLog, cursor: u64) -> (Vec<Shown>, u64) {
    let plain = make(log, cursor, PAGE).unwrap();
    (shown(&plain), plain.next_cursor)
}

fn whole(cursor: u64, stream: Stream, text: &str) -> Shown {
    (cursor, stream, text.to_owned(), false)
}

#[test]
fn an_unfinished_line_is_shown_as_it_stands_and_comes_whole_once_finished() {
    let mut log = log(MIB);
    add(&mut log, Stdout, "one\n10%\r20%");
    assert_eq!(
        page(&log, 0),
        (vec![whole(0, Stdout, "one\n"), whole(4, Stdout, "20%")], 11)
    );
    assert_eq!(page(&log, 11), (vec![], 11));
    add(&mut log, Stderr, "warning\n");
    assert_eq!(page(&log, 11), (vec![whole(11, Stderr, "warning\n")], 19));
    add(&mut log, Stdout, "\r30%");
    assert_eq!(page(&log, 19), (vec![whole(4, Stdout, "30%")], 23));
    add(&mut log, Stdout, "\r100%\ntwo\n");
    assert_eq!(
        page(&log, 23),
        (
            vec![whole(4, Stdout, "100%\n"), whole(29, Stdout, "two\n")],
            33
        )
    );
}

#[test]
fn lines_that_came_as_they_are_shown_are_one_record() {
    let mut log = log(MIB);
    add(&mut log, Stdout, "a\n\nb\n");
    add(&mut log, Stderr, "x\n");
    add(&mut log, Stdout, "c\nd\r\ne\nf");
    let (records, next) = page(&log, 0);
    assert_eq!(
        records,
        [
            whole(0, Stdout, "a\n\nb\n"),
            whole(5, Stderr, "x\n"),
            whole(7, Stdout, "c\n"),
            whole(9, Stdout, "d\n"),
            whole(12, Stdout, "e\nf"),
        ]
    );
    assert_eq!(next, 15);
}

#[test]
fn a_line_that_the_other_stream_broke_into_is_whole() {
    let mut log = log(MIB);
    add(&mut log, Stdout, "be");
    add(&mut log, Stderr, "err");
    add(&mut log, Stdout, "fore\nx");
    add(&mut log, Stderr, "or\n");
    assert_eq!(
        page(&log, 0),
        (
            vec![
                whole(0, Stdout, "before\n"),
                whole(2, Stderr, "error\n"),
                whole(10, Stdout, "x"),
            ],
            14
        )
    );
    // From the middle of both.
    assert_eq!(
        page(&log, 4).0,
        [
            whole(0, Stdout, "before\n"),
            whole(2, Stderr, "error\n"),
            whole(10, Stdout, "x"),
        ]
    );
    assert_eq!(page(&log, 11).0, [whole(2, Stderr, "error\n")]);
}

#[test]
fn five_thousand_redraws_are_one_line_wherever_the_pages_start() {
    let mut log = log(4 * MIB);
    for done in 1..=5_000 {
        add(
            &mut log,
            Stderr,
            &format!("\r\u{1b}[2K{done}/5000 {}", "#".repeat(80)),
        );
        add(&mut log, Stdout, "tick\n");
    }
    add(&mut log, Stderr, "\n");
    let last = format!("5000/5000 {}\n", "#".repeat(80));
    let mut cursor = 0;
    let mut errors = Vec::new();
    while cursor < log.next_cursor() {
        let (records, next) = page(&log, cursor);
        errors.extend(records.into_iter().filter(|record| record.1 == Stderr));
        cursor = next;
    }
    assert_eq!(errors, [whole(0, Stderr, &last)]);
    // The line is shown by the page that covers its line feed, from its start.
    assert_eq!(page(&log, cursor - 1).0, [whole(0, Stderr, &last)]);
}

#[test]
fn a_line_longer_than_the_page_is_cut_and_marked() {
    let mut log = log(MIB);
    add(&mut log, Stdout, "0123456789\nab\n");
    let limits = PlainLimits {
        bytes: 4,
        records: 2,
    };
    let plain = make(&log, 0, limits).unwrap();
    assert_eq!(shown(&plain), [(0, Stdout, "012\n".to_owned(), true)]);
    assert_eq!(plain.next_cursor, 11);
    add(&mut log, Stdout, "éééé");
    add(&mut log, Stderr, "xyz");
    let plain = make(&log, 14, limits).unwrap();
    let expected = [
        (14, Stdout, "é".to_owned(), true),
        (18, Stderr, "xy".to_owned(), true),
    ];
    assert_eq!(shown(&plain), expected);
    assert_eq!(plain.next_cursor, 21);
    // Beside finished lines there is no room for them: they come with the next page.
    let plain = make(&log, 11, limits).unwrap();
    assert_eq!(
        (shown(&plain), plain.next_cursor),
        (vec![whole(11, Stdout, "ab\n")], 14)
    );
    let giant = "x".repeat(500_000);
    add(&mut log, Stdout, &giant);
    let (records, next) = page(&log, 14);
    assert_eq!(
        (records[0].2.len(), records[0].3, next),
        (65_533, true, 500_021)
    );
}

#[test]
fn a_line_whose_start_was_evicted_is_marked() {
    let mut log = log(10);
    add(&mut log, Stdout, "0123456789abcd\nef\n");
    assert_eq!(log.base_cursor(), 8);
    assert_eq!(
        page(&log, 8).0,
        [
            (8, Stdout, "89abcd\n".to_owned(), true),
            whole(15, Stdout, "ef\n")
        ]
    );
    assert_eq!(
        page(&log, 12).0[0],
        (8, Stdout, "89abcd\n".to_owned(), true)
    );
    let expired = CursorError::Expired { base: 8, next: 18 };
    assert_eq!(make(&log, 7, PAGE).unwrap_err(), expired);
    let invalid = CursorError::Invalid { base: 8, next: 18 };
    assert_eq!(make(&log, 19, PAGE).unwrap_err(), invalid);
}

#[test]
fn text_that_is_evicted_under_the_page_ends_it_before_the_gap() {
    let mut log = log(200_000);
    for line in 0..20_000 {
        add(&mut log, Stdout, &format!("{line:09}\n"));
    }
    let mut plain = Plain::new(
        0,
        PlainLimits {
            bytes: MIB,
            records: 9,
        },
    );
    assert_eq!(plain.step(&log), Ok(Progress::More));
    add(&mut log, Stdout, &"x".repeat(150_000));
    assert_eq!(plain.step(&log), Ok(Progress::Done));
    assert_eq!(plain.next_cursor, 65_530);
    assert_eq!(plain.text.len(), 65_530);
    assert!(make(&log, plain.next_cursor, PAGE).is_err());
}

#[test]
fn sixteen_mebibytes_of_any_kind_are_gone_through_in_time() {
    // None of these ends if anything is read again for each page or each piece.
    let kinds = [
        "x".repeat(64),
        "\u{1b}[1000000000C".to_owned(),
        "\rabc\u{1b}[K".to_owned(),
        "\u{1b}[@\u{1b}[65535X".to_owned(),
        "a\u{301}\r".to_owned(),
        "\u{1b}]0;".to_owned(),
        "第\u{8}".to_owned(),
    ];
    for kind in kinds {
        let mut log = log(4 * MIB);
        let text = kind.repeat(65_536 / kind.len());
        // One stream's giant line, broken into by lines of the other.
        for _ in 0..60 {
            add(&mut log, Stderr, &text);
            add(&mut log, Stdout, &"line\n".repeat(400));
        }
        let (mut cursor, mut pages) = (0, 0);
        while cursor < log.next_cursor() {
            let limits = PlainLimits {
                bytes: 400,
                records: 64,
            };
            let plain = make(&log, cursor, limits).unwrap();
            assert!(plain.next_cursor > cursor && plain.text.len() <= 400);
            cursor = plain.next_cursor;
            pages += 1;
        }
        assert!(pages >= 300, "{pages}");
    }
}

/// The naive twin: all text as a list, each line folded by itself.
struct Twin(Vec<(Stream, char)>);

/// A line: its start, its line feed's cursor, its text, whether it came so.
struct Line {
    start: u64,
    stream: Stream,
    line_feed: Option<u64>,
    text: String,
    as_it_came: bool,
    last: u64,
}

impl Twin {
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for wanted in [Stdout, Stderr] {
            let chars: Vec<(u64, char)> = (0..)
                .zip(&self.0)
                .filter(|(_, (stream, _))| *stream == wanted)
                .map(|(cursor, (_, char))| (cursor, *char))
                .collect();
            for line in chars.split_inclusive(|(_, char)| *char == '\n') {
                let (start, last) = (line[0].0, line[line.len() - 1].0);
                let raw: String = line.iter().map(|(_, char)| char).collect();
                let mut fold = Fold::default();
                fold.take(raw.trim_end_matches('\n'));
                let mut text = String::new();
                let shown = fold.show(&mut text);
                let finished = raw.ends_with('\n');
                if finished {
                    text.push('\n');
                }
                lines.push(Line {
                    start,
                    stream: wanted,
                    line_feed: finished.then_some(last),
                    text,
                    as_it_came: shown.verbatim && last - start + 1 == line.len() as u64,
                    last,
                });
            }
        }
        lines
    }

    /// Records as the rule has them.
    fn page(&self, from: u64, limits: PlainLimits) -> (Vec<Shown>, u64) {
        let mut lines = self.lines();
        lines.retain(|line| line.last >= from);
        // What shows nothing isn't shown.
        lines.retain(|line| line.line_feed.is_some() || !line.text.is_empty());
        lines.sort_by_key(|line| (line.line_feed.unwrap_or(u64::MAX), line.start));
        let finished = lines.partition_point(|line| line.line_feed.is_some());
        let open = lines.split_off(finished);
        let (mut records, mut next, mut joint, mut bytes) = (Vec::<Shown>::new(), from, None, 0);
        let joins = |line: &Line, joint: Option<u64>, records: &[Shown]| {
            let last = records.last();
            line.as_it_came
                && joint == Some(line.start)
                && last.is_some_and(|last| last.1 == line.stream)
        };
        for line in &lines {
            let joins = joins(line, joint, &records);
            let line_feed = line.line_feed.unwrap();
            let (mut text, mut cut) = (line.text.clone(), false);
            if next == from && text.len() > limits.bytes {
                text.truncate(floor(&text, limits.bytes - 1));
                text.push('\n');
                cut = true;
            }
            let joins = joins && !cut;
            if bytes + text.len() > limits.bytes || (!joins && records.len() == limits.records) {
                return (records, next);
            }
            bytes += text.len();
            if joins {
                records.last_mut().unwrap().2.push_str(&text);
            } else {
                records.push((line.start, line.stream, text, cut));
            }
            next = line_feed + 1;
            joint = (line.as_it_came && !cut).then_some(next);
        }
        let open_bytes: usize = open.iter().map(|line| line.text.len()).sum();
        let room =
            bytes + open_bytes <= limits.bytes && records.len() + open.len() <= limits.records;
        if !room && next > from {
            return (records, next);
        }
        if !room {
            // How they are cut is shown by examples.
            return (vec![], u64::MAX);
        }
        for line in &open {
            if joins(line, joint, &records) {
                records.last_mut().unwrap().2.push_str(&line.text);
            } else {
                records.push(whole(line.start, line.stream, &line.text));
            }
            joint = None;
        }
        (records, self.0.len() as u64)
    }
}

fn piece() -> impl Strategy<Value = (Stream, String)> {
    let text = prop::sample::select(vec![
        "a",
        "bc",
        "\n",
        "\n\n",
        "line\n",
        "\r",
        "\r\n",
        "\u{1b}[K",
        "\u{1b}[2",
        "D",
        "\u{8}",
        "é第",
        "\t",
        "\u{1b}]0;x",
        "\u{7}",
        "a long line of text\n",
    ]);
    (prop_oneof![Just(Stdout), Just(Stderr)], text)
        .prop_map(|(stream, text)| (stream, text.to_owned()))
}

proptest! {
    #[test]
    fn pages_of_any_size_show_each_line_once_and_whole(
        rounds in vec((vec(piece(), 0..12), vec((4usize..60, 2usize..8), 1..4)), 1..6),
    ) {
        let mut log = log(MIB);
        let mut twin = Twin(Vec::new());
        let mut cursor = 0;
        let mut finished: Vec<(u64, String)> = Vec::new();
        let mut any_cut = false;
        for (pieces, sizes) in rounds {
            for (stream, text) in pieces {
                add(&mut log, stream, &text);
                twin.0.extend(text.chars().map(|char| (stream, char)));
            }
            for (bytes, records) in sizes.iter().cycle().map(|(bytes, records)| (*bytes, *records)) {
                let limits = PlainLimits { bytes, records };
                let plain = make(&log, cursor, limits).unwrap();
                let (expected, next) = twin.page(cursor, limits);
                if next < u64::MAX {
                    prop_assert_eq!(shown(&plain), expected, "at {}", cursor);
                    prop_assert_eq!(plain.next_cursor, next);
                }
                prop_assert!(plain.text.len() <= bytes && plain.records.len() <= records);
                for (start, _, text, cut) in shown(&plain) {
                    any_cut |= cut;
                    let mut start = start;
                    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                        finished.push((start, line.to_owned()));
                        start += line.chars().count() as u64;
                    }
                }
                cursor = plain.next_cursor;
                if cursor == log.next_cursor() {
                    break;
                }
            }
        }
        let mut expected: Vec<_> = twin.lines().into_iter().filter(|line| line.line_feed.is_some()).collect();
        expected.sort_by_key(|line| line.line_feed);
        let expected: Vec<_> = expected.into_iter().map(|line| (line.start, line.text)).collect();
        if !any_cut {
            prop_assert_eq!(finished, expected);
        } else {
            let starts = |lines: &[(u64, String)]| lines.iter().map(|line| line.0).collect::<Vec<_>>();
            prop_assert_eq!(starts(&finished), starts(&expected));
        }
    }

    #[test]
    fn a_page_from_any_cursor_follows_the_rule(
        pieces in vec(piece(), 0..30),
        place in any::<prop::sample::Index>(),
    ) {
        let mut log = log(MIB);
        let mut twin = Twin(Vec::new());
        for (stream, text) in pieces {
            add(&mut log, stream, &text);
            twin.0.extend(text.chars().map(|char| (stream, char)));
        }
        let cursor = place.index(twin.0.len() + 1) as u64;
        prop_assert_eq!(page(&log, cursor), twin.page(cursor, PAGE));
    }
}
