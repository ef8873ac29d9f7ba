//! The tools' arguments: their types, and the reading that refuses whatever isn't exactly right.
//!
//! Each type is the whole rule for its argument: serde enforces it, schemars publishes it in the input schema, and its
//! `expecting` text is what a refusal says. Integers are JSON integers; `true`, `"5"`, `5.0`, `5e2` and `null` are none.

use std::{collections::HashSet, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, Unexpected, Visitor},
};

use crate::{
    arena::Unit,
    config::limits::{
        MAX_CLIENT_ENV, MAX_COMMAND_ID_CHARS, MAX_PAGE_BYTES, MAX_WAIT_MS, MIN_PAGE_BYTES,
        TIMEOUT_MS,
    },
};

/// Largest cursor that the wire carries: JSON integers stay within a signed 64-bit one.
const MAX_CURSOR: u64 = i64::MAX.unsigned_abs();
/// Longest message about a bad argument, in characters; the client's own text may stand in it.
const MAX_MESSAGE_CHARS: usize = 300;

/// An integer from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounded<const MIN: u64, const MAX: u64>(pub(super) u64);

/// The least.
impl<const MIN: u64, const MAX: u64> Default for Bounded<MIN, MAX> {
    fn default() -> Self {
        Self(MIN)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InRange<const MIN: u64, const MAX: u64>;
        impl<const MIN: u64, const MAX: u64> Visitor<'_> for InRange<MIN, MAX> {
            type Value = u64;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "an integer from {MIN} to {MAX}")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
                if (MIN..=MAX).contains(&value) {
                    Ok(value)
                } else {
                    Err(E::invalid_value(Unexpected::Unsigned(value), &self))
                }
            }
        }
        deserializer.deserialize_u64(InRange::<MIN, MAX>).map(Self)
    }
}

impl<const MIN: u64, const MAX: u64> serde::Serialize for Bounded<MIN, MAX> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Bounded<MIN, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Bounded{MIN}To{MAX}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

type TimeoutMs = Bounded<{ *TIMEOUT_MS.start() }, { *TIMEOUT_MS.end() }>;
type WaitMs = Bounded<0, MAX_WAIT_MS>;
type Cursor = Bounded<0, MAX_CURSOR>;
type PageBytes = Bounded<{ MIN_PAGE_BYTES as u64 }, { MAX_PAGE_BYTES as u64 }>;

/// Name and value pairs in the client's order, no name twice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Env(pub(super) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Env {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, String)>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut pairs, mut names) = (Vec::new(), HashSet::new());
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("{name:?} is given twice")));
                    }
                    pairs.push((name, value));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Self)
    }
}

impl JsonSchema for Env {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Env".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "type": "string" },
            "maxProperties": MAX_CLIENT_ENV
        })
    }
}

/// What a record of a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Records {
    #[default]
    Runs,
    CodePoints,
}

/// By hand, since the derived one tells of a value that is no string nothing but "expected value".
impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Records;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`runs` or `code_points`")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Records, E> {
                match word {
                    "runs" => Ok(Records::Runs),
                    "code_points" => Ok(Records::CodePoints),
                    other => Err(E::unknown_variant(other, &["runs", "code_points"])),
                }
            }
        }
        deserializer.deserialize_str(Word)
    }
}

impl From<Records> for Unit {
    fn from(records: Records) -> Self {
        match records {
            Records::Runs => Self::Runs,
            Records::CodePoints => Self::CodePoints,
        }
    }
}

/// How output is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum View {
    #[default]
    Raw,
    Plain,
}

/// By hand, as that of [`Records`].
impl<'de> Deserialize<'de> for View {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = View;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`raw` or `plain`")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<View, E> {
                match word {
                    "raw" => Ok(View::Raw),
                    "plain" => Ok(View::Plain),
                    other => Err(E::unknown_variant(other, &["raw", "plain"])),
                }
            }
        }
        deserializer.deserialize_str(Word)
    }
}

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
    /// Variables to set; only names approved for the command.
    #[serde(default)]
    pub(super) env: Env,
    /// Lifetime; then the session is ended. Omit for the default.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "TimeoutMs")]
    pub(super) timeout_ms: Option<TimeoutMs>,
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
}

/// Arguments of `terminal_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// From terminal_start.
    pub(super) session_id: String,
    /// Code point to start at: next_cursor of the page before.
    #[serde(default)]
    pub(super) cursor: Cursor,
    /// Most UTF-8 bytes of text to return.
    #[serde(default = "full_page")]
    pub(super) max_bytes: PageBytes,
    /// How long to wait for output when there is none at cursor.
    #[serde(default)]
    pub(super) wait_ms: WaitMs,
    /// runs: adjacent text of one stream is one record. code_points: one record per code point.
    #[serde(default)]
    pub(super) records: Records,
    /// plain: lines as a terminal would show them, without escape sequences, \r progress folded; cursors stay raw.
    #[serde(default)]
    pub(super) view: View,
}

impl Read {
    /// Refuses arguments that contradict each other.
    pub(super) fn checked(self) -> Result<Self, BadArgument> {
        if self.view == View::Plain && self.records == Records::CodePoints {
            return Err(BadArgument(
                "argument `records`: `code_points` can't be had with `view` `plain`; leave one of them out".to_owned(),
            ));
        }
        Ok(self)
    }
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
    pub(super) grace_ms: WaitMs,
}

fn full_page() -> PageBytes {
    Bounded(MAX_PAGE_BYTES as u64)
}

fn default_grace() -> WaitMs {
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
