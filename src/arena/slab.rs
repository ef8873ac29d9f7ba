//! Fixed-size blocks of memory for the text of all sessions.
//!
//! The slab reserves address space for its most blocks once; the kernel gives memory to a block
//! when it is first written. Taking and returning a block allocates nothing and makes no system
//! call. Blocks are handed out last in, first out, so that those in use stay few and in cache.
//!
//! S1: each block number is in one place: owned by one [`Block`], or once in the free list.
//! S2: the mapping stays where it is until the last [`Block`] and the last [`Slab`] are gone.
#![allow(unsafe_code)]

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, slice};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// What one read from a pipe fills at most: larger reads gain nothing.
pub const READ_BYTES: usize = 64 * 1024;
/// Size of a block: a full read, and slack behind it for small appends.
pub const BLOCK_BYTES: usize = READ_BYTES + 4 * 1024;

/// A handle to the blocks; clones share them.
#[derive(Clone)]
pub struct Slab {
    shared: Arc<Shared>,
}

struct Shared {
    memory: NonNull<u8>,
    max_blocks: u32,
    free: Mutex<Free>,
}

/// The free blocks. Both lists have the capacity for all of them.
struct Free {
    /// Blocks that hold memory, the one that was returned last at the end.
    resident: Vec<u32>,
    /// Blocks that hold none, as far as we know.
    pristine: Vec<u32>,
}

// SAFETY: `memory` is touched through a `Block` (S1: one owner for each range) or, for a free
// block, under the mutex of `free`; the mapping belongs to no thread.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in it is immutable after construction or behind the mutex.
unsafe impl Sync for Shared {}

impl Slab {
    /// Reserves address space for `max_blocks` blocks.
    ///
    /// # Errors
    /// The kernel's, when it refuses the mapping; `InvalidInput` when `max_blocks` is 0 or too many
    /// to address.
    pub fn new(max_blocks: usize) -> io::Result<Slab> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let count = u32::try_from(max_blocks).map_err(|_| invalid())?;
        let len = max_blocks
            .checked_mul(BLOCK_BYTES)
            .and_then(NonZeroUsize::new)
            .ok_or_else(invalid)?;
        // SAFETY: no address is asked for, so the mapping replaces none that is in use; `Shared`
        // owns it from here on and unmaps it once.
        let memory = unsafe {
            mmap_anonymous(
                None,
                len,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )
        }?;
        let shared = Shared {
            memory: memory.cast(),
            max_blocks: count,
            free: Mutex::new(Free {
                resident: Vec::with_capacity(max_blocks),
                pristine: (0..count).rev().collect(),
            }),
        };
        // Huge pages would make a block of 17 pages cost up to 512. EINVAL means a kernel that has
        // none, which is as good.
        // SAFETY: the range is the mapping made above; this advice changes no contents.
        match unsafe { madvise(memory, len.get(), MmapAdvise::MADV_NOHUGEPAGE) } {
            Ok(()) | Err(nix::errno::Errno::EINVAL) => Ok(Slab {
                shared: Arc::new(shared),
            }),
            Err(errno) => Err(errno.into()),
        }
    }

    /// An empty block.
    ///
    /// # Panics
    /// When none is free: the slab is made for the most blocks that all its users can hold.
    pub fn take(&self) -> Block {
        self.try_take().unwrap_or_else(|| {
            panic!(
                "all {} blocks are in use, which the memory plan rules out",
                self.shared.max_blocks
            )
        })
    }

    /// An empty block, or `None` when none is free.
    pub fn try_take(&self) -> Option<Block> {
        let mut free = self.shared.lock();
        let index = free.resident.pop().or_else(|| free.pristine.pop())?;
        drop(free);
        Some(Block {
            start: self.shared.address(index),
            index,
            filled: 0,
            slab: self.clone(),
        })
    }

    /// Number of blocks that are free.
    #[cfg(test)]
    pub(super) fn free_blocks(&self) -> usize {
        let free = self.shared.lock();
        free.resident.len() + free.pristine.len()
    }

    /// Gives the memory of free blocks back to the kernel, except for the `keep` that were used
    /// last. Costs some microseconds for each block: not for the path of a flood. Other threads
    /// can take blocks in between.
    pub fn trim(&self, keep: usize) {
        loop {
            let mut free = self.shared.lock();
            if free.resident.len() <= keep {
                return;
            }
            // The least recently used block is the first.
            let index = free.resident[0];
            // SAFETY: the range is one block of the mapping (S2), and it is in the free list, so
            // nobody holds a reference into it (S1); the lock is held until the advice has been
            // taken, so nobody gets one meanwhile. The block reads as zeros afterwards.
            let advised = unsafe {
                madvise(
                    self.shared.address(index).cast(),
                    BLOCK_BYTES,
                    MmapAdvise::MADV_DONTNEED,
                )
            };
            // EINVAL where pages are larger than 4 KiB and the block is not a multiple of them:
            // its memory stays, as that of any other.
            if advised.is_err() {
                return;
            }
            free.resident.remove(0);
            free.pristine.push(index);
        }
    }
}

impl Shared {
    /// A panic while the lock is held can't leave the lists half-changed, so poison means nothing.
    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self, index: u32) -> NonNull<u8> {
        assert!(index < self.max_blocks, "S1: block {index} is not ours");
        // SAFETY: the mapping holds `max_blocks` blocks, and `index` is less.
        unsafe { self.memory.add(index as usize * BLOCK_BYTES) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and each `Block` holds a reference to `self`, so that
        // none is left (S2).
        let unmapped =
            unsafe { munmap(self.memory.cast(), self.max_blocks as usize * BLOCK_BYTES) };
        debug_assert_eq!(unmapped, Ok(()), "S2: the mapping is ours to unmap");
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("max_blocks", &self.shared.max_blocks)
            .finish_non_exhaustive()
    }
}

/// [`BLOCK_BYTES`] of memory with one owner; dropping it returns it to its slab.
///
/// The memory is always initialised: anonymous mappings start as zeros. `filled` says how much of
/// it means something; behind that lie zeros or remains of earlier use.
pub struct Block {
    start: NonNull<u8>,
    index: u32,
    filled: usize,
    slab: Slab,
}

// SAFETY: a `Block` is the only way to its range (S1), like a `Box<[u8]>`.
unsafe impl Send for Block {}
// SAFETY: through `&Block` the range can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// Start of the block, for the kernel to write to. Valid for [`BLOCK_BYTES`] bytes as long as
    /// the block lives, wherever the `Block` itself is moved.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Start of the block, for reading; see [`Block::as_mut_ptr`].
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The bytes that were filled.
    pub fn filled(&self) -> &[u8] {
        &self.bytes()[..self.filled]
    }

    /// What a read may still fill: everything between the filled bytes and [`READ_BYTES`].
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let filled = self.filled.min(READ_BYTES);
        &mut self.bytes_mut()[filled..READ_BYTES]
    }

    /// Declares the first `len` bytes filled. Safe, as all memory of a block is initialised.
    ///
    /// # Panics
    /// When `len` exceeds [`BLOCK_BYTES`].
    pub fn set_filled(&mut self, len: usize) {
        assert!(
            len <= BLOCK_BYTES,
            "a block of {BLOCK_BYTES} bytes can't hold {len}"
        );
        self.filled = len;
    }

    /// Forgets the filled bytes.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Adds `bytes` behind the filled ones.
    ///
    /// # Panics
    /// When they don't fit.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.filled;
        self.set_filled(start + bytes.len());
        let end = self.filled;
        self.bytes_mut()[start..end].copy_from_slice(bytes);
    }

    /// All of the block, filled or not.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping, which outlives `self` through `slab` (S2), is
        // initialised, and is written only through `&mut self` (S1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), BLOCK_BYTES) }
    }

    /// All of the block, for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` excludes every other access for the borrow's life.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), BLOCK_BYTES) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.slab.shared.lock();
        debug_assert!(
            free.resident.len() < free.resident.capacity(),
            "S1: more blocks came back than there are"
        );
        free.resident.push(self.index);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("index", &self.index)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_block_is_the_next_one_taken() {
        let slab = Slab::new(4).expect("map");
        let mut first = slab.take();
        let address = first.as_mut_ptr();
        let other = slab.take();
        drop(first);
        let mut again = slab.take();
        assert_eq!(again.as_mut_ptr(), address);
        assert!(again.filled().is_empty());
        drop(other);
        assert_eq!(slab.free_blocks(), 3);
    }

    #[test]
    fn blocks_are_disjoint_and_all_of_their_bytes_usable() {
        let slab = Slab::new(3).expect("map");
        let mut blocks: Vec<Block> = (0..3).map(|_| slab.take()).collect();
        for (byte, block) in (1..).zip(&mut blocks) {
            block.extend_from_slice(&vec![byte; BLOCK_BYTES]);
        }
        for (byte, block) in (1..).zip(&blocks) {
            assert!(block.filled().iter().all(|&found| found == byte));
        }
        assert!(slab.try_take().is_none());
    }

    #[test]
    #[should_panic(expected = "all 1 blocks are in use")]
    fn exhaustion_is_a_broken_plan() {
        let slab = Slab::new(1).expect("map");
        let _held = slab.take();
        slab.take();
    }

    #[test]
    fn a_read_fills_behind_what_is_filled_and_never_the_slack() {
        let slab = Slab::new(1).expect("map");
        let mut block = slab.take();
        assert_eq!(block.spare_mut().len(), READ_BYTES);
        block.spare_mut()[..5].copy_from_slice(b"hello");
        block.set_filled(5);
        block.extend_from_slice(b" you");
        assert_eq!(block.filled(), b"hello you");
        assert_eq!(block.spare_mut().len(), READ_BYTES - 9);
        block.set_filled(BLOCK_BYTES);
        assert!(block.spare_mut().is_empty());
        block.clear();
        assert!(block.filled().is_empty());
    }

    #[test]
    fn trimming_keeps_the_warmest_blocks() {
        let slab = Slab::new(8).expect("map");
        let mut blocks: Vec<Block> = (0..6).map(|_| slab.take()).collect();
        for block in &mut blocks {
            block.extend_from_slice(&[7; 100]);
        }
        // Dropped in order, so that the last two are the warmest.
        drop(blocks);
        slab.trim(2);
        let contents: Vec<u8> = (0..8)
            .map(|_| slab.take())
            .map(|block| block.bytes()[0])
            .collect();
        // Each block goes back before the next is taken.
        assert_eq!(contents, [7; 8]);
        let held: Vec<Block> = (0..8).map(|_| slab.take()).collect();
        let warm: Vec<bool> = held.iter().map(|block| block.bytes()[0] == 7).collect();
        assert_eq!(warm, [true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn blocks_outlive_the_slab_handle_and_cross_threads() {
        let slab = Slab::new(1).expect("map");
        let mut block = slab.take();
        drop(slab);
        let sum = std::thread::spawn(move || {
            block.extend_from_slice(&[1; 1000]);
            block
                .filled()
                .iter()
                .map(|&byte| u32::from(byte))
                .sum::<u32>()
        });
        assert_eq!(sum.join().expect("thread"), 1000);
    }

    #[test]
    fn an_unaddressable_or_empty_slab_is_refused() {
        for blocks in [0, usize::MAX] {
            let error = Slab::new(blocks).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
