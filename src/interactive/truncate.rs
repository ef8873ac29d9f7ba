//! What is left of output that is longer than an answer may be. Cuts fall between lines where a line's end is near, else
//! between characters, and what stands in place of the rest counts it exactly.

use std::borrow::Cow;

use memchr::{memchr, memrchr};

use crate::{config::Truncation, text::floor};

/// Cuts `text` to `max` bytes as `mode` says; the marker comes on top of them. Tells whether anything is missing.
pub(super) fn truncate(text: &str, max: usize, mode: Truncation) -> (Cow<'_, str>, bool) {
    if text.len() <= max || mode == Truncation::None {
        return (Cow::Borrowed(text), false);
    }
    let (head, omitted, tail) = parts(text, max, mode);
    let cut = match mode {
        Truncation::Tail => format!("{head}{}... [output truncated]", line_end(head)),
        Truncation::TailOnly => format!("[output truncated] ...\n{tail}"),
        Truncation::HeadTail | Truncation::None => {
            let what = match bytecount::count(omitted.as_bytes(), b'\n') {
                0 => format!("{} bytes", omitted.len()),
                1 => "1 line".to_owned(),
                lines => format!("{lines} lines"),
            };
            format!("{head}{}... [{what} omitted] ...\n{tail}", line_end(head))
        }
    };
    (Cow::Owned(cut), true)
}

/// What is kept of the beginning, what is omitted, and what is kept of the end. `text` is longer than `max`.
fn parts(text: &str, max: usize, mode: Truncation) -> (&str, &str, &str) {
    let (head_bytes, tail_bytes) = match mode {
        Truncation::Tail => (max, 0),
        Truncation::TailOnly => (0, max),
        Truncation::HeadTail | Truncation::None => (max * 3 / 10, max - max * 3 / 10),
    };
    let (head, tail) = (head(text, head_bytes), tail(text, tail_bytes));
    (head, &text[head.len()..text.len() - tail.len()], tail)
}

/// What ends the line before a marker.
fn line_end(head: &str) -> &'static str {
    if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    }
}

/// At most `max` bytes of the beginning, whole lines if that keeps half of it.
fn head(text: &str, max: usize) -> &str {
    let head = &text[..floor(text, max)];
    match memrchr(b'\n', head.as_bytes()) {
        Some(end) if end + 1 >= head.len() / 2 => &head[..=end],
        _ => head,
    }
}

/// At most `max` bytes of the end, whole lines if that keeps half of it.
fn tail(text: &str, max: usize) -> &str {
    let mut from = text.len() - max;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let tail = &text[from..];
    // A line that starts right there is whole.
    if text[..from].ends_with('\n') {
        return tail;
    }
    match memchr(b'\n', tail.as_bytes()) {
        Some(end) if end < tail.len() / 2 => &tail[end + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, max: usize, mode: Truncation) -> String {
        truncate(text, max, mode).0.into_owned()
    }

    #[test]
    fn what_fits_stays_as_it_is_in_each_mode() {
        for mode in [
            Truncation::Tail,
            Truncation::HeadTail,
            Truncation::TailOnly,
            Truncation::None,
        ] {
            assert_eq!(
                truncate("ab\ncd", 5, mode),
                (Cow::Borrowed("ab\ncd"), false)
            );
        }
        assert_eq!(truncate("abcdef", 1, Truncation::None).0, "abcdef");
    }

    #[test]
    fn each_mode_keeps_its_part() {
        let text = "one\ntwo\nthree\nfour\nfive\nsix\n";
        assert_eq!(
            cut(text, 9, Truncation::Tail),
            "one\ntwo\n... [output truncated]"
        );
        assert_eq!(
            cut(text, 10, Truncation::TailOnly),
            "[output truncated] ...\nfive\nsix\n"
        );
        assert_eq!(
            cut(text, 14, Truncation::HeadTail),
            "one\n... [3 lines omitted] ...\nfive\nsix\n"
        );
    }

    #[test]
    fn a_line_without_an_end_is_cut_between_characters_and_its_bytes_are_counted() {
        let text = "é".repeat(100);
        assert_eq!(
            cut(&text, 5, Truncation::Tail),
            "éé\n... [output truncated]"
        );
        assert_eq!(
            cut(&text, 5, Truncation::TailOnly),
            "[output truncated] ...\néé"
        );
        assert_eq!(
            cut(&text, 20, Truncation::HeadTail),
            format!("ééé\n... [180 bytes omitted] ...\n{}", "é".repeat(7))
        );
    }

    fn modes() -> impl Strategy<Value = Truncation> {
        prop_oneof![
            Just(Truncation::Tail),
            Just(Truncation::HeadTail),
            Just(Truncation::TailOnly)
        ]
    }

    proptest! {
        #[test]
        fn the_parts_make_up_the_whole_and_what_is_kept_is_within_the_budget(
            text in "([a-zé世]{0,12}\n?){0,40}",
            max in 1usize..200,
            mode in modes(),
        ) {
            prop_assume!(text.len() > max);
            let (head, omitted, tail) = parts(&text, max, mode);
            prop_assert_eq!([head, omitted, tail].concat(), text.as_str());
            prop_assert!(head.len() + tail.len() <= max);
            // Where no line ends, no more is given away than a character's part.
            prop_assert!(mode != Truncation::Tail || head.len() + 3 >= max || head.ends_with('\n'));
            let tail_starts_a_line = omitted.ends_with('\n');
            prop_assert!(mode != Truncation::TailOnly || tail.len() + 3 >= max || tail_starts_a_line);
            prop_assert!(!omitted.is_empty());
        }

        #[test]
        fn the_marker_counts_the_omitted_lines(text in "([a-zé世]{0,12}\n?){0,40}", max in 1usize..200) {
            prop_assume!(text.len() > max);
            let (head, omitted, tail) = parts(&text, max, Truncation::HeadTail);
            let count = match omitted.matches('\n').count() {
                0 => format!("{} bytes", omitted.len()),
                1 => "1 line".to_owned(),
                lines => format!("{lines} lines"),
            };
            let separator = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
            prop_assert_eq!(
                cut(&text, max, Truncation::HeadTail),
                format!("{head}{separator}... [{count} omitted] ...\n{tail}")
            );
        }
    }
}
