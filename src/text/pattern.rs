//! What a client looks for: a regular expression that matches within one line.
//!
//! The syntax is that of the `regex` crate, whose engine this is: linear in the text whatever the pattern, and bounded in
//! memory. Three rules come on top, so that a match depends on its own line alone, wherever a reader's buffers begin
//! and end:
//!
//! - `\n` is in no match. A class never means it (`\s`, `[^x]`, `(?s:.)`); a pattern that asks for nothing else at some
//!   place is refused.
//! - `^`, `\A`, `$` and `\z` are the ends of a line, whatever flags the pattern sets.
//! - `\r` ends a line for them and for `.`, too, but may be in a match. So `done$` finds `done\r\n`, and `^99%` finds what
//!   a progress bar wrote over its last state.

use std::{fmt, ops::Range};

use regex_automata::{
    Input,
    hybrid::{
        LazyStateID,
        dfa::{Cache, DFA},
    },
    meta::Regex,
    nfa::thompson,
    util::syntax,
};
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
};

/// Longest pattern in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// Groups and classes within each other. The rewriting below is recursive.
const MAX_NESTING: u32 = 100;
/// Bytes of each compiled automaton. Some ten milliseconds are spent before a pattern is found to be over it. What a byte
/// of text costs to search grows with it, too: at worst to a tenth of a millisecond, where `\w+@\w+` takes nanoseconds.
const MAX_PROGRAM_BYTES: usize = 256 * 1024;
/// Bytes of states that a lazy automaton keeps before it starts anew.
const MAX_CACHE_BYTES: usize = 512 * 1024;
/// What a pattern and its walks over two streams come to hold: four automata, four caches, and half as much again for what
/// the slower engines need and for what the smallest cache of a large automaton is over its bound.
pub const MOST_BYTES: usize = 6 * (MAX_PROGRAM_BYTES + MAX_CACHE_BYTES);

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not a regular expression, or one with what the engine leaves out, such as look-around.
    #[error("{what}, at character {at}")]
    Syntax {
        /// Position of the fault in characters, from 1.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// It has more than [`MAX_PATTERN_BYTES`].
    #[error("{bytes} bytes are too long, a pattern has at most {MAX_PATTERN_BYTES}")]
    TooLong {
        /// Bytes of the pattern.
        bytes: usize,
    },
    /// Its automaton would be too large, mostly for repetitions like `\w{500}`.
    #[error("too large when compiled; repeat less, or use ASCII classes like [a-z]")]
    TooLarge,
    /// It asks for a line feed.
    #[error(
        "\\n can't match, since a match lies within one line; use ^ and $ for the ends of lines"
    )]
    LineFeed,
}

/// Refuses a pattern that is too long, which is told without compiling it.
///
/// # Errors
/// [`PatternError::TooLong`].
pub fn check_length(pattern: &str) -> Result<(), PatternError> {
    let bytes = pattern.len();
    if bytes > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong { bytes });
    }
    Ok(())
}

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    /// The same automaton, to be stepped byte by byte.
    steps: DFA,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Pattern, PatternError> {
        let config = syntax::Config::new()
            .case_insensitive(ignore_case)
            .multi_line(true)
            .crlf(true);
        Pattern::compile(&within_a_line(parse(pattern, config)?)?)
    }

    /// Compiles a pattern for text as a whole, not for its lines: a match may go over several of them. As in Python, `^` and
    /// `$` are the text's ends unless the pattern sets `(?m)`; then they are those of lines, which `\r` ends, too.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn across_lines(pattern: &str) -> Result<Pattern, PatternError> {
        let parsed = parse(pattern, syntax::Config::new())?;
        let looks = rebuilt(parsed, &|leaf| {
            Ok(match leaf {
                HirKind::Look(Look::StartLF) => Hir::look(Look::StartCRLF),
                HirKind::Look(Look::EndLF) => Hir::look(Look::EndCRLF),
                other => leaf_of(other),
            })
        })?;
        Pattern::compile(&looks)
    }

    fn compile(hir: &Hir) -> Result<Pattern, PatternError> {
        let program = thompson::Config::new().nfa_size_limit(Some(MAX_PROGRAM_BYTES));
        let nfa = thompson::Compiler::new()
            .configure(program)
            .build_from_hir(hir)
            .map_err(|_| PatternError::TooLarge)?;
        let lazy = DFA::config()
            .unicode_word_boundary(true)
            .cache_capacity(MAX_CACHE_BYTES)
            .skip_cache_capacity_check(true);
        let steps = DFA::builder()
            .configure(lazy)
            .build_from_nfa(nfa)
            .map_err(|_| PatternError::TooLarge)?;
        let whole = Regex::config()
            .nfa_size_limit(Some(MAX_PROGRAM_BYTES))
            .onepass_size_limit(Some(MAX_PROGRAM_BYTES))
            .hybrid_cache_capacity(MAX_CACHE_BYTES);
        let regex = Regex::builder()
            .configure(whole)
            .build_from_hir(hir)
            .map_err(|_| PatternError::TooLarge)?;
        Ok(Pattern { regex, steps })
    }

    /// The first match that lies in `range` of `text`. What stands before and after the range counts for the ends of lines
    /// and words.
    ///
    /// # Panics
    /// When `range` isn't one of `text`.
    pub fn find(&self, text: &str, range: Range<usize>) -> Option<Range<usize>> {
        let input = Input::new(text).range(range);
        self.regex.search(&input).map(|found| found.range())
    }

    /// A walk over text that comes in pieces, to tell whether there is a match.
    pub(super) fn stepper(&self) -> Stepper {
        Stepper {
            cache: self.steps.create_cache(),
            dfa: self.steps.clone(),
            state: None,
        }
    }
}

/// Nothing but the name: the automata print pages of states.
impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pattern").finish_non_exhaustive()
    }
}

/// What a walk over the text so far has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no match.
    Nothing,
    /// There is one.
    Match,
    /// Only a search of the whole text can tell: the pattern asks for the bounds of words, and the text isn't ASCII.
    Unknown,
}

/// See [`Pattern::stepper`].
#[derive(Debug)]
pub(super) struct Stepper {
    dfa: DFA,
    cache: Cache,
    /// `None` when the walk can't tell.
    state: Option<LazyStateID>,
}

impl Stepper {
    /// Starts a walk at `at` in `text`, of which the part before counts for the ends of lines and words.
    pub(super) fn start(&mut self, text: &str, at: usize) {
        let input = Input::new(text).range(at..);
        self.state = self.dfa.start_state_forward(&mut self.cache, &input).ok();
    }

    /// Walks on. Not to be called again once there is a match.
    pub(super) fn walk(&mut self, text: &str) -> Step {
        let Some(mut state) = self.state else {
            return Step::Unknown;
        };
        for &byte in text.as_bytes() {
            match self.dfa.next_state(&mut self.cache, state, byte) {
                Ok(next) => state = next,
                Err(_) => return self.give_up(),
            }
            if state.is_tagged() {
                if state.is_match() {
                    return Step::Match;
                }
                if state.is_quit() {
                    return self.give_up();
                }
            }
        }
        self.state = Some(state);
        Step::Nothing
    }

    /// What it would be if the text ended here. The walk can go on.
    pub(super) fn if_ended(&mut self) -> Step {
        let Some(state) = self.state else {
            return Step::Unknown;
        };
        match self.dfa.next_eoi_state(&mut self.cache, state) {
            Ok(end) if end.is_match() => Step::Match,
            Ok(_) => Step::Nothing,
            Err(_) => self.give_up(),
        }
    }

    /// Tells nothing more until the next start.
    pub(super) fn give_up(&mut self) -> Step {
        self.state = None;
        Step::Unknown
    }
}

fn parse(pattern: &str, config: syntax::Config) -> Result<Hir, PatternError> {
    check_length(pattern)?;
    let config = config.nest_limit(MAX_NESTING);
    syntax::parse_with(pattern, &config).map_err(|error| explain(pattern, &error))
}

/// The expression with each class rid of `\n` and each anchor that of a line.
fn within_a_line(hir: Hir) -> Result<Hir, PatternError> {
    rebuilt(hir, &|leaf| match leaf {
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => Err(PatternError::LineFeed),
        HirKind::Class(Class::Unicode(mut class)) => {
            let matched = !class.ranges().is_empty();
            let line_feed = ClassUnicodeRange::new('\n', '\n');
            class.difference(&ClassUnicode::new([line_feed]));
            if matched && class.ranges().is_empty() {
                return Err(PatternError::LineFeed);
            }
            Ok(Hir::class(Class::Unicode(class)))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            let matched = !class.ranges().is_empty();
            let line_feed = ClassBytesRange::new(b'\n', b'\n');
            class.difference(&ClassBytes::new([line_feed]));
            if matched && class.ranges().is_empty() {
                return Err(PatternError::LineFeed);
            }
            Ok(Hir::class(Class::Bytes(class)))
        }
        HirKind::Look(Look::Start | Look::StartLF) => Ok(Hir::look(Look::StartCRLF)),
        HirKind::Look(Look::End | Look::EndLF) => Ok(Hir::look(Look::EndCRLF)),
        other => Ok(leaf_of(other)),
    })
}

/// The expression with each of its leaves made anew.
fn rebuilt(
    hir: Hir,
    leaf: &impl Fn(HirKind) -> Result<Hir, PatternError>,
) -> Result<Hir, PatternError> {
    let all = |parts: Vec<Hir>| {
        let parts = parts.into_iter().map(|part| rebuilt(part, leaf));
        parts.collect::<Result<Vec<_>, _>>()
    };
    Ok(match hir.into_kind() {
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = rebuilt(*repetition.sub, leaf)?;
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            *capture.sub = rebuilt(*capture.sub, leaf)?;
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
        other => leaf(other)?,
    })
}

/// A leaf as it is.
fn leaf_of(kind: HirKind) -> Hir {
    match kind {
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Empty
        | HirKind::Repetition(_)
        | HirKind::Capture(_)
        | HirKind::Concat(_)
        | HirKind::Alternation(_) => Hir::empty(),
    }
}

fn explain(pattern: &str, error: &regex_syntax::Error) -> PatternError {
    let (offset, what) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => {
            (error.span().start.offset, error.kind().to_string())
        }
        // The enum is open; of another kind only the text is known.
        other => (0, other.to_string()),
    };
    PatternError::Syntax {
        at: 1 + pattern[..offset].chars().count(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
        let pattern = Pattern::new(pattern, false).unwrap_or_else(|error| panic!("{error}"));
        pattern.find(text, 0..text.len()).map(|range| &text[range])
    }

    fn refusal(pattern: &str) -> String {
        Pattern::new(pattern, false).expect_err(pattern).to_string()
    }

    #[test]
    fn a_match_lies_within_one_line() {
        assert_eq!(found(r"a\s+b", "a\nb a \t b"), Some("a \t b"));
        assert_eq!(found(r"(?s:a.+)", "a\nab\nc"), Some("ab"));
        assert_eq!(found(r"a[^x]*", "\nabc\nd"), Some("abc"));
        assert_eq!(found(r"\D+$", "1\nab\nc"), Some("ab"));
    }

    #[test]
    fn anchors_are_ends_of_lines_whatever_the_flags() {
        let text = "one\r\ntwo\n10%\r20%\nend";
        for end in ["$", r"\z", "(?-m:$)", "(?-R:$)"] {
            assert_eq!(found(&format!("one{end}"), text), Some("one"), "{end}");
            assert_eq!(found(&format!("two{end}"), text), Some("two"), "{end}");
            assert_eq!(found(&format!("end{end}"), text), Some("end"), "{end}");
            assert_eq!(found(&format!("wo{end}x"), text), None, "{end}");
        }
        for start in ["^", r"\A", "(?-m:^)", "(?-R:^)"] {
            assert_eq!(found(&format!("{start}two"), text), Some("two"), "{start}");
            assert_eq!(found(&format!("{start}20%"), text), Some("20%"), "{start}");
            assert_eq!(found(&format!("{start}wo"), text), None, "{start}");
        }
        assert_eq!(found("1.*", text), Some("10%"));
        assert_eq!(found(r"1.*\r.*", text), Some("10%\r20%"));
        assert_eq!(found("^$", "a\n\nb"), Some(""));
    }

    #[test]
    fn what_stands_around_the_range_counts() {
        let pattern = Pattern::new(r"\bb|^c|d$", false).unwrap();
        assert_eq!(pattern.find("abcde", 1..4), None);
        assert_eq!(pattern.find("a b", 2..3), Some(2..3));
        let any_case = Pattern::new("ÄRGER|k", true).unwrap();
        assert_eq!(any_case.find("ärger", 0..6), Some(0..6));
    }

    #[test]
    fn a_bad_pattern_is_refused_with_the_place_of_its_fault() {
        assert_eq!(refusal("äö(b"), "unclosed group, at character 3");
        assert_eq!(
            refusal("a**?{2,1}"),
            "invalid repetition count range, the start must be <= the end, at character 5"
        );
        assert!(
            refusal("(?=x)").ends_with("is not supported, at character 1"),
            "{}",
            refusal("(?=x)")
        );
        assert!(refusal(r"(a)\1").contains("backreferences are not supported, at character 4"));
        assert!(refusal(r"x\p{Nope}").contains("at character 2"));
        assert!(refusal(r"(?-u:\xff)").contains("at character 6"));
    }

    #[test]
    fn a_pattern_for_a_line_feed_is_refused_not_silently_in_vain() {
        for pattern in [r"a\nb", "a\nb", r"[\n]", r"\x0a+", r"(?-u:[\n])", r"ab|\n"] {
            assert!(refusal(pattern).contains("within one line"), "{pattern}");
        }
        // A class that has other members loses this one only; an empty class was the client's wish.
        assert_eq!(found(r"[\n;]", "a\n;"), Some(";"));
        assert_eq!(found(r"[a&&b]|c", "abc"), Some("c"));
    }

    #[test]
    fn size_is_bounded_before_memory_is() {
        let long = "a".repeat(MAX_PATTERN_BYTES);
        Pattern::new(&long, false).unwrap();
        assert!(refusal(&"a".repeat(1 << 20)).starts_with("1048576 bytes are too long"));
        for pattern in [
            r"\w{500}",
            "a{1000}{1000}",
            "((((a{50}){50}){50}){50})",
            r"(?i)\pL{400}",
        ] {
            assert_eq!(
                Pattern::new(pattern, false).unwrap_err(),
                PatternError::TooLarge,
                "{pattern}"
            );
        }
        let deep = format!("{}a{}", "(".repeat(150), ")".repeat(150));
        assert!(refusal(&deep).contains("at character"));
        // What only looks bad is linear here.
        assert_eq!(found("(a+)+$", &format!("{}b", "a".repeat(100_000))), None);
    }
}
