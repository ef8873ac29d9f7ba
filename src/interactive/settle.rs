//! When a read of the stream returns. Pure: it is told what was seen and when, and says whether to return or when to look
//! again. Whoever asks looks again at once when something was printed.

use std::time::Duration;

use tokio::time::Instant;

/// How much longer than its timeout a read goes on while something is printed.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// The first look at a prompt comes so long after what was printed last. Each further look doubles it.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// How long the prompt after a command's end is waited for.
const PROMPT_TIME: Duration = Duration::from_millis(25);

/// See the module.
#[derive(Debug)]
pub(super) struct Settle {
    quiet: Duration,
    until: Instant,
    /// When something was printed last, or the read began.
    changed: Instant,
    /// When a prompt is looked for next; `None` when there was none and nothing has been printed since.
    look: Option<Instant>,
    finished: bool,
}

/// What there is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Return what there is.
    Return,
    /// See whether a prompt stands at the end and is waited at, and tell.
    Look,
    /// Wait for output until then.
    Wait(Instant),
}

/// What stands at the end of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// No prompt.
    Open,
    /// What looks like a prompt, but nobody waits for input.
    Prompt,
    /// A prompt at which the program waits for input.
    Asked,
    /// The command's end was marked, and the prompt after it.
    Marked,
    /// The command's end was marked, the next prompt's end wasn't.
    Finished,
}

impl Settle {
    /// A read that begins `now`, and returns when nothing was printed for `quiet`.
    pub(super) fn new(quiet: Duration, now: Instant) -> Settle {
        Settle {
            quiet,
            until: now + quiet + LONGEST,
            changed: now,
            // What is there already may be a prompt.
            look: Some(now),
            finished: false,
        }
    }

    /// Something was printed.
    pub(super) fn printed(&mut self, now: Instant) {
        self.changed = now;
        self.look = Some(now + FIRST_LOOK);
    }

    /// What a look has shown. True when the read is over.
    pub(super) fn looked(&mut self, now: Instant, end: End) -> bool {
        match end {
            End::Asked | End::Marked => return true,
            End::Open => self.look = None,
            End::Prompt => {
                let since = now.duration_since(self.changed).max(FIRST_LOOK);
                self.look = Some(self.changed + 2 * since);
            }
            End::Finished => {
                self.finished = true;
                self.look = None;
            }
        }
        false
    }

    /// What to do `now`.
    pub(super) fn next(&self, now: Instant) -> Next {
        let quiet = if self.finished {
            PROMPT_TIME.min(self.quiet)
        } else {
            self.quiet
        };
        let end = self.until.min(self.changed + quiet);
        if now >= end {
            return Next::Return;
        }
        match self.look {
            Some(look) if now >= look => Next::Look,
            Some(look) => Next::Wait(look.min(end)),
            None => Next::Wait(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(2);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_read_returns_when_nothing_was_printed_for_its_timeout() {
        let start = Instant::now();
        let mut settle = Settle::new(QUIET, start);
        assert_eq!(settle.next(start), Next::Look);
        assert!(!settle.looked(start, End::Open));
        assert_eq!(settle.next(start), Next::Wait(start + QUIET));
        settle.printed(start + ms(1500));
        assert_eq!(settle.next(start + ms(1500)), Next::Wait(start + ms(1501)));
        assert_eq!(settle.next(start + ms(1501)), Next::Look);
        assert!(!settle.looked(start + ms(1501), End::Open));
        assert_eq!(settle.next(start + ms(1501)), Next::Wait(start + ms(3500)));
        assert_eq!(settle.next(start + ms(3500)), Next::Return);
    }

    #[test]
    fn output_that_never_pauses_is_read_for_ten_seconds_more_than_the_timeout() {
        let start = Instant::now();
        let mut settle = Settle::new(QUIET, start);
        settle.looked(start, End::Open);
        for step in 0..12_000 {
            let now = start + ms(step);
            assert_ne!(settle.next(now), Next::Return, "after {step} ms");
            settle.printed(now);
        }
        assert_eq!(settle.next(start + ms(12_000)), Next::Return);
    }

    #[test]
    fn a_prompt_at_which_the_program_waits_ends_the_read() {
        let start = Instant::now();
        let mut settle = Settle::new(QUIET, start);
        assert!(settle.looked(start, End::Asked));
        assert!(settle.looked(start, End::Marked));
    }

    #[test]
    fn a_prompt_is_looked_at_less_and_less_often_and_never_without_one() {
        let start = Instant::now();
        let mut settle = Settle::new(QUIET, start);
        settle.printed(start);
        let mut now = start;
        let mut looks = Vec::new();
        loop {
            match settle.next(now) {
                Next::Return => break,
                Next::Look => {
                    looks.push(now.duration_since(start).as_millis());
                    settle.looked(now, End::Prompt);
                }
                Next::Wait(until) => now = until,
            }
        }
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
        assert_eq!(now, start + QUIET);
    }

    #[test]
    fn after_a_marked_end_the_prompt_is_waited_for_a_moment() {
        let start = Instant::now();
        let mut settle = Settle::new(QUIET, start);
        assert!(!settle.looked(start, End::Finished));
        assert_eq!(settle.next(start), Next::Wait(start + PROMPT_TIME));
        settle.printed(start + ms(10));
        assert_eq!(settle.next(start + ms(11)), Next::Look);
        assert!(settle.looked(start + ms(11), End::Marked));
    }
}
