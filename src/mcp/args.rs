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
        DEFAULT_OUTPUT_BYTES, IDLE_MS, MAX_CLIENT_ENV, MAX_COMMAND_ID_CHARS, MAX_GRACE_MS,
        MAX_PAGE_BYTES, MAX_RECORD_WAIT_MS, MAX_WAIT_MS, MIN_PAGE_BYTES, OUTPUT_BYTES, TIMEOUT_MS,
    },
    supervisor::{
        follow::{self, Place},
        handle::StartWait,
    },
    text::pattern::Pattern,
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

/// What `until` waits for. A pattern is compiled later, when the rest of the call is known to be good.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Until {
    #[default]
    Record,
    End,
    Pattern(String),
    Idle(Duration),
}

impl<'de> Deserialize<'de> for Until {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Event;
        impl<'de> Visitor<'de> for Event {
            type Value = Until;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "`record`, `end`, {\"pattern\": regex} or {\"idle_ms\": milliseconds}",
                )
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Until, E> {
                match word {
                    "record" => Ok(Until::Record),
                    "end" => Ok(Until::End),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Until, A::Error> {
                let until = match map.next_key::<String>()?.as_deref() {
                    Some("pattern") => Until::Pattern(map.next_value()?),
                    Some("idle_ms") => {
                        let Bounded(ms) = map.next_value::<IdleMs>()?;
                        Until::Idle(Duration::from_millis(ms))
                    }
                    Some(other) => {
                        return Err(A::Error::unknown_field(other, &["pattern", "idle_ms"]));
                    }
                    None => return Err(A::Error::invalid_length(0, &self)),
                };
                match map.next_key::<String>()? {
                    None => Ok(until),
                    Some(_) => Err(A::Error::custom(
                        "one of `pattern` and `idle_ms`, and nothing else",
                    )),
                }
            }
        }
        deserializer.deserialize_any(Event)
    }
}

impl JsonSchema for Until {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Until".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "enum": ["record", "end"] },
                one_member("pattern", json_schema!({ "type": "string" })),
                one_member("idle_ms", IdleMs::json_schema(generator)),
            ]
        })
    }
}

/// An object that has this member and no other.
fn one_member(name: &str, schema: Schema) -> Schema {
    json_schema!({
        "type": "object",
        "required": [name],
        "properties": { (name): schema },
        "additionalProperties": false
    })
}

/// The one place that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail;

impl<'de> Deserialize<'de> for Tail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Tail;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`tail`")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Tail, E> {
                match word {
                    "tail" => Ok(Tail),
                    other => Err(E::unknown_variant(other, &["tail"])),
                }
            }
        }
        deserializer.deserialize_str(Word)
    }
}

impl JsonSchema for Tail {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tail".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["tail"] })
    }
}

type TimeoutMs = Bounded<{ *TIMEOUT_MS.start() }, { *TIMEOUT_MS.end() }>;
type GraceMs = Bounded<0, MAX_GRACE_MS>;
type WaitMs = Bounded<0, MAX_WAIT_MS>;
type IdleMs = Bounded<{ *IDLE_MS.start() }, { *IDLE_MS.end() }>;
type OutputBytes = Bounded<{ *OUTPUT_BYTES.start() as u64 }, { *OUTPUT_BYTES.end() as u64 }>;
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
    /// Wait so long for the end; the answer then has output, whole or head and tail.
    #[serde(default)]
    pub(super) wait_ms: WaitMs,
    /// Most bytes of that output.
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
            output_bytes: usize::try_from(self.output_bytes.0)
                .expect("bounded by a constant that is a usize"),
        })
    }
}

/// Arguments of `terminal_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// From terminal_start.
    pub(super) session_id: String,
    /// Code point to start at: next_cursor of the page before.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Cursor", extend("default" = 0))]
    pub(super) cursor: Option<Cursor>,
    /// tail: the last max_bytes, instead of cursor.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Tail")]
    pub(super) from: Option<Tail>,
    /// Most UTF-8 bytes of text to return.
    #[serde(default = "full_page")]
    pub(super) max_bytes: PageBytes,
    /// How long to wait for what until says. At most 2000 for record.
    #[serde(default)]
    pub(super) wait_ms: WaitMs,
    /// record: any output at cursor. end: all output and the exit. pattern: a line that matches, at cursor or later.
    /// idle_ms: no output for so long.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Until", extend("default" = "record"))]
    pub(super) until: Option<Until>,
    /// runs: adjacent text of one stream is one record. code_points: one record per code point.
    #[serde(default)]
    pub(super) records: Records,
}

impl Read {
    /// Where the page is to lie.
    pub(super) fn place(&self) -> Result<Place, BadArgument> {
        match (self.from, self.cursor) {
            (Some(Tail), Some(_)) => Err(BadArgument(
                "argument `from`: \"tail\" can't stand beside `cursor`; leave one of them out"
                    .to_owned(),
            )),
            (Some(Tail), None) => Ok(Place::Tail),
            (None, cursor) => Ok(Place::Cursor(cursor.unwrap_or_default().0)),
        }
    }

    /// What to wait for, and how long.
    pub(super) fn until(&self) -> Result<(follow::Until, Duration), BadArgument> {
        let Bounded(wait_ms) = self.wait_ms;
        let until = match &self.until {
            None | Some(Until::Record) if wait_ms > MAX_RECORD_WAIT_MS => {
                return Err(BadArgument(format!(
                    "argument `wait_ms`: invalid value: integer `{wait_ms}`, expected at most {MAX_RECORD_WAIT_MS} \
                     unless `until` is \"end\", a pattern or idle_ms"
                )));
            }
            None | Some(Until::Record) => follow::Until::Record,
            Some(Until::End) => follow::Until::End,
            Some(Until::Idle(quiet)) => follow::Until::Idle(*quiet),
            Some(Until::Pattern(pattern)) => {
                let pattern = Pattern::new(pattern, false).map_err(|error| {
                    BadArgument(one_line(&format!("argument `until.pattern`: {error}")))
                })?;
                follow::Until::Pattern(Box::new(pattern))
            }
        };
        Ok((until, Duration::from_millis(wait_ms)))
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
    /// From terminal_start.
    pub(super) session_id: String,
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
mod tests {
    use super::*;

    const SESSION: &str = r#""session_id":"s""#;

    fn refusal<T: DeserializeOwned + fmt::Debug>(raw: &str) -> String {
        read::<T>(Some(raw)).expect_err(raw).0
    }

    #[test]
    fn integers_are_strict_and_bounded() {
        let bad = [
            "true",
            "\"5\"",
            "1.0",
            "5e2",
            "null",
            "-1",
            "1e400",
            "-0",
            "500.5",
            "[1]",
            "{}",
            "18446744073709551616",
        ];
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "cursor",
                &["0", "9223372036854775807"],
                &["9223372036854775808"],
            ),
            ("max_bytes", &["4", "65536"], &["3", "65537", "0"]),
            ("wait_ms", &["0", "2000"], &["2001"]),
        ];
        for (argument, good, out_of_range) in cases {
            for value in *good {
                let raw = format!(r#"{{{SESSION},"{argument}":{value}}}"#);
                read::<Read>(Some(&raw)).unwrap();
            }
            for value in bad.iter().chain(*out_of_range) {
                let message = refusal::<Read>(&format!(r#"{{{SESSION},"{argument}":{value}}}"#));
                assert!(message.contains(&format!("`{argument}`")), "{message}");
            }
        }
        for value in bad.iter().chain(&["2001"]) {
            let message = refusal::<Terminate>(&format!(r#"{{{SESSION},"grace_ms":{value}}}"#));
            assert!(message.contains("`grace_ms`"), "{message}");
        }
        for value in bad.iter().chain(&["0", "99", "3600001"]) {
            let message =
                refusal::<Start>(&format!(r#"{{"command_id":"c","timeout_ms":{value}}}"#));
            assert!(message.contains("`timeout_ms`"), "{message}");
        }
        for value in ["100", "3600000"] {
            let raw = format!(r#"{{"command_id":"c","timeout_ms":{value}}}"#);
            read::<Start>(Some(&raw)).unwrap();
        }
    }

    #[test]
    fn messages_say_what_was_expected() {
        let cases = [
            (
                refusal::<Read>(r#"{"session_id":"s","wait_ms":2001}"#),
                "argument `wait_ms`: invalid value: integer `2001`, expected an integer from 0 to 2000",
            ),
            (
                refusal::<Read>(r#"{"session_id":"s","wait_ms":true}"#),
                "argument `wait_ms`: invalid type: boolean `true`, expected an integer from 0 to 2000",
            ),
            (
                refusal::<Read>(r#"{"session_id":"s","cursor":1e400}"#),
                "argument `cursor`: number out of range",
            ),
            (refusal::<Read>("{}"), "missing argument `session_id`"),
            (
                refusal::<Status>(r#"{"session_id":"s","argv":[]}"#),
                "unknown argument `argv`, expected `session_id`",
            ),
            (
                refusal::<Status>(r#"{"session_id":"s","session_id":"t"}"#),
                "duplicate argument `session_id`",
            ),
            (
                refusal::<Status>(r#"{"session_id":7}"#),
                "argument `session_id`: invalid type: integer `7`, expected a string",
            ),
            (
                refusal::<Start>(r#"{"command_id":"c","env":{"A":1}}"#),
                "argument `env.A`: invalid type: integer `1`, expected a string",
            ),
            (
                refusal::<Start>(r#"{"command_id":"c","env":["A"]}"#),
                "argument `env`: invalid type: sequence, expected an object of strings",
            ),
            (
                refusal::<Start>(r#"{"command_id":""}"#),
                "argument `command_id`: invalid length 0, expected 1 to 128 characters",
            ),
            (
                refusal::<Read>(r#"{"session_id":"s","records":"lines"}"#),
                "argument `records`: unknown variant `lines`, expected `runs` or `code_points`",
            ),
            (
                refusal::<Read>(r#"{"session_id":"s","records":null}"#),
                "argument `records`: invalid type: null, expected `runs` or `code_points`",
            ),
            (refusal::<Status>("[]"), "arguments must be an object"),
            (refusal::<Status>("7"), "arguments must be an object"),
        ];
        for (message, expected) in cases {
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn strings_flags_and_lengths_are_strict() {
        for value in ["1", "\"true\"", "null"] {
            let message = refusal::<Write>(&format!(
                r#"{{{SESSION},"text":"x","close_stdin":{value}}}"#
            ));
            assert!(message.contains("`close_stdin`"), "{message}");
        }
        for value in ["1", "null", "[]", r#""\ud800""#] {
            let message = refusal::<Write>(&format!(r#"{{{SESSION},"text":{value}}}"#));
            assert!(message.contains("`text`"), "{message}");
        }
        for value in ["1", "null"] {
            let message = refusal::<Start>(&format!(r#"{{"command_id":"c","cwd":{value}}}"#));
            assert!(message.contains("`cwd`"), "{message}");
        }
        assert!(refusal::<Start>(r#"{"command_id":"c","env":null}"#).contains("`env`"));
        assert!(
            refusal::<Start>(r#"{"command_id":"c","env":{"A":"1","A":"2"}}"#).contains("twice")
        );
        let id = |length: usize| format!(r#"{{"command_id":"{}"}}"#, "\u{e9}".repeat(length));
        read::<Start>(Some(&id(128))).unwrap();
        assert!(refusal::<Start>(&id(129)).contains("`command_id`"));
    }

    #[test]
    fn absent_arguments_are_an_empty_object_and_defaults_hold() {
        assert_eq!(
            read::<Status>(None).unwrap_err(),
            read::<Status>(Some("{}")).unwrap_err()
        );
        let read_arguments = read::<Read>(Some(r#"{"session_id":"s"}"#)).unwrap();
        assert_eq!(read_arguments.cursor.0, 0);
        assert_eq!(read_arguments.max_bytes.0, 65_536);
        assert_eq!(read_arguments.wait_ms.0, 0);
        assert_eq!(read_arguments.records, Records::Runs);
        let terminate = read::<Terminate>(Some(r#"{"session_id":"s"}"#)).unwrap();
        assert_eq!(terminate.grace_ms.0, 500);
    }

    #[test]
    fn env_keeps_the_order_of_the_client() {
        let start: Start =
            read(Some(r#"{"command_id":"c","env":{"Z":"1","A":"2","M":""}}"#)).unwrap();
        let names: Vec<_> = start.env.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Z", "A", "M"]);
    }

    #[test]
    fn the_owner_bounds_the_timeout_further() {
        let start: Start = read(Some(r#"{"command_id":"c","timeout_ms":5000}"#)).unwrap();
        assert_eq!(start.timeout(5_000), Ok(Some(Duration::from_secs(5))));
        assert!(start.timeout(4_999).unwrap_err().0.contains("`timeout_ms`"));
    }

    #[test]
    fn a_message_stays_one_short_line_whatever_the_client_sent() {
        let raw = format!(r#"{{"session_id":"s","a\nb{}":1}}"#, "x".repeat(10_000));
        let message = refusal::<Status>(&raw);
        assert!(!message.contains('\n'));
        assert!(message.chars().count() <= MAX_MESSAGE_CHARS + 1);
    }
}
