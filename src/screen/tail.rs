//! Plain lines at the bottom of the screen, not yet in its cells.
//!
//! A flood of output is lines of ASCII, each scrolling the screen by one; most leave the top before anybody looks. While the
//! cursor is at the beginning of a blank bottom line and nothing but such lines comes, they are kept here as text, and go from
//! here to the scrollback. Only when something else comes do those that are still visible get cells ([`Tail::draw`]).
//!
//! What must hold: whatever is asked of the screen, the answer is what it would be had each line been drawn at once. While
//! it `holds` any, the screen is the surface's rows but the bottom one, then the lines here, then the unfinished one, and of
//! all that the last rows. Once those fill the screen, the surface's own have been given to the scrollback (`alone`), and its
//! cells mean nothing until the next drawing.

use std::collections::VecDeque;

use super::surface::Surface;

/// A longer unfinished line goes to the cells. What a compiler or a logger writes in a line is shorter.
const LONGEST: usize = 4096;

/// Where tab stops are while none has been set; only a terminal in that state has a tail.
const TAB: usize = 8;

/// Plain lines below the surface's.
#[derive(Debug, Default)]
pub(super) struct Tail {
    holds: bool,
    alone: bool,
    text: String,
    /// Where in `text` the first line begins that hasn't left the top.
    start: usize,
    /// The finished lines' lengths.
    lines: VecDeque<usize>,
    /// How many rows the finished lines take.
    rows: usize,
    /// The length of the unfinished line.
    unfinished: usize,
    /// A carriage return has come after it.
    returned: bool,
}

fn rows_of(length: usize, columns: usize) -> usize {
    length.div_ceil(columns).max(1)
}

/// The rows that a line takes.
fn wrapped(line: &str, columns: usize) -> impl Iterator<Item = &str> {
    (0..rows_of(line.len(), columns))
        .map(move |row| &line[row * columns..line.len().min((row + 1) * columns)])
}

impl Tail {
    /// Takes in characters if they are plain ones at the bottom. If it says no, the caller draws and prints them.
    pub(super) fn print(&mut self, run: &str, surface: &mut Surface) -> bool {
        if !run.is_ascii()
            || self.returned
            || self.unfinished + run.len() > LONGEST
            || !(self.holds || surface.at_fresh_bottom())
        {
            return false;
        }
        self.holds = true;
        self.text.push_str(run);
        self.unfinished += run.len();
        surface.last = run.chars().next_back().or(surface.last);
        true
    }

    /// Does what a control says if that leaves plain lines. If it says no, the caller draws and has the surface do it.
    pub(super) fn control(&mut self, byte: u8, surface: &mut Surface) -> bool {
        if !self.holds {
            return false;
        }
        match byte {
            b'\r' => {
                self.returned = self.unfinished > 0;
                true
            }
            b'\n' if self.returned || self.unfinished == 0 => {
                self.finish_line(surface);
                true
            }
            b'\t' if !self.returned => {
                let columns = surface.columns();
                let column = self.unfinished % columns;
                let blanks = TAB - column % TAB;
                let pending = column == 0 && self.unfinished > 0;
                if pending || column + blanks >= columns || !surface.default_tabs {
                    return false;
                }
                const BLANKS: &str = "        ";
                self.text.push_str(&BLANKS[..blanks]);
                self.unfinished += blanks;
                true
            }
            _ => false,
        }
    }

    fn finish_line(&mut self, surface: &mut Surface) {
        let (columns, above) = (surface.columns(), surface.rows() - 1);
        self.lines.push_back(self.unfinished);
        self.rows += rows_of(self.unfinished, columns);
        self.unfinished = 0;
        self.returned = false;
        while let Some(&length) = self.lines.front() {
            let without = self.rows - rows_of(length, columns);
            if without < above {
                break;
            }
            if !self.alone {
                surface.keep_rows(above);
                self.alone = true;
            }
            let line = &self.text[self.start..self.start + length];
            for row in wrapped(line, columns) {
                surface.scrollback.push(row);
            }
            self.lines.pop_front();
            self.rows = without;
            self.start += length;
        }
        if self.start > self.text.len() / 2 && self.start > LONGEST {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }

    /// Gives the lines their cells; from then on there are none here.
    pub(super) fn draw(&mut self, surface: &mut Surface) {
        if !self.holds {
            return;
        }
        if self.alone {
            surface.clear();
            surface.place(0, 0);
        }
        let last = surface.last;
        let mut start = self.start;
        for length in &self.lines {
            surface.print(&self.text[start..start + length]);
            surface.control(b'\r');
            surface.control(b'\n');
            start += length;
        }
        surface.print(&self.text[start..]);
        if self.returned {
            surface.control(b'\r');
        }
        surface.last = last;
        *self = Tail {
            text: std::mem::take(&mut self.text),
            lines: std::mem::take(&mut self.lines),
            ..Tail::default()
        };
        self.text.clear();
        self.lines.clear();
    }

    /// All that isn't in the scrollback yet: the visible rows, and before them those that would be there had each line been
    /// drawn.
    pub(super) fn unsettled_rows(&self, surface: &Surface) -> Vec<String> {
        let columns = surface.columns();
        let own = match (self.holds, self.alone) {
            (false, _) => surface.rows(),
            (true, false) => surface.rows() - 1,
            (true, true) => 0,
        };
        let mut rows: Vec<String> = (0..own).map(|row| surface.row(row)).collect();
        if self.holds {
            let mut start = self.start;
            for length in self.lines.iter().copied().chain([self.unfinished]) {
                let line = &self.text[start..start + length];
                rows.extend(wrapped(line, columns).map(|row| row.trim_end_matches(' ').to_owned()));
                start += length;
            }
        }
        rows
    }

    /// How many rows that would be.
    pub(super) fn unsettled(&self, surface: &Surface) -> usize {
        let columns = surface.columns();
        match (self.holds, self.alone) {
            (false, _) => surface.rows(),
            (true, alone) => {
                let own = if alone { 0 } else { surface.rows() - 1 };
                own + self.rows + rows_of(self.unfinished, columns)
            }
        }
    }

    /// The cursor's row and column.
    pub(super) fn position(&self, surface: &Surface) -> (usize, usize) {
        if !self.holds {
            return surface.position();
        }
        let columns = surface.columns();
        let column = match self.unfinished {
            0 => 0,
            _ if self.returned => 0,
            length => (length - 1) % columns + 1,
        };
        (surface.rows() - 1, column.min(columns - 1))
    }
}
