//! Blocks that pipes are read into.

#![allow(unsafe_code)]

/// Bytes that one read may bring.
pub const READ_BYTES: usize = 64 * 1024;
/// Bytes of one block.
pub const BLOCK_BYTES: usize = 68 * 1024;

/// Memory for one read, with one owner. It doesn't move while the block lives.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// An empty block.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Block {
        Block {
            bytes: Vec::with_capacity(BLOCK_BYTES),
        }
    }

    /// Start of the block's memory, [`BLOCK_BYTES`] long.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// What was read into it.
    pub fn filled(&self) -> &[u8] {
        &self.bytes
    }

    /// Declares the first `n` bytes to be text.
    ///
    /// # Safety
    /// The first `n` bytes are initialised, and `n` is at most [`BLOCK_BYTES`].
    pub unsafe fn set_filled(&mut self, n: usize) {
        // SAFETY: the caller's promise is that of `set_len`.
        unsafe { self.bytes.set_len(n) };
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}
