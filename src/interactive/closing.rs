//! Ending a session as a person would: the end of its input, then the line that is hung up, and only then by force.

use std::{
    future::{Future, pending},
    time::Duration,
};

use super::{
    Shared,
    failures::refused,
    requests::{CloseAnswer, CloseRequest, Failure, FailureKind},
};
use crate::{
    arena::Page,
    audit::Client,
    session::snapshot::Snapshot,
    supervisor::{
        follow::{Place, ReadRequest, Until},
        handle::Handle,
        refusal::Refusal,
    },
};

/// How long a program may take to end at each of the two milder steps.
const STEP: Duration = Duration::from_secs(2);

impl Shared {
    /// `session_close`.
    pub(super) async fn close(
        &self,
        request: CloseRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<CloseAnswer, Failure> {
        let CloseRequest { session_id, client } = request;
        let already = CloseAnswer::Already {
            already_closed: true,
        };
        // One on pipes is none that this closes.
        match self.registry.find(&session_id) {
            Ok(_) => {}
            Err(Failure::Refused {
                kind: FailureKind::NotFound,
                ..
            }) => return Ok(already),
            Err(other) => return Err(other),
        }
        if !self.registry.remove(&session_id) {
            return Ok(already);
        }
        let handle = self.handle.clone();
        // It goes on when nobody waits for it any more.
        let closing = tokio::spawn(async move {
            let closed = close(&handle, &session_id, client).await;
            handle.forget(&session_id);
            closed
        });
        let closed = tokio::select! {
            closed = closing => closed,
            () = cancelled => return Ok(already),
        };
        let closed = closed
            .unwrap_or(Err(Refusal::Internal("closing a session panicked")))
            .map_err(refused(FailureKind::CloseError))?;
        Ok(CloseAnswer::Closed {
            exit_status: closed.exit_code,
            exit_signal: closed.exit_signal,
        })
    }
}

/// Ends the session: the end of input, after 2 s a hang-up, after 2 s more KILL; each step only as long as it runs.
///
/// # Cancel safety
/// Dropped between the steps, the session goes on.
pub(super) async fn close(
    handle: &Handle,
    id: &str,
    client: Option<Client>,
) -> Result<Snapshot, Refusal> {
    let typed = handle.write(id, String::new(), true, client.clone(), pending());
    tokio::select! {
        () = ends_within(handle, id, STEP) => {}
        // A terminal that takes no input is waited for no longer than one that does.
        () = async { typed.await.ok(); pending().await } => {}
    }
    hang_up(handle, id, client, STEP).await
}

/// Ends what still runs by a hang-up, and after `grace` by KILL.
///
/// # Cancel safety
/// Dropped between the steps, the session goes on.
pub(super) async fn hang_up(
    handle: &Handle,
    id: &str,
    client: Option<Client>,
    grace: Duration,
) -> Result<Snapshot, Refusal> {
    if !handle.status(id)?.status.is_final() {
        handle.hang_up(id)?;
        ends_within(handle, id, grace).await;
    }
    if !handle.status(id)?.status.is_final() {
        handle
            .terminate(id, Duration::ZERO, client, pending())
            .await?;
    }
    handle.status(id)
}

/// Waits until the session is over and all of its output is there, but no longer than `time`.
pub(super) async fn ends_within(handle: &Handle, id: &str, time: Duration) {
    let request = ReadRequest {
        place: Place::Tail,
        limits: crate::arena::PageLimits {
            bytes: 4,
            records: 1,
            unit: crate::arena::Unit::Runs,
        },
        until: Until::End,
        wait: time,
    };
    let mut page = Page::default();
    // A session that is gone is over.
    handle.read(id, request, pending(), &mut page).await.ok();
}
