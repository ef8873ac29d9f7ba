//! Text without a terminal's sequences: what is left when every sequence of whatever form is removed, and SI and SO with
//! them. Everything else stays, other control characters too.

use super::sequence::{Piece, Sequence};

/// Removes sequences from text that comes in pieces, wherever it is cut.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    sequence: Sequence,
    /// What was drawn on an alternate screen goes with it when that is left.
    drops_screens: bool,
    /// The text is on an alternate screen, which began at this place of what is left of the text.
    alternate: Option<usize>,
}

impl Strip {
    /// One that also takes out what was on the alternate screen when that is left, as a terminal does: of an editor that has
    /// been closed its drawing is no output. What is on an alternate screen that is still shown stays. All of what `take` gets
    /// until then goes to one `out`, or on to an empty one.
    pub fn without_left_screens() -> Strip {
        Strip {
            drops_screens: true,
            ..Strip::default()
        }
    }

    /// Adds what is left of the next text to `out`.
    pub fn take(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        // What came before was handed on, or has been shortened.
        self.alternate = self.alternate.map(|from| from.min(out.len()));
        while !rest.is_empty() {
            if self.sequence.is_ground() {
                let plain = plain(rest);
                out.push_str(&rest[..plain]);
                rest = &rest[plain..];
            }
            let mut chars = rest.chars();
            let Some(char) = chars.next() else {
                return;
            };
            rest = chars.as_str();
            match self.sequence.take(char) {
                Piece::Control(last, numbers) if self.drops_screens && numbers.dec => {
                    if matches!(numbers.first, 47 | 1047 | 1049) {
                        self.switch(last, out);
                    }
                }
                Piece::Char('\u{e}' | '\u{f}')
                | Piece::Part
                | Piece::Escape(_)
                | Piece::Control(..) => {}
                Piece::Char(char) => out.push(char),
            }
        }
    }

    /// Sets or resets the mode of the alternate screen.
    fn switch(&mut self, last: char, out: &mut String) {
        match last {
            'h' => {
                self.alternate.get_or_insert(out.len());
            }
            'l' => {
                if let Some(from) = self.alternate.take() {
                    out.truncate(from);
                }
            }
            _ => {}
        }
    }

    /// What is left of `text`, which is all there is.
    pub fn whole(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        Strip::default().take(text, &mut out);
        out
    }
}

/// Length of the start of `text` of which nothing is removed.
fn plain(text: &str) -> usize {
    let bytes = text.as_bytes();
    let special = bytes.iter().enumerate().position(|(at, &byte)| match byte {
        0x1b | 0xe | 0xf => true,
        // U+0080 to U+009F.
        0xc2 => bytes[at + 1] < 0xa0,
        _ => false,
    });
    special.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn sequences_of_each_form_are_removed() {
        for (text, left) in [
            ("plain\r\n\ttext\u{7}\u{8}", "plain\r\n\ttext\u{7}\u{8}"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[?2004h$ \u{1b}[?2004l\r", "$ \r"),
            ("\u{1b}[>4;1m\u{1b}[=0u\u{1b}[!p\u{1b}[3~x", "x"),
            ("\u{1b}[62\"p\u{1b}[2 qx", "x"),
            ("\u{1b}[38:2::1:2:3mx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://a/\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}P1$r0m\u{1b}\\x", "x"),
            ("\u{1b}_Gi=1;AAAA\u{1b}\\x", "x"),
            ("\u{1b}(B\u{1b})0\u{1b}*A\u{1b}#8x", "x"),
            ("\u{1b}=\u{1b}>\u{1b}7\u{1b}8\u{1b}c\u{1b}Mx", "x"),
            ("\u{e}lqqk\u{f}x", "lqqkx"),
            ("\u{9b}1mx\u{9d}0;t\u{9c}y", "xy"),
            ("°\u{a0}é", "°\u{a0}é"),
            ("a\u{1b}[1\nmb", "a\nb"),
        ] {
            assert_eq!(Strip::whole(text), left, "{text:?}");
        }
    }

    #[test]
    fn what_was_on_an_alternate_screen_goes_when_that_is_left() {
        let pieces = [
            ("$ vi\r\n\u{1b}[?1049h\u{1b}[2J~ ~", "$ vi\r\n~ ~"),
            (":wq\u{1b}[?1049l$ ", "$ vi\r\n$ "),
            (
                "less\u{1b}[?47hone\u{1b}[?47l\u{1b}[?1hx",
                "$ vi\r\n$ lessx",
            ),
        ];
        let (mut strip, mut out) = (Strip::without_left_screens(), String::new());
        for (piece, so_far) in pieces {
            strip.take(piece, &mut out);
            assert_eq!(out, so_far);
        }
        // Read by read: what was handed out already can't be taken back.
        let mut strip = Strip::without_left_screens();
        let reads = pieces.map(|(piece, _)| {
            let mut out = String::new();
            strip.take(piece, &mut out);
            out
        });
        assert_eq!(reads, ["$ vi\r\n~ ~", "$ ", "lessx"]);
        assert_eq!(Strip::whole("a\u{1b}[?1049hb\u{1b}[?1049lc"), "abc");
    }

    #[test]
    fn a_title_that_never_ends_takes_its_line_and_no_more() {
        assert_eq!(Strip::whole("a\u{1b}]0;lost\r\nb"), "a\nb");
    }

    /// Parts of sequences and text, in any order.
    fn text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("\u{1b}".to_owned()),
            Just("\u{1b}[".to_owned()),
            Just("\u{1b}]0;".to_owned()),
            Just("\u{1b}P".to_owned()),
            Just("\u{1b}\\".to_owned()),
            Just("\u{1b}[?1;2h".to_owned()),
            Just("\u{9b}".to_owned()),
            "[ -~é世\n\r\u{7}\u{e}\u{f}\u{18}]{0,4}",
        ];
        vec(part, 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_text_is_cut(text in text(), cuts in vec(any::<prop::sample::Index>(), 0..6)) {
            let mut places: Vec<usize> = cuts.iter().map(|cut| super::super::floor(&text, cut.index(text.len() + 1))).collect();
            places.sort_unstable();
            places.push(text.len());
            let (mut strip, mut out, mut from) = (Strip::default(), String::new(), 0);
            for to in places {
                strip.take(&text[from..to], &mut out);
                from = to;
            }
            prop_assert_eq!(out, Strip::whole(&text));
        }

        #[test]
        fn no_escape_is_left_and_text_without_any_stays(text in text()) {
            let left = Strip::whole(&text);
            let untouched = !left.contains(['\u{1b}', '\u{e}', '\u{f}', '\u{9b}']);
            prop_assert!(untouched);
            prop_assert_eq!(Strip::whole(&left), left);
        }

        /// The twin goes character by character, without the short cut over plain text.
        #[test]
        fn the_short_cut_over_plain_text_leaves_what_the_long_way_leaves(text in text()) {
            let mut sequence = Sequence::default();
            let long: String = text.chars().filter(|&char| {
                matches!(sequence.take(char), Piece::Char(char) if char != '\u{e}' && char != '\u{f}')
            }).collect();
            prop_assert_eq!(Strip::whole(&text), long);
        }
    }
}
