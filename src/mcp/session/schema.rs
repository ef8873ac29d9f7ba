//! The session tools' output schemas: each admits the success, the failure, and where there is one the question.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::tools;

/// The output schema of a tool.
pub(super) fn output(tool: &str) -> Arc<JsonObject> {
    let mut bodies = vec![match tool {
        tools::CREATE => success(
            json!({
                "session_id": text(), "label": text(), "pid": count(), "created_at": number(),
                "snapshot_available": flag()
            }),
            json!({}),
        ),
        tools::SEND => success(json!({ "bytes_sent": count() }), json!({})),
        tools::READ => success(read(), at_times()),
        tools::RESIZE => success(json!({ "rows": count(), "cols": count() }), json!({})),
        tools::CLOSE => success(
            json!({}),
            json!({
                "exit_status": { "type": ["integer", "null"] }, "exit_signal": count(), "already_closed": flag()
            }),
        ),
        tools::EXEC => success(
            json!({
                "output": text(), "bytes_read": count(), "session_id": text(), "truncated": flag(),
                "exit_code": { "type": ["integer", "null"] }, "timed_out": flag()
            }),
            json!({}),
        ),
        tools::INTERACT => {
            let mut always = read();
            always["bytes_sent"] = count();
            let mut at_times = at_times();
            at_times["matched"] = flag();
            success(always, at_times)
        }
        tools::WAIT_FOR => success(
            json!({
                "output": text(), "bytes_read": count(), "matched": flag(), "prompt_detected": flag(),
                "is_alive": flag(), "truncated": flag()
            }),
            shell(),
        ),
        _ => success(
            json!({ "sessions": { "type": "array", "items": session() }, "count": count() }),
            json!({}),
        ),
    }];
    bodies.push(json!({
        "required": ["success", "error"],
        "properties": {
            "success": { "const": false },
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": { "type": text(), "message": text() }
            }
        }
    }));
    if [tools::SEND, tools::INTERACT].contains(&tool) {
        bodies.push(json!({
            "required": ["success", "requires_confirmation", "command", "reason"],
            "properties": {
                "success": { "const": false },
                "requires_confirmation": { "const": true },
                "command": text(),
                "reason": text()
            }
        }));
    }
    let Value::Object(schema) = json!({ "type": "object", "oneOf": bodies }) else {
        unreachable!("written as an object above");
    };
    Arc::new(schema)
}

/// A success that has all of `always`, and may have more, `at_times` among it.
fn success(always: Value, at_times: Value) -> Value {
    let mut properties = json!({ "success": { "const": true } });
    for members in [&always, &at_times] {
        for (name, member) in members.as_object().into_iter().flatten() {
            properties[name] = member.clone();
        }
    }
    let always = always.as_object();
    let mut required: Vec<&str> = vec!["success"];
    required.extend(
        always
            .into_iter()
            .flat_map(JsonObject::keys)
            .map(String::as_str),
    );
    json!({ "required": required, "properties": properties })
}

/// What a read always has.
fn read() -> Value {
    json!({
        "output": text(), "bytes_read": count(), "prompt_detected": flag(), "is_alive": flag(), "truncated": flag(),
        "tui_active": flag(), "snapshot_available": flag(), "mode_used": { "enum": ["stream", "snapshot", "diff"] }
    })
}

/// What a read has of a diff, of scrollback, and of a shell that marks its prompts.
fn at_times() -> Value {
    let mut members = shell();
    members["changed_lines"] = json!({
        "type": "array",
        "items": { "type": "object", "properties": { "line": count(), "content": text() } }
    });
    members["is_first_read"] = flag();
    members["total_lines"] = count();
    members
}

fn shell() -> Value {
    json!({
        "osc133": flag(), "command_state": text(), "exit_code": count(), "command_complete": flag()
    })
}

fn session() -> Value {
    json!({
        "type": "object",
        "properties": {
            "session_id": text(), "label": text(), "command": text(), "pid": count(), "is_alive": flag(),
            "created_at": number(), "last_activity": number(), "idle_seconds": number(), "tui_active": flag(),
            "snapshot_available": flag(), "rows": count(), "cols": count()
        }
    })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer" })
}

fn number() -> Value {
    json!({ "type": "number" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}
