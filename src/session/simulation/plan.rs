//! What happens in one simulated session, rolled from a seed alone.

use std::time::Duration;

use nix::errno::Errno;

use crate::{
    arena::Budget,
    io::scripted::{End, Event, Reader, Room},
};

/// Everything that the world around a session does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) budget: Budget,
    pub(super) timeout: Duration,
    pub(super) stdout: (Vec<Event>, End),
    pub(super) stderr: (Vec<Event>, End),
    /// Absent when stdin is `/dev/null`.
    pub(super) stdin: Option<(Vec<Room>, Reader)>,
    pub(super) child: ChildPlan,
    /// What clients do, each so long after the one before.
    pub(super) acts: Vec<(Duration, Act)>,
    /// What one does when the pipes' tasks have come to so many awaits.
    pub(super) at_await: Option<(usize, Act)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ChildPlan {
    /// When the leader ends by itself, and with which code.
    pub(super) exits: Option<(Duration, i32)>,
    /// How long after TERM, and after KILL, leader and group end; absent when they don't.
    pub(super) leader: Obedience,
    pub(super) others: usize,
    pub(super) group: Obedience,
    pub(super) keeper: Keeper,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Obedience {
    pub(super) term: Option<Duration>,
    pub(super) kill: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// Answers so long after it was asked.
    Answers(Duration),
    /// Never answers.
    Silent,
    /// Is killed at that time.
    Dies(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Write {
        text: Vec<u8>,
        close: bool,
    },
    /// Cancels a write, one that is through, runs or waits.
    Cancel,
    Terminate(Duration),
    Shutdown,
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// SplitMix64.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// From 0 to `bound - 1`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound as u64).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Mostly soon, now and then around the limits that the contract names.
    fn time(&mut self) -> Duration {
        match self.below(8) {
            0..=2 => Duration::ZERO,
            3..=5 => ms(self.below(20) as u64),
            6 => ms(self.below(600) as u64),
            _ => self.of(&[
                ms(499),
                ms(500),
                ms(999),
                ms(1_000),
                ms(1_001),
                ms(1_500),
                ms(2_500),
            ]),
        }
    }

    fn maybe(&mut self, n: usize) -> Option<Duration> {
        (!self.one_in(n)).then(|| self.time())
    }

    /// Text, characters that are cut, and bytes that are none.
    fn bytes(&mut self) -> Vec<u8> {
        const PARTS: [&[u8]; 12] = [
            b"a",
            b"line\n",
            "\u{e9}".as_bytes(),
            "\u{4e2d}\u{6587}".as_bytes(),
            "\u{1f600}".as_bytes(),
            b"\xff",
            b"\xe2\x82",
            b"\x82\xac",
            b"\xf0\x9f",
            b"\x98\x80",
            b"\xed\xa0\x80",
            b"\0\x1b[0m\r",
        ];
        if self.one_in(60) {
            // A well-filled read, which the log adopts as it is; cut once in a character.
            let mut bytes = "x\u{4e2d}".repeat(14_000).into_bytes();
            bytes.truncate(50_000 + self.below(6_000));
            return bytes;
        }
        (0..=self.below(9))
            .flat_map(|_| self.of(&PARTS).to_vec())
            .collect()
    }

    fn output(&mut self) -> (Vec<Event>, End) {
        let events = (0..self.below(14))
            .map(|_| match self.below(10) {
                0 => Event::Yield,
                1 => Event::Error(Errno::EINTR),
                2 => Event::Error(Errno::EAGAIN),
                3 => Event::Late(ms(self.below(30) as u64)),
                4 => Event::Quiet(self.time()),
                _ => Event::Bytes(self.bytes()),
            })
            .collect();
        let end = match self.below(10) {
            0 => End::Failed(self.of(&[Errno::EIO, Errno::ECONNRESET, Errno::ENOMEM])),
            1 => End::Open,
            2 => End::Flood,
            _ => End::Eof,
        };
        (events, end)
    }

    fn input(&mut self) -> (Vec<Room>, Reader) {
        let room = (0..self.below(10))
            .map(|_| match self.below(12) {
                0 => Room::Error(Errno::EINTR),
                1 => Room::Error(Errno::EAGAIN),
                2 => Room::Error(self.of(&[Errno::EPIPE, Errno::EIO])),
                3 => Room::Late(ms(self.below(30) as u64)),
                4..=5 => Room::None(self.time()),
                _ => Room::Bytes(1 + self.below(12)),
            })
            .collect();
        let reader = if self.one_in(4) {
            Reader::Stalls
        } else {
            Reader::Reads
        };
        (room, reader)
    }

    fn obedience(&mut self) -> Obedience {
        Obedience {
            term: self.maybe(4),
            kill: self.maybe(15),
        }
    }

    fn act(&mut self) -> Act {
        match self.below(8) {
            0 => Act::Terminate(self.time()),
            1 if self.one_in(3) => Act::Shutdown,
            2 => Act::Cancel,
            _ => Act::Write {
                text: self.bytes().into_iter().take(40).collect(),
                close: self.one_in(6),
            },
        }
    }

    pub(super) fn plan(&mut self) -> Plan {
        let bytes = match self.below(6) {
            0 => 4 + self.below(8),
            1 => 70_000 + self.below(100_000),
            _ => 4 + self.below(200),
        };
        Plan {
            budget: Budget {
                bytes,
                records: (!self.one_in(3)).then(|| 1 + self.below(60) as u64),
            },
            timeout: ms(100 + self.below(4_000) as u64),
            stdout: self.output(),
            stderr: self.output(),
            stdin: (!self.one_in(12)).then(|| self.input()),
            child: ChildPlan {
                exits: self.maybe(4).map(|at| (at, self.of(&[0, 1, 143]))),
                leader: self.obedience(),
                others: self.of(&[0, 0, 1, 3]),
                group: self.obedience(),
                keeper: match self.below(14) {
                    0 => Keeper::Silent,
                    1 => Keeper::Dies(self.time()),
                    _ => Keeper::Answers(ms(self.below(40) as u64)),
                },
            },
            acts: (0..self.below(9))
                .map(|_| (self.time(), self.act()))
                .collect(),
            at_await: self.one_in(3).then(|| (self.below(40), self.act())),
        }
    }
}
