//! Moves text that has left the budget from memory into the session's spool: encode, write, let go.
//!
//! A full disk costs the oldest text first, then what can't be written, and after a while it is tried again. Any other failure
//! ends the spool. Neither ends the job, and neither holds it up: text is dropped then as it is without a spool.

use std::{rc::Rc, sync::Arc, time::Duration};

use nix::errno::Errno;
use tokio::time::sleep;

use crate::{
    arena::BLOCK_BYTES,
    config::limits::SPOOL_WRITE_BLOCKS,
    io::{Segment, shield_from_size_limits},
    session::{Session, io_thread::IoThread, snapshot::Output},
    spool::{SpoolState, Spooled},
};

/// How long a disk that had room for nothing is left alone.
const FULL: Duration = Duration::from_millis(1_000);

/// What a write came to.
enum Wrote {
    Done,
    /// The disk, or a quota, or a limit, has no room.
    Full,
    Failed(Errno),
}

/// Runs until the session's output has settled and all that is to be written is.
///
/// # Cancel safety
/// Runs as a task of its own.
pub async fn run(session: Arc<Session>, spool: Arc<Spooled>, thread: Rc<IoThread>) {
    shield_from_size_limits();
    let mut spooler = Spooler {
        session,
        spool,
        thread,
        open: None,
    };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        if spooler.session.state().log.full_leaving() > 0 {
            // All at once, so that a flood grows nothing later.
            buffer.reserve_exact(SPOOL_WRITE_BLOCKS * BLOCK_BYTES);
        }
        let taken = spooler.take(&mut buffer);
        if taken.is_empty() {
            if spooler.session.state().output != Output::Open {
                break;
            }
            // What comes between the look and the wait leaves a permit.
            spooler.session.spool_wanted.notified().await;
            continue;
        }
        if spooler.spool.state() == SpoolState::Failed {
            // A reader found that the files aren't what was written.
            spooler.give_up();
            break;
        }
        let wrote;
        (wrote, buffer) = spooler.write(&taken, buffer).await;
        match wrote {
            Wrote::Done => spooler.let_go(&taken),
            Wrote::Full => spooler.wait_for_room().await,
            Wrote::Failed(errno) => {
                tracing::error!(session = spooler.session.id(), %errno, "spooled text can't be written; what has no room in memory is lost");
                spooler.give_up();
                break;
            }
        }
    }
    spooler.spool.close();
}

/// Cursors of blocks that are written together.
#[derive(Debug, Default)]
struct Taken {
    blocks: [(u64, u64); SPOOL_WRITE_BLOCKS],
    count: usize,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks[..self.count]
    }
}

struct Spooler {
    session: Arc<Session>,
    spool: Arc<Spooled>,
    thread: Rc<IoThread>,
    /// The segment that was last written to.
    open: Option<(u64, Segment)>,
}

impl Spooler {
    /// Encodes what is ready, as much as goes into one write. The session is locked for one block at a time.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Taken {
        let mut taken = Taken::default();
        let most = SPOOL_WRITE_BLOCKS.min(self.spool.place().room);
        while taken.count < most {
            let Some((base, next)) = self.session.state().log.encode_leaving(taken.count, buffer)
            else {
                break;
            };
            if taken.count > 0 && taken.blocks[taken.count - 1].1 != base {
                // What was taken before was given up meanwhile.
                taken = Taken::default();
                buffer.clear();
                continue;
            }
            taken.blocks[taken.count] = (base, next);
            taken.count += 1;
        }
        if self
            .spool
            .next_cursor()
            .is_some_and(|next| next != taken.blocks[0].0)
            && !taken.is_empty()
        {
            // Text in between is lost, and what is older with it.
            self.spool.clear();
            self.open = None;
        }
        taken
    }

    /// Writes what was taken; on a full disk in place of the oldest text.
    async fn write(&mut self, taken: &Taken, mut buffer: Vec<u8>) -> (Wrote, Vec<u8>) {
        loop {
            if !self.spool.make_room(taken.count) {
                return (Wrote::Full, buffer);
            }
            let written;
            (written, buffer) = self.write_once(buffer).await;
            let Err(errno) = written else {
                return (Wrote::Done, buffer);
            };
            self.spool.give_back_room(taken.count);
            match errno {
                Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => {
                    self.spool.dropped();
                    if !self.spool.shrink().await {
                        return (Wrote::Full, buffer);
                    }
                }
                errno => return (Wrote::Failed(errno), buffer),
            }
        }
    }

    async fn write_once(&mut self, buffer: Vec<u8>) -> (Result<(), Errno>, Vec<u8>) {
        let place = self.spool.place();
        let segment = match &mut self.open {
            Some((number, segment)) if *number == place.segment => segment,
            _ => match self.spool.create(place.segment).await {
                Ok(fd) => {
                    let segment = Segment::new(self.thread.backend, fd, self.spool.disk());
                    &mut self.open.insert((place.segment, segment)).1
                }
                Err(errno) => return (Err(errno), buffer),
            },
        };
        segment.write_at(buffer, place.offset).await
    }

    /// What was written need not be in memory any more.
    fn let_go(&mut self, taken: &Taken) {
        {
            let mut state = self.session.state();
            let blocks = taken.blocks();
            let (base, next) = (blocks[0].0, blocks[taken.count - 1].1);
            // Under the session's lock: the text is found in the one place or in the other.
            let kept = state.log.left(base, next) && self.spool.push(blocks);
            drop(state);
            if !kept {
                self.spool.give_back_room(taken.count);
            }
        }
        self.session.spool_moved.notify_waiters();
    }

    /// Lets text go as it would without a spool, for a while.
    async fn wait_for_room(&mut self) {
        tracing::warn!(
            session = self.session.id(),
            "the spool's disk is full; text is dropped"
        );
        self.spool.dropped();
        self.drop_all();
        tokio::select! {
            () = sleep(FULL) => {}
            () = self.session.settled() => {}
        }
        self.session.state().log.open_leaving(true);
    }

    fn give_up(&mut self) {
        self.spool.fail();
        self.drop_all();
    }

    fn drop_all(&mut self) {
        self.session.state().log.open_leaving(false);
        self.spool.clear();
        self.open = None;
        self.session.spool_moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
