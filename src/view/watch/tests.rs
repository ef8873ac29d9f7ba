use proptest::{collection::vec, prelude::*};

use super::*;
use crate::arena::Run;

/// Text of alternating streams, as it arrived.
type Runs = Vec<(Stream, String)>;

/// The code points from `from` on, `most` of them, as a page of a log that ends at `end`.
fn page(runs: &Runs, from: u64, most: u64, end: u64) -> Page {
    let to = end.min(from + most);
    let mut page = Page {
        next_cursor: to,
        end_cursor: end,
        ..Page::default()
    };
    let all = runs
        .iter()
        .flat_map(|(stream, text)| text.chars().map(move |char| (*stream, char)));
    for (cursor, (stream, char)) in (0..).zip(all) {
        if !(from..to).contains(&cursor) {
            continue;
        }
        page.text.push(char);
        let end = page.text.len();
        match page.runs.last_mut() {
            Some(run) if run.stream == stream => run.end = end,
            _ => page.runs.push(Run {
                cursor,
                stream,
                end,
            }),
        }
    }
    page
}

/// The naive twin: each line of the whole text searched by itself.
fn naive(
    runs: &Runs,
    pattern: &Pattern,
    from: u64,
    end: u64,
) -> Option<(Stream, u64, u64, String)> {
    let mut found = Vec::new();
    for wanted in [Stream::Stdout, Stream::Stderr] {
        let all = runs
            .iter()
            .flat_map(|(stream, text)| text.chars().map(move |char| (*stream, char)));
        let chars: Vec<(u64, char)> = (0..end)
            .zip(all)
            .filter(|(_, (stream, _))| *stream == wanted)
            .map(|(cursor, (_, char))| (cursor, char))
            .collect();
        for line in chars.split_inclusive(|(_, char)| *char == '\n') {
            let text: String = line.iter().map(|(_, char)| char).collect();
            let body = text.trim_end_matches('\n');
            let open = line.iter().filter(|(cursor, _)| *cursor < from).count();
            let at: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if open == line.len() {
                continue;
            }
            // The line feed is no part of a line, but a carriage return before it has to be told from a lone one.
            let range = pattern.find(&text, at[open]..text.len());
            let Some(range) = range.filter(|range| range.end <= body.len()) else {
                continue;
            };
            let start = at.partition_point(|&at| at < range.start);
            let after = at.partition_point(|&at| at < range.end);
            let cursor = |index: usize| line.get(index).map(|(cursor, _)| *cursor);
            let last = line.last().map_or(0, |(cursor, _)| cursor + 1);
            let start_cursor = cursor(start).unwrap_or(last);
            let end_cursor = if range.is_empty() {
                cursor(start).map_or(start_cursor, |cursor| cursor + 1)
            } else {
                cursor(after - 1).unwrap() + 1
            };
            found.push((wanted, start_cursor, end_cursor, text[range].to_owned()));
            break;
        }
    }
    found.into_iter().min_by_key(|(_, _, end, _)| *end)
}

fn told(watch: Option<(Stream, Found)>) -> Option<(Stream, u64, u64, String)> {
    watch.map(|(stream, found)| (stream, found.start, found.end, found.text))
}

fn runs() -> impl Strategy<Value = Runs> {
    let text = "[ab1 é\n\r]{1,12}";
    vec((any::<bool>(), text), 0..14).prop_map(|runs| {
        let stream = |stdout| {
            if stdout {
                Stream::Stdout
            } else {
                Stream::Stderr
            }
        };
        runs.into_iter()
            .map(|(stdout, text)| (stream(stdout), text))
            .collect()
    })
}

const PATTERNS: &[&str] = &[
    "a", "ab+", "^a", "b$", "^$", "^b*$", r"\ba", r"a\b", r"\d+", "a.*b", r"\s+b", "é", "[^a]+1",
    "$", "a*", r"\B1", r"é\b", "aaa|b1", r"\r",
];

proptest! {
    #[test]
    fn pages_find_what_the_whole_text_holds(
        runs in runs(),
        index in 0..PATTERNS.len(),
        from in 0u64..20,
        back in 0u64..30,
        looks in vec(1u64..30, 1..8),
        pages in vec(1u64..20, 1..6),
    ) {
        let pattern = Pattern::new(PATTERNS[index], false).unwrap();
        let total: u64 = runs.iter().map(|(_, text)| text.chars().count() as u64).sum();
        let from = from.min(total);
        // With nothing before the cursor the text starts there.
        let start = from.saturating_sub(back);
        let shown: Runs = {
            let page = page(&runs, start, u64::MAX / 2, total);
            let mut at = 0;
            let mut cut = Vec::new();
            for run in &page.runs {
                cut.push((run.stream, page.text[at..run.end].to_owned()));
                at = run.end;
            }
            cut
        };
        let mut watch = Watch::new(pattern.clone(), from - start);
        let (from, total) = (from - start, total - start);
        let (mut cursor, mut end) = (0, 0);
        let mut sizes = pages.iter().cycle();
        for look in looks.iter().chain([&total]) {
            end = total.min(end + look);
            let mut found = None;
            loop {
                let page = page(&shown, cursor, *sizes.next().unwrap(), end);
                cursor = page.next_cursor;
                found = found.or(watch.see(&page));
                if found.is_some() || cursor == end {
                    break;
                }
            }
            let expected = naive(&shown, &pattern, from, end);
            let told = told(found);
            prop_assert_eq!(&told, &expected, "{} at {}", PATTERNS[index], end);
            if expected.is_some() {
                return Ok(());
            }
        }
    }

    #[test]
    fn who_goes_on_after_a_match_finds_each_of_one_stream(
        text in "[ab\n]{0,60}",
        sizes in vec(1u64..20, 1..6),
    ) {
        let runs = vec![(Stream::Stdout, text.clone())];
        let total = text.chars().count() as u64;
        let pattern = Pattern::new("a+b?", false).unwrap();
        let (mut cursor, mut found) = (0, Vec::new());
        'matches: loop {
            let mut watch = Watch::new(pattern.clone(), cursor);
            let mut sizes = sizes.iter().cycle();
            let mut at = 0;
            while at < total {
                let page = page(&runs, at, *sizes.next().unwrap(), total);
                at = page.next_cursor;
                if let Some((_, one)) = watch.see(&page) {
                    cursor = one.end;
                    found.push(one.text);
                    continue 'matches;
                }
            }
            break;
        }
        let mut expected = Vec::new();
        let mut at = 0;
        while let Some(range) = pattern.find(&text, at..text.len()) {
            at = range.end;
            expected.push(text[range].to_owned());
        }
        prop_assert_eq!(found, expected);
    }
}

fn both(parts: &[(Stream, &str)]) -> Runs {
    parts
        .iter()
        .map(|(stream, text)| (*stream, (*text).to_owned()))
        .collect()
}

#[test]
fn a_line_is_not_taken_as_ended_while_more_of_it_is_there() {
    use Stream::{Stderr, Stdout};
    let runs = both(&[(Stdout, "foo"), (Stderr, "x match\n"), (Stdout, "bar\n")]);
    let mut watch = Watch::new(Pattern::new("foo$|match", false).unwrap(), 0);
    assert_eq!(watch.see(&page(&runs, 0, 11, 15)), None);
    let found = told(watch.see(&page(&runs, 11, 4, 15)));
    assert_eq!(found, Some((Stderr, 5, 10, "match".to_owned())));
}

#[test]
fn a_gap_breaks_the_unfinished_line() {
    let runs = both(&[(Stream::Stdout, "reXXady\nready")]);
    let mut watch = Watch::new(Pattern::new("ready", false).unwrap(), 0);
    assert_eq!(watch.see(&page(&runs, 0, 2, 13)), None);
    let found = told(watch.see(&page(&runs, 4, 9, 13)));
    assert_eq!(found, Some((Stream::Stdout, 8, 13, "ready".to_owned())));
}
