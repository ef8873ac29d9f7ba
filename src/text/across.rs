//! Whether a pattern matches text as a whole, as it comes.
//!
//! The text is walked over once, by an automaton that stays where it is between two looks, so a flood costs no more than its
//! length. Where the automaton can't tell (`\b` and the like in text that isn't ASCII), the end of the text is searched
//! anew, when it is short or has grown by a quarter.

use super::{
    floor,
    pattern::{Pattern, Step, Stepper},
};

/// Text that is kept to be searched anew, in bytes.
const KEPT_BYTES: usize = 256 * 1024;
/// Length in bytes up to which it is searched at each look.
const SEARCH_ANEW: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub struct Across {
    pattern: Pattern,
    stepper: Stepper,
    kept: String,
    /// Length of the kept text when it was last searched.
    searched: usize,
    matched: bool,
}

impl Across {
    /// At the start of the text.
    pub fn new(pattern: Pattern) -> Across {
        let mut stepper = pattern.stepper();
        stepper.start("", 0);
        Across {
            pattern,
            stepper,
            kept: String::new(),
            searched: 0,
            matched: false,
        }
    }

    /// Takes the next text. True when there is a match in all of it; once there is, there always is one. `$` is the end of
    /// what there is, and as in Python also the place before a line's end there; `is_all` says that there is no more for now,
    /// or it isn't looked for.
    pub fn take(&mut self, text: &str, is_all: bool) -> bool {
        if self.matched {
            return true;
        }
        self.keep(text);
        let body = without_line_end(text);
        let mut step = self.stepper.walk(body);
        if step == Step::Nothing && is_all {
            step = self.stepper.if_ended();
        }
        if step == Step::Nothing && body.len() < text.len() {
            step = self.stepper.walk(&text[body.len()..]);
            if step == Step::Nothing && is_all {
                step = self.stepper.if_ended();
            }
        }
        self.matched = match step {
            Step::Nothing => false,
            Step::Match => true,
            Step::Unknown => self.search_anew(),
        };
        self.matched
    }

    fn keep(&mut self, text: &str) {
        self.kept.push_str(text);
        if self.kept.len() > 2 * KEPT_BYTES {
            let cut = floor(&self.kept, self.kept.len() - KEPT_BYTES);
            self.kept.drain(..cut);
            self.searched = self.searched.saturating_sub(cut);
        }
    }

    fn search_anew(&mut self) -> bool {
        let len = self.kept.len();
        if len > SEARCH_ANEW && len - self.searched < len / 4 {
            return false;
        }
        self.searched = len;
        let body = without_line_end(&self.kept);
        self.pattern.find(&self.kept, 0..len).is_some()
            || self.pattern.find(body, 0..body.len()).is_some()
    }
}

/// Without the line end at its very end.
fn without_line_end(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(body) => body.strip_suffix('\r').unwrap_or(body),
        None => text.strip_suffix('\r').unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn matches(pattern: &str, pieces: &[&str]) -> bool {
        let mut across = Across::new(Pattern::across_lines(pattern).unwrap());
        pieces.iter().any(|piece| across.take(piece, true))
    }

    #[test]
    fn a_match_may_go_over_lines_and_pieces() {
        assert!(matches(r"one\s+two", &["one\r", "\ntwo"]));
        assert!(matches(r"(?s)BEGIN.*END", &["BEGIN\r\n", "x\r\nEN", "D"]));
        assert!(!matches(r"BEGIN.*END", &["BEGIN\r\nEND"]));
        assert!(matches("世界", &["世", "界"]));
    }

    #[test]
    fn the_ends_of_the_text_are_pythons() {
        assert!(matches(r"\$\s*$", &["out\r\n", "user@host:~$ "]));
        assert!(!matches(r"^two", &["one\r\n", "two"]));
        assert!(matches("done$", &["done\r\n"]));
        assert!(matches("done$", &["done", "\r\n"]));
        let mut across = Across::new(Pattern::across_lines("done$").unwrap());
        assert!(!across.take("done\r\nmore", true));
        assert!(matches("(?m)^two$", &["one\r\n\rtwo\r\nthree"]));
        let mut across = Across::new(Pattern::across_lines("x$").unwrap());
        assert!(!across.take("x", false), "more is there already");
        assert!(!across.take("y", true));
    }

    #[test]
    fn bounds_of_words_are_found_where_the_automaton_cannot_tell() {
        assert!(matches(r"\bärger\b", &["kein ", "ärger", " hier"]));
        assert!(!matches(r"\bärger\b", &["kein", "ärgernis"]));
    }

    #[test]
    fn look_around_and_back_references_are_refused() {
        for pattern in ["(?=x)", "(?<!a)b", r"(a)\1", r"(?P<n>a)(?P=n)"] {
            let error = Pattern::across_lines(pattern).unwrap_err().to_string();
            assert!(error.contains("at character"), "{pattern}: {error}");
        }
    }

    proptest! {
        /// The twin searches the whole text anew after each piece.
        #[test]
        fn a_walk_finds_what_a_search_finds(
            pattern in prop_oneof![
                Just("ab"), Just("a+b?c"), Just("a\nb"), Just("^a"), Just("c$"), Just("(?m)^b$"),
                Just(r"\ba\b"), Just("(?s)a.b"), Just("é|世"), Just(r"a\s+b"),
            ],
            pieces in vec("[abc\r\né世 ]{0,6}", 0..8),
        ) {
            let compiled = Pattern::across_lines(pattern).unwrap();
            let mut across = Across::new(compiled.clone());
            let (mut whole, mut expected) = (String::new(), false);
            for piece in pieces {
                whole.push_str(&piece);
                let ends = [whole.as_str(), &whole[..whole.len() - piece.len() + without_line_end(&piece).len()]];
                expected |= ends.iter().any(|text| compiled.find(text, 0..text.len()).is_some());
                prop_assert_eq!(across.take(&piece, true), expected, "{:?}", whole);
            }
        }
    }
}
