//! An emulated terminal: takes a program's output as it came and tells what would be seen.
//!
//! [`Screen`] owns one terminal's grid, scrollback, modes and shell marks, and makes the answers that a terminal gives to
//! queries. [`Key`] and [`control`] go the other way: what a terminal sends when a key is pressed. [`changed`] compares two
//! looks at a screen. What it leaves to others: where the text comes from, and who gets the answers.

mod answers;
mod commands;
mod difference;
mod keys;
mod marks;
mod parser;
mod scrollback;
mod size;
mod surface;
mod tail;
mod terminal;

pub use difference::changed;
pub use keys::{Key, control};
pub use marks::{CommandState, Marks};
pub use size::Size;
pub use terminal::Screen;
