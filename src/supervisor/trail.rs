//! What the audit log is told: one line for each call that does something, whatever becomes of it, and one for each end.
//!
//! A call that is given up before its outcome is known (its future is dropped as the server leaves) has its line as well:
//! the values here write it when they are dropped.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::{
    audit::{Client, Clip, Event, Log, Names},
    session::{
        Session,
        snapshot::{Output, Reason},
    },
    supervisor::{handle::StartRequest, refusal::Refusal},
};

/// The outcome of a call that did what it was asked to.
const OK: &str = "ok";
/// The outcome of a call whose outcome nobody waited for.
const UNANSWERED: &str = "UNANSWERED";

/// A start under way.
#[derive(Debug)]
pub(super) struct StartTrail<'a> {
    log: &'a Log,
    client: Option<Client>,
    command_id: String,
    cwd: Option<String>,
    env: Vec<String>,
    outcome: &'static str,
    is_told: bool,
}

impl<'a> StartTrail<'a> {
    /// Remembers what was asked for. `None` when there is no log.
    pub(super) fn of(log: &'a Log, request: &StartRequest) -> Option<Self> {
        log.is_on().then(|| Self {
            log,
            client: request.client.clone(),
            command_id: request.command_id.clone(),
            cwd: request.cwd.clone(),
            env: request.env.iter().map(|(name, _)| name.clone()).collect(),
            outcome: UNANSWERED,
            is_told: false,
        })
    }

    /// To be called before the session's tasks run, so that its line comes before that of its end.
    pub(super) fn started(&mut self, session: &Session, cwd: &Path, timeout: Duration) {
        self.is_told = true;
        let cwd = cwd.to_string_lossy();
        self.log.record(|| Event::Start {
            session_id: session.id(),
            command_id: Clip(&self.command_id),
            client: self.client.as_ref(),
            cwd: Clip(&cwd),
            env: Names(&self.env),
            process_id: session.process_id(),
            timeout_ms: milliseconds(timeout),
            outcome: OK,
        });
    }

    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.outcome = refusal.code().as_str();
    }
}

impl Drop for StartTrail<'_> {
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        self.log.record(|| Event::StartRefused {
            command_id: Some(Clip(&self.command_id)),
            client: self.client.as_ref(),
            cwd: self.cwd.as_deref().map(Clip),
            env: Names(&self.env),
            outcome: self.outcome,
        });
    }
}

/// A write under way.
#[derive(Debug)]
pub(super) struct WriteTrail {
    log: Log,
    client: Option<Client>,
    session_id: String,
    command_id: Option<String>,
    bytes: usize,
    /// Absent of what is secret.
    sha256: Option<String>,
    close_stdin: bool,
    accepted_bytes: Option<usize>,
    outcome: &'static str,
}

impl WriteTrail {
    /// Remembers the text's length and, unless it is secret, its hash: a short secret can be found by it. `None` when there is
    /// no log.
    pub(super) fn of(
        log: &Log,
        client: Option<Client>,
        session_id: &str,
        text: &str,
        is_secret: bool,
        close_stdin: bool,
    ) -> Option<Self> {
        log.is_on().then(|| Self {
            log: log.clone(),
            client,
            session_id: session_id.to_owned(),
            command_id: None,
            bytes: text.len(),
            sha256: (!is_secret).then(|| hex(&Sha256::digest(text))),
            close_stdin,
            accepted_bytes: None,
            outcome: UNANSWERED,
        })
    }

    pub(super) fn found(&mut self, session: &Session) {
        self.command_id = Some(session.command_id().to_owned());
    }

    pub(super) fn ended(&mut self, accepted: Result<usize, &Refusal>) {
        match accepted {
            Ok(accepted) => {
                self.outcome = OK;
                self.accepted_bytes = Some(accepted);
            }
            Err(refusal) => {
                self.outcome = refusal.code().as_str();
                self.accepted_bytes = Some(refusal.accepted_bytes());
            }
        }
    }
}

impl Drop for WriteTrail {
    fn drop(&mut self) {
        self.log.record(|| Event::Write {
            session_id: Some(Clip(&self.session_id)),
            command_id: self.command_id.as_deref().map(Clip),
            client: self.client.as_ref(),
            bytes: Some(self.bytes),
            sha256: self.sha256.as_deref(),
            close_stdin: Some(self.close_stdin),
            accepted_bytes: self.accepted_bytes,
            outcome: self.outcome,
        });
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tells of a termination that a client asked for, as it asks.
pub(super) fn terminate(
    log: &Log,
    client: Option<&Client>,
    session_id: &str,
    grace: Duration,
    found: Result<&Session, &Refusal>,
) {
    log.record(|| Event::Terminate {
        session_id: Some(Clip(session_id)),
        command_id: found.ok().map(|session| Clip(session.command_id())),
        client,
        grace_ms: Some(milliseconds(grace)),
        outcome: found.map_or_else(|refusal| refusal.code().as_str(), |_| OK),
    });
}

/// Sessions whose end is still to be told, so that each is told of once: as it ends, or as the server leaves.
#[derive(Debug)]
pub(super) struct Ends {
    log: Log,
    untold: Mutex<Untold>,
    /// Woken when none is left.
    all_told: Notify,
}

/// By its name, a session and who started it.
type Untold = HashMap<String, (Arc<Session>, Option<Client>)>;

impl Ends {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            untold: Mutex::default(),
            all_told: Notify::new(),
        }
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the session's tasks run.
    pub(super) fn expect(&self, session: &Arc<Session>, client: Option<Client>) {
        if self.log.is_on() {
            let entry = (Arc::clone(session), client);
            self.untold().insert(session.id().to_owned(), entry);
        }
    }

    /// Tells how the session ended. Nothing when that has been told.
    pub(super) fn tell(&self, session_id: &str) {
        let mut untold = self.untold();
        if let Some((session, client)) = untold.remove(session_id) {
            // Under the lock: whoever finds nothing untold may rely on every line's being recorded.
            self.record(&session, client.as_ref());
        }
        if untold.is_empty() {
            self.all_told.notify_waiters();
        }
    }

    /// Tells of all that are left how they stand.
    pub(super) fn tell_all(&self) {
        for (_, (session, client)) in self.untold().drain() {
            self.record(&session, client.as_ref());
        }
    }

    /// Resolves when no end is left to be told.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub(super) async fn all_told(&self) {
        loop {
            let told = self.all_told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.untold().is_empty() {
                return;
            }
            told.await;
        }
    }

    fn record(&self, session: &Session, client: Option<&Client>) {
        self.log.record(|| {
            let end = session.snapshot();
            Event::End {
                session_id: session.id(),
                command_id: Clip(session.command_id()),
                client,
                status: end.status.as_str(),
                exit_code: end.exit_code,
                exit_signal: end.exit_signal,
                termination_reason: end.termination_reason.map(Reason::as_str),
                output_bytes: end.output_bytes,
                output_complete: end.output == Output::Complete,
                output_incomplete: end.output == Output::Incomplete,
            }
        });
    }
}
