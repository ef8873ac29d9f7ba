//! What single arguments may be: each type enforces its rule, publishes it, and words the refusal.

use std::{collections::HashSet, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Unexpected, Visitor},
};

use super::{ContextLines, IdleMs, Matches};
use crate::{
    arena::Unit,
    config::limits::{DEFAULT_MATCHES, MAX_CLIENT_ENV},
};

/// An integer from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct Bounded<const MIN: u64, const MAX: u64>(pub(in crate::mcp) u64);

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
pub(in crate::mcp) enum Until {
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
                        return Err(A::Error::custom(format_args!(
                            "unknown member `{other}`, expected `pattern` or `idle_ms`"
                        )));
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
                {
                    "type": "object",
                    "properties": {
                        "pattern": { "type": "string" },
                        "idle_ms": IdleMs::json_schema(generator)
                    },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// What `find` looks for. Its pattern is compiled later, as that of [`Until`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mcp) struct Find {
    pub(in crate::mcp) pattern: String,
    pub(in crate::mcp) context_lines: ContextLines,
    pub(in crate::mcp) max_matches: Matches,
    pub(in crate::mcp) ignore_case: bool,
}

const FIND_MEMBERS: &str = "`pattern`, `context_lines`, `max_matches` or `ignore_case`";

/// By hand, since the derived one takes an array as well, and names of what is wrong only the member.
impl<'de> Deserialize<'de> for Find {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Find;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with `pattern`")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Find, A::Error> {
                let (mut pattern, mut context, mut matches, mut ignore) = (None, None, None, None);
                while let Some(name) = map.next_key::<String>()? {
                    let twice = match name.as_str() {
                        "pattern" => pattern.replace(map.next_value()?).is_some(),
                        "context_lines" => context.replace(map.next_value()?).is_some(),
                        "max_matches" => matches.replace(map.next_value()?).is_some(),
                        "ignore_case" => ignore.replace(map.next_value()?).is_some(),
                        other => {
                            return Err(A::Error::custom(format_args!(
                                "unknown member `{other}`, expected {FIND_MEMBERS}"
                            )));
                        }
                    };
                    if twice {
                        return Err(A::Error::custom(format_args!("`{name}` is given twice")));
                    }
                }
                Ok(Find {
                    pattern: pattern
                        .ok_or_else(|| A::Error::custom("its member `pattern` is missing"))?,
                    context_lines: context.unwrap_or_default(),
                    max_matches: matches.unwrap_or(Bounded(DEFAULT_MATCHES)),
                    ignore_case: ignore.unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl JsonSchema for Find {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Find".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let with_default = |mut schema: Schema, default: serde_json::Value| {
            schema.insert("default".to_owned(), default);
            schema
        };
        json_schema!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string" },
                "context_lines": with_default(ContextLines::json_schema(generator), 0.into()),
                "max_matches": with_default(Matches::json_schema(generator), DEFAULT_MATCHES.into()),
                "ignore_case": { "type": "boolean", "default": false }
            },
            "required": ["pattern"],
            "additionalProperties": false
        })
    }
}

/// The one place that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct Tail;

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

/// Name and value pairs in the client's order, no name twice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::mcp) struct Env(pub(in crate::mcp) Vec<(String, String)>);

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
pub(in crate::mcp) enum Records {
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
pub(in crate::mcp) enum View {
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
