//! Takes the place of `crate::screen` until that layer is here.

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// 1 to 1000.
    pub rows: u16,
    /// 1 to 1000.
    pub cols: u16,
}

/// A key with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Cursor up.
    Up,
    /// Enter.
    Enter,
}

impl Key {
    /// The key of this name.
    pub fn parse(name: &str) -> Option<Key> {
        match name {
            "up" => Some(Key::Up),
            "enter" => Some(Key::Enter),
            _ => None,
        }
    }
}
