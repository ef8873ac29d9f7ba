//! Subscriptions: a client is told that a session printed something, by the session's URI, and reads it when it wants to.
//!
//! What must hold: at most one word in [`LEAST_GAP`] of each session; the last word comes after the last output, also to a client
//! that was behind with reading; and nobody's word waits in memory more than once.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData,
    model::{
        ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
        SubscriptionFilter,
    },
    service::SubscriptionContext,
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{resources, transport::Notices},
    supervisor::handle::{Changes, Handle},
};

/// Least time between two words of one session.
const LEAST_GAP: Duration = Duration::from_millis(100);

/// The subscriptions of clients before the stateless revision: one for each URI at most.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    tasks: Mutex<HashMap<String, AbortHandle>>,
}

impl Subscriptions {
    /// Subscribes to the output that the URI names, if that wasn't done before.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub(super) fn subscribe(
        &self,
        handle: &Handle,
        notices: &Notices,
        uri: &str,
    ) -> Result<(), ErrorData> {
        let changes = changes(handle, uri).ok_or_else(|| resources::not_found(uri))?;
        let mut tasks = self.tasks();
        // Those of sessions that have ended.
        tasks.retain(|_, task| !task.is_finished());
        tasks.entry(uri.to_owned()).or_insert_with_key(|uri| {
            tokio::spawn(tell(changes, notices.clone(), uri.clone())).abort_handle()
        });
        Ok(())
    }

    /// Ends the subscription, if there is one: no word comes after this.
    pub(super) fn unsubscribe(&self, uri: &str) {
        // The runtime is a current-thread one, so the task isn't at work now.
        if let Some(task) = self.tasks().remove(uri) {
            task.abort();
        }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of each change until there will be none.
async fn tell(mut changes: Changes, notices: Notices, uri: String) {
    while changes.next().await {
        let param = ResourceUpdatedNotificationParam::new(uri.as_str());
        let updated = ResourceUpdatedNotification::new(param);
        let word = ServerNotification::ResourceUpdatedNotification(updated);
        while !notices.send(word.clone()) {
            sleep(LEAST_GAP).await;
        }
        sleep(LEAST_GAP).await;
    }
}

/// What of `requested` there is: updates of sessions that are retained.
pub(super) fn accepted(handle: &Handle, requested: &SubscriptionFilter) -> SubscriptionFilter {
    let requested = requested.resource_subscriptions.iter().flatten();
    let known: BTreeSet<&String> = requested
        .filter(|uri| changes(handle, uri).is_some())
        .collect();
    SubscriptionFilter::builder()
        .resource_subscriptions(known)
        .build()
}

/// Serves one subscription of the stateless revision until it is cancelled or `eof` is.
pub(super) async fn listen(handle: &Handle, context: SubscriptionContext, eof: &CancellationToken) {
    let accepted = context.accepted().resource_subscriptions.iter().flatten();
    let uris: BTreeSet<&String> = accepted.collect();
    let mut tasks = JoinSet::new();
    for uri in uris {
        // One that is gone by now changes no more.
        let Some(mut changes) = changes(handle, uri) else {
            continue;
        };
        let (sink, uri) = (context.sink().clone(), uri.clone());
        tasks.spawn(async move {
            // Each word is waited for until the client has it.
            while changes.next().await && sink.notify_resource_updated(uri.as_str()).await.is_ok() {
                sleep(LEAST_GAP).await;
            }
        });
    }
    tokio::select! {
        () = context.cancelled() => {}
        () = eof.cancelled() => {}
    }
}

fn changes(handle: &Handle, uri: &str) -> Option<Changes> {
    handle.changes(resources::session_id(uri)?).ok()
}
