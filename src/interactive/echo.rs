//! Tells the echo of what was typed from what the program says, so that a pattern is searched for in the latter only.
//!
//! The echo comes from the terminal's line discipline, exactly as typed, or from the program's line editor, which may draw the
//! line anew with every character, move about in it, wrap it, or clear it. So lines are compared as a terminal shows them:
//! an emulated one, as wide as the real one, is given the prompt that stood there when the input was typed, and then the
//! output. When a line ends and shows the prompt and the input, it was the echo. Blanks don't count, since what wraps and
//! what is cleared differ in them.
//!
//! What can still turn out to be the echo is held back. It is let through as soon as it can't any more: a line that the line
//! discipline would echo at the first character that differs; one of an editor, which may be in the middle of drawing, when
//! it ends, or at a pause.
//!
//! A shell that was busy when the input came shows it twice: the line discipline echoes it at once, and the shell's editor
//! again after its prompt.

use std::{collections::VecDeque, fmt};

use memchr::memchr;

use super::prompt::{is_prompt, is_shell_prompt};
use crate::screen::{Screen, Size};

/// Output that is held back at most, in bytes.
const MAX_HELD: usize = 64 * 1024;
/// Lines after which an echo that hasn't come isn't waited for any longer.
const MAX_LINES: usize = 4_096;
/// Characters of a line that is compared where the prompt before it isn't known.
const MAX_SEARCHED: usize = 512;
/// Rows of the emulated terminal beyond those of the input.
const SPARE_ROWS: usize = 8;

/// Who echoes what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echoing {
    /// Nobody: the line discipline doesn't, and the program gets whole lines from it.
    Nobody,
    /// The line discipline. A program that is `busy` may show it again.
    Terminal { busy: bool },
    /// The program, if anyone: it gets characters.
    Program,
}

/// What was typed, and where the terminal stood.
#[derive(Clone)]
pub(super) struct Typed {
    pub(super) echoing: Echoing,
    /// The cursor's row up to the cursor.
    pub(super) prompt: String,
    /// The terminal's width.
    pub(super) cols: u16,
    /// As typed, the last Enter included.
    pub(super) text: String,
}

impl Typed {
    /// Whether `row`, up to the cursor, shows the echo or a part of it. That may end as prompts do, while the rest is still on
    /// its way.
    pub(super) fn is_shown_in(&self, row: &str) -> bool {
        let (row, prompt) = (row.trim_end(), squeezed(&self.prompt));
        let shown = squeezed(row);
        if self.echoing == Echoing::Nobody || shown.is_empty() || shown == prompt {
            return false;
        }
        let mut lines = self.text.split(char::is_control);
        lines.any(|line| {
            let typed = squeezed(line);
            let mut places = shown.char_indices().map(|(at, _)| shown.split_at(at));
            let behind_prompt = places.any(|(before, part)| {
                typed.starts_with(part) && (before == prompt || is_prompt(before))
            });
            let drawn: Vec<char> = self.prompt.chars().chain(line.chars()).collect();
            let mut wrapped = drawn.chunks(usize::from(self.cols.max(1))).skip(1);
            behind_prompt || wrapped.any(|chars| chars.iter().collect::<String>().starts_with(row))
        })
    }
}

/// Without the text, which may be a password.
impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("echoing", &self.echoing)
            .finish_non_exhaustive()
    }
}

/// A line that is to be echoed.
struct Expected {
    /// Without blanks, up to the first control character.
    text: String,
    /// More may follow, of which is not known how it is shown.
    open: bool,
    /// Enter was typed after it.
    entered: bool,
    /// It was echoed once.
    again: bool,
}

impl Expected {
    /// Whether it may be shown after this. What was echoed once is shown again by shells only, and programs that say
    /// `Got: ` before it mean it.
    fn follows(&self, prompt: &str) -> bool {
        if self.again {
            is_shell_prompt(prompt)
        } else {
            is_prompt(prompt)
        }
    }
}

/// See the module.
pub(super) struct Echo {
    echoing: Echoing,
    cols: u16,
    expected: VecDeque<Expected>,
    line: Line,
    lines: usize,
}

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Echo")
            .field("echoing", &self.echoing)
            .field("expected", &self.expected.len())
            .finish_non_exhaustive()
    }
}

/// The line that isn't finished yet.
struct Line {
    shown: Screen,
    held: String,
    /// What stands before the input, without blanks, when it is known.
    prompt: Option<String>,
    /// It is no echo, or not any more.
    visible: bool,
}

/// How a line shows what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// After what stood there when it was typed.
    AtItsPlace,
    /// At the start of another line, where only a line discipline echoes.
    AtLineStart,
    /// After a prompt that came later.
    AfterPrompt,
}

/// How far a line is from being an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of it can be told yet.
    Drawing,
    /// A prompt, and nothing behind it.
    Bare,
    /// A part of the input, or all of it.
    Typing,
    /// None.
    Other,
}

impl Echo {
    /// What follows the moment when `typed` was typed.
    pub(super) fn new(typed: &Typed) -> Echo {
        let expected = match typed.echoing {
            Echoing::Nobody => VecDeque::new(),
            Echoing::Terminal { .. } | Echoing::Program => expected(&typed.text),
        };
        let mut line = Line::new(typed.cols, expected.front(), typed.prompt.len());
        line.shown.feed(&typed.prompt, &mut Vec::new());
        line.prompt = Some(squeezed(&typed.prompt));
        Echo {
            echoing: typed.echoing,
            cols: typed.cols,
            expected,
            line,
            lines: 0,
        }
    }

    /// Takes the next output; adds what is no echo to `out`.
    pub(super) fn take(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            let Some(front) = self.expected.front() else {
                out.push_str(rest);
                return;
            };
            let end = memchr(b'\n', rest.as_bytes());
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.visible {
                out.push_str(piece);
            } else if front.entered {
                self.line.feed(piece);
            } else if let Some(taken) = self.feed_until_echoed(piece) {
                rest = &rest[taken..];
                self.expected.pop_front();
                self.line.held.clear();
                self.line.visible = true;
                continue;
            }
            rest = &rest[piece.len()..];
            if end.is_some() {
                rest = &rest[1..];
                self.line_ends(out);
            } else if self.line.held.len() > MAX_HELD
                || self.echoing != Echoing::Program && self.stage() == Stage::Other
            {
                self.release(out);
            }
        }
    }

    /// There is no more output for a moment: a line that is no echo by now is none.
    pub(super) fn pause(&mut self, out: &mut String) {
        if self.expected.is_empty() || self.line.held.is_empty() {
            return;
        }
        match self.stage() {
            Stage::Drawing | Stage::Typing => {}
            Stage::Bare => {
                // The echo may yet follow it.
                self.line.prompt = Some(squeezed(&self.line.text()));
                out.push_str(&self.line.held);
                self.line.held.clear();
            }
            Stage::Other => self.release(out),
        }
    }

    /// There will be no more output.
    pub(super) fn end(&mut self, out: &mut String) {
        let echoed = match self.expected.front() {
            Some(front) => self.line.is_echo(front, self.echoing).is_some(),
            None => false,
        };
        if !echoed {
            out.push_str(&self.line.held);
        }
        self.line.held.clear();
        self.expected.clear();
    }

    /// What was taken so far is no output that counts, if `stale`, and isn't let through later.
    pub(super) fn forget_held(&mut self, stale: bool) {
        if stale {
            self.line.held.clear();
        }
    }

    /// Whether every further text is no echo.
    pub(super) fn is_over(&self) -> bool {
        self.expected.is_empty()
    }

    fn stage(&self) -> Stage {
        match self.expected.front() {
            Some(front) if !self.line.visible => self.line.stage(front),
            _ => Stage::Other,
        }
    }

    /// Lets through the line that isn't finished. If it was taken for a line that wraps, only its first row is one by now.
    fn release(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.line.held);
        match memchr(b'\n', held.as_bytes()) {
            Some(end) => self.let_through(&held, end, out),
            None => {
                out.push_str(&held);
                self.line.visible = true;
            }
        }
    }

    /// Lets through the first line of what was held back, which ends there, and looks at the rest anew.
    fn let_through(&mut self, held: &str, end: usize, out: &mut String) {
        out.push_str(&held[..=end]);
        self.lines += 1;
        if self.lines >= MAX_LINES {
            self.expected.clear();
        }
        self.new_line();
        self.take(&held[end + 1..], out);
    }

    /// Feeds up to the place where an input that no Enter follows is echoed; tells that place if it is there.
    fn feed_until_echoed(&mut self, text: &str) -> Option<usize> {
        let front = self.expected.front()?;
        let mut at = 0;
        for char in text.chars() {
            let next = at + char.len_utf8();
            self.line.feed(&text[at..next]);
            at = next;
            let may = char > ' ' && self.line.held.len() >= front.text.len();
            if may && self.line.is_echo(front, self.echoing).is_some() {
                return Some(at);
            }
        }
        None
    }

    fn line_ends(&mut self, out: &mut String) {
        if !self.line.visible
            && let Some(front) = self.expected.front()
            && front.entered
        {
            if let Some(shown) = self.line.is_echo(front, self.echoing) {
                self.echoed(shown);
                return;
            }
            // Some editors end a row of a line that wraps.
            let fits = self.line.held.len() <= MAX_HELD;
            if self.echoing == Echoing::Program && fits && self.line.is_part(front) {
                self.line.feed("\n");
                return;
            }
        }
        let mut held = std::mem::take(&mut self.line.held);
        held.push('\n');
        let end = memchr(b'\n', held.as_bytes()).expect("there is one");
        self.let_through(&held, end, out);
    }

    /// The next line that is expected was echoed.
    fn echoed(&mut self, shown: Shown) {
        let front = self.expected.pop_front().expect("it was echoed");
        // What the line discipline echoes, here or far away, while a shell is busy, the shell shows again.
        let may_come_again = match (shown, self.echoing) {
            (Shown::AtItsPlace, Echoing::Terminal { busy }) => busy,
            (Shown::AtItsPlace, _) => self.line.prompt.as_ref().is_some_and(String::is_empty),
            (Shown::AtLineStart, _) => true,
            (Shown::AfterPrompt, _) => false,
        };
        if may_come_again && !front.again {
            self.expected.push_back(Expected {
                again: true,
                ..front
            });
        }
        let was_terminal = matches!(self.echoing, Echoing::Terminal { .. });
        let without_prompt = shown != Shown::AfterPrompt && was_terminal;
        self.new_line();
        // The line discipline echoes the next line at once, without a prompt.
        if without_prompt && self.expected.front().is_some_and(|next| !next.again) {
            self.line.prompt = Some(String::new());
        }
    }

    fn new_line(&mut self) {
        self.line = Line::new(self.cols, self.expected.front(), 0);
    }
}

impl Line {
    /// An empty one, with room for what is expected in it after so much of a prompt.
    fn new(cols: u16, expected: Option<&Expected>, prompt: usize) -> Line {
        let input = expected.map_or(0, |expected| expected.text.len());
        // A wide character has at least two bytes, so bytes are as many columns or more.
        let rows = SPARE_ROWS + 2 * (input + prompt) / usize::from(cols.max(1));
        let size = Size {
            rows: u16::try_from(rows).unwrap_or(u16::MAX).min(Size::MAX_SIDE),
            cols,
        };
        Line {
            shown: Screen::new(size, 0),
            held: String::new(),
            prompt: None,
            visible: false,
        }
    }

    fn feed(&mut self, text: &str) {
        self.shown.feed(text, &mut Vec::new());
        self.held.push_str(text);
    }

    fn text(&self) -> String {
        self.shown.rows().concat()
    }

    /// Whether the line shows what is expected, and how.
    fn is_echo(&self, expected: &Expected, echoing: Echoing) -> Option<Shown> {
        let text = self.text();
        let shown = squeezed(&text);
        if let Some(prompt) = &self.prompt
            && let Some(input) = shown.strip_prefix(prompt.as_str())
            && let Some(after) = input.strip_prefix(expected.text.as_str())
        {
            let aside = || {
                // What stands far right of the input, as the time of day in some shells, was there before.
                let echoed = shown.len() - after.len();
                echoing == Echoing::Program
                    && expected.entered
                    && !prompt.is_empty()
                    && after_squeezed(&text, echoed).starts_with("  ")
            };
            if after.is_empty() || expected.open || aside() {
                return Some(Shown::AtItsPlace);
            }
        }
        let before = shown.strip_suffix(expected.text.as_str())?;
        if !before.is_empty() {
            return expected.follows(before).then_some(Shown::AfterPrompt);
        }
        // After a prompt there is no echo without it; and what no Enter follows stays on the line where the cursor was.
        let may = !expected.again
            && (expected.entered || self.prompt.is_some())
            && (echoing != Echoing::Program || self.prompt.as_ref().is_none_or(String::is_empty));
        may.then_some(Shown::AtLineStart)
    }

    /// Whether the line shows a part of what is expected, after the prompt that is known.
    fn is_part(&self, expected: &Expected) -> bool {
        let shown = squeezed(&self.text());
        let prompt = self.prompt.as_deref().unwrap_or_default();
        shown
            .strip_prefix(prompt)
            .is_some_and(|part| !part.is_empty() && expected.text.starts_with(part))
    }

    fn stage(&self, expected: &Expected) -> Stage {
        let text = self.text();
        let shown = squeezed(&text);
        if let Some(prompt) = &self.prompt {
            if shown == *prompt {
                return Stage::Bare;
            }
            if let Some(part) = shown.strip_prefix(prompt.as_str())
                && (expected.text.starts_with(part)
                    || expected.open && part.starts_with(&expected.text))
            {
                return Stage::Typing;
            }
            if prompt.starts_with(&shown) {
                return Stage::Drawing;
            }
        }
        if shown.is_empty() {
            return Stage::Drawing;
        }
        let starts = expected.text.char_indices().take(MAX_SEARCHED);
        for (at, char) in starts {
            let start = &expected.text[..at + char.len_utf8()];
            if let Some(before) = shown.strip_suffix(start)
                && (expected.follows(before) || before.is_empty() && !expected.again)
            {
                return Stage::Typing;
            }
        }
        if expected.follows(&text) {
            Stage::Bare
        } else {
            Stage::Other
        }
    }
}

/// The lines that are to be echoed when `text` was typed. An empty one shows nothing that could be taken for something else.
fn expected(text: &str) -> VecDeque<Expected> {
    let mut lines = VecDeque::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['\r', '\n']);
        let line = &rest[..end.unwrap_or(rest.len())];
        let known = line.find(|char: char| char.is_control());
        let text = squeezed(&line[..known.unwrap_or(line.len())]);
        if !text.is_empty() {
            lines.push_back(Expected {
                text,
                open: known.is_some(),
                entered: end.is_some(),
                again: false,
            });
        }
        rest = &rest[line.len() + usize::from(end.is_some())..];
    }
    lines
}

/// Without blanks.
fn squeezed(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

/// What follows the first `squeezed` bytes of `text`, blanks not counted.
fn after_squeezed(text: &str, squeezed: usize) -> &str {
    let mut left = squeezed;
    for (at, char) in text.char_indices() {
        if left == 0 {
            return &text[at..];
        }
        if !char.is_whitespace() {
            left -= char.len_utf8();
        }
    }
    ""
}

#[cfg(test)]
mod tests;
