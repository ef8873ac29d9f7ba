//! Bodies of replies, as JSON text: each is serialised once, into a buffer of about the right size, and laid out by
//! [`wire`](super::wire).
//!
//! What must hold: a body is one object with `ok` first, a member that has no value is `null` and never missing, and the
//! members of a success are those of its output schema.

use rmcp::model::CallToolResult;
use serde::Serialize;

use crate::{
    arena::Stream,
    config::Results,
    mcp::{Settings, failure::Failure, wire},
    screen::Size,
    session::snapshot::{Output, Reason, Snapshot},
    supervisor::handle::{Started, Written},
    text::rfc3339,
    view::excerpt::{Excerpt, Gap},
};

mod pages;
mod records;

pub(super) use pages::{found, page, plain};
use records::{Record, push_member, runs, text_capacity, with_records};

#[derive(Serialize)]
struct FailureBody<'a> {
    ok: bool,
    error: &'a Failure,
}

/// The result of a call that failed.
pub(super) fn failure(failure: &Failure, layout: Results) -> CallToolResult {
    let body = body(
        &FailureBody {
            ok: false,
            error: failure,
        },
        256,
    );
    wire::result(body, summary(layout, || failure.to_string()), true)
}

#[derive(Serialize)]
struct SnapshotBody<'a> {
    ok: bool,
    #[serde(flatten)]
    members: SnapshotMembers<'a>,
}

/// The output of a session that was waited for, all but its records.
#[derive(Serialize)]
struct OutputBody {
    omitted: Option<GapBody>,
}

/// Text that a result leaves out, from `from` on and before `to`.
#[derive(Serialize)]
struct GapBody {
    from: u64,
    to: u64,
    code_points: u64,
    bytes: u64,
    lines: u64,
}

impl From<Gap> for GapBody {
    fn from(gap: Gap) -> Self {
        Self {
            from: gap.from,
            to: gap.to,
            code_points: gap.to - gap.from,
            bytes: gap.bytes,
            lines: gap.lines,
        }
    }
}

#[derive(Serialize)]
struct SnapshotMembers<'a> {
    session_id: &'a str,
    command_id: &'a str,
    process_id: i32,
    status: &'static str,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    termination_reason: Option<&'static str>,
    stdin_closed: bool,
    input_uncertain: bool,
    base_cursor: u64,
    next_cursor: u64,
    created_at: String,
    last_activity_at: String,
    output_complete: bool,
    output_incomplete: bool,
    ended_at: Option<String>,
    cpu_ms: Option<u64>,
    max_rss_bytes: Option<u64>,
    truncated: bool,
    spool_state: &'static str,
}

impl<'a> From<&'a Snapshot> for SnapshotMembers<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        Self {
            session_id: &snapshot.session_id,
            command_id: &snapshot.command_id,
            process_id: snapshot.process_id,
            status: snapshot.status.as_str(),
            exit_code: snapshot.exit_code,
            exit_signal: snapshot.exit_signal,
            termination_reason: snapshot.termination_reason.map(Reason::as_str),
            stdin_closed: snapshot.stdin_closed,
            input_uncertain: snapshot.input_uncertain,
            base_cursor: snapshot.base_cursor,
            next_cursor: snapshot.next_cursor,
            created_at: rfc3339(snapshot.created_at),
            last_activity_at: rfc3339(snapshot.last_activity_at),
            output_complete: snapshot.output == Output::Complete,
            output_incomplete: snapshot.output == Output::Incomplete,
            ended_at: snapshot.ended_at.map(rfc3339),
            cpu_ms: snapshot.cpu_ms,
            max_rss_bytes: snapshot.max_rss_bytes,
            truncated: snapshot.truncated,
            spool_state: snapshot.spool.as_str(),
        }
    }
}

/// The result of a call that returns a snapshot.
pub(super) fn snapshot(snapshot: &Snapshot, layout: Results) -> CallToolResult {
    snapshot_with(snapshot, None, layout)
}

/// The result of a start: a snapshot, and the output when that was waited for.
pub(super) fn started(started: &Started, layout: Results) -> CallToolResult {
    snapshot_with(&started.snapshot, started.output.as_ref(), layout)
}

fn snapshot_with(snapshot: &Snapshot, output: Option<&Excerpt>, layout: Results) -> CallToolResult {
    let output = output.map(output_bytes).unwrap_or_default();
    let body = SnapshotBody {
        ok: true,
        members: snapshot.into(),
    };
    let mut body = bytes_of(&body, SNAPSHOT_BYTES + output.len());
    if !output.is_empty() {
        push_member(&mut body, "output", |body| body.extend(output));
    }
    let summary = summary(layout, || {
        let (session, next) = (&snapshot.session_id, snapshot.next_cursor);
        let status = snapshot.status.as_str();
        format!("{status}, session_id {session}, next_cursor {next}")
    });
    wire::result(text_of(body), summary, false)
}

fn output_bytes(excerpt: &Excerpt) -> Vec<u8> {
    let pages = [&excerpt.head, &excerpt.tail];
    let capacities = pages.map(|page| text_capacity(page.text.len(), page.runs.len()));
    let records = pages.into_iter().flat_map(runs);
    with_records(
        &OutputBody {
            omitted: excerpt.gap.map(GapBody::from),
        },
        records.map(|(run, text)| Record::of(run, 0, text)),
        capacities.iter().sum(),
    )
}

/// What a snapshot comes to, with names of usual lengths.
const SNAPSHOT_BYTES: usize = 640;

#[derive(Serialize)]
struct SessionsBody<'a> {
    ok: bool,
    sessions: Vec<Listed<'a>>,
}

/// A snapshot and what tells sessions of one command apart at a glance.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    members: SnapshotMembers<'a>,
    last_output_at: Option<String>,
    output_bytes: u64,
    description: Option<&'a str>,
}

/// The result of a call that returns all sessions.
pub(super) fn sessions(sessions: &[Snapshot], settings: &Settings) -> CallToolResult {
    let listed = sessions.iter().map(|snapshot| Listed {
        members: snapshot.into(),
        last_output_at: snapshot.last_output_at.map(rfc3339),
        output_bytes: snapshot.output_bytes,
        description: settings.description(&snapshot.command_id),
    });
    let body = body(
        &SessionsBody {
            ok: true,
            sessions: listed.collect(),
        },
        32 + sessions.len() * (SNAPSHOT_BYTES + 192),
    );
    let summary = summary(settings.results, || {
        let running = sessions
            .iter()
            .filter(|snapshot| !snapshot.status.is_final());
        format!("{} sessions, {} not ended", sessions.len(), running.count())
    });
    wire::result(body, summary, false)
}

#[derive(Serialize)]
struct WrittenBody<'a> {
    ok: bool,
    session_id: &'a str,
    accepted_bytes: usize,
    stdin_closed: bool,
    next_cursor: u64,
}

/// The result of a write.
pub(super) fn written(session_id: &str, written: Written, layout: Results) -> CallToolResult {
    let body = body(
        &WrittenBody {
            ok: true,
            session_id,
            accepted_bytes: written.accepted,
            stdin_closed: written.stdin_closed,
            next_cursor: written.next_cursor,
        },
        160,
    );
    let summary = summary(layout, || {
        let (accepted, next) = (written.accepted, written.next_cursor);
        format!("{accepted} bytes accepted, next_cursor {next}")
    });
    wire::result(body, summary, false)
}

#[derive(Serialize)]
struct ResizedBody<'a> {
    ok: bool,
    session_id: &'a str,
    #[serde(flatten)]
    size: Size,
}

/// The result of a resize.
pub(super) fn resized(session_id: &str, size: Size, layout: Results) -> CallToolResult {
    let ok = true;
    let body = body(
        &ResizedBody {
            ok,
            session_id,
            size,
        },
        96,
    );
    let Size { rows, cols } = size;
    let summary = summary(layout, || format!("{rows} lines of {cols} columns"));
    wire::result(body, summary, false)
}

pub(super) fn body(value: &impl Serialize, capacity: usize) -> String {
    text_of(bytes_of(value, capacity))
}

fn bytes_of(value: &impl Serialize, capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(capacity);
    serde_json::to_writer(&mut bytes, value)
        .expect("bodies are plain data, and a vector takes any write");
    bytes
}

fn text_of(body: Vec<u8>) -> String {
    String::from_utf8(body).expect("JSON of text is UTF-8")
}

pub(super) fn summary(layout: Results, line: impl FnOnce() -> String) -> Option<String> {
    (layout == Results::Structured).then(line)
}

fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

#[cfg(test)]
mod tests;
