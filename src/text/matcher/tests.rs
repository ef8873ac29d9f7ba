use super::*;
use crate::text::spliced::KEPT_BYTES;

fn pattern(pattern: &str) -> Pattern {
    Pattern::new(pattern, false).unwrap()
}

/// Takes each piece with a look after it, cursors following each other from 0, until something is found.
fn first(expression: &str, from: u64, pieces: &[&str]) -> Option<(u64, u64, String)> {
    let pattern = pattern(expression);
    let mut matcher = Matcher::new(&pattern, from);
    let mut cursor = 0;
    for piece in pieces {
        let found = matcher.take(&pattern, cursor, piece);
        if let Some(found) = found.or_else(|| matcher.look(&pattern)) {
            return Some((found.start, found.end, found.text));
        }
        cursor += code_points(piece) as u64;
    }
    None
}

fn some(start: u64, end: u64, text: &str) -> Option<(u64, u64, String)> {
    Some((start, end, text.to_owned()))
}

#[test]
fn a_match_over_the_border_of_two_pieces_is_found() {
    assert_eq!(
        first("ready", 0, &["x\nnot re", "a", "dy\n"]),
        some(6, 11, "ready")
    );
    assert_eq!(first("é+$", 0, &["é", "aéé", "b\né\n"]), some(0, 1, "é"));
    assert_eq!(first("^b", 0, &["a", "b\n", "b"]), some(3, 4, "b"));
}

#[test]
fn the_unfinished_line_counts_as_it_stands() {
    assert_eq!(first("^> $", 0, &["1\n2\n", "> "]), some(4, 6, "> "));
    assert_eq!(first(r"\d+", 0, &["a 1", "23\n"]), some(2, 3, "1"));
}

#[test]
fn nothing_before_the_start_is_found_but_it_counts_as_what_stands_before() {
    assert_eq!(first("a", 2, &["aaaa"]), some(2, 3, "a"));
    assert_eq!(first("^a", 2, &["aaaa\n", "a"]), some(5, 6, "a"));
    assert_eq!(first(r"\bb", 3, &["ab ", "b"]), some(3, 4, "b"));
    assert_eq!(first(r"\bb", 1, &["ab", "b"]), None);
    assert_eq!(first("a|c", 7, &["ab\nab\nabc"]), some(8, 9, "c"));
}

#[test]
fn an_empty_match_lets_a_reader_get_on() {
    assert_eq!(first("^$", 0, &["a\n", "\nb"]), some(2, 3, ""));
    assert_eq!(first("^$", 3, &["a\n", "\nb\n\n"]), some(5, 6, ""));
    assert_eq!(first("x*", 0, &["abc"]), some(0, 1, ""));
    assert_eq!(first("^$", 0, &["abc\n"]), None);
    assert_eq!(first("$", 0, &["abc"]), some(3, 3, ""));
}

#[test]
fn the_text_of_a_long_match_is_clipped_and_its_bounds_are_not() {
    let text = format!("a{}b", "é".repeat(10_000));
    let pattern = pattern("a.*b");
    let mut matcher = Matcher::new(&pattern, 7);
    assert_eq!(matcher.take(&pattern, 7, &text), None);
    let found = matcher.look(&pattern).unwrap();
    assert_eq!((found.start, found.end), (7, 10_009));
    assert!(found.clipped);
    assert_eq!(found.text.len(), MAX_MATCH_BYTES - 1);
}

/// Grows one line by `step` bytes at a time, with a look after each, and returns how the end was found.
fn grow(expression: &str, first: &str, step: &str, steps: usize, last: &str) -> Option<Found> {
    let pattern = pattern(expression);
    let mut matcher = Matcher::new(&pattern, 0);
    let mut cursor = 0;
    let pieces = std::iter::once(first)
        .chain(std::iter::repeat_n(step, steps))
        .chain([last]);
    for piece in pieces {
        let found = matcher.take(&pattern, cursor, piece);
        if let Some(found) = found.or_else(|| matcher.look(&pattern)) {
            return Some(found);
        }
        cursor += code_points(piece) as u64;
    }
    None
}

#[test]
fn a_giant_line_that_grows_in_small_steps_is_walked_over_once() {
    // Searched anew at each of 30,000 looks it would be 7 GB of text: this test would never end.
    let found = grow("start.*end$", "start", "0123456789abcdef", 30_000, "end").unwrap();
    assert_eq!((found.start, found.end), (0, 5 + 16 * 30_000 + 3));
    let found = grow(r"\bpoint\b", "start", " 123456789abcde", 65_000, " point").unwrap();
    assert_eq!(found.text, "point");
}

#[test]
fn a_giant_line_that_cannot_be_walked_is_searched_when_it_has_grown_or_ended() {
    let found = grow(r"\bточка\b", "é", "0123456789abcdé", 65_000, " точка\n").unwrap();
    assert_eq!((found.text.as_str(), found.end - found.start), ("точка", 5));
    let found = grow(r"\bточка\b", "é", "0123456789abcdé", 1_000, " точка").unwrap();
    assert_eq!(found.text, "точка");
}

#[test]
fn of_an_endless_line_the_end_is_kept() {
    let block = "0123456789abcdef".repeat(4096);
    let found = grow("end$", "start", &block, 400, "end").unwrap();
    assert_eq!(found.end, 5 + 400 * block.len() as u64 + 3);
    // What was dropped was its start: it doesn't start anew.
    assert_eq!(grow("^[0-9a-f]", "start", &block, 400, "end\n"), None);
    let pattern = pattern("nowhere");
    let mut matcher = Matcher::new(&pattern, 0);
    for piece in 0..400 {
        let cursor = piece * block.len() as u64;
        assert_eq!(matcher.take(&pattern, cursor, &block), None);
        assert!(matcher.line.text().len() <= 2 * KEPT_BYTES);
    }
}
