//! Refusals in the session tools' own terms, where those of the other tools would mislead: their client knows neither
//! `terminal_status` nor an Owner who could correct what it typed.

use std::borrow::Cow;

use super::tools;
use crate::{
    mcp::failure::Failure,
    process::SpawnError,
    supervisor::{refusal::Refusal, search::Purpose},
};

/// What a client of `tool` is told, on one line.
pub(super) fn words(tool: &str, refusal: &Refusal) -> Cow<'static, str> {
    match refusal {
        Refusal::Pattern {
            purpose: Purpose::Watch,
            error,
        } => {
            let argument = match tool {
                tools::INTERACT => "wait_for",
                _ => "pattern",
            };
            format!("Invalid regex in argument `{argument}`: {error}").into()
        }
        Refusal::StartFailed(SpawnError::NotFound) => {
            "the program was not found; check its name, or give its path".into()
        }
        Refusal::StartFailed(SpawnError::NotExecutable) => {
            "this is no program that may be executed; name another".into()
        }
        Refusal::StartFailed(SpawnError::BadInterpreter) => {
            "the interpreter that the program names is missing or not executable".into()
        }
        Refusal::StartFailed(SpawnError::TooLarge) => {
            "the command line and the environment are too large together".into()
        }
        Refusal::SessionLimit { max } => {
            format!("{max} sessions are running, as many as may; close one with session_close")
                .into()
        }
        Refusal::SessionNotFound => {
            "session_id is unknown, or the session was closed; session_list has those that are open"
                .into()
        }
        Refusal::SessionNotRunning { .. } | Refusal::StdinClosed { .. } => {
            "the session's process has ended and takes no input; read what it left, then close it"
                .into()
        }
        Refusal::InputTooLarge { bytes, max } => format!(
            "input holds {bytes} bytes, a send at most {max}; nothing was typed, send it in parts"
        )
        .into(),
        Refusal::Internal(_) => {
            // What it was goes to the server's log.
            drop(Failure::from(refusal.clone()));
            "a fault of the server; session_list tells what became of the session".into()
        }
        other => Failure::from(other.clone()).message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::pattern::PatternError;

    #[test]
    fn they_speak_of_this_tools_arguments_and_of_no_other_tool() {
        let pattern = Refusal::Pattern {
            purpose: Purpose::Watch,
            error: PatternError::TooLarge,
        };
        for (tool, argument) in [
            (tools::INTERACT, "`wait_for`"),
            (tools::WAIT_FOR, "`pattern`"),
        ] {
            let said = words(tool, &pattern);
            assert!(
                said.contains(argument) && said.starts_with("Invalid regex"),
                "{said}"
            );
        }
        for refusal in [
            Refusal::SessionNotFound,
            Refusal::SessionLimit { max: 3 },
            Refusal::SessionNotRunning { accepted: 0 },
            Refusal::StdinClosed { accepted: 0 },
            Refusal::StartFailed(SpawnError::NotFound),
            Refusal::InputTooLarge { bytes: 5, max: 4 },
            Refusal::Internal("a broken count"),
        ] {
            let said = words(tools::SEND, &refusal);
            assert!(
                !said.contains("terminal_") && !said.contains("Owner"),
                "{said}"
            );
            assert!(!said.contains('\n') && said.len() < 200, "{said}");
        }
    }
}
