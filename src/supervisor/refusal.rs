//! Why the supervisor did not do what was asked; one variant per thing that the caller does next.

use crate::{
    config::Doubt,
    policy::{CwdRefused, EnvRefused},
    process::SpawnError,
};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such approved command.
    CommandNotFound,
    /// The working directory is not allowed.
    Cwd(CwdRefused),
    /// A variable is not allowed.
    Env(EnvRefused),
    /// Everyone could have changed what the command executes.
    Executable(Doubt),
    /// The child could not be started; nothing is left of it.
    StartFailed(SpawnError),
    /// As many sessions run as may (`max`).
    SessionLimit {
        /// The configured `max_sessions`.
        max: usize,
    },
    /// As many sessions are retained as may (`max`).
    RecordLimit {
        /// The configured `max_records`.
        max: usize,
    },
    /// No such session, or it is no longer retained.
    SessionNotFound,
    /// The session is ending or has ended; the pipe took `accepted` bytes of the write.
    SessionNotRunning {
        /// Bytes that the pipe took.
        accepted: usize,
    },
    /// The text at the cursor was evicted.
    CursorExpired {
        /// Oldest retained cursor.
        base: u64,
        /// Cursor after the newest code point.
        next: u64,
    },
    /// The cursor lies beyond the newest code point.
    InvalidCursor {
        /// Oldest retained cursor.
        base: u64,
        /// Cursor after the newest code point.
        next: u64,
    },
    /// One write holds more than `max` bytes; nothing was written.
    InputTooLarge {
        /// Bytes of the text.
        bytes: usize,
        /// The configured `max_input_bytes`.
        max: usize,
    },
    /// The child did not take the write in time; stdin is closed now.
    InputBackpressure {
        /// Bytes that the pipe took.
        accepted: usize,
    },
    /// An earlier write was cut off, so the child's input is not what the client thinks.
    InputUncertain {
        /// Bytes that the pipe took of this write.
        accepted: usize,
    },
    /// Stdin is closed, by either side.
    StdinClosed {
        /// Bytes that the pipe took before.
        accepted: usize,
    },
    /// The server is ending.
    ShuttingDown,
    /// A fault of this program; the text says which for its log.
    Internal(&'static str),
}
