//! Refusals as failures of the session tools.

use super::requests::{Failure, FailureKind};
use crate::supervisor::refusal::Refusal;

/// A failure that says itself what to do.
pub(super) fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure::Error {
        kind,
        message: message.into(),
    }
}

/// The failure that a refusal comes to; `usual` is what it is called when it has no type of its own.
pub(super) fn refused(usual: FailureKind) -> impl Fn(Refusal) -> Failure {
    move |refusal| {
        let kind = match &refusal {
            Refusal::SessionNotFound => FailureKind::NotFound,
            Refusal::SessionNotRunning { .. } | Refusal::StdinClosed { .. } => {
                FailureKind::SessionDead
            }
            Refusal::SessionLimit { .. } | Refusal::RecordLimit { .. } => {
                FailureKind::SessionLimitReached
            }
            Refusal::NotATerminal | Refusal::Pattern { .. } => FailureKind::ValidationError,
            _ => usual,
        };
        Failure::Refused { kind, refusal }
    }
}
