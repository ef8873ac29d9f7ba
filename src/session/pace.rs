//! How a pump adapts to its writer: a larger pipe for one that fills it, pauses for one that dribbles at full speed.
//!
//! Decisions only; the pump carries them out. Both are measured, see PERF.md.

use std::time::Duration;

use crate::io::READ_BYTES;

/// Full reads in a row that show a writer held up by its pipe.
const FULL_READS: u32 = 8;
/// The larger pipe. At the default 64 KiB a child that writes 64 KiB at a time and the pump take turns sleeping; four
/// times that lets both run. More gains nothing and eats the user's quota of pipe memory faster.
pub const LARGE_PIPE: usize = 256 * 1024;

/// A read of fewer bytes is a small one.
const SMALL_READ: usize = 8 * 1024;
/// Small reads in a row that show a writer of many small pieces.
const SMALL_READS: u32 = 16;
/// A read that waited longer says that the writer is slower than the pump: nothing to gain from a pause.
const AT_ONCE: Duration = Duration::from_micros(50);
/// A writer of 80-byte lines puts about half a default pipe's content into one pause, so it isn't held up.
const PAUSE: Duration = Duration::from_micros(200);

/// What to do before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read.
    Read,
    /// Ask for [`LARGE_PIPE`], then read.
    Enlarge,
    /// Let the pipe fill for so long, then read.
    Pause(Duration),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pace {
    full: u32,
    small: u32,
    enlarged: bool,
}

impl Pace {
    /// Takes in that a read brought `n` bytes after `waited`, a pause before it not counted.
    pub fn after_read(&mut self, n: usize, waited: Duration) -> Next {
        self.full = if n >= READ_BYTES { self.full + 1 } else { 0 };
        let pausing = self.small >= SMALL_READS;
        let goes_on = if pausing {
            // One pause makes small pieces into a large read; a full one says that the writer was held up by it.
            n < READ_BYTES
        } else {
            n < SMALL_READ
        };
        self.small = if goes_on && waited < AT_ONCE {
            self.small.saturating_add(1)
        } else {
            0
        };
        if self.full >= FULL_READS && !self.enlarged {
            self.enlarged = true;
            return Next::Enlarge;
        }
        if self.small >= SMALL_READS {
            return Next::Pause(PAUSE);
        }
        Next::Read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(3);
    const SLOW: Duration = Duration::from_micros(60);

    fn next_after(pace: &mut Pace, reads: u32, n: usize, waited: Duration) -> Next {
        let mut next = Next::Read;
        for _ in 0..reads {
            next = pace.after_read(n, waited);
        }
        next
    }

    #[test]
    fn a_pipe_is_enlarged_once_after_eight_full_reads_in_a_row() {
        let mut pace = Pace::default();
        assert_eq!(next_after(&mut pace, 7, READ_BYTES, QUICK), Next::Read);
        assert_eq!(pace.after_read(READ_BYTES - 1, QUICK), Next::Read);
        assert_eq!(next_after(&mut pace, 7, READ_BYTES, QUICK), Next::Read);
        assert_eq!(pace.after_read(READ_BYTES, QUICK), Next::Enlarge);
        assert_eq!(next_after(&mut pace, 100, READ_BYTES, QUICK), Next::Read);
    }

    #[test]
    fn a_line_now_and_then_never_meets_a_pause() {
        let mut pace = Pace::default();
        assert_eq!(next_after(&mut pace, 10_000, 81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 15, 81, QUICK), Next::Read);
        assert_eq!(pace.after_read(81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 15, 81, QUICK), Next::Read);
    }

    #[test]
    fn small_pieces_at_full_speed_are_paced_until_the_writer_is_slower_or_held_up() {
        let mut pace = Pace::default();
        assert_eq!(next_after(&mut pace, 16, 81, QUICK), Next::Pause(PAUSE));
        assert_eq!(pace.after_read(30_000, QUICK), Next::Pause(PAUSE));
        assert_eq!(pace.after_read(81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 16, 81, QUICK), Next::Pause(PAUSE));
        assert_eq!(pace.after_read(READ_BYTES, QUICK), Next::Read);
    }
}
