//! Word of new output, for whoever follows a session without a call that waits.

use std::{
    pin::pin,
    sync::{Arc, Weak},
};

use super::Handle;
use crate::{
    session::{Session, snapshot::Output},
    supervisor::refusal::Refusal,
};

/// Follows one session. It doesn't keep the session's text: that goes at the end of its retention all the same.
#[derive(Debug)]
pub struct Changes {
    session: Weak<Session>,
    /// How far the log was when it was told of last.
    seen: u64,
}

impl Handle {
    /// Follows a session's output. What is there already counts as new.
    ///
    /// # Errors
    /// There is no such session.
    pub fn changes(&self, session_id: &str) -> Result<Changes, Refusal> {
        let session = self.shared.table.find(session_id)?;
        Ok(Changes {
            session: Arc::downgrade(&session),
            seen: 0,
        })
    }
}

impl Changes {
    /// Resolves to true once there is more text than the last time, and to false when no more can come.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn next(&mut self) -> bool {
        let Some(session) = self.session.upgrade() else {
            return false;
        };
        loop {
            let mut changed = pin!(session.changed.notified());
            // Registered before the look, or what comes between the two would be missed.
            changed.as_mut().enable();
            {
                let state = session.state();
                let next = state.log.next_cursor();
                if next != self.seen {
                    self.seen = next;
                    return true;
                }
                if state.output != Output::Open {
                    return false;
                }
            }
            changed.await;
        }
    }
}
