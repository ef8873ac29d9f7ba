//! Starting a session: what a command means, and what is asked of its terminal.

use std::{
    future::{Future, pending, ready},
    pin::pin,
};

use super::{
    Shared,
    failures::{failure, refused},
    requests::{CreateAnswer, CreateRequest, Failure, FailureKind},
};
use crate::{
    audit::Client,
    config::Access,
    screen::Size,
    session::snapshot::Snapshot,
    supervisor::{
        handle::{StartRequest, TerminalRequest},
        refusal::Refusal,
    },
};

/// What a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// An approved command, with its arguments.
    Approved { id: String, argv: Vec<String> },
    /// Any other, with its arguments.
    Free(Vec<String>),
}

/// What is to be started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: Program,
    pub(super) rows: Option<u16>,
    pub(super) cols: Option<u16>,
    pub(super) scrollback: usize,
    /// Typed at once.
    pub(super) input: String,
    pub(super) client: Option<Client>,
}

impl Shared {
    /// `session_create`.
    pub(super) async fn create(
        &self,
        request: CreateRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<CreateAnswer, Failure> {
        let program = self.program(&request.command)?;
        let _place = self.registry.reserve()?;
        let label = request.label.unwrap_or_else(|| program.name().to_owned());
        let start = Start {
            program,
            rows: request.rows,
            cols: request.cols,
            scrollback: request.scrollback_lines,
            input: String::new(),
            client: request.client,
        };
        let mut cancelled = pin!(cancelled);
        let snapshot = self
            .start(start, cancelled.as_mut())
            .await
            .map_err(refused(FailureKind::SpawnError))?;
        let is_cancelled = tokio::select! {
            biased;
            () = cancelled => true,
            () = ready(()) => false,
        };
        if is_cancelled {
            // It was ended, and nobody learns its id.
            self.handle.forget(&snapshot.session_id);
            return Err(refused(FailureKind::SpawnError)(Refusal::ShuttingDown));
        }
        self.registry.enter(
            &snapshot,
            label.clone(),
            request.command,
            request.idle_timeout,
        );
        Ok(CreateAnswer {
            session_id: snapshot.session_id,
            label,
            pid: snapshot.process_id,
            created_at: super::seconds(snapshot.created_at),
            snapshot_available: true,
        })
    }

    /// What `command` names.
    ///
    /// # Errors
    /// It names nothing, or nothing that may be started.
    pub(super) fn program(&self, command: &str) -> Result<Program, Failure> {
        if let Some(profile) = self.handle.approved(command) {
            return Ok(Program::Approved {
                id: profile.id.clone(),
                argv: profile.argv.clone(),
            });
        }
        let invalid = |message| Err(failure(FailureKind::ValidationError, message));
        if self.access == Access::Approved {
            return invalid(
                "argument `command`: it is not an approved command_id, and other command lines are refused unless the Owner allows them",
            );
        }
        match shlex::split(command) {
            None => invalid("argument `command`: a quote or an escape in it is not ended"),
            Some(words) if words.is_empty() => invalid("argument `command`: it is empty"),
            Some(words) if words.iter().any(|word| word.contains('\0')) => {
                invalid("argument `command`: it holds a NUL")
            }
            Some(words) => Ok(Program::Free(words)),
        }
    }

    /// Starts it. The session is ended when `cancelled` comes before it could be told of.
    pub(super) async fn start(
        &self,
        start: Start,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Snapshot, Refusal> {
        let (command_id, free) = match start.program {
            Program::Approved { id, .. } => (id, None),
            Program::Free(words) => (words[0].clone(), Some(words)),
        };
        let usual = match self.handle.approved(&command_id).and_then(|own| own.tty) {
            Some(own) if free.is_none() => own,
            _ => Size {
                rows: self.settings.rows,
                cols: self.settings.cols,
            },
        };
        let size = Size {
            rows: start.rows.unwrap_or(usual.rows),
            cols: start.cols.unwrap_or(usual.cols),
        };
        let request = StartRequest {
            command_id,
            input: start.input,
            client: start.client,
            terminal: Some(TerminalRequest {
                size: Some(size),
                scrollback: start.scrollback,
                free,
            }),
            ..StartRequest::default()
        };
        let started = self.handle.start(request, |_| (), cancelled, pending());
        Ok(started.await?.snapshot)
    }
}

impl Program {
    /// What a session of it is called.
    fn name(&self) -> &str {
        match self {
            Program::Approved { id, .. } => id,
            Program::Free(words) => &words[0],
        }
    }
}
