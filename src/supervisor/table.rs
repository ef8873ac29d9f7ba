//! The retained sessions, and how many there may be.
//!
//! What must hold: sessions that are not final, plus starts under way, never exceed `max_sessions`; retained sessions
//! plus starts under way never exceed `max_records`. A start takes its place before anything else happens, so that
//! starts in parallel can't pass a limit, and a failed start gives it back. Nothing retained is removed to make room.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{session::Session, supervisor::refusal::Refusal};

/// See the module.
#[derive(Debug)]
pub struct Table {
    inner: Mutex<Inner>,
    max_sessions: usize,
    max_records: usize,
    /// Woken when the last start under way has ended after the table was closed.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<String, Retained>,
    /// Sessions that were ever here.
    count: u64,
    starting: usize,
    closed: bool,
}

#[derive(Debug)]
struct Retained {
    session: Arc<Session>,
    /// In the order of the starts, which a clock that is set could not tell.
    number: u64,
}

impl Table {
    /// An empty table.
    pub fn new(max_sessions: usize, max_records: usize) -> Self {
        Self {
            inner: Mutex::default(),
            max_sessions,
            max_records,
            settled: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a start. It's given back when the [`Reservation`] is dropped uncommitted.
    pub fn reserve(self: &Arc<Self>) -> Result<Reservation, Refusal> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Refusal::ShuttingDown);
        }
        // Counted afresh, not kept as a number beside the sessions: a status that has just become final frees its
        // place in the same instant in which a client can see it.
        let running = inner
            .sessions
            .values()
            .filter(|retained| !retained.session.is_final())
            .count();
        if running + inner.starting >= self.max_sessions {
            return Err(Refusal::SessionLimit {
                max: self.max_sessions,
            });
        }
        if inner.sessions.len() + inner.starting >= self.max_records {
            return Err(Refusal::RecordLimit {
                max: self.max_records,
            });
        }
        inner.starting += 1;
        Ok(Reservation {
            table: Arc::clone(self),
        })
    }

    /// The session of that name, if it's retained.
    pub fn find(&self, id: &str) -> Result<Arc<Session>, Refusal> {
        self.lock()
            .sessions
            .get(id)
            .map(|retained| Arc::clone(&retained.session))
            .ok_or(Refusal::SessionNotFound)
    }

    /// Every retained session, the newest first.
    pub fn newest_first(&self) -> Vec<Arc<Session>> {
        let inner = self.lock();
        let mut retained: Vec<&Retained> = inner.sessions.values().collect();
        retained.sort_unstable_by_key(|retained| std::cmp::Reverse(retained.number));
        retained
            .into_iter()
            .map(|retained| Arc::clone(&retained.session))
            .collect()
    }

    /// Forgets a final session.
    pub fn remove(&self, id: &str) {
        let removed = self.lock().sessions.remove(id);
        // Its blocks go back to the slab here, outside the lock.
        drop(removed);
    }

    /// Refuses every further start and returns the sessions that are there.
    pub fn close(&self) -> Vec<Arc<Session>> {
        let mut inner = self.lock();
        inner.closed = true;
        let retained = inner.sessions.values();
        retained
            .map(|retained| Arc::clone(&retained.session))
            .collect()
    }

    /// Resolves when no start is under way any more. Meant for a closed table.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn starts_settled(&self) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.lock().starting == 0 {
                return;
            }
            settled.await;
        }
    }
}

/// A place in the table for a start under way.
#[derive(Debug)]
pub struct Reservation {
    table: Arc<Table>,
}

impl Reservation {
    /// Puts the started session into its place. Returns whether the table was closed meanwhile: the caller then ends
    /// the session like all others.
    pub fn commit(self, session: Arc<Session>) -> bool {
        let mut inner = self.table.lock();
        let number = inner.count;
        inner.count += 1;
        let id = session.id().to_owned();
        let earlier = inner.sessions.insert(id, Retained { session, number });
        assert!(earlier.is_none(), "I8: session ids are unique");
        inner.closed
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        inner.starting -= 1;
        if inner.starting == 0 {
            self.table.settled.notify_waiters();
        }
    }
}
