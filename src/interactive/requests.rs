//! What the nine session tools are asked and what they answer. Every field has its final name; a request is already of the
//! right types, an answer needs no more than `success` beside it.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{
    audit::Client,
    config::Truncation,
    screen::{Key, Size},
    supervisor::refusal::Refusal,
};

/// `timeout` of `session_exec` and `session_interact` when the call names none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// `timeout` of `session_wait_for` when the call names none.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// `scrollback_lines` when the call names none.
pub const DEFAULT_SCROLLBACK: usize = 1_000;
/// `command` of `session_exec` when the call names none.
pub const DEFAULT_SHELL: &str = "bash";

/// `session_create`.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// An approved command's id, or a command line.
    pub command: String,
    /// What the session is called; its command's first word when absent.
    pub label: Option<String>,
    /// The settings' when absent.
    pub rows: Option<u16>,
    /// The settings' when absent.
    pub cols: Option<u16>,
    /// The settings' when absent.
    pub idle_timeout: Option<Duration>,
    /// Lines that are kept above the screen.
    pub scrollback_lines: usize,
    /// Who asks.
    pub client: Option<Client>,
}

/// `session_send`.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The session.
    pub session_id: String,
    /// What is typed.
    pub input: Input,
    /// Whether destructive input was confirmed.
    pub confirmed: bool,
    /// Who asks.
    pub client: Option<Client>,
}

/// What is typed. A call that names none of the four is [`Input::Text`] with an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `input`.
    Text {
        /// What is typed.
        text: String,
        /// Whether a carriage return follows.
        press_enter: bool,
    },
    /// `control_char`: one of a-z, `[ \ ] ^ _ @`.
    Control(char),
    /// `key`.
    Key(Key),
    /// `password`; a carriage return follows.
    Password(Secret),
}

/// Text that never reaches a log, an error or a trace.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Text to keep quiet about.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// For the terminal only.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How output is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadMode {
    /// The screen while the alternate screen is on, else the stream.
    #[default]
    Auto,
    /// What came since the last read.
    Stream,
    /// The screen as it stands.
    Snapshot,
    /// The lines of the screen that changed since the last diff.
    Diff,
}

/// `session_read`.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The session.
    pub session_id: String,
    /// See [`ReadMode`].
    pub mode: ReadMode,
    /// How long output has to be quiet; the settings' when absent.
    pub timeout: Option<Duration>,
    /// Whether escape sequences are removed.
    pub strip_ansi: bool,
    /// Lines above the screen that a snapshot includes.
    pub scrollback: Option<usize>,
    /// The settings' when absent.
    pub truncation: Option<Truncation>,
}

/// `session_resize`.
#[derive(Clone, Debug)]
pub struct ResizeRequest {
    /// The session.
    pub session_id: String,
    /// Its new size.
    pub size: Size,
}

/// `session_close`.
#[derive(Clone, Debug)]
pub struct CloseRequest {
    /// The session.
    pub session_id: String,
    /// Who asks.
    pub client: Option<Client>,
}

/// `session_exec`.
#[derive(Clone, Debug)]
pub struct ExecRequest {
    /// What the shell is given.
    pub exec: String,
    /// An approved command's id, or a command line; [`DEFAULT_SHELL`] when absent.
    pub command: Option<String>,
    /// How long it may take; [`DEFAULT_TIMEOUT`] when absent.
    pub timeout: Option<Duration>,
    /// The settings' when absent.
    pub rows: Option<u16>,
    /// The settings' when absent.
    pub cols: Option<u16>,
    /// The settings' when absent.
    pub truncation: Option<Truncation>,
    /// Who asks.
    pub client: Option<Client>,
}

/// `session_interact`.
#[derive(Clone, Debug)]
pub struct InteractRequest {
    /// What is typed, and where.
    pub send: SendRequest,
    /// A regular expression; the read returns when it matches.
    pub wait_for: Option<String>,
    /// With `wait_for` the longest wait, else how long output has to be quiet; [`DEFAULT_TIMEOUT`] when absent.
    pub timeout: Option<Duration>,
    /// Whether escape sequences are removed.
    pub strip_ansi: bool,
    /// [`ReadMode::Stream`] when absent.
    pub read_mode: Option<ReadMode>,
    /// The settings' when absent.
    pub truncation: Option<Truncation>,
}

/// `session_wait_for`.
#[derive(Clone, Debug)]
pub struct WaitRequest {
    /// The session.
    pub session_id: String,
    /// A regular expression.
    pub pattern: String,
    /// The longest wait; [`DEFAULT_WAIT`] when absent.
    pub timeout: Option<Duration>,
    /// Whether escape sequences are removed.
    pub strip_ansi: bool,
    /// The settings' when absent.
    pub truncation: Option<Truncation>,
}

/// Of `session_create`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CreateAnswer {
    /// The new session.
    pub session_id: String,
    /// What it is called.
    pub label: String,
    /// Its process.
    pub pid: i32,
    /// Seconds since 1970.
    pub created_at: f64,
    /// Always true.
    pub snapshot_available: bool,
}

/// Of `session_send`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendAnswer {
    /// Bytes that the terminal took.
    pub bytes_sent: usize,
}

/// Of `session_read`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadAnswer {
    /// The text.
    pub output: String,
    /// Bytes of it before escape sequences were removed and anything was cut.
    pub bytes_read: usize,
    /// Whether a prompt stands at its end.
    pub prompt_detected: bool,
    /// Whether the process runs.
    pub is_alive: bool,
    /// Whether something of the text is missing.
    pub truncated: bool,
    /// Whether the alternate screen is on.
    pub tui_active: bool,
    /// Always true.
    pub snapshot_available: bool,
    /// Never [`ReadMode::Auto`].
    pub mode_used: ReadMode,
    /// Of a diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_lines: Option<Vec<ChangedLine>>,
    /// Of a diff: whether there was none before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_first_read: Option<bool>,
    /// Of a snapshot with scrollback: its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<usize>,
    /// When the shell marks its prompts.
    #[serde(flatten)]
    pub shell: Option<ShellState>,
}

/// One line of a diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedLine {
    /// From 1.
    pub line: usize,
    /// The line as it is now.
    pub content: String,
}

/// What a shell's OSC 133 marks say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShellState {
    /// Always true.
    pub osc133: bool,
    /// `prompt`, `running`, `output` or `idle`.
    pub command_state: &'static str,
    /// Of the last command that finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether a command finished since the last read.
    pub command_complete: bool,
}

/// Of `session_resize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResizeAnswer {
    /// Now.
    pub rows: u16,
    /// Now.
    pub cols: u16,
}

/// Of `session_close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CloseAnswer {
    /// This call closed it.
    Closed {
        /// The exit code; `null` when a signal ended the process.
        exit_status: Option<i32>,
        /// That signal's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_signal: Option<i32>,
    },
    /// There is no such session any more.
    Already {
        /// Always true.
        already_closed: bool,
    },
}

/// Of `session_exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExecAnswer {
    /// What the command printed: neither the echo nor a prompt.
    pub output: String,
    /// Bytes of it before escape sequences were removed and anything was cut.
    pub bytes_read: usize,
    /// The session, which is closed.
    pub session_id: String,
    /// Whether something of the output is missing.
    pub truncated: bool,
    /// The command's; `null` when it didn't end in time, or a signal ended the shell.
    pub exit_code: Option<i32>,
    /// Whether it was ended because its time was up.
    pub timed_out: bool,
}

/// Of `session_interact`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InteractAnswer {
    /// What a read answers.
    #[serde(flatten)]
    pub read: ReadAnswer,
    /// Bytes that the terminal took.
    pub bytes_sent: usize,
    /// Whether `wait_for` matched, when there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<bool>,
}

/// Of `session_wait_for`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitAnswer {
    /// What was searched.
    pub output: String,
    /// Bytes of it before escape sequences were removed and anything was cut.
    pub bytes_read: usize,
    /// Whether the pattern matched.
    pub matched: bool,
    /// Whether a prompt stands at the end.
    pub prompt_detected: bool,
    /// Whether the process runs.
    pub is_alive: bool,
    /// Whether something of the text is missing.
    pub truncated: bool,
    /// When the shell marks its prompts.
    #[serde(flatten)]
    pub shell: Option<ShellState>,
}

/// Of `session_list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListAnswer {
    /// The oldest first.
    pub sessions: Vec<ListedSession>,
    /// How many.
    pub count: usize,
}

/// One session of a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedSession {
    /// Its id.
    pub session_id: String,
    /// What it is called.
    pub label: String,
    /// What it was created with.
    pub command: String,
    /// Its process.
    pub pid: i32,
    /// Whether the process runs.
    pub is_alive: bool,
    /// Seconds since 1970.
    pub created_at: f64,
    /// Seconds since 1970.
    pub last_activity: f64,
    /// Since then, to a tenth.
    pub idle_seconds: f64,
    /// Whether the alternate screen is on.
    pub tui_active: bool,
    /// Always true.
    pub snapshot_available: bool,
    /// Of its terminal.
    pub rows: u16,
    /// Of its terminal.
    pub cols: u16,
}

/// Why a session tool did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It can't be done.
    Error {
        /// Its type.
        kind: FailureKind,
        /// One line: what, and what to do.
        message: String,
    },
    /// The session isn't as the call needs it, or nothing can be started.
    Refused {
        /// Its type.
        kind: FailureKind,
        /// Why.
        refusal: Refusal,
    },
    /// The input looks destructive and wasn't typed.
    Confirmation {
        /// The input.
        command: String,
        /// Which pattern it matched.
        reason: String,
    },
}

/// The error's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The arguments can't be meant, or a free command isn't allowed.
    ValidationError,
    /// No such session.
    NotFound,
    /// The session's process has ended.
    SessionDead,
    /// As many sessions are open as may.
    SessionLimitReached,
    /// The program can't be started.
    SpawnError,
    /// Of `session_send`.
    SendError,
    /// Of `session_read` and `session_wait_for`.
    ReadError,
    /// Of `session_resize`.
    ResizeError,
    /// Of `session_exec`.
    ExecError,
    /// Of `session_interact`.
    InteractError,
    /// Of `session_close`.
    CloseError,
}
