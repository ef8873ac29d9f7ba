//! Text that has left the arena, in files: written in order, dropped from the oldest on, read at any cursor.
//!
//! - `catalogue`: which slots of which segments hold which cursors (pure)
//! - `folder`: the private directory, whose files are whose, and what dead servers have left in it
//! - `store`: all sessions' spools under one budget
//! - `spooled`: one session's spool, as its writer and its readers see it
//! - `reader`: from a cursor to slots, on a thread that may wait for the disk
//!
//! A session's text lies in *segments*, files of a fixed number of slots ([`crate::arena::Slot`]), each removed whole when its text is
//! the oldest and the budget asks for it. Readers open segments by name when they need them, so a spool holds one descriptor
//! at most, its writer's.
//!
//! P1: the slots of a spool follow each other without a gap. Text that could not be written takes everything before it
//! along, so that one cursor says from where on all is readable.
//! P2: a slot is in the catalogue only after it was written whole, and never changes then.
//! P3: the catalogue's size has a bound, however large the budget.
//! P4: locks are taken in this order: a session's, the store's, a catalogue's. None is held over a system call.

mod catalogue;
mod folder;
mod reader;
mod spooled;
mod store;

pub use folder::NotOpened;
pub use reader::Want;
pub use spooled::{Place, SpoolState, Spooled};
pub use store::Store;
