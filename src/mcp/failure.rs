//! Refusals in the client's terms: a code for programs, one line for a model, and what it needs to go on.
//!
//! What must hold: a message is one line, names the argument at fault and the next step, and never carries the text of an OS
//! error or a path of this machine.

use std::{borrow::Cow, fmt};

use serde::Serialize;

use crate::{
    config::limits::{MAX_CLIENT_ENV, MAX_PATTERN_WAITS},
    mcp::args::{BadArgument, one_line},
    policy::{CwdRefused, EnvRefused},
    process::SpawnError,
    supervisor::{
        refusal::{Code, Refusal},
        search::Purpose,
    },
};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_cursor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_uncertain: Option<bool>,
}

/// As one line: the code, then the message.
impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code.as_str(), self.message)
    }
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
        let code = refusal.code();
        match refusal {
            Refusal::CommandNotFound => Self::new(
                code,
                "command_id is not approved; use one that terminal_start's description lists",
            ),
            Refusal::Cwd(refused) => Self::new(code, cwd(refused)),
            Refusal::Env(refused) => Self::new(code, env(&refused)),
            Refusal::Executable(doubt) => {
                tracing::warn!(place = %doubt.place.display(), mode = %format_args!("{:04o}", doubt.mode), owner = doubt.owner,
                    "everyone may write here, and so choose what a command executes");
                Self::new(
                    code,
                    "everyone may write the executable or a directory above it, so it was not started; the Owner must correct that",
                )
            }
            Refusal::StartFailed(error) => Self::new(code, start(error)),
            Refusal::StartHangs => Self::new(
                code,
                "the working directory or the executable does not answer, as on a dead network mount; the start was given up",
            ),
            Refusal::StartsBusy => Self::new(
                code,
                "busy: earlier starts still wait for a directory or an executable that does not answer; retry later",
            ),
            Refusal::SessionLimit { max } => Self::new(
                code,
                format!("{max} sessions are running, as many as may; terminate one or wait until one ends"),
            ),
            Refusal::RecordLimit { max } => Self::new(
                code,
                format!("{max} sessions are retained, as many as may; retry when one that ended has expired"),
            ),
            Refusal::SessionNotFound => Self::new(
                code,
                "session_id is unknown or no longer retained; start a new session",
            ),
            Refusal::SessionNotRunning { accepted } => Self::new(
                code,
                "the session is ending or has ended and takes no input; read its remaining output",
            )
            .with_accepted(accepted),
            Refusal::CursorExpired { base, next } => Self::new(
                code,
                format!("output at cursor was evicted; some is lost, read on with cursor={base}"),
            )
            .with_cursors(base, next),
            Refusal::InvalidCursor { base, next } => Self::new(
                code,
                format!("cursor is beyond the output so far; read on with cursor={next}"),
            )
            .with_cursors(base, next),
            Refusal::InputTooLarge { bytes, max } => Self::new(
                code,
                format!("text holds {bytes} bytes, a write at most {max}; nothing was written, send it in parts"),
            ),
            Refusal::NotATerminal => Self::new(
                code,
                "argument `session_id`: the session is not on a terminal; only commands whose profile has `tty` are",
            ),
            Refusal::LineTooLong { bytes, max } => Self::new(
                code,
                format!("a line of {bytes} bytes is more than the {max} that the terminal takes of a line; nothing was typed, use shorter lines"),
            ),
            Refusal::InputBackpressure {
                accepted,
                closed: false,
            } => Self::new(
                code,
                format!("the program did not take the text in time; {accepted} bytes were typed and the rest was not, so go on from there when it reads again"),
            )
            .with_accepted(accepted),
            Refusal::InputBackpressure { accepted, .. } => Self::new(
                code,
                format!("the process did not take the text in time; {accepted} bytes were accepted and stdin is closed now, so do not send it again to this session"),
            )
            .with_accepted(accepted)
            .uncertain(),
            Refusal::InputUncertain { accepted } => Self::new(
                code,
                "a write was cut off, so what the process took in is unknown and stdin is closed; do not send it again to this session",
            )
            .with_accepted(accepted)
            .uncertain(),
            Refusal::StdinClosed { accepted } => Self::new(
                code,
                "stdin of the session is closed and takes no more input; its output can still be read",
            )
            .with_accepted(accepted),
            Refusal::ShuttingDown => Self::new(code, "the server is shutting down"),
            Refusal::Pattern { purpose, error } => {
                let argument = match purpose {
                    Purpose::Wait => "until.pattern",
                    Purpose::Find => "find.pattern",
                    Purpose::Watch => "pattern",
                };
                Self::new(code, one_line(&format!("argument `{argument}`: {error}")))
            }
            Refusal::TooManyWaits => Self::new(
                code,
                format!("{MAX_PATTERN_WAITS} calls wait for a pattern, as many as may; call again when one is answered"),
            ),
            Refusal::Internal(fault) => {
                tracing::error!(fault, "internal fault");
                Self::new(
                    code,
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
        // No verdict on the path: another one, or none, would fare no better.
        CwdRefused::Unavailable(_) => start(SpawnError::OutOfProcesses),
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
        EnvRefused::Denied(name) => format!("env: {name:?} may never be set; leave it out"),
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
        SpawnError::Sandboxed => {
            "its sandbox lets it, or the interpreter or loader that it names, not be executed; the Owner must add that to sandbox.read"
        }
        SpawnError::Mismatch => {
            "executable is not the one that sha256 pins, so it was not run; the Owner must look why it has changed"
        }
        SpawnError::PinnedScript => {
            "sha256 pins a script, which can't be held to it, so it was not run; the Owner must correct the command"
        }
        SpawnError::Unpinnable => {
            "executable could not be compared with its sha256, so it was not run; the reason is in the server's log"
        }
        SpawnError::SandboxPath => {
            "a path of its sandbox is gone or has become a link; the Owner must correct the config and have the server restarted"
        }
        SpawnError::Busy => "executable busy: it is open for writing; retry when that is over",
        SpawnError::TooLarge => "arguments and environment too large; set less in env",
        SpawnError::OutOfProcesses => {
            "out of processes, memory or descriptors; terminate sessions or retry later"
        }
        SpawnError::NoTerminal(errno) => {
            tracing::warn!(%errno, "the kernel gives no terminal");
            "no terminal can be had: as many as the kernel allows are in use, or /dev/pts is missing; close sessions or retry later"
        }
        SpawnError::NurseryGone => {
            "the part of this server that starts processes was killed; retry, then have the server restarted"
        }
        SpawnError::Other(errno) => {
            tracing::warn!(%errno, "a command could not be started");
            "could not be started for a reason that is in the server's log"
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use serde_json::Value;

    use super::*;
    use crate::text::pattern::PatternError;

    fn refusals() -> Vec<(Refusal, &'static str)> {
        let name = || "A\nB".to_owned();
        let mut all = vec![
            (Refusal::CommandNotFound, "COMMAND_NOT_FOUND"),
            (Refusal::StartHangs, "START_FAILED"),
            (Refusal::StartsBusy, "START_FAILED"),
            (Refusal::SessionLimit { max: 8 }, "SESSION_LIMIT"),
            (Refusal::RecordLimit { max: 8 }, "RECORD_LIMIT"),
            (Refusal::SessionNotFound, "SESSION_NOT_FOUND"),
            (
                Refusal::SessionNotRunning { accepted: 1 },
                "SESSION_NOT_RUNNING",
            ),
            (
                Refusal::CursorExpired { base: 5, next: 9 },
                "CURSOR_EXPIRED",
            ),
            (
                Refusal::InvalidCursor { base: 5, next: 9 },
                "INVALID_CURSOR",
            ),
            (
                Refusal::InputTooLarge { bytes: 2, max: 1 },
                "INPUT_TOO_LARGE",
            ),
            (
                Refusal::LineTooLong {
                    bytes: 5_000,
                    max: 4_095,
                },
                "INPUT_TOO_LARGE",
            ),
            (Refusal::NotATerminal, "INVALID_ARGUMENT"),
            (
                Refusal::InputBackpressure {
                    accepted: 3,
                    closed: true,
                },
                "INPUT_BACKPRESSURE",
            ),
            (Refusal::InputUncertain { accepted: 0 }, "INPUT_UNCERTAIN"),
            (Refusal::StdinClosed { accepted: 0 }, "STDIN_CLOSED"),
            (Refusal::ShuttingDown, "SHUTTING_DOWN"),
            (Refusal::TooManyWaits, "TOO_MANY_CALLS"),
            (
                Refusal::Pattern {
                    purpose: Purpose::Find,
                    error: PatternError::TooLarge,
                },
                "INVALID_ARGUMENT",
            ),
            (Refusal::Internal("a broken count"), "INTERNAL"),
        ];
        for refused in [
            CwdRefused::NotAbsolute,
            CwdRefused::NotFound,
            CwdRefused::NotDirectory,
            CwdRefused::OutsideRoots,
        ] {
            all.push((Refusal::Cwd(refused), "CWD_NOT_ALLOWED"));
        }
        all.push((
            Refusal::Cwd(CwdRefused::Unavailable(Errno::EMFILE)),
            "START_FAILED",
        ));
        for refused in [
            EnvRefused::TooMany(33),
            EnvRefused::NotApproved(name()),
            EnvRefused::Denied(name()),
            EnvRefused::NulInValue(name()),
        ] {
            all.push((Refusal::Env(refused), "ENV_NOT_ALLOWED"));
        }
        for error in [
            SpawnError::NotFound,
            SpawnError::NotExecutable,
            SpawnError::BadInterpreter,
            SpawnError::Sandboxed,
            SpawnError::SandboxPath,
            SpawnError::Mismatch,
            SpawnError::PinnedScript,
            SpawnError::Unpinnable,
            SpawnError::Busy,
            SpawnError::TooLarge,
            SpawnError::OutOfProcesses,
            SpawnError::NoTerminal(Errno::ENOSPC),
            SpawnError::NurseryGone,
            SpawnError::Other(Errno::EIO),
        ] {
            all.push((Refusal::StartFailed(error), "START_FAILED"));
        }
        all
    }

    #[test]
    fn each_refusal_has_its_code_and_one_line_for_a_model() {
        for (refusal, code) in refusals() {
            let body = serde_json::to_value(Failure::from(refusal.clone())).unwrap();
            assert_eq!(body["code"], code, "{refusal:?}");
            let message = body["message"].as_str().unwrap();
            assert!(!message.contains('\n') && message.len() < 200, "{message}");
            assert!(!message.contains("os error"), "{message}");
            if code == "CWD_NOT_ALLOWED" {
                assert!(message.contains("cwd"), "{message}");
            }
        }
    }

    #[test]
    fn failures_carry_what_the_client_needs_to_go_on() {
        let text = |refusal: Refusal| serde_json::to_string(&Failure::from(refusal)).unwrap();
        assert_eq!(
            text(Refusal::CursorExpired { base: 5, next: 9 }),
            r#"{"code":"CURSOR_EXPIRED","message":"output at cursor was evicted; some is lost, read on with cursor=5","base_cursor":5,"next_cursor":9}"#
        );
        let body: Value = serde_json::from_str(&text(Refusal::InputBackpressure {
            accepted: 3,
            closed: true,
        }))
        .unwrap();
        assert_eq!(body["accepted_bytes"], 3);
        assert_eq!(body["input_uncertain"], true);
    }
}
