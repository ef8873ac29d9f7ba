//! One terminal, with what it shows, what it answers and what the shell in it has told.

use std::fmt;

use alacritty_terminal::term::TermMode;

use super::{
    Size, answers,
    marks::Marks,
    parser::{Csi, Parser, Sink},
    surface::Surface,
    tail::Tail,
};

/// While more than this waits to be sent, queries aren't answered: a line discipline's queue holds no more, so nobody is
/// reading the answers.
const ANSWERS_LIMIT: usize = 4096;

/// One terminal: grid, scrollback, modes, shell marks.
///
/// Its memory is bounded whatever is fed: by its size and the scrollback's, at most four bytes for each cell of the latter, and
/// a few hundred bytes of an unfinished sequence.
pub struct Screen {
    parser: Parser,
    shown: Shown,
}

/// All but the parser, which hands its findings to the rest.
struct Shown {
    surface: Surface,
    tail: Tail,
    marks: Marks,
}

impl fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Screen")
            .field("size", &self.size())
            .field("cursor", &self.cursor())
            .field("alternate", &self.alternate())
            .field("scrollback", &self.shown.surface.scrollback.len())
            .field("marks", &self.shown.marks)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// A blank one that keeps at most `scrollback` lines that have scrolled off the top.
    pub fn new(size: Size, scrollback: usize) -> Screen {
        Screen {
            parser: Parser::default(),
            shown: Shown {
                surface: Surface::new(size.possible(), scrollback),
                tail: Tail::default(),
                marks: Marks::default(),
            },
        }
    }

    /// Takes in text as it came; sequences may be split over calls. What a terminal answers to queries in it is appended to
    /// `replies`, unless 4096 bytes stand there already.
    pub fn feed(&mut self, text: &str, replies: &mut Vec<u8>) {
        let shown = &mut self.shown;
        self.parser.advance(text, &mut Feed { shown, replies });
    }

    /// Gives the terminal another size. Wrapped lines that are visible are wrapped anew, those of the scrollback stay as they
    /// are.
    pub fn resize(&mut self, size: Size) {
        let Shown { surface, tail, .. } = &mut self.shown;
        tail.draw(surface);
        surface.resize(size.possible());
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.shown.surface.size()
    }

    /// The visible lines, exactly as many as the size has rows, without blanks at their ends.
    pub fn rows(&self) -> Vec<String> {
        self.scrolled(0)
    }

    /// The last `lines` lines of the scrollback, or as many as there are, then the visible ones.
    pub fn scrolled(&self, lines: usize) -> Vec<String> {
        let Shown { surface, tail, .. } = &self.shown;
        let mut unsettled = tail.unsettled_rows(surface);
        let wanted = surface.rows().saturating_add(lines.min(self.above()));
        match wanted.checked_sub(unsettled.len()) {
            Some(more) => surface.scrollback.newest(more).chain(unsettled).collect(),
            None => unsettled.split_off(unsettled.len() - wanted),
        }
    }

    /// How many lines there are: those of the scrollback and the visible ones.
    pub fn total_lines(&self) -> usize {
        self.above() + self.shown.surface.rows()
    }

    /// How many lines the scrollback has, those included that are still to go there.
    fn above(&self) -> usize {
        let Shown { surface, tail, .. } = &self.shown;
        let lines = surface.scrollback.len() + tail.unsettled(surface) - surface.rows();
        lines.min(surface.scrollback.most())
    }

    /// The cursor's row and column, from 0.
    pub fn cursor(&self) -> (u16, u16) {
        let (row, column) = self.shown.tail.position(&self.shown.surface);
        let last = self.size().cols - 1;
        let within = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        (within(row), within(column).min(last))
    }

    /// Whether the alternate screen, that of full-screen programs, is on.
    pub fn alternate(&self) -> bool {
        self.shown.surface.alternate()
    }

    /// Whether the program asked for application cursor keys (DECCKM).
    pub fn application_cursor(&self) -> bool {
        self.shown.surface.mode(TermMode::APP_CURSOR)
    }

    /// What the shell has told with OSC 133.
    pub fn marks(&self) -> Marks {
        self.shown.marks
    }
}

/// What one piece of text goes into.
struct Feed<'a> {
    shown: &'a mut Shown,
    replies: &'a mut Vec<u8>,
}

impl Feed<'_> {
    /// The surface, with every line in its cells.
    fn drawn(&mut self) -> &mut Surface {
        let Shown { surface, tail, .. } = &mut *self.shown;
        tail.draw(surface);
        surface
    }

    fn reply(&mut self, answer: &str) {
        if self.replies.len() < ANSWERS_LIMIT {
            self.replies.extend_from_slice(answer.as_bytes());
        }
    }
}

impl Sink for Feed<'_> {
    fn text(&mut self, run: &str) {
        let Shown { surface, tail, .. } = &mut *self.shown;
        if !tail.print(run, surface) {
            self.drawn().print(run);
        }
    }

    fn control(&mut self, byte: u8) {
        // The others, BEL among them, change nothing.
        if matches!(byte, 0x08..=0x0f) {
            let Shown { surface, tail, .. } = &mut *self.shown;
            if !tail.control(byte, surface) {
                self.drawn().control(byte);
            }
        }
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        match (intermediate, last) {
            // The end of a string, which has been taken care of.
            (0, b'\\') => {}
            (0, b'Z') => self.reply(answers::ATTRIBUTES),
            _ => self.drawn().escape(intermediate, last),
        }
    }

    fn csi(&mut self, sequence: &Csi) {
        let surface = self.drawn();
        surface.csi(sequence);
        if let Some(answer) = answers::to_csi(sequence, surface) {
            self.reply(&answer);
        }
    }

    fn command(&mut self, text: &str, bell: bool) {
        if let Some(fields) = text.strip_prefix("133;") {
            self.shown.marks.take(fields);
        } else if let Some(answer) = answers::to_command(text, bell) {
            self.reply(&answer);
        }
    }

    fn device_string(&mut self, text: &str) {
        if let Some(answer) = answers::to_device_string(text) {
            self.reply(answer);
        }
    }
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
