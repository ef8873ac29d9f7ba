//! Plain reads and writes when epoll says so, through tokio's `AsyncFd`.
//!
//! epoll reports edges, and tokio remembers them as readiness until it is told otherwise. The one proof that a pipe is
//! empty (or full) is EAGAIN, so only that clears the readiness. A short read is none: a child that set O_DIRECT on its
//! end writes packets, which come one by one however many are there. After EAGAIN the kernel owes a new edge for whatever
//! comes next.
//!
//! O_NONBLOCK is set on our end only, whose open file description the child doesn't share.

#![allow(unsafe_code)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{read, write},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    Channel, Read, Stop, Write,
    gather::{TURN_BYTES, gather},
};
use crate::arena::Block;

/// The read end of a pipe.
#[derive(Debug)]
pub struct Source {
    /// What tokio watches: the pipe, or the epoll instance of its gate.
    fd: AsyncFd<OwnedFd>,
    channel: Channel,
    /// Made by the first pause, since most pipes never need one.
    gate: Option<Gate>,
    /// Bytes read since this task last let the others run.
    taken: usize,
}

/// Keeps a pipe from waking this thread during a pause.
///
/// Linux reports an edge for every write to a pipe, also while nobody has taken what was there before, and tokio can't
/// leave off a registration without allocating the next. So a pipe that is paused is watched by an epoll instance of its
/// own, which it is taken out of, and tokio watches that instance: it is readable when the pipe is. Out of it, and not in it
/// without an interest: the writer calls whoever waits in the pipe's queue with every write, interested or not, and for
/// lines that costs it a fifth of its speed.
#[derive(Debug)]
struct Gate {
    pipe: OwnedFd,
    shut: bool,
}

impl Source {
    pub(super) fn new(channel: Channel, fd: OwnedFd) -> Result<Source, Errno> {
        set_nonblocking(&fd)?;
        Ok(Source {
            fd: register(fd, Interest::READABLE)?,
            channel,
            gate: None,
            taken: 0,
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.gate {
            Some(gate) => gate.pipe.as_fd(),
            None => self.fd.get_ref().as_fd(),
        }
    }

    /// Until the next read finds the pipe empty, what comes wakes nobody. Without descriptors to spare nothing changes,
    /// which costs work and nothing else.
    pub(super) fn mute(&mut self) {
        let shut = match &mut self.gate {
            Some(gate) if gate.shut => Ok(()),
            Some(gate) => {
                let done = control(self.fd.get_ref(), libc::EPOLL_CTL_DEL, &gate.pipe);
                done.map(|()| gate.shut = true)
            }
            None => self.build_gate(),
        };
        if let Err(errno) = shut {
            tracing::debug!(%errno, "a paced pipe goes on waking its reader");
        }
    }

    fn build_gate(&mut self) -> Result<(), Errno> {
        let pipe = self.as_fd().try_clone_to_owned();
        let pipe = pipe.map_err(|error| errno(&error))?;
        // SAFETY: one integer.
        let watch = Errno::result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just made this descriptor and nobody else knows it.
        let watch = unsafe { OwnedFd::from_raw_fd(watch) };
        // The pipe's own registration ends here, with the descriptor that it was made for.
        self.fd = register(watch, Interest::READABLE)?;
        self.gate = Some(Gate { pipe, shut: true });
        Ok(())
    }

    /// Has the pipe report again; what is in it counts as new.
    fn unmute(&mut self) -> Result<(), Errno> {
        if let Some(gate) = &mut self.gate
            && gate.shut
        {
            control(self.fd.get_ref(), libc::EPOLL_CTL_ADD, &gate.pipe)?;
            gate.shut = false;
        }
        Ok(())
    }

    /// Contract and cancel safety: [`super::Source::read`].
    pub(super) async fn read(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        if self.taken >= TURN_BYTES {
            // A pipe that is never empty would otherwise be read until tokio's budget for one task is used up, which
            // delays the others by milliseconds. The data of the read before has been handed on by now.
            self.taken = 0;
            tokio::task::yield_now().await;
        }
        if self.gate.as_ref().is_some_and(|gate| gate.shut) {
            // After a pause there nearly always is something.
            let result = read_into(self.as_fd(), &mut block);
            if result != Err(Errno::EAGAIN)
                && let Some(read) = Read::of(self.channel, result)
            {
                self.taken += block.filled().len();
                return (read, block);
            }
            if let Err(errno) = self.unmute() {
                return (Read::Failed(errno), block);
            }
        }
        loop {
            let guard = tokio::select! {
                biased;
                guard = self.fd.readable() => Some(guard),
                () = stop.requested() => None,
            };
            let mut guard = match guard.transpose() {
                Ok(guard) => guard,
                Err(error) => return (Read::Failed(errno(&error)), block),
            };
            let result = read_into(self.as_fd(), &mut block);
            if result == Err(Errno::EAGAIN) {
                let Some(guard) = &mut guard else {
                    return (Read::Stopped, block);
                };
                guard.clear_ready();
                self.taken = 0;
            } else if let Some(read) = Read::of(self.channel, result) {
                self.taken += block.filled().len();
                return (read, block);
            }
        }
    }
}

/// The write end of a pipe.
#[derive(Debug)]
pub struct Sink {
    fd: AsyncFd<OwnedFd>,
    channel: Channel,
}

impl Sink {
    pub(super) fn new(channel: Channel, fd: OwnedFd) -> Result<Sink, Errno> {
        set_nonblocking(&fd)?;
        Ok(Sink {
            fd: register(fd, Interest::WRITABLE)?,
            channel,
        })
    }

    /// Contract and cancel safety: [`super::Sink::write`].
    pub(super) async fn write(&mut self, data: Bytes, stop: &Stop) -> Write {
        loop {
            let guard = tokio::select! {
                biased;
                guard = self.fd.writable() => guard,
                () = stop.requested() => return Write::Stopped,
            };
            let mut guard = match guard {
                Ok(guard) => guard,
                Err(error) => return Write::Failed(errno(&error)),
            };
            let result = write(self.fd.get_ref(), &data);
            if result == Err(Errno::EAGAIN) {
                guard.clear_ready();
            } else if let Some(write) = Write::of(self.channel, result) {
                return write;
            }
        }
    }
}

/// Pauses by a timerfd: tokio's own timer counts whole milliseconds.
#[derive(Debug)]
pub struct Timer {
    /// Made by the first pause, since most tasks never pause.
    fd: Option<AsyncFd<OwnedFd>>,
}

impl Timer {
    pub(super) fn new() -> Timer {
        Timer { fd: None }
    }

    /// Contract and cancel safety: [`super::Timer::pause`].
    pub(super) async fn pause(&mut self, duration: Duration) {
        // Zero would disarm it.
        let duration = duration.max(Duration::from_nanos(1));
        if self.fd.is_none() {
            self.fd = timer().and_then(|fd| register(fd, Interest::READABLE)).ok();
        }
        let Some(fd) = &self.fd else { return };
        // Arming again forgets the expiry of a pause that was given up.
        if arm(fd.get_ref(), duration).is_err() {
            return;
        }
        while let Ok(mut guard) = fd.readable().await {
            let mut expiries = [0; 8];
            match read(fd.get_ref(), &mut expiries) {
                Err(Errno::EAGAIN) => guard.clear_ready(),
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Has tokio watch a descriptor; works in every backend's runtime.
pub(super) fn register(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, Errno> {
    // SAFETY: an `OwnedFd` is open and keeps its number until it is dropped; the `AsyncFd` owns it and gives out shared
    // references only, so nobody can replace or close it while it is registered.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(|refused| errno(&refused.into_parts().1))
}

pub(super) fn errno(error: &io::Error) -> Errno {
    // An error without a number is tokio's own: the runtime is shutting down.
    error
        .raw_os_error()
        .map_or(Errno::ECANCELED, Errno::from_raw)
}

pub(super) fn set_nonblocking(fd: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

/// Has the epoll instance `watch` wait for something to read in `pipe`, or forget it.
fn control(watch: &OwnedFd, operation: libc::c_int, pipe: &OwnedFd) -> Result<(), Errno> {
    let events = u32::try_from(libc::EPOLLIN).map_err(|_| Errno::EINVAL)?;
    let mut event = libc::epoll_event { events, u64: 0 };
    // SAFETY: both descriptors are open for as long as they are borrowed, and `event` outlives the call.
    let done =
        unsafe { libc::epoll_ctl(watch.as_raw_fd(), operation, pipe.as_raw_fd(), &mut event) };
    Errno::result(done).map(drop)
}

/// Reads straight into the block: its memory isn't initialised first, which would cost as much as the copy.
fn read_into(fd: BorrowedFd<'_>, block: &mut Block) -> Result<usize, Errno> {
    gather(block, |spare| read(fd, spare))
}

fn timer() -> Result<OwnedFd, Errno> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: two integers.
    let fd = Errno::result(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn arm(timer: &OwnedFd, duration: Duration) -> Result<(), Errno> {
    // SAFETY: integers only, so zero is a value of it. Zeroed rather than spelled out, since 32-bit targets pad it.
    let mut when = unsafe { MaybeUninit::<libc::itimerspec>::zeroed().assume_init() };
    when.it_value.tv_sec = duration.as_secs().try_into().map_err(|_| Errno::EINVAL)?;
    when.it_value.tv_nsec = duration.subsec_nanos().into();
    // SAFETY: `when` outlives the call; a null pointer says that the old value isn't wanted.
    let done = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &when, ptr::null_mut()) };
    Errno::result(done).map(drop)
}
