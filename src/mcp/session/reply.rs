//! Bodies of the session tools' replies.

use rmcp::model::CallToolResult;
use serde::Serialize;

use super::words::words;

use crate::{
    config::Results,
    interactive::{
        CloseAnswer, CreateAnswer, ExecAnswer, Failure, FailureKind, InteractAnswer, ListAnswer,
        ReadAnswer, ResizeAnswer, SendAnswer, WaitAnswer,
    },
    mcp::{
        args::one_line,
        reply::{body, summary},
        wire,
    },
};

/// What a body comes to beside its output.
const MEMBERS_BYTES: usize = 512;
/// What to do about input that was held back.
const CONFIRM: &str = "nothing was typed; if it is really meant, ask whoever you work for and send it again with confirmed=true";

/// What a tool answers.
pub(super) trait Answer: Serialize {
    /// It in one line, for clients that get the body elsewhere.
    fn summary(&self) -> String;
    /// About how many bytes its body has.
    fn size(&self) -> usize {
        MEMBERS_BYTES
    }
}

impl Answer for CreateAnswer {
    fn summary(&self) -> String {
        format!("session_id {}, pid {}", self.session_id, self.pid)
    }
}

impl Answer for SendAnswer {
    fn summary(&self) -> String {
        format!("{} bytes sent", self.bytes_sent)
    }
}

impl Answer for ReadAnswer {
    fn summary(&self) -> String {
        read(self.bytes_read, self.is_alive, self.prompt_detected)
    }
    fn size(&self) -> usize {
        with_text(&self.output)
    }
}

impl Answer for ResizeAnswer {
    fn summary(&self) -> String {
        format!("{} rows, {} columns", self.rows, self.cols)
    }
}

impl Answer for CloseAnswer {
    fn summary(&self) -> String {
        match self {
            CloseAnswer::Closed {
                exit_status: Some(code),
                ..
            } => format!("closed, exit status {code}"),
            CloseAnswer::Closed { .. } => "closed by a signal".to_owned(),
            CloseAnswer::Already { .. } => "closed already".to_owned(),
        }
    }
}

impl Answer for ExecAnswer {
    fn summary(&self) -> String {
        let bytes = self.bytes_read;
        match self.exit_code {
            Some(code) => format!("{bytes} bytes read, exit code {code}"),
            None if self.timed_out => format!("{bytes} bytes read, timed out"),
            None => format!("{bytes} bytes read, no exit code"),
        }
    }
    fn size(&self) -> usize {
        with_text(&self.output)
    }
}

impl Answer for InteractAnswer {
    fn summary(&self) -> String {
        let sent = self.bytes_sent;
        format!("{sent} bytes sent, {}", self.read.summary())
    }
    fn size(&self) -> usize {
        self.read.size()
    }
}

impl Answer for WaitAnswer {
    fn summary(&self) -> String {
        let matched = if self.matched { "matched" } else { "no match" };
        let read = read(self.bytes_read, self.is_alive, self.prompt_detected);
        format!("{matched}, {read}")
    }
    fn size(&self) -> usize {
        with_text(&self.output)
    }
}

impl Answer for ListAnswer {
    fn summary(&self) -> String {
        format!("{} sessions", self.count)
    }
    fn size(&self) -> usize {
        MEMBERS_BYTES * (1 + self.sessions.len())
    }
}

fn read(bytes: usize, is_alive: bool, prompt: bool) -> String {
    let alive = if is_alive { "running" } else { "ended" };
    let prompt = if prompt { ", at a prompt" } else { "" };
    format!("{bytes} bytes read, {alive}{prompt}")
}

/// Escapes are few in most output.
fn with_text(text: &str) -> usize {
    MEMBERS_BYTES + text.len() + text.len() / 16
}

#[derive(Serialize)]
struct Success<'a, T> {
    success: bool,
    #[serde(flatten)]
    answer: &'a T,
}

#[derive(Serialize)]
struct Failed<'a> {
    success: bool,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    r#type: FailureKind,
    message: &'a str,
}

#[derive(Serialize)]
struct HeldBack<'a> {
    success: bool,
    requires_confirmation: bool,
    command: &'a str,
    reason: &'a str,
    message: &'a str,
}

/// The result of a call that was served.
pub(super) fn success(answer: &impl Answer, layout: Results) -> CallToolResult {
    let success = Success {
        success: true,
        answer,
    };
    let text = body(&success, answer.size());
    wire::result(text, summary(layout, || answer.summary()), false)
}

/// The result of a call that wasn't.
pub(super) fn failure(tool: &str, failure: &Failure, layout: Results) -> CallToolResult {
    match failure {
        Failure::Error { kind, message } => failed(*kind, &one_line(message), layout),
        Failure::Refused { kind, refusal } => {
            failed(*kind, &one_line(&words(tool, refusal)), layout)
        }
        Failure::Confirmation { command, reason } => {
            let held_back = HeldBack {
                success: false,
                requires_confirmation: true,
                command,
                reason,
                message: CONFIRM,
            };
            let size = with_text(command) + reason.len();
            let line = || format!("requires confirmation: {}", one_line(reason));
            wire::result(body(&held_back, size), summary(layout, line), false)
        }
    }
}

fn failed(kind: FailureKind, message: &str, layout: Results) -> CallToolResult {
    let failed = Failed {
        success: false,
        error: ErrorBody {
            r#type: kind,
            message,
        },
    };
    let line = || format!("{}: {message}", name(kind));
    wire::result(body(&failed, MEMBERS_BYTES), summary(layout, line), true)
}

/// A type of error as the wire has it.
pub(super) fn name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::ValidationError => "validation_error",
        FailureKind::NotFound => "not_found",
        FailureKind::SessionDead => "session_dead",
        FailureKind::SessionLimitReached => "session_limit_reached",
        FailureKind::SpawnError => "spawn_error",
        FailureKind::SendError => "send_error",
        FailureKind::ReadError => "read_error",
        FailureKind::ResizeError => "resize_error",
        FailureKind::ExecError => "exec_error",
        FailureKind::InteractError => "interact_error",
        FailureKind::CloseError => "close_error",
    }
}
