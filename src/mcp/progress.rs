//! Progress notifications: once a second, how far a call is whose client asked to be told.
//!
//! What must hold: none comes after the call's answer, the number in them only grows, and a client that doesn't read gets none.

use std::{
    convert::Infallible,
    future::{Future, pending},
    time::Duration,
};

use rmcp::model::{
    NumberOrString, ProgressNotification, ProgressNotificationParam, ProgressToken,
    ServerNotification,
};
use tokio::{sync::oneshot::error::RecvError, time::sleep};

use crate::{mcp::transport::Notices, supervisor::handle::Handle};

/// How often a client is told.
const EVERY: Duration = Duration::from_secs(1);
/// Longest token that is sent back, in bytes. Clients use numbers and UUIDs.
const MAX_TOKEN_BYTES: usize = 256;
/// Longest line that is shown, in characters.
const LINE_CHARS: usize = 200;
/// What the number grows by while nothing is printed: the protocol wants it to grow, and its whole part stays the count. The
/// longest call has some fifty such steps, and the count may come to 8 TB before they are too fine for the number.
const STEP: f64 = 1.0 / 1024.0;

/// See the module.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    handle: &'a Handle,
    notices: &'a Notices,
    token: Option<ProgressToken>,
}

impl<'a> Progress<'a> {
    /// Tells whoever gave this token, or nobody.
    pub(super) fn new(
        handle: &'a Handle,
        notices: &'a Notices,
        token: Option<ProgressToken>,
    ) -> Self {
        let token = token.filter(|token| match &token.0 {
            NumberOrString::Number(_) => true,
            NumberOrString::String(text) => text.len() <= MAX_TOKEN_BYTES,
        });
        Self {
            handle,
            notices,
            token,
        }
    }

    /// Waits for `call`, and tells meanwhile how far the session is that `session` resolves to, if it does.
    ///
    /// # Cancel safety
    ///
    /// That of `call`.
    pub(super) async fn during<T>(
        self,
        call: impl Future<Output = T>,
        session: impl Future<Output = Result<String, RecvError>>,
    ) -> T {
        tokio::select! {
            biased;
            outcome = call => outcome,
            never = self.tell(session) => match never {},
        }
    }

    async fn tell(self, session: impl Future<Output = Result<String, RecvError>>) -> Infallible {
        let Some(token) = self.token else {
            return pending().await;
        };
        let Ok(session_id) = session.await else {
            return pending().await;
        };
        let mut told = None;
        loop {
            sleep(EVERY).await;
            let Ok(glance) = self.handle.glance(&session_id, LINE_CHARS).await else {
                return pending().await;
            };
            let number = grown(told, glance.output_bytes);
            let mut param = ProgressNotificationParam::new(token.clone(), number);
            if !glance.last_line.is_empty() {
                param = param.with_message(glance.last_line);
            }
            let notification = ProgressNotification::new(param);
            if self
                .notices
                .send(ServerNotification::ProgressNotification(notification))
            {
                told = Some(number);
            }
        }
    }
}

/// The number for so many bytes, larger than the one before.
fn grown(before: Option<f64>, bytes: u64) -> f64 {
    // The wire has floating-point numbers. They are exact up to 8 PB.
    let count = bytes as f64;
    before.map_or(count, |before| count.max(before + STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_grows_and_its_whole_part_is_the_count() {
        let mut before = None;
        for bytes in [0, 0, 0, 7, 7, 8_000_000_000_000, 8_000_000_000_000] {
            let number = grown(before, bytes);
            assert!(before.is_none_or(|before| number > before), "{number}");
            assert!((number.trunc() - bytes as f64).abs() < f64::EPSILON);
            before = Some(number);
        }
    }
}
