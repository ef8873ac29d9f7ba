//! One session: a child, its text, its input and its end.
//!
//! A [`Session`] is shared by two threads. The I/O thread runs its tasks: one [`pump`] for each output pipe, the
//! [`input`] writer, and the [`driver`] that watches the leader. The request thread reads its log and its state and
//! leaves requests in it. Both meet in one mutex that is never held over an await or a system call.
//!
//! - `lifecycle` decides how it ends (pure)
//! - `driver` carries that out: pidfd, signals, reap, drain deadline
//! - `pump` moves text: read, decode, append, wake; `pace` adapts it to its writer
//! - `io_thread` is what the sessions of that thread share
//! - `input` makes the writes, one after the other
//! - `spooler` moves text that memory has no room for into files
//! - `tty` is its terminal, where it has one: the line and the screen
//! - `state` is what the mutex holds; `snapshot` what is shown of it
//! - `simulation` (tests) plays whole sessions against scripts and a naive model

pub mod driver;
pub mod input;
pub mod io_thread;
pub mod lifecycle;
mod pace;
pub mod pump;
#[cfg(test)]
mod simulation;
pub mod snapshot;
pub mod spooler;
mod state;
pub mod tty;

pub use state::{EndRequest, Session, Spooling, State};
