//! The tools' arguments: their types, and the reading that refuses whatever isn't exactly right.
//!
//! Each type is the whole rule for its argument: serde enforces it, schemars publishes it in the input schema, and its
//! `expecting` text is what a refusal says. Integers are JSON integers; `true`, `"5"`, `5.0`, `5e2` and `null` are none.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};

use crate::{
    config::limits::{
        CONTEXT_LINES, DEFAULT_OUTPUT_BYTES, IDLE_MS, MATCHES, MAX_COMMAND_ID_CHARS, MAX_GRACE_MS,
        MAX_PAGE_BYTES, MAX_RECORD_WAIT_MS, MAX_WAIT_MS, MIN_PAGE_BYTES, OUTPUT_BYTES, TIMEOUT_MS,
        TTY_SIDE,
    },
    screen::Size,
    supervisor::{follow::Place, handle::StartWait},
    view::find::FindLimits,
};

mod values;

pub(super) use values::{Bounded, Env, Find, Records, Tail, Until, View};

/// Largest cursor that the wire carries: JSON integers stay within a signed 64-bit one.
const MAX_CURSOR: u64 = i64::MAX.unsigned_abs();
/// Longest message about a bad argument, in characters; the client's own text may stand in it.
const MAX_MESSAGE_CHARS: usize = 300;

type TimeoutMs = Bounded<{ *TIMEOUT_MS.start() }, { *TIMEOUT_MS.end() }>;
type GraceMs = Bounded<0, MAX_GRACE_MS>;
type WaitMs = Bounded<0, MAX_WAIT_MS>;
type IdleMs = Bounded<{ *IDLE_MS.start() }, { *IDLE_MS.end() }>;
type OutputBytes = Bounded<{ *OUTPUT_BYTES.start() as u64 }, { *OUTPUT_BYTES.end() as u64 }>;
type ContextLines = Bounded<{ *CONTEXT_LINES.start() }, { *CONTEXT_LINES.end() }>;
type Matches = Bounded<{ *MATCHES.start() }, { *MATCHES.end() }>;
type TtySide = Bounded<{ *TTY_SIDE.start() }, { *TTY_SIDE.end() }>;
type Cursor = Bounded<0, MAX_CURSOR>;
type PageBytes = Bounded<{ MIN_PAGE_BYTES as u64 }, { MAX_PAGE_BYTES as u64 }>;

/// Arguments of `terminal_start`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// Which approved command to start.
    #[serde(deserialize_with = "command_id")]
    #[schemars(length(min = 1, max = MAX_COMMAND_ID_CHARS))]
    pub(super) command_id: String,
    /// Absolute working directory inside an allowed root. Omit for the default.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    pub(super) cwd: Option<String>,
    /// Variables; only names approved for the command.
    #[serde(default)]
    pub(super) env: Env,
    /// Lifetime; then the session is ended.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "TimeoutMs")]
    pub(super) timeout_ms: Option<TimeoutMs>,
    /// Wait so long for the end; the answer then has output: all, or head and tail.
    #[serde(default)]
    pub(super) wait_ms: WaitMs,
    /// Most bytes of that output. Few if only its end matters.
    #[serde(default = "default_output")]
    pub(super) output_bytes: OutputBytes,
    /// Text for stdin.
    #[serde(default)]
    pub(super) input: String,
    /// Close stdin after input.
    #[serde(default)]
    pub(super) close_stdin: bool,
}

impl Start {
    /// The lifetime asked for, which the Owner bounds further.
    pub(super) fn timeout(&self, max_timeout_ms: u64) -> Result<Option<Duration>, BadArgument> {
        match self.timeout_ms {
            Some(Bounded(ms)) if ms > max_timeout_ms => Err(BadArgument(format!(
                "argument `timeout_ms`: invalid value: integer `{ms}`, expected at most {max_timeout_ms}"
            ))),
            timeout => Ok(timeout.map(|Bounded(ms)| Duration::from_millis(ms))),
        }
    }

    /// The wait asked for.
    pub(super) fn wait(&self) -> Option<StartWait> {
        (self.wait_ms.0 > 0).then(|| StartWait {
            time: Duration::from_millis(self.wait_ms.0),
            output_bytes: as_usize(self.output_bytes.0),
        })
    }
}

/// Arguments of `terminal_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// From terminal_start.
    pub(super) session_id: String,
    /// Code point to start at.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Cursor", extend("default" = 0))]
    pub(super) cursor: Option<Cursor>,
    /// tail: the last max_bytes, instead of cursor.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Tail")]
    pub(super) from: Option<Tail>,
    /// Most bytes of text.
    #[serde(default = "full_page")]
    pub(super) max_bytes: PageBytes,
    /// Over 2000 only with until end, pattern or idle_ms.
    #[serde(default)]
    pub(super) wait_ms: WaitMs,
    /// What to wait for: output, all of it and the exit, a regex match, or silence.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Until", extend("default" = "record"))]
    pub(super) until: Option<Until>,
    /// Lines that match, instead of a page.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Find")]
    pub(super) find: Option<Find>,
    /// runs: adjacent text of one stream is one record.
    #[serde(default)]
    pub(super) records: Records,
    /// plain: lines as a terminal shows them, \r progress folded.
    #[serde(default)]
    pub(super) view: View,
}

impl Read {
    /// Refuses arguments that contradict each other.
    pub(super) fn check(&self) -> Result<(), BadArgument> {
        let together = |argument: &str, other: &str| {
            Err(BadArgument(format!(
                "argument {argument} can't be had with {other}; leave one of them out"
            )))
        };
        let Bounded(wait_ms) = self.wait_ms;
        let is_plain = self.view == View::Plain;
        let by_code_points = self.records == Records::CodePoints;
        if self.find.is_some() {
            let other = match () {
                () if self.until.is_some() => "`until`",
                () if self.from.is_some() => "`from`",
                () if is_plain => "`view` `plain`",
                () if by_code_points => "`records` `code_points`",
                () if wait_ms > 0 => "`wait_ms`",
                () => return Ok(()),
            };
            return together("`find`", other);
        }
        if self.from.is_some() && self.cursor.is_some() {
            return together("`from`: \"tail\"", "`cursor`");
        }
        if is_plain && by_code_points {
            return together("`records`: `code_points`", "`view` `plain`");
        }
        match &self.until {
            Some(Until::Pattern(_)) if is_plain => together("`until`: a pattern", "`view` `plain`"),
            None | Some(Until::Record) if wait_ms > MAX_RECORD_WAIT_MS => {
                Err(BadArgument(format!(
                    "argument `wait_ms`: invalid value: integer `{wait_ms}`, expected at most {MAX_RECORD_WAIT_MS} \
                     unless `until` is \"end\", a pattern or idle_ms"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Where the page is to lie.
    pub(super) fn place(&self) -> Place {
        match self.from {
            Some(Tail) => Place::Tail,
            None => Place::Cursor(self.first()),
        }
    }

    /// Where the page, or the search, is to start.
    pub(super) fn first(&self) -> u64 {
        self.cursor.unwrap_or_default().0
    }

    /// Most bytes of text.
    pub(super) fn bytes(&self) -> usize {
        as_usize(self.max_bytes.0)
    }

    /// How long to wait.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms.0)
    }
}

impl Find {
    /// How much is to be found, and in how many bytes of text.
    pub(super) fn limits(&self, bytes: usize) -> FindLimits {
        FindLimits {
            matches: as_usize(self.max_matches.0),
            context: as_usize(self.context_lines.0),
            bytes,
        }
    }
}

fn as_usize(bounded: u64) -> usize {
    usize::try_from(bounded).expect("bounded by a constant that is a usize")
}

/// Arguments of `terminal_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// From terminal_start.
    pub(super) session_id: String,
    /// What to write, exactly.
    pub(super) text: String,
    /// Close stdin after the text.
    #[serde(default)]
    pub(super) close_stdin: bool,
}

/// Arguments of `terminal_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {
    /// From terminal_start. Omit to list all sessions.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String")]
    pub(super) session_id: Option<String>,
}

/// Arguments of `terminal_terminate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Terminate {
    /// From terminal_start.
    pub(super) session_id: String,
    /// Time between SIGTERM and SIGKILL.
    #[serde(default = "default_grace")]
    pub(super) grace_ms: GraceMs,
}

/// Arguments of `terminal_resize`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    /// From terminal_start.
    pub(super) session_id: String,
    /// Lines.
    rows: TtySide,
    /// Columns.
    cols: TtySide,
}

impl Resize {
    /// The size asked for.
    pub(super) fn size(&self) -> Size {
        let side = |Bounded(side): TtySide| u16::try_from(side).expect("bounded by its type");
        Size {
            rows: side(self.rows),
            cols: side(self.cols),
        }
    }
}

fn full_page() -> PageBytes {
    Bounded(MAX_PAGE_BYTES as u64)
}

fn default_output() -> OutputBytes {
    Bounded(DEFAULT_OUTPUT_BYTES as u64)
}

fn default_grace() -> GraceMs {
    Bounded(500)
}

/// An optional argument may be left out; `null` is no value of it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn command_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    let length = id.chars().count();
    if (1..=MAX_COMMAND_ID_CHARS).contains(&length) {
        return Ok(id);
    }
    Err(D::Error::custom(format_args!(
        "invalid length {length}, expected 1 to {MAX_COMMAND_ID_CHARS} characters"
    )))
}

/// What is wrong with the arguments: one line that names the one at fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadArgument(pub(super) String);

/// Reads the raw text of `arguments`; absent and `null` are `{}`.
pub(super) fn read<T: DeserializeOwned>(raw: Option<&str>) -> Result<T, BadArgument> {
    let raw = raw.filter(|raw| *raw != "null").unwrap_or("{}");
    // serde would take an array for a struct as well.
    if !raw.starts_with('{') {
        return Err(BadArgument("arguments must be an object".to_owned()));
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| BadArgument(describe(&error)))
}

fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let whole = error.inner().to_string();
    // The position is one in text that the client's library wrote, and of no use to its user.
    let what = whole
        .rfind(" at line ")
        .map_or(whole.as_str(), |at| &whole[..at]);
    let path = error.path().to_string();
    let about_a_name = ["unknown", "missing", "duplicate"]
        .into_iter()
        .find_map(|word| {
            let rest = what.strip_prefix(word)?.strip_prefix(" field")?;
            Some(format!("{word} argument{rest}"))
        });
    let message = about_a_name.unwrap_or_else(|| format!("argument `{path}`: {what}"));
    one_line(&message)
}

/// Text that may hold the client's own, as one line of bounded length.
pub(super) fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
