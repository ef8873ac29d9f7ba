//! What the session tools go by: which tools there are, what they may start, and the defaults of their arguments.

use std::time::Duration;

use regex_automata::{meta, util::syntax};
use serde::{
    Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};

use super::{
    in_memory,
    limits::{self, defaults},
};

/// Which tools a client sees. At least one set is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toolsets {
    /// `terminal_*`.
    pub terminal: bool,
    /// `session_*`.
    pub session: bool,
}

impl Default for Toolsets {
    fn default() -> Self {
        Self {
            terminal: true,
            session: false,
        }
    }
}

impl Toolsets {
    /// Whether this is what a config has that says nothing of it.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Toolsets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        for (is_on, name) in [(self.terminal, "terminal"), (self.session, "session")] {
            if is_on {
                names.serialize_element(name)?;
            }
        }
        names.end()
    }
}

/// What the `command` of `session_create` and `session_exec` may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// An approved command's id, and nothing else.
    #[default]
    Approved,
    /// Also any command line. Its program inherits the server's environment and directory.
    Any,
}

impl Access {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What of an output stays that is over `max_output_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// The beginning.
    #[default]
    Tail,
    /// The first 30 % and the last 70 %.
    HeadTail,
    /// The end.
    TailOnly,
    /// All of it.
    None,
}

impl Truncation {
    /// The names, as the config, the environment and the tools have them.
    pub const NAMES: [&str; 4] = ["tail", "head_tail", "tail_only", "none"];

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "tail" => Self::Tail,
            "head_tail" => Self::HeadTail,
            "tail_only" => Self::TailOnly,
            "none" => Self::None,
            _ => return None,
        })
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::HeadTail => "head_tail",
            Self::TailOnly => "tail_only",
            Self::None => "none",
        }
    }
}

/// The settings of the session tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Time between two looks for sessions that have been idle for too long.
    pub cleanup_interval: Duration,
    /// Sessions of these tools that may run at once.
    pub max_sessions: usize,
    /// How long a session may be idle.
    pub idle_timeout: Duration,
    /// Rows of a terminal.
    pub rows: u16,
    /// Columns of a terminal.
    pub cols: u16,
    /// How long output has to be quiet before a read answers.
    pub read_settle_timeout: Duration,
    /// UTF-8 bytes of one answer's output.
    pub max_output_bytes: usize,
    /// UTF-8 bytes of output that a session keeps for reads to come.
    pub max_buffer_bytes: usize,
    /// Whether destructive input has to be confirmed.
    pub safety_gate: bool,
    /// Patterns of input to be confirmed, beside those that are built in.
    pub dangerous_patterns: Vec<String>,
    /// What stays of output that is too long.
    pub truncation: Truncation,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            cleanup_interval: Duration::from_secs(defaults::CLEANUP_INTERVAL_SECONDS),
            max_sessions: in_memory(defaults::TERMINALS),
            idle_timeout: Duration::from_secs(defaults::IDLE_TIMEOUT_SECONDS),
            rows: side(defaults::TTY_ROWS),
            cols: side(defaults::TTY_COLS),
            read_settle_timeout: Duration::from_secs_f64(defaults::SETTLE_SECONDS),
            max_output_bytes: in_memory(defaults::MAX_OUTPUT_BYTES),
            max_buffer_bytes: in_memory(defaults::TERMINAL_BUFFER_BYTES),
            safety_gate: true,
            dangerous_patterns: Vec::new(),
            truncation: Truncation::default(),
        }
    }
}

impl SessionSettings {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// As a file holds it, every field written out.
impl Serialize for SessionSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("session", 11)?;
        fields.serialize_field("cleanup_interval", &self.cleanup_interval.as_secs())?;
        fields.serialize_field("max_sessions", &self.max_sessions)?;
        fields.serialize_field("idle_timeout", &self.idle_timeout.as_secs())?;
        fields.serialize_field("default_rows", &self.rows)?;
        fields.serialize_field("default_cols", &self.cols)?;
        let settle = self.read_settle_timeout.as_secs_f64();
        fields.serialize_field("read_settle_timeout", &settle)?;
        fields.serialize_field("max_output_bytes", &self.max_output_bytes)?;
        fields.serialize_field("max_buffer_bytes", &self.max_buffer_bytes)?;
        fields.serialize_field("safety_gate", &self.safety_gate)?;
        fields.serialize_field("dangerous_patterns", &self.dangerous_patterns)?;
        fields.serialize_field("truncation_mode", &self.truncation)?;
        fields.end()
    }
}

/// Rows or columns within [`limits::TTY_SIDE`].
pub(super) fn side(count: u64) -> u16 {
    u16::try_from(count).expect("a side of a terminal is bounded far below")
}

/// Seconds within [`limits::WAIT_SECONDS`].
pub(super) fn seconds(seconds: f64) -> Option<Duration> {
    limits::WAIT_SECONDS
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// Whether `pattern` is one that input can be held against, or what is wrong with it.
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    let bytes = pattern.len();
    if bytes > limits::MAX_DANGEROUS_PATTERN_BYTES {
        return Err(format!(
            "it has {bytes} bytes, a pattern at most {}",
            limits::MAX_DANGEROUS_PATTERN_BYTES
        ));
    }
    let built = meta::Builder::new()
        .syntax(syntax::Config::new().case_insensitive(true))
        .build(pattern);
    let Err(error) = built else {
        return Ok(());
    };
    Err(match error.syntax_error() {
        Some(regex_syntax::Error::Parse(error)) => error.kind().to_string(),
        Some(regex_syntax::Error::Translate(error)) => error.kind().to_string(),
        _ => "it is too large when compiled".to_owned(),
    })
}
