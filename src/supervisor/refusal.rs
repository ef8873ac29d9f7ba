//! Why the supervisor did not do what was asked; one variant per thing that the caller does next.

use serde::{Serialize, Serializer};

use crate::{
    config::Doubt,
    policy::{CwdRefused, EnvRefused},
    process::SpawnError,
    supervisor::search::Purpose,
    text::pattern::PatternError,
};

/// Why a call failed, for programs: the names that answers and logs carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The arguments are no arguments of the tool.
    InvalidArgument,
    /// See [`Refusal::CommandNotFound`].
    CommandNotFound,
    /// See [`Refusal::Cwd`].
    CwdNotAllowed,
    /// See [`Refusal::Env`].
    EnvNotAllowed,
    /// See [`Refusal::StartFailed`].
    StartFailed,
    /// See [`Refusal::SessionLimit`].
    SessionLimit,
    /// See [`Refusal::RecordLimit`].
    RecordLimit,
    /// See [`Refusal::SessionNotFound`].
    SessionNotFound,
    /// See [`Refusal::SessionNotRunning`].
    SessionNotRunning,
    /// See [`Refusal::CursorExpired`].
    CursorExpired,
    /// See [`Refusal::InvalidCursor`].
    InvalidCursor,
    /// See [`Refusal::InputTooLarge`].
    InputTooLarge,
    /// See [`Refusal::InputBackpressure`].
    InputBackpressure,
    /// See [`Refusal::InputUncertain`].
    InputUncertain,
    /// See [`Refusal::StdinClosed`].
    StdinClosed,
    /// See [`Refusal::ShuttingDown`].
    ShuttingDown,
    /// As many calls are in flight as may, of all or of a kind.
    TooManyCalls,
    /// See [`Refusal::Internal`].
    Internal,
}

impl Code {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::CommandNotFound => "COMMAND_NOT_FOUND",
            Code::CwdNotAllowed => "CWD_NOT_ALLOWED",
            Code::EnvNotAllowed => "ENV_NOT_ALLOWED",
            Code::StartFailed => "START_FAILED",
            Code::SessionLimit => "SESSION_LIMIT",
            Code::RecordLimit => "RECORD_LIMIT",
            Code::SessionNotFound => "SESSION_NOT_FOUND",
            Code::SessionNotRunning => "SESSION_NOT_RUNNING",
            Code::CursorExpired => "CURSOR_EXPIRED",
            Code::InvalidCursor => "INVALID_CURSOR",
            Code::InputTooLarge => "INPUT_TOO_LARGE",
            Code::InputBackpressure => "INPUT_BACKPRESSURE",
            Code::InputUncertain => "INPUT_UNCERTAIN",
            Code::StdinClosed => "STDIN_CLOSED",
            Code::ShuttingDown => "SHUTTING_DOWN",
            Code::TooManyCalls => "TOO_MANY_CALLS",
            Code::Internal => "INTERNAL",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

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
    /// The directory or the executable didn't answer; the start was given up.
    StartHangs,
    /// As many starts hang as may; this one was not tried.
    StartsBusy,
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
    /// The session is on pipes.
    NotATerminal,
    /// The text has a line that the terminal, in canonical mode, would cut; nothing was typed.
    LineTooLong {
        /// Bytes of the line, with what was typed of it before.
        bytes: usize,
        /// Bytes that a line may have.
        max: usize,
    },
    /// The child did not take the write in time.
    InputBackpressure {
        /// Bytes that the pipe took.
        accepted: usize,
        /// Stdin is closed now; of a terminal it isn't.
        closed: bool,
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
    /// No pattern that can be searched for.
    Pattern {
        /// What it was for.
        purpose: Purpose,
        /// What is wrong with it.
        error: PatternError,
    },
    /// As many calls wait for a pattern as may.
    TooManyWaits,
    /// A fault of this program; the text says which for its log.
    Internal(&'static str),
}

impl Refusal {
    /// What it is called outside.
    pub fn code(&self) -> Code {
        match self {
            Refusal::CommandNotFound => Code::CommandNotFound,
            // The kernel could not say, which is no verdict on the path.
            Refusal::Cwd(CwdRefused::Unavailable(_))
            | Refusal::Executable(_)
            | Refusal::StartFailed(_)
            | Refusal::StartHangs
            | Refusal::StartsBusy => Code::StartFailed,
            Refusal::Cwd(_) => Code::CwdNotAllowed,
            Refusal::Env(_) => Code::EnvNotAllowed,
            Refusal::SessionLimit { .. } => Code::SessionLimit,
            Refusal::RecordLimit { .. } => Code::RecordLimit,
            Refusal::SessionNotFound => Code::SessionNotFound,
            Refusal::SessionNotRunning { .. } => Code::SessionNotRunning,
            Refusal::CursorExpired { .. } => Code::CursorExpired,
            Refusal::InvalidCursor { .. } => Code::InvalidCursor,
            Refusal::InputTooLarge { .. } | Refusal::LineTooLong { .. } => Code::InputTooLarge,
            Refusal::InputBackpressure { .. } => Code::InputBackpressure,
            Refusal::InputUncertain { .. } => Code::InputUncertain,
            Refusal::StdinClosed { .. } => Code::StdinClosed,
            Refusal::ShuttingDown => Code::ShuttingDown,
            Refusal::Pattern { .. } | Refusal::NotATerminal => Code::InvalidArgument,
            Refusal::TooManyWaits => Code::TooManyCalls,
            Refusal::Internal(_) => Code::Internal,
        }
    }

    /// Bytes of a refused write that the pipe took all the same.
    pub fn accepted_bytes(&self) -> usize {
        match self {
            Refusal::SessionNotRunning { accepted }
            | Refusal::InputBackpressure { accepted, .. }
            | Refusal::InputUncertain { accepted }
            | Refusal::StdinClosed { accepted } => *accepted,
            _ => 0,
        }
    }
}
