//! The last line of a page, as a terminal would show it.

use super::runs;
use crate::{
    arena::{Page, Stream},
    text::fold::Fold,
};

/// The last line with something to see in it, of the stream that it was printed to; empty when there is none. It is clipped after
/// `chars` characters, with an ellipsis for the rest.
pub fn last_line(page: &Page, chars: usize) -> String {
    let (mut stdout, mut stderr) = (Fold::default(), Fold::default());
    let (mut last, mut shown) = (String::new(), String::new());
    for (_, stream, text) in runs(page) {
        let fold = match stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
        };
        for piece in text.split_inclusive('\n') {
            let line = piece.strip_suffix('\n');
            fold.take(line.unwrap_or(piece));
            shown.clear();
            fold.show(&mut shown);
            if !shown.trim().is_empty() {
                last.clone_from(&shown);
            }
            if line.is_some() {
                fold.clear();
            }
        }
    }
    let line = last.trim_end();
    match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Run;

    fn page(pieces: &[(Stream, &str)]) -> Page {
        let mut page = Page::default();
        for (stream, text) in pieces {
            page.text.push_str(text);
            page.runs.push(Run {
                cursor: page.next_cursor,
                stream: *stream,
                end: page.text.len(),
            });
            page.next_cursor += text.chars().count() as u64;
        }
        page
    }

    #[test]
    fn the_last_line_is_the_one_that_was_printed_last() {
        use Stream::{Stderr, Stdout};
        for (pieces, line) in [
            (&[][..], ""),
            (&[(Stdout, "\n \n")], ""),
            (&[(Stdout, "one\ntwo\n\n")], "two"),
            (&[(Stdout, "one\ntw")], "tw"),
            (&[(Stdout, "10 %\r55 %\r")], "55 %"),
            (&[(Stdout, "\x1b[1m  bold\x1b[0m\n")], "  bold"),
            (&[(Stdout, "out"), (Stderr, "err\n")], "err"),
            (
                &[(Stdout, "Do"), (Stderr, "err\n"), (Stdout, "wn 3\rUp")],
                "Upwn 3",
            ),
        ] {
            assert_eq!(last_line(&page(pieces), 200), line, "{pieces:?}");
        }
    }

    #[test]
    fn a_long_line_is_clipped_between_characters() {
        let page = page(&[(Stream::Stdout, "äöü€")]);
        assert_eq!(last_line(&page, 4), "äöü€");
        assert_eq!(last_line(&page, 3), "äöü…");
    }
}
