//! How the session tools behave, and what they may start.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What `session_create.command` and `session_exec.command` may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// An approved command's id, and nothing else.
    #[default]
    Approved,
    /// Also any command line. Its program inherits the server's environment and directory.
    Any,
}

/// What is left of output that is longer than `max_output_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// The beginning.
    #[default]
    Tail,
    /// 30 % at the beginning and 70 % at the end, with a marker between them.
    HeadTail,
    /// The end.
    TailOnly,
    /// All of it, however long.
    None,
}

/// What the session tools go by where a call names nothing else. Already checked: every count is at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// How often idle sessions are looked for.
    pub cleanup_interval: Duration,
    /// Sessions of the session tools that may be open at once.
    pub max_sessions: usize,
    /// How long nothing may be printed or typed before a session is closed.
    pub idle_timeout: Duration,
    /// Rows of a terminal.
    pub rows: u16,
    /// Columns of a terminal.
    pub cols: u16,
    /// How long output has to be quiet before a read returns it.
    pub read_settle_timeout: Duration,
    /// UTF-8 bytes of output in one answer.
    pub max_output_bytes: usize,
    /// UTF-8 bytes of output that a session keeps for its next read.
    pub max_buffer_bytes: usize,
    /// Whether destructive input has to be confirmed.
    pub safety_gate: bool,
    /// The Owner's patterns of destructive input, beside the built-in ones. Not yet compiled.
    pub dangerous_patterns: Vec<String>,
    /// What is left of output that is too long.
    pub truncation: Truncation,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            cleanup_interval: Duration::from_secs(60),
            max_sessions: 10,
            idle_timeout: Duration::from_secs(1_800),
            rows: 24,
            cols: 80,
            read_settle_timeout: Duration::from_secs(2),
            max_output_bytes: 100_000,
            max_buffer_bytes: 1_000_000,
            safety_gate: true,
            dangerous_patterns: Vec::new(),
            truncation: Truncation::default(),
        }
    }
}
