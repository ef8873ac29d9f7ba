//! What a session looks like at one instant.

use std::time::SystemTime;

use crate::spool::SpoolState;

/// Where a session is in its life. Only the last three are final; a final status never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The leader lives and nobody asked it to end.
    Running,
    /// We are ending it: TERM was sent, KILL may follow.
    Terminating,
    /// The leader ended by itself.
    Exited,
    /// We ended it.
    Terminated,
    /// Its end could not be confirmed.
    Failed,
}

impl Status {
    /// Whether the status can change no more.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Exited | Status::Terminated | Status::Failed)
    }

    /// Its name in every answer and log.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "RUNNING",
            Status::Terminating => "TERMINATING",
            Status::Exited => "EXITED",
            Status::Terminated => "TERMINATED",
            Status::Failed => "FAILED",
        }
    }
}

/// Why a session ended, or is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The leader ended by itself.
    Natural,
    /// A client asked.
    User,
    /// Its time was up.
    Timeout,
    /// The server shut down.
    Shutdown,
}

impl Reason {
    /// Its name in every answer and log.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Natural => "natural",
            Reason::User => "user",
            Reason::Timeout => "timeout",
            Reason::Shutdown => "shutdown",
        }
    }
}

/// Whether more output may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A pipe is open.
    Open,
    /// Both pipes reached their end and all of it is in the log.
    Complete,
    /// Draining ended before a pipe did.
    Incomplete,
}

/// One consistent view of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Unguessable name of the session.
    pub session_id: String,
    /// The approved command that it runs.
    pub command_id: String,
    /// Process id of the leader, which is also its group's and its kernel session's id.
    pub process_id: i32,
    /// See [`Status`].
    pub status: Status,
    /// The kernel's exit code, when the leader exited.
    pub exit_code: Option<i32>,
    /// The kernel's signal number, when a signal ended the leader.
    pub exit_signal: Option<i32>,
    /// Absent while running.
    pub termination_reason: Option<Reason>,
    /// Whether nothing more can be written.
    pub stdin_closed: bool,
    /// Whether a write ended without it being known what the child took in.
    pub input_uncertain: bool,
    /// Cursor of the oldest readable code point.
    pub base_cursor: u64,
    /// Cursor after the newest code point.
    pub next_cursor: u64,
    /// When the child was started.
    pub created_at: SystemTime,
    /// When it was started, last printed, took input or changed status.
    pub last_activity_at: SystemTime,
    /// When the status became final.
    pub ended_at: Option<SystemTime>,
    /// When it last printed.
    pub last_output_at: Option<SystemTime>,
    /// Bytes read of its stdout and stderr, before decoding, those of evicted text included.
    pub output_bytes: u64,
    /// See [`Output`].
    pub output: Output,
    /// Whether anything was evicted.
    pub truncated: bool,
    /// See [`SpoolState`].
    pub spool: SpoolState,
    /// User and system time of the leader and the descendants that it waited for, in ms.
    pub cpu_ms: Option<u64>,
    /// Largest resident set of one of those processes, in bytes.
    pub max_rss_bytes: Option<u64>,
}
