//! Keepers that wait for a start, as the server holds them: by their control sockets.
//!
//! The price of a process is paid before a start asks for it, and not for each: a keeper whose session is over, with
//! nothing left of it, serves the next one. It is at work on the end of a session while its socket stands here already;
//! that it is done it says itself, and until then it gets no start. One that can't prove that nothing is left ends
//! instead, which shows at its socket too.
//!
//! Whether starts come one after the other or in bursts, [`READY`] keepers stand here when nothing runs.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, socketpair},
};

use super::{
    descriptors::{above_stderr, is_readable},
    wire::{self, END, FORK, REPLY_BYTES, Received, Reply},
};

/// How many are kept. A start takes one, and the next is asked for when two are missing: starts that come one after the
/// other need no fork at all, and those that come faster than one fork after the other find one ready.
const READY: usize = 3;

/// See the module.
#[derive(Debug)]
pub(super) struct Spares {
    /// Where keepers come from.
    nursery: OwnedFd,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Those that have waited longest stand first.
    keepers: VecDeque<Spare>,
    closed: bool,
}

#[derive(Debug)]
struct Spare {
    control: OwnedFd,
    /// Whether it is still to say that nothing is left of its last session.
    owes_word: bool,
}

/// Where a spare stands.
enum State {
    Ready,
    AtWork,
    Gone,
}

impl Spare {
    fn state(&mut self) -> State {
        let mut word = [0; REPLY_BYTES];
        loop {
            let received = wire::receive(
                self.control.as_fd(),
                &mut word,
                &mut Received::default(),
                libc::MSG_DONTWAIT,
            );
            match received {
                Err(Errno::EAGAIN) if self.owes_word => return State::AtWork,
                Err(Errno::EAGAIN) => return State::Ready,
                // Looked at once more: it may have been killed since it said so.
                Ok(REPLY_BYTES) if self.owes_word && Reply::decode(&word) == Some(Reply::Idle) => {
                    self.owes_word = false;
                }
                // Killed, ended, or never forked.
                _ => return State::Gone,
            }
        }
    }
}

impl Spares {
    /// None yet. `nursery` is the server's end of its socket.
    pub(super) fn new(nursery: OwnedFd) -> Spares {
        Spares {
            nursery,
            inner: Mutex::default(),
        }
    }

    /// The nursery's socket, which becomes readable when it is gone.
    pub(super) fn nursery(&self) -> BorrowedFd<'_> {
        self.nursery.as_fd()
    }

    /// The control socket of a keeper that is ready for a start, or will be as soon as it is forked. When none can be, it
    /// is the nursery that answers there.
    ///
    /// # Errors
    /// EPIPE when the nursery is gone; otherwise the kernel's, for want of descriptors.
    pub(super) fn take(&self) -> Result<OwnedFd, Errno> {
        if is_readable(self.nursery()) {
            // What is left of it would have nobody below to catch what it drops.
            return Err(Errno::EPIPE);
        }
        match self.take_ready() {
            Some(control) => Ok(control),
            None => self.ask(),
        }
    }

    fn take_ready(&self) -> Option<OwnedFd> {
        let mut inner = self.lock();
        for _ in 0..inner.keepers.len() {
            let mut spare = inner.keepers.pop_front()?;
            match spare.state() {
                State::Ready => return Some(spare.control),
                State::AtWork => inner.keepers.push_back(spare),
                State::Gone => drop(spare),
            }
        }
        None
    }

    /// Has keepers forked until as many are here as shall be at first.
    pub(super) fn fill(&self) {
        self.fill_to(READY);
    }

    /// As [`Spares::fill`], after a start has taken one.
    pub(super) fn refill(&self) {
        self.fill_to(READY - 1);
    }

    fn fill_to(&self, count: usize) {
        let mut inner = self.lock();
        let is_there = |spare: &mut Spare| !matches!(spare.state(), State::Gone);
        inner.keepers.retain_mut(is_there);
        while !inner.closed && inner.keepers.len() < count {
            // For want of what it takes, the next start will have to ask, and be told.
            let Ok(control) = self.ask() else { return };
            inner.keepers.push_back(Spare {
                control,
                owes_word: false,
            });
        }
    }

    fn ask(&self) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let ours = above_stderr(ours)?;
        wire::send(self.nursery(), &[FORK], &[theirs.as_fd()])?;
        Ok(ours)
    }

    /// Takes a keeper back whose start has failed at the program; nothing came of it.
    pub(super) fn give_back(&self, control: OwnedFd) {
        self.put(control, false);
    }

    /// Tells a keeper that its session is over, and takes it back. Everything that it had to say has been received.
    pub(super) fn end_session(&self, control: OwnedFd) {
        if wire::send_all(control.as_fd(), &[END]).is_ok() {
            self.put(control, true);
        }
    }

    fn put(&self, control: OwnedFd, owes_word: bool) {
        let mut inner = self.lock();
        // One that finds no place has its socket closed, and ends.
        if !inner.closed && inner.keepers.len() < READY {
            inner.keepers.push_back(Spare { control, owes_word });
        }
    }

    /// Lets all go, and keeps none from now on.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.keepers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
