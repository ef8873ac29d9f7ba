//! The sessions of the session tools: what a session doesn't know of itself, how many there may be, and their end when nobody
//! uses them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use tokio::{
    sync,
    time::{Instant, sleep},
};

use super::{
    closing,
    echo::Typed,
    failures::{failure, refused},
    requests::{Failure, FailureKind},
    stream::Stream,
};
use crate::{
    config::SessionSettings,
    session::snapshot::Snapshot,
    supervisor::{handle::Handle, refusal::Refusal},
};

/// One session.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) label: String,
    pub(super) command: String,
    /// `None` when another tool started it: then it isn't closed for idling.
    idle_timeout: Option<Duration>,
    /// Held by the read under way: each takes what came since the one before.
    pub(super) reading: sync::Mutex<Reading>,
    sent: Mutex<Option<Arc<Sent>>>,
    activity: Mutex<Activity>,
}

/// How far a session was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) stream: Stream,
    /// The screen at the last diff.
    pub(super) before: Option<Vec<String>>,
}

/// What was typed last.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) typed: Typed,
    /// Cursor of the text behind the prompt at which it was typed.
    pub(super) from: u64,
    /// What it brought about starts here or later.
    pub(super) at: u64,
    /// Commands that had ended by then.
    pub(super) finished: u64,
}

/// When something was last seen to have happened, told without the clock that can be set.
#[derive(Clone, Copy, Debug)]
struct Activity {
    last: SystemTime,
    seen: Instant,
}

impl Entry {
    pub(super) fn new(
        snapshot: &Snapshot,
        label: String,
        command: String,
        idle_timeout: Option<Duration>,
    ) -> Entry {
        Entry {
            id: snapshot.session_id.clone(),
            label,
            command,
            idle_timeout,
            reading: sync::Mutex::default(),
            sent: Mutex::default(),
            activity: Mutex::new(Activity {
                last: snapshot.last_activity_at,
                seen: Instant::now(),
            }),
        }
    }

    pub(super) fn sent(&self) -> Option<Arc<Sent>> {
        locked(&self.sent).clone()
    }

    pub(super) fn typed(&self, sent: Sent) -> Arc<Sent> {
        let sent = Arc::new(sent);
        *locked(&self.sent) = Some(Arc::clone(&sent));
        sent
    }

    /// For how long it is certain that nothing has been printed or typed, even when the clock was set meanwhile: no longer
    /// than since this was asked last.
    fn idle(&self, snapshot: &Snapshot) -> Duration {
        let mut activity = locked(&self.activity);
        if activity.last != snapshot.last_activity_at {
            *activity = Activity {
                last: snapshot.last_activity_at,
                seen: Instant::now(),
            };
        }
        idle(snapshot).min(activity.seen.elapsed())
    }
}

/// How long nothing has been printed or typed, by the clock.
pub(super) fn idle(snapshot: &Snapshot) -> Duration {
    snapshot.last_activity_at.elapsed().unwrap_or_default()
}

/// See the module.
#[derive(Debug)]
pub(super) struct Registry {
    handle: Handle,
    cleanup_interval: Duration,
    idle_timeout: Duration,
    max_sessions: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The oldest first.
    entries: Vec<Arc<Entry>>,
    starting: usize,
    /// Sessions that were closed and are not forgotten yet.
    closed: Vec<String>,
    /// Idle sessions are looked for.
    cleaning: bool,
}

impl Inner {
    fn close(&mut self, handle: &Handle, id: &str) {
        self.closed.retain(|closed| handle.status(closed).is_ok());
        self.closed.push(id.to_owned());
    }
}

/// A place for a session that is being started; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    registry: Arc<Registry>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.inner().starting -= 1;
    }
}

impl Registry {
    pub(super) fn new(handle: Handle, settings: &SessionSettings) -> Registry {
        Registry {
            handle,
            cleanup_interval: settings.cleanup_interval,
            idle_timeout: settings.idle_timeout,
            max_sessions: settings.max_sessions,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    /// Takes a place for a session.
    ///
    /// # Errors
    /// As many run as may.
    pub(super) fn reserve(self: &Arc<Self>) -> Result<Place, Failure> {
        let mut inner = self.inner();
        let running = inner.entries.iter().filter(|entry| {
            let status = self.handle.status(&entry.id);
            entry.idle_timeout.is_some() && status.is_ok_and(|now| !now.status.is_final())
        });
        let max = self.max_sessions;
        if running.count() + inner.starting >= max {
            return Err(failure(
                FailureKind::SessionLimitReached,
                format!("{max} sessions are open, as many as may; close one with session_close"),
            ));
        }
        inner.starting += 1;
        Ok(Place {
            registry: Arc::clone(self),
        })
    }

    /// Enters a session that was started in a place, to be closed when it is idle for so long.
    pub(super) fn enter(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        label: String,
        command: String,
        idle_timeout: Option<Duration>,
    ) {
        let idle_timeout = idle_timeout.unwrap_or(self.idle_timeout);
        let entry = Entry::new(snapshot, label, command, Some(idle_timeout));
        self.add(&mut self.inner(), Arc::new(entry));
    }

    /// Looked after from now on, until the session is gone.
    fn add(self: &Arc<Self>, inner: &mut Inner, entry: Arc<Entry>) {
        inner.entries.push(entry);
        if !inner.cleaning {
            inner.cleaning = true;
            tokio::spawn(clean(Arc::downgrade(self), self.cleanup_interval));
        }
    }

    /// The session of that name. One on a terminal that another tool started is taken in.
    ///
    /// # Errors
    /// There is none, or it is not on a terminal.
    pub(super) fn find(self: &Arc<Self>, id: &str) -> Result<Arc<Entry>, Failure> {
        let mut inner = self.inner();
        let known = inner.entries.iter().position(|entry| entry.id == id);
        let looked = if inner.closed.iter().any(|closed| closed == id) {
            Err(Refusal::SessionNotFound)
        } else {
            self.handle.screen(id, |_| ())
        };
        if let (Some(known), Err(Refusal::SessionNotFound)) = (known, &looked) {
            inner.entries.remove(known);
        }
        looked.map_err(refused(FailureKind::ReadError))?;
        if let Some(known) = known {
            return Ok(Arc::clone(&inner.entries[known]));
        }
        let snapshot = self.handle.status(id);
        let snapshot = snapshot.map_err(refused(FailureKind::ReadError))?;
        let command = snapshot.command_id.clone();
        let entry = Arc::new(Entry::new(&snapshot, command.clone(), command, None));
        self.add(&mut inner, Arc::clone(&entry));
        Ok(entry)
    }

    /// Every session that is still there, with what it is like.
    pub(super) fn all(&self) -> Vec<(Arc<Entry>, Snapshot)> {
        let mut inner = self.inner();
        let mut all = Vec::new();
        inner.entries.retain(|entry| {
            let status = self.handle.status(&entry.id);
            let is_there = status.is_ok();
            all.extend(status.map(|snapshot| (Arc::clone(entry), snapshot)));
            is_there
        });
        all
    }

    /// Takes the session out: it is none of these tools' from now on. False when it was out already.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut inner = self.inner();
        let before = inner.entries.len();
        inner.entries.retain(|entry| entry.id != id);
        let was_there = inner.entries.len() < before;
        inner.close(&self.handle, id);
        was_there
    }

    /// A session that was never entered isn't to be found by its id either.
    pub(super) fn hide(&self, id: &str) {
        self.inner().close(&self.handle, id);
    }

    /// Closes what has been idle for too long. False when there is nothing left to look after.
    fn sweep(&self) -> bool {
        for (entry, snapshot) in self.all() {
            let Some(idle_timeout) = entry.idle_timeout else {
                continue;
            };
            let in_use = entry.reading.try_lock().is_err();
            let idle = entry.idle(&snapshot);
            if in_use || snapshot.status.is_final() || idle < idle_timeout {
                continue;
            }
            if self.remove(&entry.id) {
                tracing::info!(session = entry.id, "idle, closed");
                let handle = self.handle.clone();
                // Of its own: one that takes its time holds up no other.
                tokio::spawn(async move {
                    closing::close(&handle, &entry.id, None).await.ok();
                    handle.forget(&entry.id);
                });
            }
        }
        let mut inner = self.inner();
        inner.cleaning = !inner.entries.is_empty();
        inner.cleaning
    }
}

/// Looks for idle sessions until there is none at all.
async fn clean(registry: Weak<Registry>, interval: Duration) {
    loop {
        sleep(interval).await;
        match registry.upgrade() {
            Some(registry) if registry.sweep() => {}
            _ => return,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
