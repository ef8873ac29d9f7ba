//! The fields of one profile, and of the objects in it.

use jsonc_parser::ast::Value;

use super::{
    At, Field, Members, Strings, boolean, integer, members, object_of, one_string, string, strings,
    unknown, wrong_type,
};
use crate::config::finding::Findings;

/// The fields of a profile.
pub(in crate::config) const PROFILE_FIELDS: [&str; 14] = [
    "argv",
    "allowed_env",
    "description",
    "env",
    "cwd",
    "timeout_ms",
    "stdin",
    "allow_detach",
    "limits",
    "nice",
    "umask",
    "sha256",
    "sandbox",
    "tty",
];

/// The fields of a profile's `limits`.
pub(in crate::config) const LIMITS_FIELDS: [&str; 5] = [
    "cpu_seconds",
    "memory_bytes",
    "processes",
    "open_files",
    "file_bytes",
];

/// The fields of a profile's `sandbox`.
pub(in crate::config) const SANDBOX_FIELDS: [&str; 3] = ["read", "write", "network"];

/// The fields of a profile's `tty`.
pub(in crate::config) const TTY_FIELDS: [&str; 2] = ["rows", "cols"];

/// The fields of one profile.
#[derive(Debug, Default)]
pub(in crate::config) struct DraftProfile {
    pub(in crate::config) argv: Field<Strings>,
    pub(in crate::config) allowed_env: Field<Strings>,
    pub(in crate::config) description: Field<String>,
    pub(in crate::config) env: Field<Members<Option<String>>>,
    pub(in crate::config) cwd: Field<String>,
    pub(in crate::config) timeout_ms: Field<u64>,
    pub(in crate::config) stdin: Field<String>,
    pub(in crate::config) allow_detach: Field<bool>,
    pub(in crate::config) limits: DraftLimits,
    pub(in crate::config) nice: Field<u64>,
    pub(in crate::config) umask: Field<String>,
    pub(in crate::config) sha256: Field<String>,
    pub(in crate::config) sandbox: Field<DraftSandbox>,
    pub(in crate::config) tty: Field<DraftTty>,
}

/// The fields of a profile's `limits`. An absent object is one without fields.
#[derive(Debug, Default)]
pub(in crate::config) struct DraftLimits {
    pub(in crate::config) cpu_seconds: Field<u64>,
    pub(in crate::config) memory_bytes: Field<u64>,
    pub(in crate::config) processes: Field<u64>,
    pub(in crate::config) open_files: Field<u64>,
    pub(in crate::config) file_bytes: Field<u64>,
}

/// The fields of a profile's `sandbox`.
#[derive(Debug, Default)]
pub(in crate::config) struct DraftSandbox {
    pub(in crate::config) read: Field<Strings>,
    pub(in crate::config) write: Field<Strings>,
    pub(in crate::config) network: Field<bool>,
}

/// The fields of a profile's `tty`.
#[derive(Debug, Default)]
pub(in crate::config) struct DraftTty {
    pub(in crate::config) rows: Field<u64>,
    pub(in crate::config) cols: Field<u64>,
}

/// One member of `commands`. `None` when it is no object.
pub(super) fn profile(
    value: &Value<'_>,
    path: &str,
    findings: &mut Findings<'_>,
) -> Option<DraftProfile> {
    let Value::Object(object) = value else {
        wrong_type(value, path, "an object", findings);
        return None;
    };
    let mut draft = DraftProfile::default();
    for (path, member) in members(object, path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "argv" => draft.argv = strings(value, path, findings),
            "allowed_env" => draft.allowed_env = strings(value, path, findings),
            "description" => draft.description = string(value, path, findings),
            "env" => {
                // A value of a wrong type keeps its name, so that the name is still checked.
                draft.env = object_of(value, path, findings, |value, path, findings| {
                    Some(one_string(value, path, findings).map(|at| at.value))
                });
            }
            "cwd" => draft.cwd = string(value, path, findings),
            "timeout_ms" => draft.timeout_ms = integer(value, path, findings),
            "stdin" => draft.stdin = string(value, path, findings),
            "allow_detach" => draft.allow_detach = boolean(value, path, findings),
            "limits" => draft.limits = job_limits(value, &path, findings),
            "nice" => draft.nice = integer(value, path, findings),
            "umask" => draft.umask = string(value, path, findings),
            "sha256" => draft.sha256 = string(value, path, findings),
            "sandbox" => draft.sandbox = sandbox(value, path, findings),
            "tty" => draft.tty = tty(value, path, findings),
            _ => unknown(&path, member, &PROFILE_FIELDS, findings),
        }
    }
    Some(draft)
}

fn job_limits(value: &Value<'_>, path: &str, findings: &mut Findings<'_>) -> DraftLimits {
    let mut draft = DraftLimits::default();
    let Value::Object(object) = value else {
        wrong_type(value, path, "an object", findings);
        return draft;
    };
    for (path, member) in members(object, path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "cpu_seconds" => draft.cpu_seconds = integer(value, path, findings),
            "memory_bytes" => draft.memory_bytes = integer(value, path, findings),
            "processes" => draft.processes = integer(value, path, findings),
            "open_files" => draft.open_files = integer(value, path, findings),
            "file_bytes" => draft.file_bytes = integer(value, path, findings),
            _ => unknown(&path, member, &LIMITS_FIELDS, findings),
        }
    }
    draft
}

fn sandbox(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<DraftSandbox> {
    let Value::Object(object) = value else {
        wrong_type(value, &path, "an object", findings);
        return Field::Broken;
    };
    let mut draft = DraftSandbox::default();
    for (path, member) in members(object, &path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "read" => draft.read = strings(value, path, findings),
            "write" => draft.write = strings(value, path, findings),
            "network" => draft.network = boolean(value, path, findings),
            _ => unknown(&path, member, &SANDBOX_FIELDS, findings),
        }
    }
    Field::Given(At {
        value: draft,
        path,
        offset: Some(object.range.start),
    })
}

fn tty(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<DraftTty> {
    let Value::Object(object) = value else {
        wrong_type(value, &path, "an object", findings);
        return Field::Broken;
    };
    let mut draft = DraftTty::default();
    for (path, member) in members(object, &path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "rows" => draft.rows = integer(value, path, findings),
            "cols" => draft.cols = integer(value, path, findings),
            _ => unknown(&path, member, &TTY_FIELDS, findings),
        }
    }
    Field::Given(At {
        value: draft,
        path,
        offset: Some(object.range.start),
    })
}
