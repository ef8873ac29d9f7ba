//! A source that plays a script, for tests of what reads from sources: seeded short reads, late completions, an end or an
//! error wherever the script says.

#![allow(unsafe_code)]

use nix::errno::Errno;

use super::{READ_BYTES, Read, Stop};
use crate::arena::Block;

/// What comes after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The writers are gone.
    Eof,
    /// The kernel reports an error, such as EIO.
    Failed(Errno),
    /// Nothing: reads wait for the stop.
    Open,
}

/// Plays `bytes` in pieces whose sizes and delays follow from the seed alone.
#[derive(Debug)]
pub struct Source {
    bytes: Vec<u8>,
    position: usize,
    longest: usize,
    end: End,
    state: u64,
}

impl Source {
    /// No piece is longer than `longest` (at least 1).
    pub fn new(seed: u64, bytes: Vec<u8>, longest: usize, end: End) -> Source {
        assert!(longest >= 1);
        Source {
            bytes,
            position: 0,
            longest: longest.min(READ_BYTES),
            end,
            state: seed,
        }
    }

    pub(super) async fn read(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        for _ in 0..self.random(3) {
            tokio::task::yield_now().await;
        }
        let rest = &self.bytes[self.position..];
        if rest.is_empty() {
            let read = match self.end {
                End::Eof => Read::Eof,
                End::Failed(errno) => Read::Failed(errno),
                End::Open => {
                    stop.requested().await;
                    Read::Stopped
                }
            };
            return (read, block);
        }
        let n = (1 + self.random(self.longest)).min(self.bytes.len() - self.position);
        let piece = &self.bytes[self.position..self.position + n];
        block.extend_from_slice(piece);
        self.position += n;
        (Read::Data(n), block)
    }

    /// Below `bound`; SplitMix64.
    fn random(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let bound = u64::try_from(bound).expect("a usize fits");
        usize::try_from(mixed % bound).expect("below a usize")
    }
}
