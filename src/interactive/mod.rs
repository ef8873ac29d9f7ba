//! Terminals for a client that types, reads and waits: what the nine session tools do.
//!
//! The layer knows sessions by the supervisor's handle only. It keeps what a handle doesn't know: how far each session
//! was read, what was typed last, and when it has been idle for too long.

mod echo;
mod gate;
mod prompt;
mod requests;
mod settle;
mod truncate;

pub use crate::config::Access;
pub use gate::BadPattern;
pub use requests::{
    ChangedLine, CloseAnswer, CloseRequest, CreateAnswer, CreateRequest, DEFAULT_SCROLLBACK,
    DEFAULT_SHELL, DEFAULT_TIMEOUT, DEFAULT_WAIT, ExecAnswer, ExecRequest, Failure, FailureKind,
    Input, InteractAnswer, InteractRequest, ListAnswer, ListedSession, ReadAnswer, ReadMode,
    ReadRequest, ResizeAnswer, ResizeRequest, Secret, SendAnswer, SendRequest, ShellState,
    WaitAnswer, WaitRequest,
};
