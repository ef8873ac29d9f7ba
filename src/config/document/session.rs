//! The fields of `session`.

use jsonc_parser::ast::Value;

use super::{At, Field, Strings, boolean, integer, members, string, strings, unknown, wrong_type};
use crate::config::finding::{Findings, shortened};

/// The fields of `session`.
pub(in crate::config) const SESSION_FIELDS: [&str; 11] = [
    "cleanup_interval",
    "max_sessions",
    "idle_timeout",
    "default_rows",
    "default_cols",
    "read_settle_timeout",
    "max_output_bytes",
    "max_buffer_bytes",
    "safety_gate",
    "dangerous_patterns",
    "truncation_mode",
];

/// The fields of `session`.
#[derive(Debug, Default)]
pub(in crate::config) struct DraftSession {
    pub(in crate::config) cleanup_interval: Field<u64>,
    pub(in crate::config) max_sessions: Field<u64>,
    pub(in crate::config) idle_timeout: Field<u64>,
    pub(in crate::config) default_rows: Field<u64>,
    pub(in crate::config) default_cols: Field<u64>,
    pub(in crate::config) read_settle_timeout: Field<f64>,
    pub(in crate::config) max_output_bytes: Field<u64>,
    pub(in crate::config) max_buffer_bytes: Field<u64>,
    pub(in crate::config) safety_gate: Field<bool>,
    pub(in crate::config) dangerous_patterns: Field<Strings>,
    pub(in crate::config) truncation_mode: Field<String>,
}

pub(super) fn session(
    value: &Value<'_>,
    path: String,
    findings: &mut Findings<'_>,
) -> Field<DraftSession> {
    let Value::Object(object) = value else {
        wrong_type(value, &path, "an object", findings);
        return Field::Broken;
    };
    let mut draft = DraftSession::default();
    for (path, member) in members(object, &path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "cleanup_interval" => draft.cleanup_interval = integer(value, path, findings),
            "max_sessions" => draft.max_sessions = integer(value, path, findings),
            "idle_timeout" => draft.idle_timeout = integer(value, path, findings),
            "default_rows" => draft.default_rows = integer(value, path, findings),
            "default_cols" => draft.default_cols = integer(value, path, findings),
            "read_settle_timeout" => draft.read_settle_timeout = number(value, path, findings),
            "max_output_bytes" => draft.max_output_bytes = integer(value, path, findings),
            "max_buffer_bytes" => draft.max_buffer_bytes = integer(value, path, findings),
            "safety_gate" => draft.safety_gate = boolean(value, path, findings),
            "dangerous_patterns" => draft.dangerous_patterns = strings(value, path, findings),
            "truncation_mode" => draft.truncation_mode = string(value, path, findings),
            _ => unknown(&path, member, &SESSION_FIELDS, findings),
        }
    }
    Field::Given(At {
        value: draft,
        path,
        offset: Some(object.range.start),
    })
}

/// Any number: of seconds there may be a fraction.
fn number(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<f64> {
    let Value::NumberLit(literal) = value else {
        wrong_type(value, &path, "a number", findings);
        return Field::Broken;
    };
    let offset = Some(literal.range.start);
    match literal.value.parse::<f64>() {
        Ok(value) if value.is_finite() => Field::Given(At {
            value,
            path,
            offset,
        }),
        _ => {
            let spelled = shortened(literal.value);
            let message = format!("is {spelled}, which no field can hold");
            findings.error(&path, offset, message, "lower it");
            Field::Broken
        }
    }
}
