//! How a pump adapts to its writer: a larger pipe for one that fills it, pauses for one that dribbles at full speed.
//!
//! Decisions only; the pump carries them out. Both are measured, see PERF.md.

use std::time::Duration;

use crate::io::READ_BYTES;

/// Full reads in a row that show a writer held up by its pipe.
const FULL_READS: u32 = 8;
/// The pipe that a child gets, unless its user has too many.
const DEFAULT_PIPE: usize = 64 * 1024;
/// The larger pipe. At the default 64 KiB a child that writes 64 KiB at a time and the pump take turns sleeping; four
/// times that lets both run. More gains nothing and eats the user's quota of pipe memory faster.
pub const LARGE_PIPE: usize = 256 * 1024;

/// A read of fewer bytes is a small one.
const SMALL_READ: usize = 8 * 1024;
/// Small reads in a row that show a writer of many small pieces.
const SMALL_READS: u32 = 16;
/// A read that waited longer says that the writer is slower than the pump: nothing to gain from a pause.
const AT_ONCE: Duration = Duration::from_micros(50);
/// The longest pause. Longer ones save little more, and a reader waits for the text meanwhile.
const LONGEST: Duration = Duration::from_micros(200);
/// Shorter ones aren't to be had: to be woken takes as long.
const SHORTEST: Duration = Duration::from_micros(25);

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
#[derive(Debug)]
pub struct Pace {
    full: u32,
    small: u32,
    /// Whether a larger pipe was asked for.
    asked: bool,
    /// The size of the pipe.
    room: usize,
    /// How long pauses are at the moment: so that the pipe is half full at most, and its writer never held up.
    pause: Duration,
    /// Bytes read since the last pause.
    gathered: usize,
}

impl Pace {
    /// `room` is the size of the pipe, as far as it is known.
    pub fn new(room: Option<usize>) -> Pace {
        Pace {
            full: 0,
            small: 0,
            asked: false,
            room: room.unwrap_or(DEFAULT_PIPE),
            pause: LONGEST,
            gathered: 0,
        }
    }

    /// Takes in what asking for the larger pipe has come to.
    pub fn resized(&mut self, room: Option<usize>) {
        self.room = room.unwrap_or(self.room);
    }

    /// Takes in that a read brought `n` bytes after `waited`, a pause before it not counted.
    pub fn after_read(&mut self, n: usize, waited: Duration) -> Next {
        self.full = if n >= READ_BYTES { self.full + 1 } else { 0 };
        if self.full >= FULL_READS && !self.asked {
            return self.ask();
        }
        self.gathered += n;
        if waited >= AT_ONCE {
            self.small = 0;
        } else if self.small >= SMALL_READS {
            return self.while_pausing(n);
        } else {
            self.small = if n < SMALL_READ { self.small + 1 } else { 0 };
        }
        if self.small >= SMALL_READS {
            return self.pause();
        }
        Next::Read
    }

    /// A full read leaves more behind, of what gathered during the pause or has come since.
    fn while_pausing(&mut self, n: usize) -> Next {
        if n < READ_BYTES {
            return self.after_pause();
        }
        if self.gathered > 2 * LARGE_PIPE {
            // More comes than goes, pause or not.
            self.small = 0;
        }
        Next::Read
    }

    /// Takes in that all that gathered during a pause has been read. A page of a pipe holds whole lines only, so that a pipe
    /// can be full with little more than half of its size.
    fn after_pause(&mut self) -> Next {
        if self.gathered > self.room / 2 {
            if !self.asked {
                return self.ask();
            }
            if self.pause <= SHORTEST {
                self.small = 0;
                return Next::Read;
            }
            self.pause /= 2;
        } else if self.gathered < self.room / 8 {
            self.pause = (self.pause * 2).min(LONGEST);
        }
        self.pause()
    }

    fn pause(&mut self) -> Next {
        self.gathered = 0;
        Next::Pause(self.pause)
    }

    fn ask(&mut self) -> Next {
        self.asked = true;
        Next::Enlarge
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let mut pace = Pace::new(None);
        assert_eq!(next_after(&mut pace, 7, READ_BYTES, QUICK), Next::Read);
        assert_eq!(pace.after_read(READ_BYTES - 1, QUICK), Next::Read);
        assert_eq!(next_after(&mut pace, 7, READ_BYTES, QUICK), Next::Read);
        assert_eq!(pace.after_read(READ_BYTES, QUICK), Next::Enlarge);
        assert_eq!(next_after(&mut pace, 100, READ_BYTES, QUICK), Next::Read);
    }

    #[test]
    fn a_line_now_and_then_never_meets_a_pause() {
        let mut pace = Pace::new(None);
        assert_eq!(next_after(&mut pace, 10_000, 81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 15, 81, QUICK), Next::Read);
        assert_eq!(pace.after_read(81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 15, 81, QUICK), Next::Read);
    }

    /// Paced already: the next read is the first after a pause.
    fn paced() -> Pace {
        let mut pace = Pace::new(None);
        assert_eq!(next_after(&mut pace, 16, 81, QUICK), Next::Pause(LONGEST));
        pace
    }

    #[test]
    fn small_pieces_at_full_speed_are_paced_until_the_writer_is_slower() {
        let mut pace = paced();
        assert_eq!(
            next_after(&mut pace, 100, 30_000, QUICK),
            Next::Pause(LONGEST)
        );
        assert_eq!(pace.after_read(81, SLOW), Next::Read);
        assert_eq!(next_after(&mut pace, 16, 81, QUICK), Next::Pause(LONGEST));
    }

    #[test]
    fn a_writer_that_a_pause_would_hold_up_gets_a_larger_pipe_then_shorter_pauses_then_none() {
        let mut pace = paced();
        assert_eq!(pace.after_read(DEFAULT_PIPE / 2 + 1, QUICK), Next::Enlarge);
        pace.resized(Some(LARGE_PIPE));
        // What had come since.
        assert_eq!(pace.after_read(81, QUICK), Next::Pause(LONGEST));
        let half_full = |pace: &mut Pace| {
            assert_eq!(next_after(pace, 2, READ_BYTES, QUICK), Next::Read);
            pace.after_read(81, QUICK)
        };
        for halved in [2, 4, 8] {
            assert_eq!(half_full(&mut pace), Next::Pause(LONGEST / halved));
        }
        assert_eq!(half_full(&mut pace), Next::Read);
        assert_eq!(next_after(&mut pace, 15, 81, QUICK), Next::Read);
    }

    #[test]
    fn a_writer_that_gets_no_larger_pipe_gets_shorter_pauses() {
        let mut pace = paced();
        let half_full = DEFAULT_PIPE / 2 + 1;
        assert_eq!(pace.after_read(half_full, QUICK), Next::Enlarge);
        for halved in [2, 4, 8] {
            assert_eq!(
                pace.after_read(half_full, QUICK),
                Next::Pause(LONGEST / halved)
            );
        }
        assert_eq!(pace.after_read(half_full, QUICK), Next::Read);
    }

    #[test]
    fn a_writer_into_the_smallest_pipe_is_not_held_up_for_long() {
        let small = 8 * 1024;
        let mut pace = Pace::new(Some(small));
        assert_eq!(
            next_after(&mut pace, 16, small - 81, QUICK),
            Next::Pause(LONGEST)
        );
        assert_eq!(pace.after_read(small - 81, QUICK), Next::Enlarge);
        pace.resized(Some(small));
        assert_eq!(
            next_after(&mut pace, 3, small - 81, QUICK),
            Next::Pause(SHORTEST)
        );
        assert_eq!(pace.after_read(small - 81, QUICK), Next::Read);
    }

    #[test]
    fn pauses_grow_again_when_little_gathers() {
        let mut pace = paced();
        assert_eq!(pace.after_read(DEFAULT_PIPE - 1, QUICK), Next::Enlarge);
        pace.resized(Some(LARGE_PIPE));
        pace.after_read(81, QUICK);
        next_after(&mut pace, 3, READ_BYTES, QUICK);
        assert_eq!(pace.after_read(81, QUICK), Next::Pause(LONGEST / 2));
        assert_eq!(
            pace.after_read(LARGE_PIPE / 8, QUICK),
            Next::Pause(LONGEST / 2)
        );
        assert_eq!(
            pace.after_read(LARGE_PIPE / 8 - 1, QUICK),
            Next::Pause(LONGEST)
        );
        assert_eq!(pace.after_read(81, QUICK), Next::Pause(LONGEST));
    }

    #[test]
    fn a_pipe_that_stays_full_is_paced_no_more() {
        let mut pace = paced();
        assert_eq!(next_after(&mut pace, 8, READ_BYTES, QUICK), Next::Enlarge);
        assert_eq!(next_after(&mut pace, 8, READ_BYTES, QUICK), Next::Read);
        assert_eq!(pace.after_read(81, QUICK), Next::Read);
    }

    proptest! {
        /// Pauses are for small pieces that come at once, none is longer or shorter than it may be, and a pipe is enlarged once.
        #[test]
        fn whatever_comes_pauses_stay_in_their_bounds(
            reads in prop::collection::vec((prop_oneof![1..2_000_usize, 1..=READ_BYTES, Just(READ_BYTES)], 0..9_u64), 0..2_000),
            granted: bool,
        ) {
            let mut pace = Pace::new(None);
            let mut asked = 0;
            for (n, sevens) in reads {
                let waited = Duration::from_micros(sevens * 7);
                match pace.after_read(n, waited) {
                    Next::Read => {}
                    Next::Enlarge => {
                        asked += 1;
                        if granted {
                            pace.resized(Some(LARGE_PIPE));
                        }
                    }
                    Next::Pause(pause) => {
                        prop_assert!((SHORTEST..=LONGEST).contains(&pause));
                        prop_assert!(n < READ_BYTES && waited < AT_ONCE);
                    }
                }
            }
            prop_assert!(asked <= 1);
        }
    }
}
