//! What a terminal would show of one line when the line has ended.
//!
//! The model is one line of unbounded width. Sequences that edit the current line have their effect: carriage return,
//! backspace, tab, cursor left, right and to a column, erase in line, erase, delete and insert characters, save and restore
//! the cursor. All others are removed, and so are other control characters: colours, titles, charsets, modes,
//! and whatever moves the cursor to another line. So what a program draws over several lines by moving up
//! comes as lines in order of output, or folds into the line that it was sent in; what erases the screen erases the line.
//!
//! - A sequence ends with its line at the latest, so that each line can be folded by itself.
//! - A wide character takes two columns, a combining mark goes to the character before the cursor. Writing over a part of a
//!   wide character leaves blanks in place of the rest.
//! - A tab stays a tab where nothing was written before, and takes the columns up to the next multiple of eight. Elsewhere it
//!   moves the cursor only, as on a terminal. One that is moved by an insertion or deletion becomes blanks.
//! - Blanks at the end that nobody wrote aren't shown; spaces that were written are.
//!
//! Memory and time are bounded whatever the input: see `line::Line` for columns and edits. A line without anything
//! to fold is taken as it is, at most `KEPT_BYTES` of it.

mod line;

use line::Line;

use super::sequence::{Numbers, Piece, Sequence};

/// Bytes that are kept of a line, or of its start up to the first control character. More than a page shows, and more
/// than [`line::COLUMNS`] columns.
const KEPT_BYTES: usize = 4 * line::COLUMNS;

/// One line on its way. Made once and used for line after line.
#[derive(Debug, Default)]
pub struct Fold {
    /// The line so far, as long as there is nothing to fold.
    plain: String,
    /// Something of it was too long to be kept.
    cut: bool,
    /// A carriage return came that may yet turn out to be the line's end.
    returned: bool,
    /// There was something to fold: the line is in `line`.
    folding: bool,
    line: Line,
    sequence: Sequence,
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The text is what came, code point by code point.
    pub verbatim: bool,
    /// Something of the line is missing.
    pub cut: bool,
}

impl Fold {
    /// Takes the next text of the line, which holds no line feed.
    pub fn take(&mut self, text: &str) {
        let mut text = text;
        if !self.folding {
            if text.is_empty() {
                return;
            }
            if !self.returned {
                let control = first_control(text);
                self.keep(&text[..control]);
                text = &text[control..];
                if text.is_empty() {
                    return;
                }
                if text == "\r" {
                    self.returned = true;
                    return;
                }
            }
            self.start_folding();
        }
        for char in text.chars() {
            self.line.grant();
            let piece = self.sequence.take(char);
            apply(&mut self.line, piece);
        }
    }

    /// Adds to `out` what a terminal shows of the line so far, which may go on.
    pub fn show(&self, out: &mut String) -> Shown {
        if self.folding {
            self.line.show(out);
            return Shown {
                verbatim: false,
                cut: self.line.is_cut(),
            };
        }
        out.push_str(&self.plain);
        Shown {
            verbatim: !self.returned && !self.cut,
            cut: self.cut,
        }
    }

    /// Is at the start of a line again.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.cut = false;
        self.returned = false;
        self.folding = false;
    }

    fn keep(&mut self, text: &str) {
        let kept = super::floor(text, KEPT_BYTES - self.plain.len());
        self.plain.push_str(&text[..kept]);
        self.cut |= kept < text.len();
    }

    fn start_folding(&mut self) {
        self.folding = true;
        self.sequence.clear();
        self.line.start(self.cut);
        for char in self.plain.chars() {
            self.line.grant();
            put(&mut self.line, char);
        }
        if self.returned {
            self.line.grant();
            self.line.move_to(0);
        }
    }
}

/// Writes a character, or does what the sequence that it ends asks for.
fn apply(line: &mut Line, piece: Piece) {
    match piece {
        Piece::Char(char) => put(line, char),
        Piece::Escape('7') => line.save(),
        Piece::Escape('8') => line.restore(),
        Piece::Escape('c') => {
            line.erase_all();
            line.move_to(0);
        }
        Piece::Control(last, numbers) if !numbers.other => edit(line, last, numbers),
        Piece::Part | Piece::Escape(_) | Piece::Control(..) => {}
    }
}

/// Carries out a control sequence.
fn edit(line: &mut Line, last: char, numbers: Numbers) {
    let count = numbers.first.max(1);
    match last {
        'C' | 'a' => line.move_to(line.column() + count),
        'D' => line.move_to(line.column().saturating_sub(count)),
        'G' | '`' => line.move_to(count - 1),
        // Only the column of it: lines stay in order of output.
        'H' | 'f' => line.move_to(numbers.second.max(1) - 1),
        'E' | 'F' => line.move_to(0),
        'K' | 'J' => match numbers.first {
            0 => line.erase_after(),
            1 => line.erase_before(),
            2 => line.erase_all(),
            _ => {}
        },
        'X' => line.erase(count),
        'P' => line.delete(count),
        '@' => line.insert(count),
        's' if !numbers.any => line.save(),
        'u' if !numbers.any => line.restore(),
        _ => {}
    }
}

/// Anything but the start of a sequence.
fn put(line: &mut Line, char: char) {
    match char {
        '\t' => line.tab(),
        '\r' => line.move_to(0),
        '\u{8}' => line.move_to(line.column().saturating_sub(1)),
        '\u{0}'..='\u{1f}' | '\u{7f}' => {}
        char => line.write(char),
    }
}

/// Offset of the first control character that isn't a tab.
fn first_control(text: &str) -> usize {
    let bytes = text.as_bytes();
    let found = bytes.iter().enumerate().position(|(at, &byte)| match byte {
        b'\t' => false,
        0..=0x1f | 0x7f => true,
        // U+0080 to U+009F.
        0xc2 => bytes[at + 1] < 0xa0,
        _ => false,
    });
    found.unwrap_or(text.len())
}

#[cfg(test)]
mod tests;
