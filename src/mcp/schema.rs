//! The tools' schemas: input schemas from the argument types, output schemas from the shapes of the bodies.
//!
//! Plain enough for every client: nothing refers elsewhere, no `format` (validators warn about `uint64`), no `$schema`. An
//! output schema admits the failure as well as the success, since the TypeScript client validates both.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

/// The input schema of a tool.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    strip(&mut value, true);
    match value {
        Value::Object(mut object) => {
            // Clients look for it even where there is none.
            object.entry("properties").or_insert_with(|| json!({}));
            object
        }
        _ => unreachable!("the schema of a struct is an object"),
    }
}

/// Removes what only costs a reader time: titles, formats, the types' own descriptions, and defaults that mean "absent".
fn strip(value: &mut Value, is_root: bool) {
    match value {
        Value::Object(object) => {
            for key in ["format", "title", "$schema"] {
                object.remove(key);
            }
            // The words are their own type.
            if object.contains_key("enum") {
                object.remove("type");
            }
            if is_root {
                object.remove("description");
            }
            object
                .retain(|key, value| key != "default" || !(value.is_null() || *value == json!({})));
            for inner in object.values_mut() {
                strip(inner, false);
            }
        }
        Value::Array(array) => array.iter_mut().for_each(|inner| strip(inner, false)),
        _ => {}
    }
}

/// The output schema of a tool whose success has one of these `bodies`, and whose failures carry `details`.
pub(super) fn output(bodies: &[Body], details: Value) -> Arc<JsonObject> {
    let Value::Object(mut details) = details else {
        unreachable!("details are written as objects in this crate");
    };
    let ok = |value: bool| json!({ "const": value });
    let success = |body: &Body| {
        let mut members = body.always.clone();
        members["ok"] = ok(true);
        let mut schema = all_required(members);
        for (name, member) in body.at_times.as_object().into_iter().flatten() {
            schema["properties"][name] = member.clone();
        }
        schema
    };
    let mut bodies: Vec<Value> = bodies.iter().map(success).collect();
    details.insert("code".to_owned(), json!({ "type": "string" }));
    details.insert("message".to_owned(), json!({ "type": "string" }));
    bodies.push(json!({
        "required": ["ok", "error"],
        "properties": {
            "ok": ok(false),
            "error": { "type": "object", "required": ["code", "message"], "properties": details }
        }
    }));
    let Value::Object(schema) = json!({ "type": "object", "oneOf": bodies }) else {
        unreachable!("written as an object above");
    };
    Arc::new(schema)
}

/// Members of a success.
pub(super) struct Body {
    /// Those that are always there.
    always: Value,
    /// Those that some calls ask for.
    at_times: Value,
}

impl From<Value> for Body {
    fn from(always: Value) -> Self {
        let at_times = Value::Null;
        Self { always, at_times }
    }
}

/// The schema of an object that has these members, and may have more.
fn all_required(members: Value) -> Value {
    let required: Vec<&String> = members
        .as_object()
        .into_iter()
        .flat_map(JsonObject::keys)
        .collect();
    json!({ "required": required, "properties": members })
}

/// The member of a list of all sessions.
pub(super) fn sessions() -> Value {
    let mut members = snapshot();
    members["last_output_at"] = json!({ "type": ["string", "null"] });
    members["output_bytes"] = json!({ "type": "integer" });
    members["description"] = json!({ "type": ["string", "null"] });
    // Each has all of them; saying so a second time would cost a client more than it tells.
    json!({ "sessions": { "type": "array", "items": { "type": "object", "properties": members } } })
}

/// Members of a snapshot.
pub(super) fn snapshot() -> Value {
    json!({
        "session_id": { "type": "string" },
        "command_id": { "type": "string" },
        "process_id": { "type": "integer" },
        "status": status(),
        "exit_code": { "type": ["integer", "null"] },
        "exit_signal": { "type": ["integer", "null"] },
        "termination_reason": { "enum": ["natural", "user", "timeout", "shutdown", null] },
        "stdin_closed": { "type": "boolean" },
        "input_uncertain": { "type": "boolean" },
        "base_cursor": count(),
        "next_cursor": count(),
        "created_at": { "type": "string" },
        "last_activity_at": { "type": "string" },
        "output_complete": { "type": "boolean" },
        "output_incomplete": { "type": "boolean" },
        "ended_at": { "type": ["string", "null"] },
        "cpu_ms": { "type": ["integer", "null"] },
        "max_rss_bytes": { "type": ["integer", "null"] },
        "truncated": { "type": "boolean" },
        "spool_state": { "enum": ["off", "ok", "dropping", "failed"] }
    })
}

/// Members of a page, which has records, or of lines that were found, which are matches. Those of a wait are there when
/// the call says `until`.
pub(super) fn page() -> Body {
    let always = json!({
        "base_cursor": count(),
        "next_cursor": count(),
        "truncated": { "type": "boolean" },
        "has_more": { "type": "boolean" },
        "status": status(),
        "output_complete": { "type": "boolean" },
        "output_incomplete": { "type": "boolean" }
    });
    let at_times = json!({
        "records": records(),
        "wait_result": { "enum": ["record", "end", "pattern", "idle", "timeout"] },
        "match": matched(json!(["object", "null"])),
        "omitted": gap(),
        "unsearched": count(),
        "lines_scanned": count(),
        "matches": { "type": "array", "items": found_line() }
    });
    Body { always, at_times }
}

/// Members of what a start answers: a snapshot, and the output when it waited.
pub(super) fn started() -> Body {
    let mut gap = gap();
    gap["type"] = json!(["object", "null"]);
    let at_times = json!({
        "output": {
            "type": "object",
            "required": ["omitted", "records"],
            "properties": { "omitted": gap, "records": records() }
        }
    });
    Body {
        always: snapshot(),
        at_times,
    }
}

/// A line that was found.
fn found_line() -> Value {
    let lines = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "object",
        "required": ["cursor", "stream", "text", "match", "before", "after"],
        "properties": {
            "cursor": count(),
            "stream": stream(),
            "text": { "type": "string" },
            "match": matched("object".into()),
            "before": lines,
            "after": lines
        }
    })
}

/// A match, of one of these types.
fn matched(types: Value) -> Value {
    json!({
        "type": types,
        "properties": {
            "cursor": count(),
            "text": { "type": "string" },
            "clipped": { "type": "boolean" }
        }
    })
}

fn stream() -> Value {
    json!({ "enum": ["stdout", "stderr"] })
}

fn records() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["cursor", "stream", "text"],
            "properties": {
                "cursor": count(),
                "stream": stream(),
                "text": { "type": "string" },
                "cut": { "const": true }
            }
        }
    })
}

/// Text that a result leaves out, `to` exclusive.
fn gap() -> Value {
    json!({
        "type": "object",
        "properties": {
            "from": count(), "to": count(), "code_points": count(), "bytes": count(), "lines": count()
        }
    })
}

fn count() -> Value {
    json!({ "type": "integer" })
}

/// Members of what a write came to.
pub(super) fn written() -> Value {
    json!({
        "session_id": { "type": "string" },
        "accepted_bytes": count(),
        "stdin_closed": { "type": "boolean" },
        "next_cursor": count()
    })
}

/// A new size.
pub(super) fn resized() -> Value {
    json!({
        "session_id": { "type": "string" },
        "rows": count(),
        "cols": count()
    })
}

/// What a failed read carries.
pub(super) fn cursors() -> Value {
    json!({ "base_cursor": count(), "next_cursor": count() })
}

/// What a failed write carries.
pub(super) fn uncertainty() -> Value {
    json!({
        "accepted_bytes": count(),
        "input_uncertain": { "type": "boolean" }
    })
}

fn status() -> Value {
    json!({ "enum": ["RUNNING", "TERMINATING", "EXITED", "TERMINATED", "FAILED"] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::args;

    #[test]
    fn input_schemas_state_every_rule_in_place() {
        let schema = Value::Object(input::<args::Read>());
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["session_id"],
                "properties": {
                    "session_id": { "type": "string", "description": "From terminal_start." },
                    "cursor": {
                        "type": "integer", "minimum": 0, "maximum": i64::MAX, "default": 0,
                        "description": "Code point to start at."
                    },
                    "max_bytes": {
                        "type": "integer", "minimum": 4, "maximum": 65_536, "default": 65_536,
                        "description": "Most bytes of text."
                    },
                    "wait_ms": {
                        "type": "integer", "minimum": 0, "maximum": 55_000, "default": 0,
                        "description": "Over 2000 only with until end, pattern or idle_ms."
                    },
                    "from": {
                        "enum": ["tail"],
                        "description": "tail: the last max_bytes, instead of cursor."
                    },
                    "until": {
                        "oneOf": [
                            { "enum": ["record", "end"] },
                            {
                                "type": "object",
                                "properties": {
                                    "pattern": { "type": "string" },
                                    "idle_ms": { "type": "integer", "minimum": 50, "maximum": 55_000 }
                                },
                                "minProperties": 1,
                                "maxProperties": 1,
                                "additionalProperties": false
                            }
                        ],
                        "default": "record",
                        "description": "What to wait for: output, all of it and the exit, a regex match, or silence."
                    },
                    "find": {
                        "type": "object",
                        "properties": {
                            "pattern": { "type": "string" },
                            "context_lines": { "type": "integer", "minimum": 0, "maximum": 10, "default": 0 },
                            "max_matches": { "type": "integer", "minimum": 1, "maximum": 200, "default": 50 },
                            "ignore_case": { "type": "boolean", "default": false }
                        },
                        "required": ["pattern"],
                        "additionalProperties": false,
                        "description": "Lines that match, instead of a page."
                    },
                    "records": {
                        "enum": ["runs", "code_points"], "default": "runs",
                        "description": "runs: adjacent text of one stream is one record."
                    },
                    "view": {
                        "enum": ["raw", "plain"], "default": "raw",
                        "description": "plain: lines as a terminal shows them, \\r progress folded."
                    }
                }
            })
        );
        let schema = Value::Object(input::<args::Start>());
        assert_eq!(schema["required"], json!(["command_id"]));
        assert_eq!(
            schema["properties"]["timeout_ms"],
            json!({
                "type": "integer", "minimum": 100, "maximum": 3_600_000,
                "description": "Lifetime; then the session is ended."
            })
        );
        assert_eq!(
            schema["properties"]["env"],
            json!({
                "type": "object", "additionalProperties": { "type": "string" }, "maxProperties": 32,
                "description": "Variables; only names approved for the command."
            })
        );
        assert_eq!(schema["properties"]["command_id"]["maxLength"], 128);
        assert_eq!(schema["properties"]["cwd"]["type"], "string");
    }
}
