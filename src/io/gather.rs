//! Several reads into one block, for as long as the pipe has more.
//!
//! A reader that keeps up with its writer finds one write in the pipe at a time, mostly 4 or 8 KiB, or a long line. Waiting
//! for each through the event loop costs more than reading it does, and waiting until more has gathered costs more still:
//! while its pages go to and fro one by one they stay in cache, and a pipe that fills takes fresh ones. So a source reads
//! on at once, piece after piece, and hands over a block that is full or a pipe that is empty. PERF.md has the figures.

use nix::errno::Errno;

use crate::arena::Block;

/// A piece of fewer bytes says that the next isn't worth a system call of its own: short lines are left to gather in the pipe.
pub(super) const WORTH_READING_ON: usize = 512;

/// What one source may take before it lets the others run: some 60 µs of reading. Larger turns gain nothing.
pub(super) const TURN_BYTES: usize = 256 * 1024;

/// Reads pieces into `block`, behind what it holds, until it is full, the pipe is empty or a piece wasn't worth another.
/// Returns how many bytes the block holds then; 0 is the pipe's end. `read` never waits.
///
/// # Errors
/// That of the first read into an empty block. A later one's isn't told, nor is an end: the next read meets it again.
pub(super) fn gather(
    block: &mut Block,
    read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    loop {
        let filled = block.filled().len();
        let spare = block.spare_mut();
        if spare.is_empty() {
            return Ok(filled);
        }
        match read(spare) {
            Ok(piece) if piece > 0 => {
                block.set_filled(filled + piece);
                if piece < WORTH_READING_ON {
                    return Ok(filled + piece);
                }
            }
            _ if filled > 0 => return Ok(filled),
            end => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::arena::{READ_BYTES, Slab};

    const GOOD: usize = WORTH_READING_ON;

    /// Gathers once from a pipe that gives these, then is empty. Returns the outcome, what is in the block, and how many
    /// answers are left.
    fn gathered(
        held: usize,
        answers: &[Result<usize, Errno>],
    ) -> (Result<usize, Errno>, usize, usize) {
        let mut block = Slab::new(1).unwrap().take();
        block.set_filled(held);
        let left = RefCell::new(answers.iter());
        let outcome = gather(&mut block, |spare| {
            let answer = left.borrow_mut().next().copied();
            answer
                .unwrap_or(Err(Errno::EAGAIN))
                .map(|n| n.min(spare.len()))
        });
        (outcome, block.filled().len(), left.into_inner().len())
    }

    #[test]
    fn good_pieces_are_put_together_until_one_is_small_or_none_is_left() {
        assert_eq!(gathered(0, &[Ok(81), Ok(81)]), (Ok(81), 81, 1));
        let all = 2 * GOOD + 81;
        assert_eq!(
            gathered(0, &[Ok(GOOD), Ok(GOOD), Ok(81), Ok(81)]),
            (Ok(all), all, 1)
        );
        assert_eq!(
            gathered(0, &[Ok(GOOD), Ok(GOOD)]),
            (Ok(2 * GOOD), 2 * GOOD, 0)
        );
        assert_eq!(
            gathered(GOOD, &[Ok(GOOD)]),
            (Ok(2 * GOOD), 2 * GOOD, 0),
            "behind what was there"
        );
    }

    #[test]
    fn a_full_block_ends_it_and_so_does_the_end() {
        let pieces = vec![Ok(30_000); 5];
        assert_eq!(gathered(0, &pieces), (Ok(READ_BYTES), READ_BYTES, 2));
        assert_eq!(
            gathered(READ_BYTES, &pieces),
            (Ok(READ_BYTES), READ_BYTES, 5)
        );
        assert_eq!(gathered(0, &[Ok(0)]), (Ok(0), 0, 0));
    }

    #[test]
    fn an_error_is_told_only_when_there_is_nothing_to_hand_over() {
        for end in [Ok(0), Err(Errno::EIO), Err(Errno::EAGAIN)] {
            assert_eq!(gathered(0, &[Ok(GOOD), end]), (Ok(GOOD), GOOD, 0));
            assert_eq!(gathered(0, &[end]), (end, 0, 0));
        }
    }
}
