//! Bodies of replies, as JSON text: each is serialised once, into a buffer of about the right size, and laid out by
//! [`wire`](super::wire).
//!
//! What must hold: a body is one object with `ok` first, a member that has no value is `null` and never missing, and the
//! members of a success are those of its output schema.

use std::time::SystemTime;

use jiff::Timestamp;
use rmcp::model::CallToolResult;
use serde::{Serialize, Serializer};

use crate::{
    arena::{Page, Run, Stream, Unit},
    config::Results,
    mcp::{args::Until, failure::Failure, wire},
    session::snapshot::{Output, Reason, Snapshot, Status},
    supervisor::{
        follow::{Reading, Waited},
        handle::{Started, Written},
    },
    view::excerpt::{Excerpt, Gap},
};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<OutputBody<'a>>,
}

/// The output of a session that was waited for.
#[derive(Serialize)]
struct OutputBody<'a> {
    omitted: Option<GapBody>,
    records: ExcerptRecords<'a>,
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

struct ExcerptRecords<'a>(&'a Excerpt);

impl Serialize for ExcerptRecords<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let runs = runs(&self.0.head).chain(runs(&self.0.tail));
        serializer.collect_seq(runs.map(|(run, text)| record(run, 0, text)))
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
    let status = status_name(snapshot.status);
    let body = body(
        &SnapshotBody {
            ok: true,
            session_id: &snapshot.session_id,
            command_id: &snapshot.command_id,
            process_id: snapshot.process_id,
            status,
            exit_code: snapshot.exit_code,
            exit_signal: snapshot.exit_signal,
            termination_reason: snapshot.termination_reason.map(reason_name),
            stdin_closed: snapshot.stdin_closed,
            input_uncertain: snapshot.input_uncertain,
            base_cursor: snapshot.base_cursor,
            next_cursor: snapshot.next_cursor,
            created_at: time(snapshot.created_at),
            last_activity_at: time(snapshot.last_activity_at),
            output_complete: snapshot.output == Output::Complete,
            output_incomplete: snapshot.output == Output::Incomplete,
            ended_at: snapshot.ended_at.map(time),
            cpu_ms: snapshot.cpu_ms,
            max_rss_bytes: snapshot.max_rss_bytes,
            truncated: snapshot.truncated,
            output: output.map(|excerpt| OutputBody {
                omitted: excerpt.gap.map(GapBody::from),
                records: ExcerptRecords(excerpt),
            }),
        },
        640 + output.map_or(0, |excerpt| {
            let pages = [&excerpt.head, &excerpt.tail];
            pages
                .map(|page| text_capacity(page, page.runs.len()))
                .iter()
                .sum()
        }),
    );
    let summary = summary(layout, || {
        let (session, next) = (&snapshot.session_id, snapshot.next_cursor);
        format!("{status}, session_id {session}, next_cursor {next}")
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

/// The records come last: a client that cuts a long result off still shows how to read on.
#[derive(Serialize)]
struct PageBody<'a> {
    ok: bool,
    base_cursor: u64,
    next_cursor: u64,
    truncated: bool,
    has_more: bool,
    status: &'static str,
    output_complete: bool,
    output_incomplete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_result: Option<&'static str>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    found: Option<Option<MatchBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<GapBody>,
    #[serde(skip_serializing_if = "is_zero")]
    unsearched: u64,
    records: Records<'a>,
}

#[derive(Serialize)]
struct MatchBody<'a> {
    cursor: u64,
    text: &'a str,
    /// The text is only the start of the match.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clipped: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[derive(Serialize)]
struct Record<'a> {
    cursor: u64,
    stream: &'static str,
    text: &'a str,
}

struct Records<'a> {
    page: &'a Page,
    unit: Unit,
}

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let runs = runs(self.page);
        match self.unit {
            Unit::Runs => serializer.collect_seq(runs.map(|(run, text)| record(run, 0, text))),
            Unit::CodePoints => serializer.collect_seq(runs.flat_map(|(run, text)| {
                let chars = text.char_indices().zip(0..);
                chars.map(move |((at, char), offset)| {
                    record(run, offset, &text[at..at + char.len_utf8()])
                })
            })),
        }
    }
}

/// The runs of a page with their text.
fn runs(page: &Page) -> impl Iterator<Item = (&Run, &str)> {
    let mut start = 0;
    page.runs.iter().map(move |run| {
        let text = &page.text[start..run.end];
        start = run.end;
        (run, text)
    })
}

fn record<'a>(run: &Run, offset: u64, text: &'a str) -> Record<'a> {
    let stream = match run.stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    Record {
        cursor: run.cursor + offset,
        stream,
        text,
    }
}

/// Room for the text of a page in so many records.
fn text_capacity(page: &Page, records: usize) -> usize {
    /// `{"cursor":…,"stream":"stdout","text":""},` with a cursor of ten digits.
    const RECORD_BYTES: usize = 52;
    page.text.len() + page.text.len() / 16 + records * RECORD_BYTES
}

/// The result of a read. What was waited for, `until`, has members of its own when the client gave it.
pub(super) fn page(
    page: &Page,
    reading: &Reading,
    until: Option<&Until>,
    unit: Unit,
    layout: Results,
) -> CallToolResult {
    let records = match unit {
        Unit::Runs => page.runs.len(),
        // At most as many as bytes; exact for ASCII.
        Unit::CodePoints => page.text.len(),
    };
    let status = status_name(reading.status);
    let found = matches!(until, Some(Until::Pattern(_))).then(|| {
        reading.found.as_ref().map(|(_, found)| MatchBody {
            cursor: found.start,
            text: &found.text,
            clipped: found.clipped,
        })
    });
    let has_more = page.next_cursor < page.end_cursor;
    let body = body(
        &PageBody {
            ok: true,
            base_cursor: page.base_cursor,
            next_cursor: page.next_cursor,
            truncated: reading.truncated,
            has_more,
            status,
            output_complete: reading.output == Output::Complete,
            output_incomplete: reading.output == Output::Incomplete,
            wait_result: until.map(|_| waited_name(reading.waited)),
            found,
            omitted: reading.omitted.map(GapBody::from),
            unsearched: reading.unsearched,
            records: Records { page, unit },
        },
        text_capacity(page, records) + 256,
    );
    let summary = summary(layout, || {
        let (bytes, next) = (page.text.len(), page.next_cursor);
        format!("{bytes} bytes of output, next_cursor {next}, has_more {has_more}, {status}")
    });
    wire::result(body, summary, false)
}

fn body(value: &impl Serialize, capacity: usize) -> String {
    let mut bytes = Vec::with_capacity(capacity);
    serde_json::to_writer(&mut bytes, value)
        .expect("bodies are plain data, and a vector takes any write");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

fn summary(layout: Results, line: impl FnOnce() -> String) -> Option<String> {
    (layout == Results::Structured).then(line)
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Running => "RUNNING",
        Status::Terminating => "TERMINATING",
        Status::Exited => "EXITED",
        Status::Terminated => "TERMINATED",
        Status::Failed => "FAILED",
    }
}

fn waited_name(waited: Waited) -> &'static str {
    match waited {
        Waited::Record => "record",
        Waited::End => "end",
        Waited::Pattern => "pattern",
        Waited::Idle => "idle",
        Waited::Timeout => "timeout",
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Natural => "natural",
        Reason::User => "user",
        Reason::Timeout => "timeout",
        Reason::Shutdown => "shutdown",
    }
}

/// RFC 3339 in UTC with milliseconds.
fn time(time: SystemTime) -> String {
    // A clock set beyond the year 9999 is shown as its end.
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests;
