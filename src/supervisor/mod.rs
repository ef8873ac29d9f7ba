//! All sessions: who may start, where they are found, how long they stay, how they all end.
//!
//! - `handle` is what the request thread holds: its operations, each a short look under a lock or a request left
//!   for the I/O thread
//! - `follow` is reading: pages, and waiting for an end, a pattern or silence
//! - `reach` finds text in memory and in the spool
//! - `table` keeps the limits and the retained sessions
//! - `engine` is the I/O thread
//! - `launchers` are the threads in which starts may block
//! - `search` has the threads on which patterns are matched
//! - `refusal` says why something was not done, and by which name
//! - `trail` tells the audit log of it all

pub mod engine;
pub mod follow;
pub mod handle;
mod launchers;
mod reach;
pub mod refusal;
pub mod search;
pub mod table;
mod trail;
