//! What controls and sequences do to the cells.
//!
//! Moving the cursor is done here: the crate's ways know no margins, and in origin mode they add them twice. So is erasing: it
//! forgets the first line when it erases above the second, pushes what it clears into its own scrollback, and takes three times
//! as long, for the sake of colours. So are the modes that it lacks (47, 1047, 1048, soft reset).
//!
//! Whoever feeds a screen does it in a thread that serves others. So nothing is done that would write every cell for a few
//! bytes: no alignment pattern (DECALN), and a character is repeated to fill a line at most.

use alacritty_terminal::{
    Term,
    event::VoidListener,
    term::TermMode,
    vte::ansi::{
        CharsetIndex, Handler, NamedMode, NamedPrivateMode, StandardCharset, TabulationClearMode,
    },
};

use super::{
    parser::Csi,
    surface::{Surface, line},
};

/// Private modes that change to the alternate screen. Only 1049 puts the cursor back.
const ALTERNATE: u16 = 47;
const ALTERNATE_CLEARED: u16 = 1047;
const SAVED_CURSOR: u16 = 1048;
const ALTERNATE_AND_CURSOR: u16 = 1049;

impl Surface {
    /// Does what a control (C0) says.
    pub(super) fn control(&mut self, byte: u8) {
        match byte {
            b'\x08' => self.move_left(1),
            // At the margin the cursor stays, and so does a wrap that is pending.
            b'\t' if !self.cursor().input_needs_wrap => self.term.move_forward_tabs(1),
            b'\n' | b'\x0b' | b'\x0c' => {
                self.line_feed();
                if self.mode(TermMode::LINE_FEED_NEW_LINE) {
                    self.carriage_return();
                }
            }
            b'\r' => self.carriage_return(),
            b'\x0e' => self.term.set_active_charset(CharsetIndex::G1),
            b'\x0f' => self.term.set_active_charset(CharsetIndex::G0),
            _ => {}
        }
    }

    fn carriage_return(&mut self) {
        let (row, _) = self.position();
        self.place(row, 0);
    }

    /// Does what an escape sequence says.
    pub(super) fn escape(&mut self, intermediate: u8, last: u8) {
        match (intermediate, last) {
            (0, b'7') => self.save_cursor(),
            (0, b'8') => self.restore_cursor(),
            (0, b'D') => self.line_feed(),
            (0, b'E') => {
                self.line_feed();
                self.carriage_return();
            }
            (0, b'H') => {
                self.default_tabs = false;
                self.term.set_horizontal_tabstop();
            }
            (0, b'M') => self.reverse_line_feed(),
            (0, b'c') => self.reset(),
            (0, b'=') => self.term.set_keypad_application_mode(),
            (0, b'>') => self.term.unset_keypad_application_mode(),
            (b'(', set) => self.designate(CharsetIndex::G0, set),
            (b')', set) => self.designate(CharsetIndex::G1, set),
            (b'*', set) => self.designate(CharsetIndex::G2, set),
            (b'+', set) => self.designate(CharsetIndex::G3, set),
            _ => {}
        }
    }

    fn designate(&mut self, index: CharsetIndex, set: u8) {
        let set = match set {
            b'0' => StandardCharset::SpecialCharacterAndLineDrawing,
            _ => StandardCharset::Ascii,
        };
        self.term.configure_charset(index, set);
    }

    /// Does what a control sequence says, if it is for the cells.
    pub(super) fn csi(&mut self, sequence: &Csi) {
        match (sequence.private, sequence.intermediate, sequence.last) {
            (0, 0, last) => self.plain_csi(last, sequence),
            (b'?', 0, b'h') => self.each_private_mode(sequence, true),
            (b'?', 0, b'l') => self.each_private_mode(sequence, false),
            // Selective erasure: no character is ever protected.
            (b'?', 0, b'J') => self.erase_screen(sequence.parameter(0)),
            (b'?', 0, b'K') => self.erase_line(sequence.parameter(0)),
            (0, b'!', b'p') => self.soft_reset(),
            _ => {}
        }
    }

    fn plain_csi(&mut self, last: u8, sequence: &Csi) {
        let (row, column) = self.position();
        let count = sequence.ordinal(0);
        match last {
            b'@' => self.change_line(|term| term.insert_blank(count)),
            b'A' => self.move_up(count),
            b'B' | b'e' => self.move_down(count),
            b'C' | b'a' => self.place(row, column + count),
            b'D' => self.move_left(count),
            b'E' => {
                self.move_down(count);
                self.carriage_return();
            }
            b'F' => {
                self.move_up(count);
                self.carriage_return();
            }
            b'G' | b'`' => self.place(row, count - 1),
            b'H' | b'f' => self.place_by_origin(count - 1, sequence.ordinal(1) - 1),
            b'I' => self.term.move_forward_tabs(tabs(count)),
            b'J' => self.erase_screen(sequence.parameter(0)),
            b'K' => self.erase_line(sequence.parameter(0)),
            b'L' if self.region.contains(&row) => {
                self.term.insert_blank_lines(count);
                self.carriage_return();
            }
            b'M' if self.region.contains(&row) => {
                self.term.delete_lines(count);
                self.carriage_return();
            }
            b'P' => self.change_line(|term| term.delete_chars(count)),
            // Not into the scrollback, unlike a line feed: eight bytes would have a whole screen read, again and again.
            b'S' => Handler::scroll_up(&mut self.term, count),
            // With more parameters it is about highlighting by the mouse.
            b'T' | b'^' if sequence.parameters().len() == 1 => {
                Handler::scroll_down(&mut self.term, count);
            }
            b'X' => self.erase(row, column..self.columns().min(column + count)),
            b'Z' => {
                self.cursor().input_needs_wrap = false;
                self.term.move_backward_tabs(tabs(count));
            }
            b'b' => self.repeat(count),
            b'd' => self.place_by_origin(count - 1, column),
            b'g' => {
                self.default_tabs = false;
                match sequence.parameter(0) {
                    0 => self.term.clear_tabs(TabulationClearMode::Current),
                    3 => self.term.clear_tabs(TabulationClearMode::All),
                    _ => {}
                }
            }
            b'h' => self.each_mode(sequence, true),
            b'l' => self.each_mode(sequence, false),
            b'r' => {
                let bottom = match usize::from(sequence.parameter(1)) {
                    0 => self.rows(),
                    bottom => bottom.min(self.rows()),
                };
                if count < bottom {
                    self.set_region(count - 1, bottom);
                    self.place_by_origin(0, 0);
                }
            }
            b's' => self.save_cursor(),
            b'u' => self.restore_cursor(),
            _ => {}
        }
    }

    fn move_up(&mut self, lines: usize) {
        let (row, column) = self.position();
        let top = if row >= self.region.start {
            self.region.start
        } else {
            0
        };
        self.place(row.saturating_sub(lines).max(top), column);
    }

    fn move_down(&mut self, lines: usize) {
        let (row, column) = self.position();
        let bottom = if row < self.region.end {
            self.region.end
        } else {
            self.rows()
        };
        self.place((row + lines).min(bottom - 1), column);
    }

    fn move_left(&mut self, columns: usize) {
        let (row, column) = self.position();
        self.place(row, column.saturating_sub(columns));
    }

    /// Puts the cursor there, counted from the region's top and kept in it while origin mode is on.
    fn place_by_origin(&mut self, row: usize, column: usize) {
        if self.mode(TermMode::ORIGIN) {
            self.place((self.region.start + row).min(self.region.end - 1), column);
        } else {
            self.place(row, column);
        }
    }

    fn reverse_line_feed(&mut self) {
        let (row, _) = self.position();
        if row == self.region.start {
            Handler::scroll_down(&mut self.term, 1);
        } else {
            self.cursor().point.line = line(row.saturating_sub(1));
        }
    }

    /// Sets the region that scrolls, here and in the crate. The cursor stays where it is.
    fn set_region(&mut self, top: usize, bottom: usize) {
        self.region = top..bottom;
        let (point, pending) = (self.cursor().point, self.cursor().input_needs_wrap);
        self.term.set_scrolling_region(top + 1, Some(bottom));
        self.cursor().point = point;
        self.cursor().input_needs_wrap = pending;
    }

    /// Prints the last character again, at most as often as fills a line: nobody needs more, and whoever asks for more in ten
    /// bytes wants to keep the thread busy.
    fn repeat(&mut self, count: usize) {
        if let Some(last) = self.last {
            for _ in 0..count.min(self.columns()) {
                self.print_one(last);
            }
        }
    }

    fn erase_screen(&mut self, what: u16) {
        let (row, _) = self.position();
        match what {
            0 => {
                self.erase_line(0);
                if row + 1 < self.rows() {
                    self.term.grid_mut().reset_region(line(row + 1)..);
                }
            }
            1 => {
                if row > 0 {
                    self.term.grid_mut().reset_region(..line(row));
                }
                self.erase_line(1);
            }
            2 => self.clear(),
            3 => self.scrollback.clear(),
            _ => {}
        }
    }

    /// Blanks every cell of the screen.
    pub(super) fn clear(&mut self) {
        self.term.grid_mut().reset_region(..);
    }

    fn erase_line(&mut self, what: u16) {
        let (row, column) = self.position();
        match what {
            // With a wrap pending, the cursor is past the last column.
            0 if self.cursor().input_needs_wrap => {}
            0 => self.erase(row, column..self.columns()),
            1 => self.erase(row, 0..column + 1),
            2 => self.erase(row, 0..self.columns()),
            _ => {}
        }
    }

    /// Moves cells of the cursor's line, perhaps cutting through wide characters.
    fn change_line(&mut self, change: impl FnOnce(&mut Term<VoidListener>)) {
        change(&mut self.term);
        let (row, _) = self.position();
        self.mend(row);
    }

    fn save_cursor(&mut self) {
        self.term.save_cursor_position();
        self.saved_origin = self.mode(TermMode::ORIGIN);
    }

    fn restore_cursor(&mut self) {
        self.term.restore_cursor_position();
        let pending = self.cursor().input_needs_wrap;
        // It may have been saved when the screen was larger.
        let (row, column) = self.position();
        self.place(row, column);
        self.cursor().input_needs_wrap = pending && column + 1 == self.columns();
        self.set_origin(self.saved_origin);
    }

    /// Sets origin mode and leaves the cursor where it is.
    fn set_origin(&mut self, on: bool) {
        let (point, pending) = (self.cursor().point, self.cursor().input_needs_wrap);
        self.set_term_mode(NamedPrivateMode::Origin, on);
        self.cursor().point = point;
        self.cursor().input_needs_wrap = pending;
    }

    fn set_term_mode(&mut self, mode: NamedPrivateMode, on: bool) {
        let mode = mode.into();
        if on {
            self.term.set_private_mode(mode);
        } else {
            self.term.unset_private_mode(mode);
        }
    }

    fn each_mode(&mut self, sequence: &Csi, on: bool) {
        for number in sequence.parameters() {
            let mode = match number {
                4 => NamedMode::Insert,
                20 => NamedMode::LineFeedNewLine,
                _ => continue,
            };
            if on {
                self.term.set_mode(mode.into());
            } else {
                self.term.unset_mode(mode.into());
            }
        }
    }

    fn each_private_mode(&mut self, sequence: &Csi, on: bool) {
        for &number in sequence.parameters() {
            match number {
                ALTERNATE | ALTERNATE_CLEARED | ALTERNATE_AND_CURSOR => {
                    self.set_alternate(number, on);
                }
                SAVED_CURSOR if on => self.save_cursor(),
                SAVED_CURSOR => self.restore_cursor(),
                // 80 or 132 columns: a size comes from whoever holds the terminal, never from the program.
                3 => {}
                6 => {
                    self.set_origin(on);
                    self.place_by_origin(0, 0);
                }
                _ => {
                    if let Some(mode) = private_mode(number) {
                        self.set_term_mode(mode, on);
                    }
                }
            }
        }
    }

    fn set_alternate(&mut self, number: u16, on: bool) {
        if on == self.alternate() {
            return;
        }
        let (row, column) = self.position();
        self.set_term_mode(NamedPrivateMode::SwapScreenAndSetRestoreCursor, on);
        if !on {
            self.settle();
            if number != ALTERNATE_AND_CURSOR {
                self.place(row, column);
            }
        }
    }

    /// DECSTR: modes, margins and character sets as at the beginning, the text and the cursor as they are.
    fn soft_reset(&mut self) {
        self.term.unset_mode(NamedMode::Insert.into());
        self.set_origin(false);
        self.set_term_mode(NamedPrivateMode::LineWrap, true);
        self.set_term_mode(NamedPrivateMode::ShowCursor, true);
        self.set_term_mode(NamedPrivateMode::CursorKeys, false);
        self.term.unset_keypad_application_mode();
        self.set_region(0, self.rows());
        for set in [
            CharsetIndex::G0,
            CharsetIndex::G1,
            CharsetIndex::G2,
            CharsetIndex::G3,
        ] {
            self.term.configure_charset(set, StandardCharset::Ascii);
        }
        self.term.set_active_charset(CharsetIndex::G0);
        self.saved_origin = false;
        self.term.grid_mut().saved_cursor = Default::default();
    }

    /// RIS: as it was new. The scrollback goes too.
    fn reset(&mut self) {
        self.term.reset_state();
        self.region = 0..self.rows();
        self.default_tabs = true;
        self.saved_origin = false;
        self.last = None;
        self.scrollback.clear();
        self.settle();
    }
}

/// The modes that the crate does, or keeps for whoever asks about them.
fn private_mode(number: u16) -> Option<NamedPrivateMode> {
    Some(match number {
        1 => NamedPrivateMode::CursorKeys,
        7 => NamedPrivateMode::LineWrap,
        25 => NamedPrivateMode::ShowCursor,
        1000 => NamedPrivateMode::ReportMouseClicks,
        1002 => NamedPrivateMode::ReportCellMouseMotion,
        1003 => NamedPrivateMode::ReportAllMouseMotion,
        1004 => NamedPrivateMode::ReportFocusInOut,
        1005 => NamedPrivateMode::Utf8Mouse,
        1006 => NamedPrivateMode::SgrMouse,
        1007 => NamedPrivateMode::AlternateScroll,
        2004 => NamedPrivateMode::BracketedPaste,
        _ => return None,
    })
}

fn tabs(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
