//! Moving bytes between pipes, or terminals, and memory, on one thread, through one of two backends.
//!
//! # What a backend must provide
//!
//! - A [`Source`]: reads of up to [`READ_BYTES`] from our end of a child's output pipe into an empty [`Block`]. The block
//!   goes in by value and always comes back. Bytes come in order, each once, whatever the chunking.
//! - A [`Sink`]: one write at a time to our end of a child's input pipe, with the exact number of bytes that the pipe took.
//!   It notices the reader's going away also while it waits for room.
//! - Stopping: when its [`Stop`] is requested, a read or write ends soon, however quiet the other side is. Bytes that had
//!   arrived win: a read says [`Read::Stopped`] only when the pipe was empty and still open, so that what a child wrote
//!   before its end is never lost to the stop. A writer that never pauses can therefore keep a stopped source busy; who
//!   must end in any case looks at [`Stop::is_requested`] after each piece.
//! - A [`Timer`] for pauses well under a millisecond.
//! - Fairness: a source that always has data may not keep the others from theirs.
//! - No allocation per read, write or pause.
//! - Writing to a [`Segment`] of a file, which no readiness tells about: through the ring, or on a thread of a [`Disk`].
//!
//! # What a backend must never do
//!
//! - Give up a read that the kernel has taken on. A pending io_uring read whose future is dropped stays with the kernel and
//!   swallows the next bytes. So a read is cancelled first and then awaited to its end, and callers drive the futures of
//!   [`Source::read`] and [`Sink::write`] to their end: they are stopped through [`Stop`], never put into a `timeout` or
//!   a `select!` that drops them.
//! - Have two reads of one pipe in flight; the `&mut self` sees to that.
//! - Report an end that the kernel didn't: an unknown error is [`Read::Failed`], neither retried nor taken for the end.
//! - Change a flag of the child's end. `O_NONBLOCK` belongs to an end's own open file description, so ours may have it.
//!
//! In tests a third backend plays scripts in virtual time (`scripted`).
//!
//! A backend is chosen once ([`Choice::resolve`]) and its sources, sinks and timers live inside its [`Runtime`]; mixing
//! them panics. SIGPIPE is ignored in this process, as Rust's runtime has it: a closed pipe is a value here.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
};

pub use self::{
    disk::{Disk, Segment, shield_from_size_limits},
    probe::{Refused, Step, probe},
    runtime::Runtime,
    stop::Stop,
    watch::Watch,
};
use crate::arena::Block;
pub use crate::arena::READ_BYTES;

mod disk;
mod epoll;
mod gather;
mod probe;
mod runtime;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
pub mod scripted;
mod stop;
mod uring;
mod watch;

/// How pipes are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Submitted to an io_uring: many pipes cost few system calls. Read on by plain calls while a pipe has more.
    Uring,
    /// Waited for by epoll, then read and written by plain calls: works everywhere.
    Epoll,
    /// Played from scripts, in virtual time.
    #[cfg(test)]
    Scripted,
}

/// What the Owner asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring where it works, epoll elsewhere.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

impl Choice {
    /// Picks the backend, and says why io_uring was passed over when [`Choice::Auto`] had to.
    ///
    /// # Errors
    /// [`Refused`] when io_uring was demanded and doesn't work here.
    pub fn resolve(self) -> Result<(Backend, Option<Refused>), Refused> {
        match self {
            Choice::Epoll => Ok((Backend::Epoll, None)),
            Choice::Uring => probe().map(|()| (Backend::Uring, None)),
            Choice::Auto => Ok(match probe() {
                Ok(()) => (Backend::Uring, None),
                Err(refused) => (Backend::Epoll, Some(refused)),
            }),
        }
    }
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The block holds this many bytes, at least 1.
    Data(usize),
    /// No writer is left, and everything was read.
    Eof,
    /// The stop was requested, the pipe was empty and a writer is left.
    Stopped,
    /// The kernel's error. The pipe is of no more use.
    Failed(Errno),
}

impl Read {
    /// What a result of the kernel means; `None` when a signal came first and the call is to be made again.
    fn of(channel: Channel, result: Result<usize, Errno>) -> Option<Read> {
        match result {
            Err(Errno::EIO) if channel == Channel::Terminal => Some(Read::Eof),
            Ok(0) => Some(Read::Eof),
            Ok(n) => Some(Read::Data(n)),
            Err(Errno::EINTR) => None,
            Err(errno) => Some(Read::Failed(errno)),
        }
    }
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The pipe took this many bytes, from the first on: at least 1 (0 only of an empty slice), perhaps not all.
    Accepted(usize),
    /// No reader is left; it took nothing of this write.
    Closed,
    /// The stop was requested; it took nothing of this write.
    Stopped,
    /// The kernel's error; it took nothing of this write.
    Failed(Errno),
}

impl Write {
    /// As [`Read::of`], of a write of at least one byte.
    fn of(channel: Channel, result: Result<usize, Errno>) -> Option<Write> {
        match result {
            Err(Errno::EIO) if channel == Channel::Terminal => Some(Write::Closed),
            Ok(n) => Some(Write::Accepted(n)),
            Err(Errno::EPIPE) => Some(Write::Closed),
            Err(Errno::EINTR) => None,
            Err(errno) => Some(Write::Failed(errno)),
        }
    }
}

/// What is at the other side of a descriptor.
///
/// Our end of a terminal is put into non-blocking mode, since the kernel waits for one inside a ring only with a thread;
/// that no other process has this end open sees to it that nobody is surprised. Its hang-up, when no process has the
/// child's end open any more, is reported as EIO: to a reader, once everything is read, that is the end, and to a
/// writer that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// One direction, in blocking mode.
    Pipe,
    /// Both directions.
    Terminal,
}

/// Our end of a pipe that a child writes to.
#[derive(Debug)]
pub enum Source {
    /// See [`Backend::Uring`].
    Uring(uring::Source),
    /// See [`Backend::Epoll`].
    Epoll(epoll::Source),
    /// Plays a script.
    #[cfg(test)]
    Scripted(scripted::Source),
}

impl Source {
    /// `fd` is the only descriptor of the read end of a pipe, in blocking mode, or one of our end of a terminal.
    ///
    /// # Errors
    /// The kernel's error when the descriptor can't be watched.
    pub fn new(backend: Backend, channel: Channel, fd: OwnedFd) -> Result<Source, Errno> {
        Ok(match backend {
            Backend::Uring => Source::Uring(uring::Source::new(channel, fd)?),
            Backend::Epoll => Source::Epoll(epoll::Source::new(channel, fd)?),
            #[cfg(test)]
            Backend::Scripted => panic!("a script has no descriptor"),
        })
    }

    /// Waits until there is something to read, takes it into `block`, which is emptied first, and hands that back. What a
    /// busy writer adds meanwhile is taken along.
    ///
    /// # Cancel safety
    /// None: dropping the future before its end loses the block and, on io_uring, bytes. Request `stop` and await it.
    pub async fn read(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        block.clear();
        match self {
            Source::Uring(source) => source.read(block, stop).await,
            Source::Epoll(source) => source.read(block, stop).await,
            #[cfg(test)]
            Source::Scripted(source) => source.read(block, stop).await,
        }
    }

    /// Lets the pipe fill for `duration` before the next read. What comes meanwhile wakes nobody.
    ///
    /// # Cancel safety
    /// Dropping the future ends the pause early.
    pub async fn pause(&mut self, timer: &mut Timer, duration: Duration) {
        if let Source::Epoll(source) = self {
            source.mute();
        }
        timer.pause(duration).await;
        if let Source::Uring(source) = self {
            source.expect_data();
        }
    }

    /// Asks for a pipe of `bytes`, rounded up by the kernel; works while data is in it. A pipe that holds more than 64 KiB
    /// lets a child that writes in large pieces run while we read.
    ///
    /// # Errors
    /// `EPERM` when the user's quota for pipes is used up, `EBUSY` when more than that is in the pipe; it stays as it was.
    pub fn set_pipe_size(&self, bytes: usize) -> Result<(), Errno> {
        let Some(fd) = self.descriptor() else {
            return Ok(());
        };
        let bytes = i32::try_from(bytes).map_err(|_| Errno::EINVAL)?;
        fcntl(fd, FcntlArg::F_SETPIPE_SZ(bytes)).map(drop)
    }

    /// How many bytes the pipe holds; `None` for a terminal, which doesn't say.
    pub fn pipe_size(&self) -> Option<usize> {
        let size = fcntl(self.descriptor()?, FcntlArg::F_GETPIPE_SZ).ok()?;
        usize::try_from(size).ok()
    }

    /// The descriptor; a script has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Source::Uring(source) => Some(source.as_fd()),
            Source::Epoll(source) => Some(source.as_fd()),
            #[cfg(test)]
            Source::Scripted(_) => None,
        }
    }
}

/// Our end of a pipe that a child reads from.
#[derive(Debug)]
pub enum Sink {
    /// See [`Backend::Uring`].
    Uring(uring::Sink),
    /// See [`Backend::Epoll`].
    Epoll(epoll::Sink),
    /// Plays a script.
    #[cfg(test)]
    Scripted(scripted::Sink),
}

impl Sink {
    /// `fd` is the only descriptor of the write end of a pipe, in blocking mode, or one of our end of a terminal.
    ///
    /// # Errors
    /// The kernel's error when the descriptor can't be watched.
    pub fn new(backend: Backend, channel: Channel, fd: OwnedFd) -> Result<Sink, Errno> {
        Ok(match backend {
            Backend::Uring => Sink::Uring(uring::Sink::new(channel, fd)?),
            Backend::Epoll => Sink::Epoll(epoll::Sink::new(channel, fd)?),
            #[cfg(test)]
            Backend::Scripted => panic!("a script has no descriptor"),
        })
    }

    /// Writes once, waiting for room when there is none. The caller goes on with `data` from the accepted count.
    ///
    /// # Cancel safety
    /// None: after dropping the future it is unknown how much the pipe takes. Request `stop` and await it.
    pub async fn write(&mut self, data: Bytes, stop: &Stop) -> Write {
        if data.is_empty() {
            return Write::Accepted(0);
        }
        match self {
            Sink::Uring(sink) => sink.write(data, stop).await,
            Sink::Epoll(sink) => sink.write(data, stop).await,
            #[cfg(test)]
            Sink::Scripted(sink) => sink.write(data, stop).await,
        }
    }
}

/// Pauses with microsecond precision. One for each task that pauses.
#[derive(Debug)]
pub enum Timer {
    /// See [`Backend::Uring`].
    Uring(uring::Timer),
    /// See [`Backend::Epoll`].
    Epoll(epoll::Timer),
    /// Virtual time.
    #[cfg(test)]
    Scripted,
}

impl Timer {
    /// A timer that holds nothing of the kernel until its first pause.
    pub fn new(backend: Backend) -> Timer {
        match backend {
            Backend::Uring => Timer::Uring(uring::Timer::new()),
            Backend::Epoll => Timer::Epoll(epoll::Timer::new()),
            #[cfg(test)]
            Backend::Scripted => Timer::Scripted,
        }
    }

    /// Returns after `duration`, or at once when the kernel has no timer to give: a pause is there to save work and never
    /// needed for correctness.
    ///
    /// # Cancel safety
    /// Dropping the future ends the pause early.
    pub async fn pause(&mut self, duration: Duration) {
        match self {
            Timer::Uring(timer) => timer.pause(duration).await,
            Timer::Epoll(timer) => timer.pause(duration).await,
            #[cfg(test)]
            Timer::Scripted => tokio::time::sleep(duration).await,
        }
    }
}
