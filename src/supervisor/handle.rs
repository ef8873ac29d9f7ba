//! The request side's way to the sessions: cheap to clone, `Send`, never blocks.

use std::{future::Future, time::Duration};

use crate::{
    arena::{Page, PageLimits},
    session::snapshot::{Output, Snapshot, Status},
    supervisor::refusal::Refusal,
};

/// What a client asks to be started. Already of the right types; not yet checked against the policy.
#[derive(Clone, Debug, Default)]
pub struct StartRequest {
    /// Name of an approved command.
    pub command_id: String,
    /// Working directory; the profile's or the config's default when absent.
    pub cwd: Option<String>,
    /// Variables, in the client's order.
    pub env: Vec<(String, String)>,
    /// Lifetime; the profile's or the config's default when absent. In range.
    pub timeout: Option<Duration>,
}

/// What stands beside a page. Consistent with the page: both were taken under one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFacts {
    /// The session's status.
    pub status: Status,
    /// Whether more output may come.
    pub output: Output,
    /// Whether anything was ever evicted.
    pub truncated: bool,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes that the pipe took: all of them.
    pub accepted: usize,
    /// Whether stdin is closed now.
    pub stdin_closed: bool,
    /// The session's `next_cursor` when the write's turn came: what the child answers starts here or later.
    pub next_cursor: u64,
}

/// The request side's handle.
#[derive(Clone, Debug)]
pub struct Handle {}

#[allow(clippy::unimplemented, unused_variables, missing_docs)]
impl Handle {
    /// Starts a session. When `cancelled` resolves first, nothing is left running.
    pub async fn start(
        &self,
        request: StartRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Snapshot, Refusal> {
        unimplemented!()
    }
    pub fn status(&self, session_id: &str) -> Result<Snapshot, Refusal> {
        unimplemented!()
    }
    /// Copies a page into `page`, waiting up to `wait` while there is nothing at `cursor` and more may come.
    /// `cut_short` ends the wait early (as if its time were up). Dropping the future is harmless.
    pub async fn read(
        &self,
        session_id: &str,
        cursor: u64,
        limits: PageLimits,
        wait: Duration,
        cut_short: impl Future<Output = ()>,
        page: &mut Page,
    ) -> Result<PageFacts, Refusal> {
        unimplemented!()
    }
    /// Takes its place in the session's queue before the first await of the returned future; writes are made in the order of these calls.
    /// When `cancelled` resolves first the input becomes uncertain and stdin is closed.
    pub fn write(
        &self,
        session_id: &str,
        text: String,
        close_stdin: bool,
        cancelled: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<Written, Refusal>> + Send {
        async { unimplemented!() }
    }
    /// Ends the session's group; resolves when its end is confirmed (or can't be).
    pub async fn terminate(&self, session_id: &str, grace: Duration) -> Result<Snapshot, Refusal> {
        unimplemented!()
    }
}
