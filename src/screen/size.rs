//! How large a terminal is: the one word of this layer that a config uses.

use serde::Serialize;

/// A terminal's size in cells, 1 to [`Size::MAX_SIDE`] each. (One of a single column is emulated with two.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Size {
    /// What a terminal has that nobody gave another size.
    pub const USUAL: Size = Size { rows: 24, cols: 80 };
    /// Most rows, and most columns.
    pub const MAX_SIDE: u16 = 500;

    /// The nearest size that a terminal can have.
    pub(super) fn possible(self) -> Size {
        Size {
            rows: self.rows.clamp(1, Size::MAX_SIDE),
            cols: self.cols.clamp(1, Size::MAX_SIDE),
        }
    }
}
