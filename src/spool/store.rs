//! All spools under one budget: who must give up text, and what is removed at the end.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use super::{
    catalogue::Layout,
    folder::{Folder, NotOpened},
    spooled::Spooled,
};
use crate::{
    arena::BLOCK_BYTES,
    config::{Spool, limits::DISK_THREADS},
    io::Disk,
};

/// See the module. Its files are removed when it is dropped, unless the process dies before.
#[derive(Debug)]
pub struct Store {
    pub(super) folder: Arc<Folder>,
    pub(super) disk: Disk,
    layout: Layout,
    /// Slots that all spools may have together.
    slots: u64,
    ledger: Mutex<Ledger>,
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Slots that all spools have, those that are being written among them.
    used: u64,
    spools: Vec<Weak<Spooled>>,
}

/// Nothing may be dropped to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Store {
    /// Opens the directory and starts the threads that wait for the disk.
    ///
    /// # Errors
    /// Why no text may be kept there, or can't.
    pub fn open(config: &Spool) -> Result<Arc<Store>, NotOpened> {
        let slots = |bytes: u64| bytes / BLOCK_BYTES as u64;
        let folder = Folder::open(&config.dir)?;
        let disk = Disk::start(DISK_THREADS).map_err(NotOpened::NoThread)?;
        Ok(Arc::new(Store {
            folder: Arc::new(folder),
            disk,
            layout: Layout::of(slots(config.bytes_per_session.min(config.bytes_total))),
            slots: slots(config.bytes_total),
            ledger: Mutex::default(),
            count: AtomicU64::new(0),
        }))
    }

    /// A spool for a new session. It has no file until it has text.
    pub fn spool(self: &Arc<Self>) -> Arc<Spooled> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let spool = Arc::new(Spooled::new(number, Arc::clone(self), self.layout));
        let mut ledger = self.lock();
        ledger.spools.retain(|spool| spool.strong_count() > 0);
        ledger.spools.push(Arc::downgrade(&spool));
        spool
    }

    /// Removes all files. What takes longer than until `deadline` is left to the next start. Returns whether nothing was.
    pub fn close(&self, deadline: Instant) -> bool {
        let folder = Arc::clone(&self.folder);
        let (done, closed) = mpsc::channel();
        // A thread of its own: all of the disk's may hang.
        let closing = thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || {
                folder.close();
                done.send(()).ok();
            });
        let left = deadline.saturating_duration_since(Instant::now());
        closing.is_ok() && closed.recv_timeout(left).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `slots` that `spool` is about to write, after dropping what has to go for them: its own oldest text when it
    /// alone would have too much, the oldest text of all when all together would.
    pub(super) fn reserve(&self, spool: &Spooled, slots: u64) -> Result<(), NoRoom> {
        let mut ledger = self.lock();
        while spool.slots() + slots > self.layout.slots {
            ledger.used -= spool.drop_oldest().ok_or(NoRoom)?;
        }
        while ledger.used + slots > self.slots {
            let spools: Vec<Arc<Spooled>> =
                ledger.spools.iter().filter_map(Weak::upgrade).collect();
            let oldest = spools
                .iter()
                .filter_map(|spool| Some((spool.oldest_birth()?, spool)))
                .min_by_key(|(birth, _)| *birth);
            let dropped = oldest.and_then(|(_, spool)| spool.drop_oldest());
            ledger.used -= dropped.unwrap_or(0);
            // The last reference to a spool gives its slots back itself, which takes the lock.
            drop(ledger);
            drop(spools);
            dropped.ok_or(NoRoom)?;
            ledger = self.lock();
        }
        ledger.used += slots;
        Ok(())
    }

    /// Takes note that so many slots are gone, or were not written after all.
    pub(super) fn release(&self, slots: u64) {
        self.lock().used -= slots;
    }

    /// When the next segment begins, in the order of all.
    pub(super) fn birth(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.folder.close();
    }
}
