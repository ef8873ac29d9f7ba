//! The Owner's config: read, checked, and then trusted everywhere else.

use std::path::PathBuf;

pub mod limits;

/// What the child finds on descriptor 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdinKind {
    /// A pipe that the client writes into.
    #[default]
    Pipe,
    /// `/dev/null`.
    Null,
}

/// How tool results are laid out on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Results {
    /// The body as a text block and as `structuredContent`.
    #[default]
    Both,
    /// The body as `structuredContent`, the text block a one-line summary.
    Structured,
    /// The body as a text block only; no output schema is declared.
    Text,
}

/// One approved command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name that a client uses.
    pub id: String,
    /// Program and arguments; `argv[0]` is absolute, none holds a NUL.
    pub argv: Vec<String>,
    /// Names of variables that the client may set; none is denied.
    pub allowed_env: Vec<String>,
    /// One line for the model.
    pub description: Option<String>,
    /// Variables that the Owner fixes, in the config's order.
    pub env: Vec<(String, String)>,
    /// Default working directory.
    pub cwd: Option<PathBuf>,
    /// Default lifetime.
    pub timeout_ms: Option<u64>,
    /// What is on descriptor 0.
    pub stdin: StdinKind,
}

/// A checked config: every rule of the format holds for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Directories that a working directory must lie in. Absolute; resolved when used.
    pub allowed_roots: Vec<PathBuf>,
    /// Working directory when neither client nor profile names one.
    pub default_cwd: PathBuf,
    /// Approved commands, in the config's order.
    pub commands: Vec<Profile>,
    /// Sessions that may be not final at once.
    pub max_sessions: usize,
    /// Sessions that may be retained at once.
    pub max_records: usize,
    /// UTF-8 bytes kept per session.
    pub buffer_bytes: usize,
    /// Code points kept per session; `None` when only `buffer_bytes` binds.
    pub buffer_records: Option<u64>,
    /// Lifetime when neither client nor profile names one.
    pub default_timeout_ms: u64,
    /// Longest lifetime that a client may ask for.
    pub max_timeout_ms: u64,
    /// How long a final session stays readable.
    pub retention_seconds: u64,
    /// UTF-8 bytes of one write.
    pub max_input_bytes: usize,
    /// Layout of results.
    pub results: Results,
}
