//! The session tools' arguments, and the requests that they make.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{ControlChar, Password, Seconds, Text, Word};
use crate::{
    audit::Client,
    config::{
        Truncation,
        limits::{IDLE_TIMEOUT_SECONDS, MAX_LABEL_CHARS, MAX_SCROLLBACK_LINES, TTY_SIDE},
    },
    interactive::{
        CloseRequest, CreateRequest, DEFAULT_SCROLLBACK, ExecRequest, Input, InteractRequest,
        ReadMode, ReadRequest, ResizeRequest, SendRequest, WaitRequest,
    },
    mcp::args::{BadArgument, Bounded, as_usize, present},
    screen::{Key, Size},
};

/// Most lines of scrollback that a read may ask for; a session has fewer.
const MAX_SCROLLBACK_READ: u64 = 1_000_000;

type Side = Bounded<{ *TTY_SIDE.start() }, { *TTY_SIDE.end() }>;
type IdleTimeout = Bounded<{ *IDLE_TIMEOUT_SECONDS.start() }, { *IDLE_TIMEOUT_SECONDS.end() }>;
type ScrollbackLines = Bounded<0, MAX_SCROLLBACK_LINES>;
type Scrollback = Bounded<0, MAX_SCROLLBACK_READ>;
type Label = Text<0, MAX_LABEL_CHARS>;
type NonEmpty = Text<1, { usize::MAX }>;

/// Arguments of `session_create`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    /// What to start.
    command: NonEmpty,
    /// A name for the list of sessions.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Label")]
    label: Option<Label>,
    /// Rows of the terminal.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Side")]
    rows: Option<Side>,
    /// Its columns.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Side")]
    cols: Option<Side>,
    /// Seconds without input or output until it is closed.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "IdleTimeout")]
    idle_timeout: Option<IdleTimeout>,
    /// Ignored: snapshots can always be had.
    #[serde(default, rename = "enable_snapshot")]
    _enable_snapshot: bool,
    /// Lines to keep above the screen.
    #[serde(default = "default_scrollback")]
    scrollback_lines: ScrollbackLines,
}

impl Create {
    pub(super) fn request(self, client: Option<Client>) -> CreateRequest {
        CreateRequest {
            command: self.command.0,
            label: self.label.map(|label| label.0),
            rows: self.rows.map(side),
            cols: self.cols.map(side),
            idle_timeout: self
                .idle_timeout
                .map(|seconds| Duration::from_secs(seconds.0)),
            scrollback_lines: as_usize(self.scrollback_lines.0),
            client,
        }
    }
}

/// Arguments of `session_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    /// From session_create.
    session_id: String,
    /// Text to type. Only one of this and the next three.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    input: Option<String>,
    /// Enter after input.
    #[serde(default = "yes")]
    press_enter: bool,
    /// Ctrl with this: c interrupts, d ends input, z stops.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "ControlChar")]
    control_char: Option<ControlChar>,
    /// A key that has a name.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Key>")]
    key: Option<Word<Key>>,
    /// A secret to type, with Enter; kept out of every log.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Password")]
    password: Option<Password>,
    /// Type it although it looks destructive.
    #[serde(default)]
    confirmed: bool,
}

impl Send {
    pub(super) fn request(self, client: Option<Client>) -> Result<SendRequest, BadArgument> {
        let input = Typed {
            input: self.input,
            press_enter: self.press_enter,
            control_char: self.control_char,
            key: self.key,
            password: self.password,
        };
        Ok(SendRequest {
            session_id: self.session_id,
            input: input.one()?,
            confirmed: self.confirmed,
            client,
        })
    }
}

/// The arguments of which a call may name one.
struct Typed {
    input: Option<String>,
    press_enter: bool,
    control_char: Option<ControlChar>,
    key: Option<Word<Key>>,
    password: Option<Password>,
}

impl Typed {
    fn one(self) -> Result<Input, BadArgument> {
        let given = [
            ("`input`", self.input.is_some()),
            ("`control_char`", self.control_char.is_some()),
            ("`key`", self.key.is_some()),
            ("`password`", self.password.is_some()),
        ];
        let mut given = given.iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            return Err(BadArgument(format!(
                "Only one of `input`, `control_char`, `key` and `password` may be given; leave {one} or {other} out"
            )));
        }
        let press_enter = self.press_enter;
        Ok(match self {
            Typed {
                control_char: Some(ControlChar(char)),
                ..
            } => Input::Control(char),
            Typed {
                key: Some(Word(key)),
                ..
            } => Input::Key(key),
            Typed {
                password: Some(Password(secret)),
                ..
            } => Input::Password(secret),
            Typed { input, .. } => Input::Text {
                text: input.unwrap_or_default(),
                press_enter,
            },
        })
    }
}

/// Arguments of `session_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// From session_create.
    session_id: String,
    /// stream: what came since the last read. snapshot: the screen. diff: its lines that changed. auto: snapshot for
    /// full-screen programs, else stream.
    #[serde(default = "auto")]
    mode: Word<ReadMode>,
    /// Seconds of silence before it answers.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Seconds")]
    timeout: Option<Seconds>,
    /// Without escape sequences.
    #[serde(default = "yes")]
    strip_ansi: bool,
    /// Lines above the screen, in a snapshot.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Scrollback")]
    scrollback: Option<Scrollback>,
    /// What stays of long output: tail its beginning, tail_only its end.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Truncation>")]
    truncation: Option<Word<Truncation>>,
}

impl From<Read> for ReadRequest {
    fn from(read: Read) -> Self {
        Self {
            session_id: read.session_id,
            mode: read.mode.0,
            timeout: read.timeout.map(|timeout| timeout.0),
            strip_ansi: read.strip_ansi,
            scrollback: read.scrollback.map(|lines| as_usize(lines.0)),
            truncation: read.truncation.map(|mode| mode.0),
        }
    }
}

/// Arguments of `session_resize`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    /// From session_create.
    session_id: String,
    /// New rows.
    rows: Side,
    /// New columns.
    cols: Side,
}

impl From<Resize> for ResizeRequest {
    fn from(resize: Resize) -> Self {
        Self {
            session_id: resize.session_id,
            size: Size {
                rows: side(resize.rows),
                cols: side(resize.cols),
            },
        }
    }
}

/// Arguments of `session_close`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Close {
    /// From session_create.
    session_id: String,
}

impl Close {
    pub(super) fn request(self, client: Option<Client>) -> CloseRequest {
        CloseRequest {
            session_id: self.session_id,
            client,
        }
    }
}

/// Arguments of `session_exec`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Exec {
    /// What the shell is to run.
    exec: NonEmpty,
    /// The shell.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "NonEmpty")]
    command: Option<NonEmpty>,
    /// Seconds that it may take.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Seconds")]
    timeout: Option<Seconds>,
    /// Rows of the terminal.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Side")]
    rows: Option<Side>,
    /// Its columns.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Side")]
    cols: Option<Side>,
    /// As of session_read.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Truncation>")]
    truncation: Option<Word<Truncation>>,
}

impl Exec {
    pub(super) fn request(self, client: Option<Client>) -> ExecRequest {
        ExecRequest {
            exec: self.exec.0,
            command: self.command.map(|command| command.0),
            timeout: self.timeout.map(|timeout| timeout.0),
            rows: self.rows.map(side),
            cols: self.cols.map(side),
            truncation: self.truncation.map(|mode| mode.0),
            client,
        }
    }
}

/// Arguments of `session_interact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Interact {
    /// From session_create.
    session_id: String,
    /// As of session_send.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    input: Option<String>,
    /// Enter after input.
    #[serde(default = "yes")]
    press_enter: bool,
    /// As of session_send.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "ControlChar")]
    control_char: Option<ControlChar>,
    /// As of session_send.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Key>")]
    key: Option<Word<Key>>,
    /// As of session_send.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Password")]
    password: Option<Password>,
    /// Regex to wait for in what comes after the input.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "NonEmpty")]
    wait_for: Option<NonEmpty>,
    /// Seconds of silence before it answers; with wait_for the longest wait.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Seconds")]
    timeout: Option<Seconds>,
    /// Without escape sequences.
    #[serde(default = "yes")]
    strip_ansi: bool,
    /// Type it although it looks destructive.
    #[serde(default)]
    confirmed: bool,
    /// As mode of session_read.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<ReadMode>")]
    read_mode: Option<Word<ReadMode>>,
    /// As of session_read.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Truncation>")]
    truncation: Option<Word<Truncation>>,
}

impl Interact {
    pub(super) fn request(self, client: Option<Client>) -> Result<InteractRequest, BadArgument> {
        let input = Typed {
            input: self.input,
            press_enter: self.press_enter,
            control_char: self.control_char,
            key: self.key,
            password: self.password,
        };
        Ok(InteractRequest {
            send: SendRequest {
                session_id: self.session_id,
                input: input.one()?,
                confirmed: self.confirmed,
                client,
            },
            wait_for: self.wait_for.map(|pattern| pattern.0),
            timeout: self.timeout.map(|timeout| timeout.0),
            strip_ansi: self.strip_ansi,
            read_mode: self.read_mode.map(|mode| mode.0),
            truncation: self.truncation.map(|mode| mode.0),
        })
    }
}

/// Arguments of `session_wait_for`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitFor {
    /// From session_create.
    session_id: String,
    /// Regex to wait for.
    pattern: NonEmpty,
    /// Seconds to wait at most.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Seconds")]
    timeout: Option<Seconds>,
    /// Without escape sequences.
    #[serde(default = "yes")]
    strip_ansi: bool,
    /// As of session_read.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Word<Truncation>")]
    truncation: Option<Word<Truncation>>,
}

impl From<WaitFor> for WaitRequest {
    fn from(wait: WaitFor) -> Self {
        Self {
            session_id: wait.session_id,
            pattern: wait.pattern.0,
            timeout: wait.timeout.map(|timeout| timeout.0),
            strip_ansi: wait.strip_ansi,
            truncation: wait.truncation.map(|mode| mode.0),
        }
    }
}

/// Arguments of `session_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {}

fn side(side: Side) -> u16 {
    u16::try_from(side.0).expect("a side of a terminal is bounded far below")
}

fn yes() -> bool {
    true
}

fn auto() -> Word<ReadMode> {
    Word(ReadMode::Auto)
}

fn default_scrollback() -> ScrollbackLines {
    Bounded(DEFAULT_SCROLLBACK as u64)
}

#[cfg(test)]
mod tests;
