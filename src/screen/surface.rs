//! The cells: `alacritty_terminal`'s terminal, corrected where programs would notice.
//!
//! The crate does the grids, characters and their widths, insertion and deletion, tab stops, character sets, modes, the
//! alternate screen and resizing with rewrapping. This file writes runs of ASCII straight into the cells, and takes each line
//! that is about to leave the top into the [`Scrollback`], so that the crate keeps none (its own cells take 24 bytes each, and
//! room for a thousand lines as soon as there is one). `commands` says what each sequence does.
//!
//! Colours never get here, so every cell has the default ones.

use std::ops::Range;

use alacritty_terminal::{
    Term,
    event::VoidListener,
    grid::{Cursor, Dimensions, Row},
    index::{Column, Line},
    term::{
        Config, TermMode,
        cell::{Cell, Flags},
    },
    vte::ansi::{CharsetIndex, Handler, StandardCharset},
};
use unicode_width::UnicodeWidthChar;

use super::{Size, scrollback::Scrollback};

/// How many marks (combining characters) a cell takes. Unicode's stream-safe text has at most 30; scripts in use need three or
/// four.
const MARKS_PER_CELL: usize = 8;

/// A screen of cells with what has left it at the top.
pub(super) struct Surface {
    pub(super) term: Term<VoidListener>,
    pub(super) scrollback: Scrollback,
    /// The lines that scroll. The crate has the same and tells nobody.
    pub(super) region: Range<usize>,
    /// The last character that was printed, for REP.
    pub(super) last: Option<char>,
    /// Whether tab stops are every eight columns, as in a new terminal.
    pub(super) default_tabs: bool,
    /// Whether origin mode was on when the cursor was saved.
    pub(super) saved_origin: bool,
    size: Size,
}

/// A line's number as the crate has it.
pub(super) fn line(number: usize) -> Line {
    Line(i32::try_from(number).expect("a screen has few lines"))
}

fn config(history: usize) -> Config {
    Config {
        scrolling_history: history,
        ..Config::default()
    }
}

/// The size for the crate, which can't do with a single column: there is no room in it for a wide character.
struct Cells(Size);

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.0.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.0.cols).max(2)
    }
}

impl Surface {
    pub(super) fn new(size: Size, scrollback: usize) -> Surface {
        let cells = Cells(size);
        Surface {
            term: Term::new(config(0), &cells, VoidListener),
            scrollback: Scrollback::new(scrollback, cells.columns()),
            region: 0..cells.screen_lines(),
            last: None,
            default_tabs: true,
            saved_origin: false,
            size,
        }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn rows(&self) -> usize {
        usize::from(self.size.rows)
    }

    pub(super) fn columns(&self) -> usize {
        Cells(self.size).columns()
    }

    pub(super) fn mode(&self, mode: TermMode) -> bool {
        self.term.mode().contains(mode)
    }

    pub(super) fn alternate(&self) -> bool {
        self.mode(TermMode::ALT_SCREEN)
    }

    pub(super) fn cursor(&mut self) -> &mut Cursor<Cell> {
        &mut self.term.grid_mut().cursor
    }

    /// The cursor's row and column.
    pub(super) fn position(&self) -> (usize, usize) {
        let point = self.term.grid().cursor.point;
        (
            usize::try_from(point.line.0).expect("the cursor is on the screen"),
            point.column.0,
        )
    }

    /// Puts the cursor there, or as near as the screen allows. The next character doesn't wrap.
    pub(super) fn place(&mut self, row: usize, column: usize) {
        let row = row.min(self.rows() - 1);
        let column = column.min(self.columns() - 1);
        let cursor = self.cursor();
        cursor.point.line = line(row);
        cursor.point.column = Column(column);
        cursor.input_needs_wrap = false;
    }

    /// Whether a line printed now would leave every cell that isn't its own as it is, but for scrolling: the cursor is at the
    /// beginning of the bottom line, that line is blank, and nothing changes what characters mean or where they go.
    pub(super) fn at_fresh_bottom(&self) -> bool {
        let cursor = &self.term.grid().cursor;
        self.rows() > 1
            && self.position() == (self.rows() - 1, 0)
            && !cursor.input_needs_wrap
            && self.region == (0..self.rows())
            && self.mode(TermMode::LINE_WRAP)
            && !self
                .term
                .mode()
                .intersects(TermMode::ALT_SCREEN | TermMode::INSERT | TermMode::LINE_FEED_NEW_LINE)
            && self.ascii_only()
            && self.term.grid()[line(self.rows() - 1)].is_clear()
    }

    /// Whether ASCII means ASCII, whichever character set is shifted in.
    fn ascii_only(&self) -> bool {
        let sets = &self.term.grid().cursor.charsets;
        [
            CharsetIndex::G0,
            CharsetIndex::G1,
            CharsetIndex::G2,
            CharsetIndex::G3,
        ]
        .iter()
        .all(|set| sets[*set] == StandardCharset::Ascii)
    }

    /// Prints characters, none of them a control.
    pub(super) fn print(&mut self, text: &str) {
        let fast = self.ascii_only() && !self.mode(TermMode::INSERT);
        let mut rest = text;
        while !rest.is_empty() {
            let ascii = rest
                .bytes()
                .position(|byte| !byte.is_ascii())
                .unwrap_or(rest.len());
            let (run, others) = rest.split_at(ascii);
            if fast {
                self.print_ascii(run.as_bytes());
            } else {
                run.chars().for_each(|c| self.print_one(c));
            }
            let plain = others.find(|c: char| c.is_ascii()).unwrap_or(others.len());
            let (run, next) = others.split_at(plain);
            run.chars().for_each(|c| self.print_one(c));
            rest = next;
        }
    }

    fn print_ascii(&mut self, mut bytes: &[u8]) {
        let columns = self.columns();
        if let Some(last) = bytes.last() {
            self.last = Some(char::from(*last));
        }
        while !bytes.is_empty() {
            if self.cursor().input_needs_wrap {
                self.wrap();
            }
            let (row, column) = self.position();
            let (now, later) = bytes.split_at(bytes.len().min(columns - column));
            let end = column + now.len();
            let cells = &mut self.term.grid_mut()[line(row)][Column(column)..Column(end)];
            if cells.iter().any(is_tied) {
                now.iter()
                    .for_each(|byte| self.term.input(char::from(*byte)));
            } else {
                for (cell, byte) in cells.iter_mut().zip(now) {
                    cell.c = char::from(*byte);
                    cell.flags = Flags::empty();
                }
                self.advance(end);
            }
            bytes = later;
        }
    }

    /// Puts the cursor after what was printed up to the column `end`; at the margin, the next character wraps.
    fn advance(&mut self, end: usize) {
        let columns = self.columns();
        let cursor = self.cursor();
        cursor.point.column = Column(end.min(columns - 1));
        cursor.input_needs_wrap = end == columns;
    }

    pub(super) fn print_one(&mut self, c: char) {
        let width = match width(c) {
            None => return,
            Some(0) => return self.combine(c),
            Some(width) => width,
        };
        self.last = Some(c);
        if self.cursor().input_needs_wrap {
            self.wrap();
        }
        let columns = self.columns();
        if width == 2 && self.position().1 + 1 == columns && self.mode(TermMode::LINE_WRAP) {
            // It doesn't fit. A blank takes its place, so marked that rewrapping drops it.
            self.term.input(' ');
            let grid = self.term.grid_mut();
            let point = grid.cursor.point;
            grid[point].flags.insert(Flags::LEADING_WIDE_CHAR_SPACER);
            self.wrap();
        }
        let (row, column) = self.position();
        let insert = self.mode(TermMode::INSERT);
        let end = column + width;
        if !c.is_ascii() && !insert && end <= columns {
            let cells = &mut self.term.grid_mut()[line(row)][Column(column)..Column(end)];
            if !cells.iter().any(is_tied) {
                fill(cells, c);
                return self.advance(end);
            }
        }
        self.term.input(c);
        if insert {
            // It has pushed others to the right, perhaps half over the margin.
            self.mend(row);
        }
    }

    /// Adds a mark to the character before the cursor, unless that has enough.
    fn combine(&mut self, mark: char) {
        let (row, column) = self.position();
        let pending = self.cursor().input_needs_wrap;
        let cells = &self.term.grid()[line(row)];
        let mut column = if pending {
            column
        } else {
            column.saturating_sub(1)
        };
        if cells[Column(column)]
            .flags
            .contains(Flags::WIDE_CHAR_SPACER)
        {
            column = column.saturating_sub(1);
        }
        let marks = cells[Column(column)].zerowidth().map_or(0, <[char]>::len);
        if marks < MARKS_PER_CELL {
            self.term.input(mark);
        }
    }

    /// Goes on in the next line, where lines are wrapped.
    fn wrap(&mut self) {
        if self.mode(TermMode::LINE_WRAP) {
            let grid = self.term.grid_mut();
            let point = grid.cursor.point;
            grid[point].flags.insert(Flags::WRAPLINE);
            self.line_feed();
            let cursor = self.cursor();
            cursor.point.column = Column(0);
            cursor.input_needs_wrap = false;
        }
    }

    /// Goes one line down; in the region's last line, scrolls it up. What leaves the top of the primary screen is kept as
    /// scrollback.
    pub(super) fn line_feed(&mut self) {
        let (row, _) = self.position();
        if row + 1 == self.region.end {
            if self.region.start == 0 && !self.alternate() {
                self.keep_rows(1);
            }
            Handler::scroll_up(&mut self.term, 1);
        } else if row + 1 < self.rows() {
            self.cursor().point.line = line(row + 1);
        }
    }

    fn keep(&mut self, number: Line) {
        let text = text_of(&self.term.grid()[number]);
        self.scrollback.push(&text);
    }

    /// Takes the first `rows` into the scrollback, as if they had left.
    pub(super) fn keep_rows(&mut self, rows: usize) {
        for row in 0..rows {
            self.keep(line(row));
        }
    }

    /// The text of a visible row.
    pub(super) fn row(&self, row: usize) -> String {
        text_of(&self.term.grid()[line(row)])
    }

    /// Gives the screen another size. Wrapped lines of the primary screen are wrapped anew; those that no longer have room go
    /// to the scrollback, and come back when there is room again.
    pub(super) fn resize(&mut self, size: Size) {
        if size == self.size {
            return;
        }
        let grown = usize::from(size.rows.saturating_sub(self.size.rows));
        let cells = Cells(size);
        // As many lines as rewrapping can make of the screen, each cell a line of its own at worst.
        self.term.set_options(config(self.rows() * self.columns()));
        self.term.resize(Cells(size));
        self.size = size;
        self.region = 0..cells.screen_lines();
        self.scrollback.set_columns(cells.columns());
        for row in 0..self.rows() {
            self.mend(row);
        }
        self.settle();
        self.take_back(grown);
    }

    /// Lines from the scrollback take the place of blank ones at the bottom, as many as the screen has grown by.
    fn take_back(&mut self, grown: usize) {
        for _ in 0..grown {
            let (row, _) = self.position();
            let bottom = self.rows() - 1;
            if self.alternate() || row == bottom || !self.term.grid()[line(bottom)].is_clear() {
                break;
            }
            let columns = self.columns();
            let fits = |text: &str| text.chars().filter_map(width).sum::<usize>() <= columns;
            let Some(text) = self.scrollback.take_newest(fits) else {
                break;
            };
            Handler::scroll_down(&mut self.term, 1);
            let grid = self.term.grid_mut();
            grid.cursor.point.line += 1;
            grid.saved_cursor.point.line += 1;
            let mut column = 0;
            for c in text.chars() {
                let width = width(c).unwrap_or(0);
                let cells = &mut grid[line(0)];
                if width == 0 {
                    let before = cells[Column(0)..Column(column)]
                        .iter_mut()
                        .rfind(|cell| !is_second_half(cell));
                    if let Some(before) = before {
                        before.push_zerowidth(c);
                    }
                } else {
                    fill(&mut cells[Column(column)..Column(column + width)], c);
                }
                column += width;
            }
        }
    }

    /// Blanks cells of a row, and what is left beside them of wide characters that are cut through.
    pub(super) fn erase(&mut self, row: usize, columns: Range<usize>) {
        let last = self.columns();
        let cells = &mut self.term.grid_mut()[line(row)];
        let start = columns.start;
        let halved = |column: usize| column < last && is_second_half(&cells[Column(column)]);
        let from = if halved(start) {
            start.saturating_sub(1)
        } else {
            start
        };
        let to = if halved(columns.end) {
            columns.end + 1
        } else {
            columns.end
        };
        for cell in &mut cells[Column(from)..Column(to)] {
            cell.c = ' ';
            cell.flags = Flags::empty();
            if cell.extra.is_some() {
                cell.extra = None;
            }
        }
    }

    /// Blanks what is left in a row of wide characters that were cut through. The crate leaves halves standing, and what
    /// follows them would be shown a column off.
    pub(super) fn mend(&mut self, row: usize) {
        let columns = self.columns();
        let cells = &mut self.term.grid_mut()[line(row)];
        for column in 0..columns {
            let flags = cells[Column(column)].flags;
            let halved = if flags.contains(Flags::WIDE_CHAR) {
                column + 1 == columns || !is_second_half(&cells[Column(column + 1)])
            } else {
                is_second_half(&cells[Column(column)])
                    && (column == 0 || !cells[Column(column - 1)].flags.contains(Flags::WIDE_CHAR))
            };
            if halved {
                cells[Column(column)] = Cell::default();
            }
        }
    }

    /// Takes over what a resize has pushed off the top of the primary screen. While the alternate one is on the crate shows
    /// nobody the primary, so that waits until it is back.
    pub(super) fn settle(&mut self) {
        if self.alternate() {
            return;
        }
        let above = self.term.grid().history_size();
        for number in (1..=i32::try_from(above).expect("a screen's worth of lines")).rev() {
            self.keep(Line(-number));
        }
        self.term.set_options(config(0));
        self.term.grid_mut().truncate();
    }
}

/// How many cells a character takes; `None` for a control. Unicode has one of three columns, U+17D8, which the crate puts
/// into two.
pub(super) fn width(c: char) -> Option<usize> {
    c.width().map(|width| width.min(2))
}

fn is_second_half(cell: &Cell) -> bool {
    cell.flags.contains(Flags::WIDE_CHAR_SPACER)
}

/// Whether what is in a cell reaches into others, or is more than a character. Only the crate knows how to sever it.
fn is_tied(cell: &Cell) -> bool {
    let tied = Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
    cell.flags.intersects(tied) || cell.extra.is_some()
}

/// Puts a character into the one or two cells that it takes, none of which [`is_tied`].
fn fill(cells: &mut [Cell], c: char) {
    let (head, rest) = cells.split_first_mut().expect("a character takes a cell");
    head.c = c;
    head.flags = Flags::empty();
    for second in rest {
        head.flags = Flags::WIDE_CHAR;
        second.c = ' ';
        second.flags = Flags::WIDE_CHAR_SPACER;
    }
}

/// A row's characters, the blanks at its end removed. The second half of a wide character has none.
fn text_of(row: &Row<Cell>) -> String {
    let cells = &row[..];
    // A wide character that was cut through leaves a blank with an empty list of marks.
    let blank = |cell: &Cell| cell.c == ' ' && cell.zerowidth().is_none_or(<[char]>::is_empty);
    let end = cells.iter().rposition(|cell| !blank(cell));
    let cells = &cells[..end.map_or(0, |last| last + 1)];
    let mut text = String::with_capacity(cells.len());
    for cell in cells.iter().filter(|cell| !is_second_half(cell)) {
        text.push(cell.c);
        if let Some(marks) = cell.zerowidth() {
            text.extend(marks);
        }
    }
    text
}
