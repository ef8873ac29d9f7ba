//! One terminal, with what it shows.

use alacritty_terminal::{
    Term,
    event::VoidListener,
    grid::Dimensions,
    index::{Column, Line},
    term::{Config, TermMode, cell::Flags},
    vte::ansi::{Processor, Timeout},
};
use serde::Serialize;

use super::marks::Marks;

/// A terminal's size in cells, 1 to 1000 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.cols)
    }
}

/// Synchronized updates are shown as they come.
#[derive(Debug, Default)]
struct AtOnce;

impl Timeout for AtOnce {
    fn set_timeout(&mut self, _: std::time::Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// One terminal: grid, scrollback, modes, shell marks.
pub struct Screen {
    term: Term<VoidListener>,
    parser: Processor<AtOnce>,
    marks: Marks,
    size: Size,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Screen")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// A blank one that keeps at most `scrollback` lines that scrolled off the top.
    pub fn new(size: Size, scrollback: usize) -> Screen {
        let config = Config {
            scrolling_history: scrollback,
            ..Config::default()
        };
        Screen {
            term: Term::new(config, &size, VoidListener),
            parser: Processor::new(),
            marks: Marks::default(),
            size,
        }
    }

    /// Takes in text as it came; sequences may be split over calls. What a terminal answers to queries in it is appended to
    /// `replies`.
    pub fn feed(&mut self, text: &str, _replies: &mut Vec<u8>) {
        self.parser.advance(&mut self.term, text.as_bytes());
        for (at, _) in text.match_indices("\x1b]133;") {
            let fields = &text[at + 6..];
            if let Some(end) = fields.find(['\x07', '\x1b']) {
                self.marks.take(&fields[..end]);
            }
        }
    }

    /// Gives the terminal another size. Lines that were wrapped are wrapped anew.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
        self.term.resize(size);
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The visible lines, exactly as many as the size has rows, without blanks at their ends.
    pub fn rows(&self) -> Vec<String> {
        self.scrolled(0)
    }

    /// The last `lines` lines of the scrollback, or as many as there are, then the visible ones.
    pub fn scrolled(&self, lines: usize) -> Vec<String> {
        let above = lines.min(self.term.grid().history_size());
        let above = i32::try_from(above).unwrap_or(i32::MAX);
        (-above..i32::from(self.size.rows))
            .map(|line| self.line(Line(line)))
            .collect()
    }

    fn line(&self, line: Line) -> String {
        let row = &self.term.grid()[line];
        let mut text = String::new();
        for column in 0..usize::from(self.size.cols) {
            let cell = &row[Column(column)];
            if cell.flags.intersects(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            text.push(if cell.c == '\t' { ' ' } else { cell.c });
            text.extend(cell.zerowidth().into_iter().flatten());
        }
        text.truncate(text.trim_end_matches(' ').len());
        text
    }

    /// How many lines there are: those of the scrollback and the visible ones.
    pub fn total_lines(&self) -> usize {
        self.term.grid().total_lines()
    }

    /// The cursor's row and column, from 0.
    pub fn cursor(&self) -> (u16, u16) {
        let point = self.term.grid().cursor.point;
        (
            u16::try_from(point.line.0).unwrap_or(0),
            u16::try_from(point.column.0).unwrap_or(0),
        )
    }

    /// Whether the alternate screen, that of full-screen programs, is on.
    pub fn alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Whether the program asked for application cursor keys (DECCKM).
    pub fn application_cursor(&self) -> bool {
        self.term.mode().contains(TermMode::APP_CURSOR)
    }

    /// What the shell has told with OSC 133.
    pub fn marks(&self) -> Marks {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_where_it_was_printed() {
        let mut screen = Screen::new(Size { rows: 3, cols: 10 }, 100);
        screen.feed("one\r\ntwo\r\nthree\r\nfour", &mut Vec::new());
        assert_eq!(screen.rows(), ["two", "three", "four"]);
        assert_eq!(screen.scrolled(5), ["one", "two", "three", "four"]);
        assert_eq!(screen.total_lines(), 4);
        assert_eq!(screen.cursor(), (2, 4));
    }
}
