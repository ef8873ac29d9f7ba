//! Bodies of replies: what a success says, and what each refusal means to a client.
//!
//! A body is JSON text, serialised once into a buffer of about the right size; [`wire`](super::wire) lays it out.
//! What must hold: a message is one line that a model can act on, names the argument at fault, and never carries the text of
//! an OS error or a path of this machine.

use std::{borrow::Cow, time::SystemTime};

use jiff::Timestamp;
use rmcp::model::CallToolResult;
use serde::{Serialize, Serializer};

use crate::{
    arena::{Page, Run, Stream, Unit},
    config::{Results, limits::MAX_CLIENT_ENV},
    mcp::{
        args::{BadArgument, one_line},
        wire,
    },
    policy::{CwdRefused, EnvRefused},
    process::SpawnError,
    session::snapshot::{Output, Reason, Snapshot, Status},
    supervisor::{
        handle::{PageFacts, Written},
        refusal::Refusal,
    },
};

/// Why a call failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Code {
    InvalidArgument,
    CommandNotFound,
    CwdNotAllowed,
    EnvNotAllowed,
    StartFailed,
    SessionLimit,
    RecordLimit,
    SessionNotFound,
    SessionNotRunning,
    CursorExpired,
    InvalidCursor,
    InputTooLarge,
    InputBackpressure,
    InputUncertain,
    StdinClosed,
    ShuttingDown,
    Internal,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    code: Code,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_cursor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_uncertain: Option<bool>,
}

impl Failure {
    fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            base_cursor: None,
            next_cursor: None,
            accepted_bytes: None,
            input_uncertain: None,
        }
    }

    fn with_cursors(self, base: u64, next: u64) -> Self {
        Self {
            base_cursor: Some(base),
            next_cursor: Some(next),
            ..self
        }
    }

    fn with_accepted(self, accepted: usize) -> Self {
        Self {
            accepted_bytes: Some(accepted),
            ..self
        }
    }

    fn uncertain(self) -> Self {
        Self {
            input_uncertain: Some(true),
            ..self
        }
    }
}

impl From<BadArgument> for Failure {
    fn from(BadArgument(message): BadArgument) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::CommandNotFound => Self::new(
                Code::CommandNotFound,
                "command_id is not approved; use one that terminal_start's description lists",
            ),
            Refusal::Cwd(refused) => Self::new(Code::CwdNotAllowed, cwd(refused)),
            Refusal::Env(refused) => Self::new(Code::EnvNotAllowed, env(&refused)),
            Refusal::StartFailed(error) => Self::new(Code::StartFailed, start(error)),
            Refusal::SessionLimit { max } => Self::new(
                Code::SessionLimit,
                format!("{max} sessions are running, as many as may; terminate one or wait until one ends"),
            ),
            Refusal::RecordLimit { max } => Self::new(
                Code::RecordLimit,
                format!("{max} sessions are retained, as many as may; retry when one that ended has expired"),
            ),
            Refusal::SessionNotFound => Self::new(
                Code::SessionNotFound,
                "session_id is unknown or no longer retained; start a new session",
            ),
            Refusal::SessionNotRunning { accepted } => Self::new(
                Code::SessionNotRunning,
                "the session is ending or has ended and takes no input; read its remaining output",
            )
            .with_accepted(accepted),
            Refusal::CursorExpired { base, next } => Self::new(
                Code::CursorExpired,
                format!("output at cursor was evicted; some is lost, read on with cursor={base}"),
            )
            .with_cursors(base, next),
            Refusal::InvalidCursor { base, next } => Self::new(
                Code::InvalidCursor,
                format!("cursor is beyond the output so far; read on with cursor={next}"),
            )
            .with_cursors(base, next),
            Refusal::InputTooLarge { bytes, max } => Self::new(
                Code::InputTooLarge,
                format!("text holds {bytes} bytes, a write at most {max}; nothing was written, send it in parts"),
            ),
            Refusal::InputBackpressure { accepted } => Self::new(
                Code::InputBackpressure,
                format!("the process did not take the text in time; {accepted} bytes were accepted and stdin is closed now, so do not send it again to this session"),
            )
            .with_accepted(accepted)
            .uncertain(),
            Refusal::InputUncertain { accepted } => Self::new(
                Code::InputUncertain,
                "a write was cut off, so what the process took in is unknown and stdin is closed; do not send it again to this session",
            )
            .with_accepted(accepted)
            .uncertain(),
            Refusal::StdinClosed { accepted } => Self::new(
                Code::StdinClosed,
                "stdin of the session is closed and takes no more input; its output can still be read",
            )
            .with_accepted(accepted),
            Refusal::ShuttingDown => Self::new(Code::ShuttingDown, "the server is shutting down"),
            Refusal::Internal(fault) => {
                tracing::error!(fault, "internal fault");
                Self::new(
                    Code::Internal,
                    "a fault of the server; terminal_status tells what became of the session",
                )
            }
        }
    }
}

fn cwd(refused: CwdRefused) -> &'static str {
    match refused {
        CwdRefused::NotAbsolute => "cwd must be an absolute path; omit it for the default",
        CwdRefused::NotFound => "cwd does not exist or may not be entered; omit it for the default",
        CwdRefused::NotDirectory => "cwd is not a directory; omit it for the default",
        CwdRefused::OutsideRoots => "cwd is outside the allowed roots; omit it for the default",
        CwdRefused::Unavailable(_) => "cwd could not be looked up just now; try again",
    }
}

fn env(refused: &EnvRefused) -> String {
    let message = match refused {
        EnvRefused::TooMany(count) => {
            format!("env holds {count} variables; at most {MAX_CLIENT_ENV} may be set")
        }
        EnvRefused::NotApproved(name) => {
            format!("env: {name} is not approved for this command; leave it out")
        }
        EnvRefused::Denied(name) => format!("env: {name} may never be set; leave it out"),
        EnvRefused::NulInValue(name) => format!("env: the value of {name} holds a NUL"),
    };
    one_line(&message)
}

fn start(error: SpawnError) -> &'static str {
    match error {
        SpawnError::NotFound => "executable not found; the Owner must correct the command",
        SpawnError::NotExecutable => "not executable; the Owner must correct the command",
        SpawnError::BadInterpreter => {
            "bad interpreter: what the executable names is missing or not executable; the Owner must correct the command"
        }
        SpawnError::Busy => "executable busy: it is open for writing; retry when that is over",
        SpawnError::TooLarge => "arguments and environment too large; set less in env",
        SpawnError::OutOfProcesses => {
            "out of processes, memory or descriptors; terminate sessions or retry later"
        }
        SpawnError::Other(errno) => {
            tracing::warn!(%errno, "a command could not be started");
            "could not be started for a reason that is in the server's log"
        }
    }
}

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
    let summary = summary(layout, || {
        let code = text_of(&failure.code);
        format!("{code}: {}", failure.message)
    });
    wire::result(body, summary, true)
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
}

/// The result of a call that returns a snapshot.
pub(super) fn snapshot(snapshot: &Snapshot, layout: Results) -> CallToolResult {
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
        },
        640,
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
    records: Records<'a>,
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
        let mut start = 0;
        let runs = self.page.runs.iter().map(|run| {
            let text = &self.page.text[start..run.end];
            start = run.end;
            (run, text)
        });
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

/// The result of a read.
pub(super) fn page(page: &Page, facts: PageFacts, unit: Unit, layout: Results) -> CallToolResult {
    /// `{"cursor":…,"stream":"stdout","text":""},` with a cursor of ten digits.
    const RECORD_BYTES: usize = 52;
    let records = match unit {
        Unit::Runs => page.runs.len(),
        // At most as many as bytes; exact for ASCII.
        Unit::CodePoints => page.text.len(),
    };
    let capacity = page.text.len() + page.text.len() / 16 + records * RECORD_BYTES + 256;
    let status = status_name(facts.status);
    let has_more = page.next_cursor < page.end_cursor;
    let body = body(
        &PageBody {
            ok: true,
            base_cursor: page.base_cursor,
            next_cursor: page.next_cursor,
            truncated: facts.truncated,
            has_more,
            status,
            output_complete: facts.output == Output::Complete,
            output_incomplete: facts.output == Output::Incomplete,
            records: Records { page, unit },
        },
        capacity,
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

/// How a unit variant is written, without its quotes.
fn text_of(code: &Code) -> String {
    let quoted = serde_json::to_string(code).expect("a unit variant is a string");
    quoted.trim_matches('"').to_owned()
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
