//! The Owner's audit log: one JSON line for whatever a client had done, and for the ends that followed.
//!
//! Whoever knows what happened hands an [`Event`] to the [`Log`]; `line` spells it at once, `backlog` keeps the lines
//! that wait, and one thread (`log`) appends them to the `file`.
//!
//! What must hold:
//! - recording never waits: not for the disk, not for memory. A line that finds no room is dropped and counted, and the
//!   count becomes a line of its own;
//! - a line holds no text of a write and no value of a variable, because no [`Event`] has a place for them;
//! - a line is one `write(2)` on a descriptor in append mode, so several servers can share a file;
//! - nothing is written through a link, nor to a file that everyone may write.
//!
//! Left to others: what is worth an event (the supervisor, and `mcp` for what never reaches it).

mod backlog;
mod event;
mod file;
mod line;
mod log;

pub use event::{Client, Clip, Event, Names};
pub use file::NotOpened;
pub use log::Log;
