//! One session's spool: its writer adds slots at the end, its readers fetch slots, and the store drops the oldest.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use nix::errno::Errno;

use super::{
    catalogue::{Catalogue, Layout},
    reader::{Reader, Want},
    store::Store,
};
use crate::arena::{BLOCK_BYTES, Slot};

/// How it goes with a spool, for whoever reads the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoolState {
    /// The Owner keeps none.
    Off,
    /// All text that left the arena is there, up to the budget.
    Ok,
    /// Text was dropped before the budget asked for it: the disk is full, or was too slow.
    Dropping,
    /// Files can't be written or read; nothing is kept any more.
    Failed,
}

impl SpoolState {
    /// Its name in every answer.
    pub fn as_str(self) -> &'static str {
        match self {
            SpoolState::Off => "off",
            SpoolState::Ok => "ok",
            SpoolState::Dropping => "dropping",
            SpoolState::Failed => "failed",
        }
    }
}

/// Where the next slots are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Whether it has to be made first.
    pub is_new: bool,
    /// Byte offset in it.
    pub offset: u64,
    /// Slots that it has room for.
    pub room: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Spooled {
    number: u64,
    store: Arc<Store>,
    catalogue: Mutex<Catalogue>,
    /// A [`SpoolState`] as a number; it only gets worse.
    state: AtomicU8,
}

const DROPPING: u8 = 1;
const FAILED: u8 = 2;

impl Spooled {
    pub(super) fn new(number: u64, store: Arc<Store>, layout: Layout) -> Spooled {
        Spooled {
            number,
            store,
            catalogue: Mutex::new(Catalogue::new(layout)),
            state: AtomicU8::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Catalogue> {
        self.catalogue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How it goes.
    pub fn state(&self) -> SpoolState {
        match self.state.load(Ordering::Relaxed) {
            0 => SpoolState::Ok,
            DROPPING => SpoolState::Dropping,
            _ => SpoolState::Failed,
        }
    }

    /// Text was dropped that the budget had room for.
    pub fn dropped(&self) {
        self.state.fetch_max(DROPPING, Ordering::Relaxed);
    }

    /// Gives the spool up: its files are of no more use.
    pub fn fail(&self) {
        self.state.fetch_max(FAILED, Ordering::Relaxed);
        self.clear();
    }

    /// Cursor of the oldest code point, when the text goes on to `memory`, where the session's text in memory begins.
    pub fn base_before(&self, memory: u64) -> Option<u64> {
        let cursors = self.lock().cursors()?;
        (cursors.end == memory).then_some(cursors.start)
    }

    /// Cursor after the newest code point; `None` when there is no text.
    pub fn next_cursor(&self) -> Option<u64> {
        self.lock().cursors().map(|cursors| cursors.end)
    }

    /// Where the next slots go.
    pub fn place(&self) -> Place {
        let catalogue = self.lock();
        let (end, segment) = (catalogue.end(), catalogue.layout().segment);
        let within = end % segment;
        Place {
            segment: end / segment,
            is_new: catalogue.at_segment_start(),
            offset: within * BLOCK_BYTES as u64,
            room: usize::try_from(segment - within).unwrap_or(usize::MAX),
        }
    }

    /// Drops what has to go for `slots` more. Returns false when nothing may go.
    pub fn make_room(&self, slots: usize) -> bool {
        self.store.reserve(self, slots as u64).is_ok()
    }

    /// Slots that were made room for won't be written.
    pub fn give_back_room(&self, slots: usize) {
        self.store.release(slots as u64);
    }

    /// Makes a segment's file. Waits for the disk on a thread of its own.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancel safety
    /// Dropped, the file may be left, to be removed with the server's others.
    pub async fn create(&self, segment: u64) -> Result<OwnedFd, Errno> {
        let (folder, number) = (Arc::clone(&self.store.folder), self.number);
        let made = self.store.disk.run(move || folder.create(number, segment));
        made.await.unwrap_or(Err(Errno::EIO))
    }

    /// The threads that wait for the disk.
    pub fn disk(&self) -> &crate::io::Disk {
        &self.store.disk
    }

    /// Adds slots that were written where [`Spooled::place`] said, each from its cursor to the next one's. Returns false, and
    /// adds none, when the spool was given up meanwhile.
    pub fn push(&self, slots: &[(u64, u64)]) -> bool {
        let birth = self.store.birth();
        let mut catalogue = self.lock();
        // Set before the catalogue is cleared, so that nothing is added to a cleared one.
        if self.state() == SpoolState::Failed {
            return false;
        }
        for &(base, next) in slots {
            catalogue.push(base, next, birth);
        }
        true
    }

    /// Drops everything, since what follows doesn't join it.
    pub fn clear(&self) {
        let (segments, slots) = self.lock().clear();
        self.store.release(slots);
        self.remove(segments);
    }

    /// No slot will be added.
    pub fn close(&self) {
        self.lock().close();
    }

    /// Drops the oldest text to get a full disk a bit emptier. Returns false when there is only the segment that is being
    /// written. Returns when the file is removed.
    pub async fn shrink(&self) -> bool {
        let dropped = {
            let mut catalogue = self.lock();
            catalogue.oldest_birth().map(|_| catalogue.drop_oldest())
        };
        let Some((segment, slots)) = dropped else {
            return false;
        };
        self.store.release(slots);
        let (folder, number) = (Arc::clone(&self.store.folder), self.number);
        let removed = self.store.disk.run(move || folder.remove(number, segment));
        removed.await.is_some()
    }

    pub(super) fn slots(&self) -> u64 {
        self.lock().slots()
    }

    pub(super) fn oldest_birth(&self) -> Option<u64> {
        self.lock().oldest_birth()
    }

    /// Drops the oldest segment, if one may be; returns how many slots it had.
    pub(super) fn drop_oldest(&self) -> Option<u64> {
        let (segment, slots) = {
            let mut catalogue = self.lock();
            catalogue.oldest_birth()?;
            catalogue.drop_oldest()
        };
        self.remove(segment..segment + 1);
        Some(slots)
    }

    fn remove(&self, segments: std::ops::Range<u64>) {
        let (folder, number) = (Arc::clone(&self.store.folder), self.number);
        self.store.disk.leave(move || {
            for segment in segments {
                folder.remove(number, segment);
            }
        });
    }

    /// The slots that hold what is wanted, in order and without a gap. Empty when its cursor is not, or no longer, in the
    /// spool.
    ///
    /// # Cancel safety
    /// Reading changes nothing.
    pub async fn fetch(self: &Arc<Self>, want: Want) -> Vec<Slot> {
        let (near, there, slots_per_segment) = {
            let catalogue = self.lock();
            let Some(near) = catalogue.locate(want.cursor()) else {
                return Vec::new();
            };
            (near, catalogue.range(), catalogue.layout().segment)
        };
        let spool = Arc::clone(self);
        let fetched = self.store.disk.run(move || {
            let mut reader = Reader {
                folder: &spool.store.folder,
                spool: spool.number,
                slots_per_segment,
                open: None,
            };
            reader.fetch(want, near, there)
        });
        match fetched.await {
            Some(Ok(slots)) => slots,
            _ => {
                // Dropped meanwhile, as the oldest text is; or else the files aren't what was written.
                if self.lock().locate(want.cursor()).is_some() {
                    tracing::error!("spooled text can't be read; it is given up");
                    self.fail();
                }
                Vec::new()
            }
        }
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.clear();
    }
}
