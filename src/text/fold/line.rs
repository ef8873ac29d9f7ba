//! The columns of a line that is edited.
//!
//! A line has at most [`COLUMNS`] columns; what is written beyond is missing. Edits that touch many columns are paid for:
//! each code point grants a number of columns, far more than a real program uses on a line of a terminal's width. Who
//! moves thousands of columns with every few bytes runs out, and then those edits are left out. So folding stays
//! linear in the text. In both cases the line tells that it is cut.

use unicode_width::UnicodeWidthChar;

/// Most columns.
pub(super) const COLUMNS: usize = 65_536;
/// Columns that may be touched before any text has granted more.
const FIRST_GRANT: usize = 1024;
/// Columns that may be touched for each code point. Typing into a line of 300 columns takes 80.
const GRANT: usize = 128;
/// Columns between tab stops.
const TAB: usize = 8;
/// Characters in one column: a letter and its marks.
const CLUSTER_CHARS: usize = 16;

/// A column: a character; one of the values below; or, from [`CLUSTER`] on, the number of a cluster.
type Cell = u32;
const TAB_CHAR: Cell = '\t' as Cell;
/// Nothing was written here, or it was erased.
const BLANK: Cell = 0x11_0000;
/// Taken by the wide character or tab before.
const TAIL: Cell = 0x11_0001;
const CLUSTER: Cell = 0x8000_0000;

/// See the module. To be started before it is used.
#[derive(Debug, Default)]
pub(super) struct Line {
    cells: Vec<Cell>,
    /// Characters with marks. Those that no cell names any more go when there are many.
    clusters: Vec<String>,
    column: usize,
    saved: usize,
    granted: usize,
    cut: bool,
}

impl Line {
    /// Is empty again. `cut` when something of the line is missing already.
    pub(super) fn start(&mut self, cut: bool) {
        self.erase_all();
        self.column = 0;
        self.saved = 0;
        self.granted = FIRST_GRANT;
        self.cut = cut;
    }

    /// Whether something is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    #[cfg(test)]
    pub(super) fn clusters(&self) -> usize {
        self.clusters.len()
    }

    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// To be called for each code point of the line.
    pub(super) fn grant(&mut self) {
        self.granted += GRANT;
    }

    pub(super) fn move_to(&mut self, column: usize) {
        self.column = column.min(COLUMNS);
    }

    pub(super) fn save(&mut self) {
        self.saved = self.column;
    }

    pub(super) fn restore(&mut self) {
        self.column = self.saved;
    }

    /// Writes a character that is no control character.
    pub(super) fn write(&mut self, char: char) {
        let width = char.width().unwrap_or(0);
        if width == 0 {
            return self.attach(char);
        }
        let end = self.column + width;
        if end > COLUMNS {
            self.cut = true;
            return;
        }
        if !self.reach() {
            return;
        }
        if self.column < self.cells.len() {
            self.split(self.column);
            self.split(end);
        }
        if end > self.cells.len() {
            self.cells.resize(end, TAIL);
        }
        self.cells[self.column] = char.into();
        self.cells[self.column + 1..end].fill(TAIL);
        self.column = end;
    }

    pub(super) fn tab(&mut self) {
        let stop = ((self.column / TAB + 1) * TAB).min(COLUMNS);
        let passed = self.cells.iter().take(stop).skip(self.column);
        if passed.copied().all(|cell| cell == BLANK) && self.column < stop {
            if !self.reach() {
                return;
            }
            if stop > self.cells.len() {
                self.cells.resize(stop, BLANK);
            }
            self.cells[self.column] = TAB_CHAR;
            self.cells[self.column + 1..stop].fill(TAIL);
        }
        self.column = stop;
    }

    pub(super) fn erase_all(&mut self) {
        self.cells.clear();
        self.clusters.clear();
    }

    /// Erases from the cursor on.
    pub(super) fn erase_after(&mut self) {
        self.split(self.column);
        self.cells.truncate(self.column);
    }

    /// Erases up to the cursor, its column included.
    pub(super) fn erase_before(&mut self) {
        let end = (self.column + 1).min(self.cells.len());
        if self.pay(end) {
            self.split(end);
            self.cells[..end].fill(BLANK);
        }
    }

    /// Erases columns from the cursor on; the others stay where they are.
    pub(super) fn erase(&mut self, count: usize) {
        let len = self.cells.len();
        let (start, end) = (self.column.min(len), (self.column + count).min(len));
        if self.pay(end - start) {
            self.split(start);
            self.split(end);
            self.cells[start..end].fill(BLANK);
        }
    }

    /// Takes columns out at the cursor; those after move up.
    pub(super) fn delete(&mut self, count: usize) {
        let len = self.cells.len();
        let (start, end) = (self.column.min(len), (self.column + count).min(len));
        if self.pay(len - start) {
            self.split(start);
            self.split(end);
            self.cells.drain(start..end);
            self.unalign(start);
        }
    }

    /// Puts blanks in at the cursor; what was there moves on.
    pub(super) fn insert(&mut self, count: usize) {
        let len = self.cells.len();
        if self.column >= len {
            return;
        }
        let count = count.min(COLUMNS - self.column);
        if self.pay(len - self.column + count) {
            self.split(self.column);
            let blanks = std::iter::repeat_n(BLANK, count);
            self.cells.splice(self.column..self.column, blanks);
            if self.cells.len() > COLUMNS {
                self.split(COLUMNS);
                self.cells.truncate(COLUMNS);
                self.cut = true;
            }
            self.unalign(self.column);
        }
    }

    /// Adds what is shown to `out`.
    pub(super) fn show(&self, out: &mut String) {
        let blank = self.cells.iter().rev().take_while(|&&cell| cell == BLANK);
        let end = self.cells.len() - blank.count();
        for &cell in &self.cells[..end] {
            match cell {
                BLANK => out.push(' '),
                TAIL => {}
                CLUSTER.. => out.push_str(&self.clusters[(cell - CLUSTER) as usize]),
                char => out.extend(char::from_u32(char)),
            }
        }
    }

    /// Makes the line as long as the cursor's place, so that it can be written there.
    fn reach(&mut self) -> bool {
        let missing = self.column.saturating_sub(self.cells.len());
        if !self.pay(missing) {
            return false;
        }
        if missing > 0 {
            self.cells.resize(self.column, BLANK);
        }
        true
    }

    /// Whether so many columns may be touched.
    fn pay(&mut self, columns: usize) -> bool {
        let Some(left) = self.granted.checked_sub(columns) else {
            self.cut = true;
            return false;
        };
        self.granted = left;
        true
    }

    /// Blanks the character that stands on both sides of `column`, if one does.
    fn split(&mut self, column: usize) {
        if self.cells.get(column) != Some(&TAIL) {
            return;
        }
        let head = self.cells[..column].iter().rposition(|&cell| cell != TAIL);
        let head = head.expect("a tail has a head before it");
        let tails = self.cells[column..]
            .iter()
            .take_while(|&&cell| cell == TAIL);
        let end = column + tails.count();
        self.cells[head..end].fill(BLANK);
    }

    /// Makes blanks of the tabs from `start` on, which were moved away from their stops.
    fn unalign(&mut self, start: usize) {
        let mut in_tab = false;
        for cell in &mut self.cells[start..] {
            in_tab = *cell == TAB_CHAR || in_tab && *cell == TAIL;
            if in_tab {
                *cell = BLANK;
            }
        }
    }

    /// Adds a mark to the character before the cursor.
    fn attach(&mut self, mark: char) {
        let before = self.cells.get(..self.column).unwrap_or(&[]);
        let Some(at) = before.iter().rposition(|&cell| cell != TAIL) else {
            return;
        };
        match self.cells[at] {
            BLANK | TAB_CHAR => {}
            cell @ CLUSTER.. => {
                let cluster = &mut self.clusters[(cell - CLUSTER) as usize];
                if cluster.chars().count() < CLUSTER_CHARS {
                    cluster.push(mark);
                } else {
                    self.cut = true;
                }
            }
            cell => {
                if self.clusters.len() > 2 * self.cells.len() + FIRST_GRANT {
                    self.drop_clusters();
                }
                let number = u32::try_from(self.clusters.len()).expect("a few for each column");
                let char = char::from_u32(cell).expect("neither of the values beside");
                self.clusters.push(String::from_iter([char, mark]));
                self.cells[at] = CLUSTER + number;
            }
        }
    }

    /// Drops the clusters that were written over.
    fn drop_clusters(&mut self) {
        let mut kept = Vec::new();
        for cell in &mut self.cells {
            if *cell >= CLUSTER {
                let cluster = std::mem::take(&mut self.clusters[(*cell - CLUSTER) as usize]);
                *cell = CLUSTER + u32::try_from(kept.len()).expect("at most one for each column");
                kept.push(cluster);
            }
        }
        self.clusters = kept;
    }
}
