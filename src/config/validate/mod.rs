//! The rules of the format, one function each, from a [`Draft`] to a [`Config`].
//!
//! A rule whose fields are broken stays silent: what broke them is reported already. So one mistake makes one
//! finding, and a config with several mistakes shows all of them.

use super::{
    Config, Depth, JobLimits, Profile, Restrictions, Results, Sandbox, StdinKind,
    document::{
        At, Draft, DraftLimits, DraftProfile, DraftSandbox, DraftSpool, DraftTty, Field, Members,
        Strings,
    },
    env_names,
    finding::{Findings, one_line, quoted},
    in_memory,
    limits::{self, defaults},
    log_file,
};

mod audit_log;
mod directories;
mod executables;
mod numbers;
mod profiles;
mod sandbox;
mod spool;
mod tty;

use audit_log::audit_log;
use directories::{absolute, allowed_roots, directory_inside};
use executables::Executables;
use numbers::{
    all_bytes, all_records, bounded, buffer_records, records_cover_sessions, timeout_below_maximum,
};
use profiles::{commands, profile};
use spool::spool;

/// The config that `draft` describes. `None` only when an error is reported.
pub(super) fn check(draft: Draft, depth: Depth, findings: &mut Findings<'_>) -> Option<Config> {
    let object = Some(draft.offset);
    let max_sessions = bounded(
        draft.max_sessions,
        "max_sessions",
        limits::MAX_SESSIONS,
        defaults::MAX_SESSIONS,
        findings,
    );
    let max_records = bounded(
        draft.max_records,
        "max_records",
        limits::MAX_RECORDS,
        defaults::MAX_RECORDS,
        findings,
    );
    let buffer_bytes = bounded(
        draft.buffer_bytes,
        "buffer_bytes",
        limits::BUFFER_BYTES,
        defaults::BUFFER_BYTES,
        findings,
    );
    let buffer_records = buffer_records(draft.buffer_records, findings);
    let default_timeout_ms = bounded(
        draft.default_timeout_ms,
        "default_timeout_ms",
        limits::TIMEOUT_MS,
        defaults::DEFAULT_TIMEOUT_MS,
        findings,
    );
    let max_timeout_ms = bounded(
        draft.max_timeout_ms,
        "max_timeout_ms",
        limits::TIMEOUT_MS,
        defaults::MAX_TIMEOUT_MS,
        findings,
    );
    let retention_seconds = bounded(
        draft.retention_seconds,
        "retention_seconds",
        limits::RETENTION_SECONDS,
        defaults::RETENTION_SECONDS,
        findings,
    );
    let max_input_bytes = bounded(
        draft.max_input_bytes,
        "max_input_bytes",
        limits::MAX_INPUT_BYTES,
        defaults::MAX_INPUT_BYTES,
        findings,
    );
    records_cover_sessions(&max_records, &max_sessions, findings);
    timeout_below_maximum(&default_timeout_ms, &max_timeout_ms, findings);
    all_records(&max_records, &buffer_records, findings);
    all_bytes(&max_records, &buffer_bytes, findings);

    let roots = allowed_roots(draft.allowed_roots, object, findings);
    let default_cwd = required(draft.default_cwd, "default_cwd", object, findings)
        .and_then(|at| directory_inside(&at, &roots, findings));
    let commands = commands(draft.commands, object, findings)?;
    let mut executables = Executables::new(depth);
    let commands = commands
        .into_iter()
        .map(|at| profile(at, &roots, &max_timeout_ms, &mut executables, findings))
        .collect::<Vec<_>>();
    let results = results(draft.results, findings);
    let audit_log = optional(draft.audit_log, |at| audit_log(&at, findings));
    let spool = spool(draft.spool, findings);

    Some(Config {
        allowed_roots: roots.named?,
        default_cwd: default_cwd?,
        commands: commands.into_iter().collect::<Option<_>>()?,
        max_sessions: in_memory(max_sessions?.value),
        max_records: in_memory(max_records?.value),
        buffer_bytes: in_memory(buffer_bytes?.value),
        buffer_records: buffer_records?.value,
        default_timeout_ms: default_timeout_ms?.value,
        max_timeout_ms: max_timeout_ms?.value,
        retention_seconds: retention_seconds?.value,
        max_input_bytes: in_memory(max_input_bytes?.value),
        results: results?,
        audit_log: audit_log?,
        spool: spool?,
    })
}

fn results(field: Field<String>, findings: &mut Findings<'_>) -> Option<Results> {
    let chosen = optional(field, |at| match at.value.as_str() {
        "both" => Some(Results::Both),
        "structured" => Some(Results::Structured),
        "text" => Some(Results::Text),
        _ => choice(&at, "\"both\", \"structured\" or \"text\"", findings),
    });
    chosen.map(Option::unwrap_or_default)
}

fn choice<T>(at: &At<String>, choices: &str, findings: &mut Findings<'_>) -> Option<T> {
    findings.error(
        &at.path,
        at.offset,
        format!("is {}, but must be {choices}", quoted(&at.value)),
        "choose one of them, or leave the field out",
    );
    None
}

/// A field that may be left out: `Some(None)` when it is, `None` when it is wrong.
fn optional<T, U>(field: Field<T>, read: impl FnOnce(At<T>) -> Option<U>) -> Option<Option<U>> {
    match field {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => read(at).map(Some),
    }
}

/// A field that must be there; `object` is where the object that lacks it begins.
fn required<T>(
    field: Field<T>,
    path: &str,
    object: Option<usize>,
    findings: &mut Findings<'_>,
) -> Option<At<T>> {
    match field {
        Field::Absent => {
            findings.error(path, object, "is missing, but is required", "add it");
            None
        }
        Field::Broken => None,
        Field::Given(at) => Some(at),
    }
}
