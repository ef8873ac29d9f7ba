use proptest::{collection::vec, prelude::*};

use super::{line::COLUMNS, *};

fn folded(pieces: &[&str]) -> (String, Shown) {
    let mut fold = Fold::default();
    for piece in pieces {
        fold.take(piece);
    }
    let mut out = String::new();
    let shown = fold.show(&mut out);
    (out, shown)
}

#[track_caller]
fn shows(line: &str, expected: &str) {
    let (out, shown) = folded(&[line]);
    assert_eq!(out, expected, "{line:?}");
    assert!(!shown.cut, "{line:?}");
    assert_eq!(shown.verbatim, line == expected, "{line:?}");
}

#[test]
fn what_has_nothing_to_fold_stays_as_it_is() {
    for line in ["", "plain", "a\tb  ", "第一行 é😀", "e\u{301}\u{200d}"] {
        shows(line, line);
    }
}

#[test]
fn rewriting_shows_what_was_written_last() {
    shows("10%\r20%\r100%", "100%");
    shows("Downloading 100%\rDone", "Doneloading 100%");
    shows("Downloading 100%\r\u{1b}[KDone", "Done");
    shows("line\r", "line");
    shows("line\r\r", "line");
    shows("\rab\u{8}c", "ac");
    shows("_\u{8}xx\u{8}x", "xx");
    shows("\u{8}\u{8}a", "a");
}

#[test]
fn erasing_moving_deleting_and_inserting_have_their_effect() {
    shows("abcdef\u{1b}[3D\u{1b}[K", "abc");
    shows("abcdef\u{1b}[3D\u{1b}[1Kx", "   xef");
    shows("abcdef\u{1b}[2K", "");
    shows("abcdef\u{1b}[2Kx", "      x");
    shows("abcdef\r\u{1b}[0J-", "-");
    shows("abcdef\u{1b}[1G\u{1b}[2X", "  cdef");
    shows("abcdef\u{1b}[2G\u{1b}[2P", "adef");
    shows("abcdef\u{1b}[2G\u{1b}[2@xy", "axybcdef");
    shows("ab\u{1b}[3Cx", "ab   x");
    shows("ab\u{1b}[6`x\u{1b}[2ay", "ab   x  y");
    shows("abc\u{1b}[3;2Hx", "axc");
    shows("abc\u{1b}[Hx", "xbc");
    shows("ab\u{1b}7cd\u{1b}8x", "abxd");
    shows("ab\u{1b}[scd\u{1b}[ux", "abxd");
    shows("abc\u{1b}cx", "x");
    shows("abc\u{1b}[Ex", "xbc");
}

#[test]
fn other_sequences_and_control_characters_leave_nothing() {
    shows(
        "\u{1b}[1;31mred\u{1b}[0m \u{1b}[38:2::1:2:3mx\u{1b}[m",
        "red x",
    );
    shows(
        "\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b\u{9d}0;t\u{9c}c",
        "abc",
    );
    shows(
        "a\u{1b}Pq#0;2\u{1b}\\b\u{1b}_x\u{7}y\u{1b}\\c\u{1b}^p\u{1b}\\d\u{1b}Xs\u{9c}e",
        "abcde",
    );
    shows("\u{1b}(Ba\u{1b})0b\u{1b}#8c\u{1b}%Gd\u{e}\u{f}", "abcd");
    shows("\u{1b}=a\u{1b}>b\u{1b}Mc\u{1b}Dd", "abcd");
    shows(
        "\u{1b}[?25la\u{1b}[?2004hb\u{1b}[>1uc\u{1b}[2 qd\u{1b}[?2Ke",
        "abcde",
    );
    shows("a\u{9b}1mb\u{9b}3D\u{9b}Kc", "c");
    shows("a\u{0}b\u{7}c\u{b}\u{c}d\u{7f}e", "abcde");
    shows("abc\u{1b}[2Ax\u{1b}[1By", "abcxy");
    // Cut off in the middle, by an abort, by a new start, by text that can't belong to it, by the end.
    shows(
        "a\u{1b}[1\u{18}b\u{1b}[1\u{1b}[mc\u{1b}[1éd\u{1b}[1",
        "abcéd",
    );
    shows("a\u{1b}]0;never ended", "a");
    // Control characters within a sequence have their effect.
    shows("abc\u{1b}[\r2Cd", "abd");
}

#[test]
fn wide_characters_take_two_columns_and_marks_none() {
    shows("第一行\rx", "x 一行");
    shows("第一行\r\u{1b}[2Cx", "第x 行");
    shows("第一行\r\u{1b}[3Cx", "第 x行");
    shows("ab\r第", "第");
    shows("a第\r一", "一");
    shows("第一\u{8}\u{1b}[K", "第");
    shows("第一\r\u{1b}[P", " 一");
    shows("第一\r\u{1b}[C\u{1b}[@", "   一");
    shows("e\u{301}a\rx", "xa");
    shows(
        "\rxe\u{301}\u{302}y\u{1b}[D\u{303}",
        "xe\u{301}\u{302}\u{303}y",
    );
    shows("\r第\u{301}x", "第\u{301}x");
    shows("\u{1b}[m\u{301}a", "a");
}

#[test]
fn tabs_stay_tabs_where_nothing_was() {
    shows("\u{1b}[ma\tb\tc", "a\tb\tc");
    shows("a\tb\rxyz\tc", "xyz\tc");
    shows("a bc\rxyz\td", "xyzc    d");
    shows("a\tb\r\tc", "a\tc");
    shows("a\tb\r\u{1b}[4Cx", "a   x   b");
    shows("abcdefgh\r\u{1b}[4X\tx", "    efghx");
    shows("abcdefgh\r\u{1b}[8X\tx", "\tx");
    shows("\r\t\u{301}x", "\tx");
    // Moved away from its stop it is the blanks that it took.
    shows("ab\tc\r\u{1b}[P", "b      c");
}

#[test]
fn trailing_blanks_are_shown_when_they_were_written() {
    shows("\u{1b}[ma  ", "a  ");
    shows("\u{1b}[ma\u{1b}[5C", "a");
    shows("abc\u{1b}[2D\u{1b}[9X", "a");
    shows("\u{1b}[ma\t", "a\t");
}

#[test]
fn five_thousand_redraws_are_one_line() {
    let mut fold = Fold::default();
    for done in 0..5_000 {
        fold.take(&format!(
            "\r\u{1b}[2K[{:50}] {done}/5000",
            "#".repeat(done / 100)
        ));
    }
    let mut out = String::new();
    fold.show(&mut out);
    assert_eq!(out, format!("[{:50}] 4999/5000", "#".repeat(49)));
}

#[test]
fn a_line_is_bounded_in_columns_and_says_so() {
    for start in ["", "\u{1b}[m"] {
        let (out, shown) = folded(&[&format!("{start}{}", "x".repeat(10 * COLUMNS))]);
        assert!(shown.cut && out.len() <= KEPT_BYTES && out.len() >= COLUMNS);
        let (out, shown) = folded(&[&format!("{start}{}\rA", "第".repeat(COLUMNS))]);
        assert!(shown.cut);
        assert_eq!(out, format!("A {}", "第".repeat(COLUMNS / 2 - 1)));
    }
    let (out, shown) = folded(&["a\u{1b}[1000000000Cb\u{1b}[99999999999999999999Dc"]);
    assert_eq!((out.as_str(), shown.cut), ("c", true));
    let (out, shown) = folded(&[&format!("a\u{1b}[{}Gb", 1_000)]);
    assert_eq!((out.len(), shown.cut), (1_000, false));
}

#[test]
fn who_edits_thousands_of_columns_with_every_few_bytes_is_left_out() {
    let full = "x".repeat(COLUMNS);
    for edit in [
        "\u{1b}[@",
        "\u{1b}[65535X",
        "\u{1b}[P\u{1b}[@",
        "\u{1b}[65535C\u{1b}[1K\r",
    ] {
        // Each costs up to 65,536 columns: in full this would be some 60,000,000,000.
        let line = format!("{full}\r{}", edit.repeat(1_000_000));
        let (_, shown) = folded(&[&line]);
        assert!(shown.cut, "{edit:?}");
    }
    // What a program does on a line of a terminal's width is far from it.
    let editor = format!(
        "{}\r{}",
        "x".repeat(200),
        "\u{1b}[@y\u{1b}[P".repeat(10_000)
    );
    assert!(!folded(&[&editor]).1.cut);
}

#[test]
fn marks_cannot_fill_the_memory() {
    let mut fold = Fold::default();
    fold.take("\r");
    for _ in 0..200_000 {
        fold.take("a\u{301}\r");
    }
    let mut out = String::new();
    assert!(!fold.show(&mut out).cut);
    assert_eq!(out, "a\u{301}");
    assert!(fold.line.clusters() < 10_000);
    fold.take(&"\u{301}".repeat(100_000));
    fold.take("\u{1b}[C");
    fold.take(&"\u{301}".repeat(100_000));
    out.clear();
    assert!(fold.show(&mut out).cut);
    assert!(out.len() < 100);
}

/// Naive twin: a column holds a string; tails are empty strings, blanks are `None`.
#[derive(Default)]
struct Twin {
    columns: Vec<Option<String>>,
    column: usize,
    saved: usize,
}

impl Twin {
    fn heal(&mut self, column: usize) {
        let tail =
            |cell: Option<&Option<String>>| matches!(cell, Some(Some(text)) if text.is_empty());
        if !tail(self.columns.get(column)) {
            return;
        }
        let mut at = column;
        while tail(self.columns.get(at)) {
            self.columns[at] = None;
            at += 1;
        }
        let mut at = column - 1;
        while tail(self.columns.get(at)) {
            self.columns[at] = None;
            at -= 1;
        }
        self.columns[at] = None;
    }

    fn set(&mut self, text: &str, width: usize) {
        while self.columns.len() < self.column + width {
            self.columns.push(None);
        }
        self.heal(self.column);
        self.heal(self.column + width);
        for at in self.column..self.column + width {
            self.columns[at] = Some(String::new());
        }
        self.columns[self.column] = Some(text.to_owned());
        self.column += width;
    }

    fn blank(&mut self, from: usize, to: usize) {
        self.heal(from);
        self.heal(to);
        for at in from..to.min(self.columns.len()) {
            self.columns[at] = None;
        }
    }

    fn unalign(&mut self, from: usize) {
        for at in from..self.columns.len() {
            if self.columns[at].as_deref() == Some("\t") {
                self.columns[at] = None;
                let mut tail = at + 1;
                while self.columns.get(tail) == Some(&Some(String::new())) {
                    self.columns[tail] = None;
                    tail += 1;
                }
            }
        }
    }

    fn play(&mut self, token: &Token) {
        let here = self.column;
        match token {
            Token::Text(char) => match unicode_width::UnicodeWidthChar::width(*char).unwrap() {
                0 => {
                    let mut at = here.min(self.columns.len() + 1);
                    while at > 0 {
                        at -= 1;
                        match self.columns.get_mut(at) {
                            Some(Some(text)) if text.is_empty() => {}
                            Some(Some(text)) if text != "\t" => return text.push(*char),
                            _ => return,
                        }
                    }
                }
                width => self.set(&char.to_string(), width),
            },
            Token::Tab => {
                let stop = (here / 8 + 1) * 8;
                if (here..stop).all(|at| self.columns.get(at).is_none_or(Option::is_none)) {
                    self.set("\t", stop - here);
                }
                self.column = stop;
            }
            Token::Return => self.column = 0,
            Token::Back => self.column = here.saturating_sub(1),
            Token::Noise(_) => {}
            Token::Csi(count, last) => {
                let n = (*count).max(1);
                match last {
                    'C' => self.column += n,
                    'D' => self.column = here.saturating_sub(n),
                    'G' => self.column = n - 1,
                    'K' => match count {
                        0 => self.blank(here, usize::MAX),
                        1 => self.blank(0, here + 1),
                        2 => self.columns.clear(),
                        _ => {}
                    },
                    'X' => self.blank(here, here + n),
                    'P' if here < self.columns.len() => {
                        self.heal(here);
                        self.heal(here + n);
                        let end = self.columns.len().min(here + n);
                        self.columns.drain(here..end);
                        self.unalign(here);
                    }
                    '@' if here < self.columns.len() => {
                        self.heal(here);
                        for _ in 0..n {
                            self.columns.insert(here, None);
                        }
                        self.unalign(here);
                    }
                    's' if *count == 0 => self.saved = here,
                    'u' if *count == 0 => self.column = self.saved,
                    _ => {}
                }
            }
        }
    }

    fn text(&self) -> String {
        let len = self
            .columns
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |at| at + 1);
        let cells = self.columns[..len].iter();
        cells.map(|cell| cell.as_deref().unwrap_or(" ")).collect()
    }
}

#[derive(Clone, Debug)]
enum Token {
    Text(char),
    Tab,
    Return,
    Back,
    Csi(usize, char),
    Noise(&'static str),
}

impl Token {
    fn raw(&self) -> String {
        match self {
            Token::Text(char) => char.to_string(),
            Token::Tab => "\t".to_owned(),
            Token::Return => "\r".to_owned(),
            Token::Back => "\u{8}".to_owned(),
            Token::Csi(0, last) => format!("\u{1b}[{last}"),
            Token::Csi(count, last) => format!("\u{9b}{count}{last}"),
            Token::Noise(noise) => (*noise).to_owned(),
        }
    }
}

fn token() -> impl Strategy<Value = Token> {
    let text = prop::sample::select(vec!['a', 'b', ' ', 'é', '第', '😀', '\u{301}']);
    let last = prop::sample::select("CDGKXP@su".chars().collect::<Vec<_>>());
    let noise = prop::sample::select(vec![
        "\u{1b}[1;31m",
        "\u{1b}]0;t\u{7}",
        "\u{1b}P+q\u{1b}\\",
        "\u{1b}(B",
        "\u{1b}[3A",
        "\u{7}",
        "\u{9d}x\u{9c}",
        "\u{1b}M",
    ]);
    prop_oneof![
        6 => text.prop_map(Token::Text),
        1 => Just(Token::Tab),
        1 => Just(Token::Return),
        1 => Just(Token::Back),
        3 => (0usize..12, last).prop_map(|(count, last)| Token::Csi(count, last)),
        1 => noise.prop_map(Token::Noise),
    ]
}

proptest! {
    #[test]
    fn folds_as_the_naive_twin_does_wherever_the_text_is_cut(
        tokens in vec(token(), 0..40),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let raw: Vec<char> = tokens.iter().flat_map(|token| token.raw().chars().collect::<Vec<_>>()).collect();
        let mut twin = Twin::default();
        for token in &tokens {
            twin.play(token);
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(raw.len() + 1)).collect();
        places.extend([0, raw.len()]);
        places.sort_unstable();
        let pieces: Vec<String> = places.windows(2).map(|pair| raw[pair[0]..pair[1]].iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let (out, shown) = folded(&pieces);
        let text: String = raw.iter().collect();
        let control = first_control(&text);
        // Nothing to fold: as it came, also where a terminal would drop a mark at the start.
        prop_assert_eq!(shown.verbatim, control == text.len());
        if control == text.len() || &text[control..] == "\r" {
            prop_assert_eq!(out, &text[..control]);
        } else {
            prop_assert_eq!(out, twin.text());
        }
        prop_assert!(!shown.cut);
    }

    #[test]
    fn any_text_is_folded_and_nothing_but_text_is_left(
        text in "[\u{0}-\u{9}\u{b}-\u{ff}第\u{301}]{0,60}",
    ) {
        let (out, _) = folded(&[&text]);
        prop_assert!(out.chars().all(|char| char == '\t' || !char.is_control()), "{out:?}");
    }
}
