//! A naive checker of the JSON Schemas that this program publishes, for tests: what a client or an editor goes by.
//!
//! It knows the keywords that these schemas use and panics at any other, so that it can't fall behind them.

use serde_json::Value;

/// Keywords that only inform.
const NOTES: [&str; 5] = ["$schema", "title", "description", "default", "prefixItems"];

/// # Errors
/// Where the value departs from the schema, and from which keyword.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, value, "")
}

fn at(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let holds = match (keyword.as_str(), value) {
            ("type", _) => match rule {
                Value::Array(types) => types.iter().any(|name| is(name, value)),
                name => is(name, value),
            },
            ("enum", _) => rule.as_array().unwrap().contains(value),
            ("oneOf", _) => {
                let choices = rule.as_array().unwrap().iter();
                choices
                    .filter(|choice| at(choice, value, path).is_ok())
                    .count()
                    == 1
            }
            ("minimum", Value::Number(number)) => number.as_f64() >= rule.as_f64(),
            ("maximum", Value::Number(number)) => match (number.as_u64(), rule.as_u64()) {
                // Beyond 2^53 a float would blur the bound.
                (Some(number), Some(most)) => number <= most,
                _ => number.as_f64() <= rule.as_f64(),
            },
            ("minLength", Value::String(text)) => text.chars().count() >= count(rule),
            ("maxLength", Value::String(text)) => text.chars().count() <= count(rule),
            ("pattern", Value::String(text)) => matches(rule.as_str().unwrap(), text),
            ("minItems", Value::Array(items)) => items.len() >= count(rule),
            ("maxItems", Value::Array(items)) => items.len() <= count(rule),
            ("uniqueItems", Value::Array(items)) => {
                let mut rest = items.iter();
                rest.clone().all(|item| {
                    rest.next();
                    !rest.clone().any(|other| other == item)
                })
            }
            ("minProperties", Value::Object(members)) => members.len() >= count(rule),
            ("maxProperties", Value::Object(members)) => members.len() <= count(rule),
            ("required", Value::Object(members)) => {
                let names = rule.as_array().unwrap().iter();
                names
                    .map(|name| name.as_str().unwrap())
                    .all(|name| members.contains_key(name))
            }
            ("propertyNames", Value::Object(members)) => {
                for name in members.keys() {
                    at(
                        rule,
                        &Value::from(name.as_str()),
                        &format!("{path}/{name} (its name)"),
                    )?;
                }
                true
            }
            ("properties", Value::Object(members)) => {
                for (name, member) in members {
                    if let Some(schema) = rule.get(name) {
                        at(schema, member, &format!("{path}/{name}"))?;
                    }
                }
                true
            }
            ("additionalProperties", Value::Object(members)) => {
                for (name, member) in members {
                    if schema
                        .get("properties")
                        .is_some_and(|known| known.get(name).is_some())
                    {
                        continue;
                    }
                    match rule {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Err(format!("{path}/{name}: unknown")),
                        schema => at(schema, member, &format!("{path}/{name}"))?,
                    }
                }
                true
            }
            ("items", Value::Array(items)) => {
                let prefix = schema.get("prefixItems").and_then(Value::as_array);
                let prefix = prefix.map(Vec::as_slice).unwrap_or_default();
                for (index, item) in items.iter().enumerate() {
                    at(
                        prefix.get(index).unwrap_or(rule),
                        item,
                        &format!("{path}/{index}"),
                    )?;
                }
                true
            }
            (
                "minimum"
                | "maximum"
                | "minLength"
                | "maxLength"
                | "pattern"
                | "minItems"
                | "maxItems"
                | "uniqueItems"
                | "minProperties"
                | "maxProperties"
                | "required"
                | "propertyNames"
                | "properties"
                | "additionalProperties"
                | "items",
                _,
            ) => true,
            (note, _) if NOTES.contains(&note) => true,
            (unknown, _) => panic!("the checker doesn't know {unknown}"),
        };
        if !holds {
            return Err(format!("{path}: {keyword} {rule}"));
        }
    }
    Ok(())
}

fn count(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().expect("a count")).expect("a small one")
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("types are names") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // To JSON Schema 5.0 is an integer.
        "integer" => {
            value.is_u64() || value.is_i64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        other => panic!("the checker doesn't know the type {other}"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^/" => text.starts_with('/'),
        "^[^\\n\\r]*$" => !text.contains(['\n', '\r']),
        "^[A-Za-z_][A-Za-z0-9_]*$" => {
            let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            text.bytes().all(word)
                && text
                    .bytes()
                    .next()
                    .is_some_and(|first| !first.is_ascii_digit())
        }
        r"^[A-Za-z\[\\\]^_@]$" => {
            let sign = |byte: u8| byte.is_ascii_alphabetic() || br"[\]^_@".contains(&byte);
            matches!(text.as_bytes(), [byte] if sign(*byte))
        }
        "^0?[0-7]{3}$" => {
            let digits = if text.len() == 4 {
                text.strip_prefix('0')
            } else {
                Some(text)
            };
            digits.is_some_and(|digits| {
                digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit))
            })
        }
        "^[0-9A-Fa-f]{64}$" => {
            text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        other => panic!("the checker doesn't know the pattern {other}"),
    }
}
