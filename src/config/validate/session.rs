//! The rules of `toolsets`, `session_commands` and `session`.

use std::time::Duration;

use super::{
    At, DraftSession, Field, Findings, Strings, choice, in_memory,
    limits::{self, defaults},
    numbers::{bounded, named},
    optional, quoted,
};
use crate::config::{
    Access, SessionSettings, Toolsets, Truncation,
    sessions::{check_pattern, seconds, side},
};

pub(super) fn toolsets(field: Field<Strings>, findings: &mut Findings<'_>) -> Option<Toolsets> {
    let chosen = optional(field, |at| chosen_toolsets(at, findings));
    chosen.map(Option::unwrap_or_default)
}

fn chosen_toolsets(at: At<Strings>, findings: &mut Findings<'_>) -> Option<Toolsets> {
    if at.value.is_empty() {
        findings.error(
            &at.path,
            at.offset,
            "is empty, but must name at least one set of tools",
            "name \"terminal\", \"session\" or both, or leave the field out",
        );
        return None;
    }
    let mut sets = Toolsets {
        terminal: false,
        session: false,
    };
    let mut whole = true;
    for name in &at.value {
        let Some(name) = name else {
            whole = false;
            continue;
        };
        let set = match name.value.as_str() {
            "terminal" => &mut sets.terminal,
            "session" => &mut sets.session,
            _ => {
                choice::<()>(name, "\"terminal\" or \"session\"", findings);
                whole = false;
                continue;
            }
        };
        if std::mem::replace(set, true) {
            let message = format!("is {}, which is there already", quoted(&name.value));
            findings.error(&name.path, name.offset, message, "keep one of them");
            whole = false;
        }
    }
    whole.then_some(sets)
}

pub(super) fn session_commands(
    field: Field<String>,
    toolsets: &Option<Toolsets>,
    findings: &mut Findings<'_>,
) -> Option<Access> {
    let commands = optional(field, |at| match at.value.as_str() {
        "approved" => Some(Access::Approved),
        "any" => {
            if toolsets.is_some_and(|toolsets| !toolsets.session) {
                findings.warning(
                    &at.path,
                    at.offset,
                    "is \"any\", but toolsets doesn't have the session tools, which alone go by it",
                    "add \"session\" to toolsets, or leave this field out",
                );
            }
            Some(Access::Any)
        }
        _ => choice(&at, "\"approved\" or \"any\"", findings),
    });
    commands.map(Option::unwrap_or_default)
}

pub(super) fn session(
    field: Field<DraftSession>,
    max_sessions: &Option<At<u64>>,
    buffer_bytes: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) -> Option<SessionSettings> {
    let settings = optional(field, |at| {
        settings(at.value, max_sessions, buffer_bytes, findings)
    });
    settings.map(Option::unwrap_or_default)
}

fn settings(
    draft: DraftSession,
    max_sessions: &Option<At<u64>>,
    buffer_bytes: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) -> Option<SessionSettings> {
    let cleanup_interval = bounded(
        draft.cleanup_interval,
        "session.cleanup_interval",
        limits::CLEANUP_INTERVAL_SECONDS,
        defaults::CLEANUP_INTERVAL_SECONDS,
        findings,
    );
    let terminals = bounded(
        draft.max_sessions,
        "session.max_sessions",
        limits::MAX_SESSIONS,
        defaults::TERMINALS,
        findings,
    );
    let idle_timeout = bounded(
        draft.idle_timeout,
        "session.idle_timeout",
        limits::IDLE_TIMEOUT_SECONDS,
        defaults::IDLE_TIMEOUT_SECONDS,
        findings,
    );
    let rows = bounded(
        draft.default_rows,
        "session.default_rows",
        limits::TTY_SIDE,
        defaults::TTY_ROWS,
        findings,
    );
    let cols = bounded(
        draft.default_cols,
        "session.default_cols",
        limits::TTY_SIDE,
        defaults::TTY_COLS,
        findings,
    );
    let max_output_bytes = bounded(
        draft.max_output_bytes,
        "session.max_output_bytes",
        limits::MAX_OUTPUT_BYTES,
        defaults::MAX_OUTPUT_BYTES,
        findings,
    );
    let max_buffer_bytes = bounded(
        draft.max_buffer_bytes,
        "session.max_buffer_bytes",
        limits::BUFFER_BYTES,
        defaults::TERMINAL_BUFFER_BYTES,
        findings,
    );
    warn_above(&terminals, max_sessions, findings);
    warn_above(&max_buffer_bytes, buffer_bytes, findings);
    let settle = optional(draft.read_settle_timeout, |at| settle(&at, findings));
    let safety_gate = optional(draft.safety_gate, |at| Some(at.value));
    let patterns = optional(draft.dangerous_patterns, |at| patterns(at, findings));
    let truncation = optional(draft.truncation_mode, |at| {
        Truncation::parse(&at.value).or_else(|| {
            let choices = "\"tail\", \"head_tail\", \"tail_only\" or \"none\"";
            choice(&at, choices, findings)
        })
    });
    let usual = SessionSettings::default();
    Some(SessionSettings {
        cleanup_interval: Duration::from_secs(cleanup_interval?.value),
        max_sessions: in_memory(terminals?.value),
        idle_timeout: Duration::from_secs(idle_timeout?.value),
        rows: side(rows?.value),
        cols: side(cols?.value),
        read_settle_timeout: settle?.unwrap_or(usual.read_settle_timeout),
        max_output_bytes: in_memory(max_output_bytes?.value),
        max_buffer_bytes: in_memory(max_buffer_bytes?.value),
        safety_gate: safety_gate?.unwrap_or(usual.safety_gate),
        dangerous_patterns: patterns?.unwrap_or_default(),
        truncation: truncation?.unwrap_or_default(),
    })
}

/// What is given for these tools and is more than there is for all sessions.
fn warn_above(given: &Option<At<u64>>, whole: &Option<At<u64>>, findings: &mut Findings<'_>) {
    if let (Some(given), Some(whole)) = (given, whole)
        && given.offset.is_some()
        && given.value > whole.value
    {
        findings.warning(
            &given.path,
            given.offset,
            format!("is {}, above {}", given.value, named(whole)),
            format!("the lower one counts; lower it, or raise {}", whole.path),
        );
    }
}

fn settle(at: &At<f64>, findings: &mut Findings<'_>) -> Option<Duration> {
    let (low, high) = (limits::WAIT_SECONDS.start(), limits::WAIT_SECONDS.end());
    seconds(at.value).or_else(|| {
        findings.error(
            &at.path,
            at.offset,
            format!("is {}, but must be from {low} to {high} seconds", at.value),
            if at.value < *low {
                format!("raise it to {low} or more")
            } else {
                format!("lower it to {high} or less")
            },
        );
        None
    })
}

fn patterns(at: At<Strings>, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let (count, most) = (at.value.len(), limits::MAX_DANGEROUS_PATTERNS);
    if count > most {
        let message = format!("has {count} patterns, but may have at most {most}");
        findings.error(&at.path, at.offset, message, "join some of them with |");
        return None;
    }
    let patterns = at.value.into_iter().map(|pattern| {
        let pattern = pattern?;
        if let Err(fault) = check_pattern(&pattern.value) {
            findings.error(
                &pattern.path,
                pattern.offset,
                format!(
                    "is {}, which is no pattern: {fault}",
                    quoted(&pattern.value)
                ),
                "write it as Rust's regex crate has it: no look-around, no backreferences",
            );
            return None;
        }
        Some(pattern.value)
    });
    // All of them are looked at, whichever is wrong.
    patterns.collect::<Vec<_>>().into_iter().collect()
}
