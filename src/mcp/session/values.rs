//! What single arguments may be, beside those of the other tools: each type enforces its rule, publishes it, and words the
//! refusal.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

use crate::{
    config::{Truncation, limits::WAIT_SECONDS},
    interactive::{ReadMode, Secret},
    screen::{Key, control},
};

/// Seconds within [`WAIT_SECONDS`], a fraction included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seconds(pub(super) Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl Visitor<'_> for Bounded {
            type Value = Seconds;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (low, high) = (WAIT_SECONDS.start(), WAIT_SECONDS.end());
                write!(formatter, "a number of seconds from {low} to {high}")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Seconds, E> {
                // Above the bound its float is, too.
                #[allow(clippy::cast_precision_loss)]
                let seconds = value as f64;
                if WAIT_SECONDS.contains(&seconds) {
                    Ok(Seconds(Duration::from_secs(value)))
                } else {
                    Err(E::invalid_value(Unexpected::Unsigned(value), &self))
                }
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Seconds, E> {
                if WAIT_SECONDS.contains(&value) {
                    Ok(Seconds(Duration::from_secs_f64(value)))
                } else {
                    Err(E::invalid_value(Unexpected::Float(value), &self))
                }
            }
        }
        deserializer.deserialize_f64(Bounded)
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number",
            "minimum": WAIT_SECONDS.start(),
            "maximum": WAIT_SECONDS.end()
        })
    }
}

/// A string of at least `MIN` and at most `MAX` characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text<const MIN: usize, const MAX: usize>(pub(super) String);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let length = text.chars().count();
        if (MIN..=MAX).contains(&length) {
            return Ok(Self(text));
        }
        Err(D::Error::custom(format_args!(
            "invalid length {length}, expected {}",
            if MAX == usize::MAX {
                format!("at least {MIN} characters")
            } else {
                format!("{MIN} to {MAX} characters")
            }
        )))
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Text{MIN}To{MAX}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "string", "minLength": MIN });
        if MAX != usize::MAX {
            schema.insert("maxLength".to_owned(), MAX.into());
        }
        schema
    }
}

/// A letter or sign that there is a control character for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlChar(pub(super) char);

/// What [`control`] knows.
const CONTROL_PATTERN: &str = r"^[A-Za-z\[\\\]^_@]$";

impl<'de> Deserialize<'de> for ControlChar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = ControlChar;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(r"one of a-z, [, \, ], ^, _ and @")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ControlChar, E> {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(char), None) if control(char).is_some() => Ok(ControlChar(char)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_str(One)
    }
}

impl JsonSchema for ControlChar {
    fn schema_name() -> Cow<'static, str> {
        "ControlChar".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": CONTROL_PATTERN })
    }
}

/// Text that no message quotes, whatever is given in its place.
#[derive(Debug)]
pub(super) struct Password(pub(super) Secret);

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Quiet;
        impl Quiet {
            /// The usual words would quote the value.
            fn refused<E: Error>() -> E {
                E::custom("not a string; write it in quotes")
            }
        }
        impl Visitor<'_> for Quiet {
            type Value = Password;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Password, E> {
                Ok(Password(Secret::new(text.to_owned())))
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Password, E> {
                Err(Quiet::refused())
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Password, E> {
                Err(Quiet::refused())
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<Password, E> {
                Err(Quiet::refused())
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Password, E> {
                Err(Quiet::refused())
            }
        }
        deserializer.deserialize_any(Quiet)
    }
}

impl JsonSchema for Password {
    fn schema_name() -> Cow<'static, str> {
        "Password".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// What has names on the wire.
pub(super) trait Named: Copy + 'static {
    /// Each value with its name.
    fn names() -> impl Iterator<Item = (&'static str, Self)>;
}

impl Named for Key {
    fn names() -> impl Iterator<Item = (&'static str, Self)> {
        Key::NAMES.into_iter()
    }
}

impl Named for ReadMode {
    fn names() -> impl Iterator<Item = (&'static str, Self)> {
        [
            ("auto", ReadMode::Auto),
            ("stream", ReadMode::Stream),
            ("snapshot", ReadMode::Snapshot),
            ("diff", ReadMode::Diff),
        ]
        .into_iter()
    }
}

impl Named for Truncation {
    fn names() -> impl Iterator<Item = (&'static str, Self)> {
        let named = |name| Some((name, Truncation::parse(name)?));
        Truncation::NAMES.into_iter().filter_map(named)
    }
}

/// One of the names of `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<T>(pub(super) T);

impl<'de, T: Named> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOf<T>(PhantomData<T>);
        impl<T: Named> Visitor<'_> for OneOf<T> {
            type Value = Word<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("one of ")?;
                for (place, (name, _)) in T::names().enumerate() {
                    let comma = if place > 0 { ", " } else { "" };
                    write!(formatter, "{comma}{name}")?;
                }
                Ok(())
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Word<T>, E> {
                let found = T::names().find(|(name, _)| *name == text);
                let (_, value) =
                    found.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))?;
                Ok(Word(value))
            }
        }
        deserializer.deserialize_str(OneOf(PhantomData))
    }
}

impl<T: Named> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = T::names().map(|(name, _)| name).collect();
        json_schema!({ "enum": names })
    }
}
