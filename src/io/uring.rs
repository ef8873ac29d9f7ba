//! Reads, writes, cancellation and pauses as operations of tokio-uring's ring.
//!
//! Each operation owns what the kernel uses meanwhile: a reference to the descriptor, and the block or the bytes, lent until
//! the completion gives them back ([`Lent`]). Nobody checks that but this file: making an operation from a descriptor and
//! a pointer is a safe call in io-uring and in tokio-uring.
//!
//! While a pipe has more, its source reads on by plain calls that don't wait (`gather`): the ring is for waiting.
//!
//! Pipe ends stay in blocking mode. The kernel waits for a pipe by polling it inside the ring and needs no thread for that.
//! A terminal it doesn't poll for a read or a write, so the ring is asked to poll, and plain calls move the bytes.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use io_uring::{
    cqueue, opcode,
    types::{CancelBuilder, Fd, Timespec},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd,
};
use tokio_uring::{InFlightOneshot, OneshotOutputTransform, UnsubmittedOneshot};

use super::{
    Channel, READ_BYTES, Read, Stop, Write,
    epoll::set_nonblocking,
    gather::{TURN_BYTES, WORTH_READING_ON, gather},
};
use crate::arena::{BLOCK_BYTES, Block};

/// "From the current position", the only one that a pipe has.
const NO_OFFSET: u64 = u64::MAX;

const READ_LENGTH: u32 = {
    assert!(READ_BYTES <= BLOCK_BYTES && READ_BYTES <= 1 << 30);
    READ_BYTES as u32
};

/// The read end of a pipe.
#[derive(Debug)]
pub struct Source {
    fd: Rc<OwnedFd>,
    channel: Channel,
    /// More is likely there.
    busy: bool,
    /// Bytes read since the ring was last asked, which lets the others run.
    taken: usize,
}

impl Source {
    pub(super) fn new(channel: Channel, fd: OwnedFd) -> Result<Source, Errno> {
        Ok(Source {
            fd: prepared(channel, fd)?,
            channel,
            busy: false,
            taken: 0,
        })
    }

    /// The pipe has had time to fill.
    pub(super) fn expect_data(&mut self) {
        self.busy = true;
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Contract and cancel safety: [`super::Source::read`].
    pub(super) async fn read(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        if self.busy && self.taken < TURN_BYTES {
            // An error, if it is one, comes again from the ring.
            if let Ok(n) = self.gather(&mut block) {
                return (if n > 0 { Read::Data(n) } else { Read::Eof }, block);
            }
        }
        self.taken = 0;
        if self.channel == Channel::Terminal {
            return self.read_when_polled(block, stop).await;
        }
        loop {
            let result;
            (result, block) = finish(self.submit(block), &self.fd, stop).await;
            match result {
                Ok(n) => {
                    block.set_filled(n);
                    self.busy = n >= WORTH_READING_ON;
                    if self.busy
                        && let Ok(all) = self.gather(&mut block)
                    {
                        return (Read::Data(all), block);
                    }
                }
                // EINTR: the operation was waiting in a worker thread, which the cancellation interrupts.
                Err(Errno::ECANCELED | Errno::EINTR) if stop.is_requested() => {
                    // A cancelled read took nothing. What came in while the cancellation was on its way counts as arrived;
                    // the next read takes it without waiting, since nobody else reads this pipe.
                    if is_readable(self.as_fd()) {
                        continue;
                    }
                    return (Read::Stopped, block);
                }
                Err(_) => {}
            }
            if let Some(read) = Read::of(self.channel, result) {
                return (read, block);
            }
        }
    }

    /// Lets the ring wait until there is something, and takes it by plain calls.
    async fn read_when_polled(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        loop {
            let polled = wait(&self.fd, PollFlags::POLLIN, stop).await;
            // Also when the stop cut the wait: what has arrived wins.
            match self.gather(&mut block) {
                Err(Errno::EAGAIN) if stop.is_requested() => return (Read::Stopped, block),
                Err(Errno::EAGAIN) => {}
                result => {
                    if let Some(read) = Read::of(self.channel, result) {
                        return (read, block);
                    }
                }
            }
            if let Err(errno) = polled {
                return (Read::Failed(errno), block);
            }
        }
    }

    /// Reads without the ring, which waits well and costs two system calls and two turns of the event loop each time. Before
    /// Linux 6.4 a pipe refuses such a read, and the ring does it all.
    fn gather(&mut self, block: &mut Block) -> Result<usize, Errno> {
        let n = gather(block, |spare| match self.channel {
            Channel::Pipe => read_now(&self.fd, spare),
            Channel::Terminal => unistd::read(&*self.fd, spare),
        })?;
        self.busy = n >= WORTH_READING_ON;
        self.taken += n;
        Ok(n)
    }

    fn submit(&self, mut block: Block) -> InFlightOneshot<Lent<(Block, Rc<OwnedFd>)>, ReadDone> {
        let read = opcode::Read::new(Fd(self.fd.as_raw_fd()), block.as_mut_ptr(), READ_LENGTH);
        let entry = read.offset(NO_OFFSET).build();
        UnsubmittedOneshot::new(Lent::new((block, Rc::clone(&self.fd))), ReadDone, entry).submit()
    }
}

/// One read that doesn't wait, of a pipe in blocking mode.
fn read_now(fd: &OwnedFd, spare: &mut [u8]) -> Result<usize, Errno> {
    let into = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: spare.len(),
    };
    // SAFETY: `into` is one range that is exclusively borrowed for the call, and the kernel keeps no reference to it.
    let n = unsafe { libc::preadv2(fd.as_raw_fd(), &into, 1, -1, libc::RWF_NOWAIT) };
    usize::try_from(Errno::result(n)?).map_err(|_| Errno::EIO)
}

struct ReadDone;

impl OneshotOutputTransform for ReadDone {
    type Output = (Result<usize, Errno>, Block);
    type StoredData = Lent<(Block, Rc<OwnedFd>)>;

    fn transform_oneshot_output(
        self,
        lent: Self::StoredData,
        entry: cqueue::Entry,
    ) -> Self::Output {
        let (block, _) = lent.take_back();
        (outcome(&entry), block)
    }
}

/// The write end of a pipe.
#[derive(Debug)]
pub struct Sink {
    fd: Rc<OwnedFd>,
    channel: Channel,
}

impl Sink {
    pub(super) fn new(channel: Channel, fd: OwnedFd) -> Result<Sink, Errno> {
        Ok(Sink {
            fd: prepared(channel, fd)?,
            channel,
        })
    }

    /// Contract and cancel safety: [`super::Sink::write`].
    pub(super) async fn write(&mut self, data: Bytes, stop: &Stop) -> Write {
        loop {
            let result = match self.channel {
                Channel::Pipe => finish(self.submit(data.clone()), &self.fd, stop).await,
                Channel::Terminal => unistd::write(&*self.fd, &data),
            };
            if let Err(Errno::EAGAIN) = result
                && self.channel == Channel::Terminal
            {
                let polled = wait(&self.fd, PollFlags::POLLOUT, stop).await;
                match polled {
                    _ if stop.is_requested() => return Write::Stopped,
                    Ok(()) => continue,
                    Err(errno) => return Write::Failed(errno),
                }
            }
            if let Err(Errno::ECANCELED | Errno::EINTR) = result
                && stop.is_requested()
            {
                return Write::Stopped;
            }
            if let Some(write) = Write::of(self.channel, result) {
                return write;
            }
        }
    }

    fn submit(&self, data: Bytes) -> InFlightOneshot<Lent<(Bytes, Rc<OwnedFd>)>, WriteDone> {
        // The kernel takes less than 2 GiB at once anyway, and says how much.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let write = opcode::Write::new(Fd(self.fd.as_raw_fd()), data.as_ptr(), length);
        let entry = write.offset(NO_OFFSET).build();
        // Bytes are shared and immutable: they neither move nor change while a reference is left.
        let lent = Lent::new((data, Rc::clone(&self.fd)));
        UnsubmittedOneshot::new(lent, WriteDone, entry).submit()
    }
}

struct WriteDone;

impl OneshotOutputTransform for WriteDone {
    type Output = Result<usize, Errno>;
    type StoredData = Lent<(Bytes, Rc<OwnedFd>)>;

    fn transform_oneshot_output(
        self,
        lent: Self::StoredData,
        entry: cqueue::Entry,
    ) -> Self::Output {
        drop(lent.take_back());
        outcome(&entry)
    }
}

/// The descriptor as its operations need it.
fn prepared(channel: Channel, fd: OwnedFd) -> Result<Rc<OwnedFd>, Errno> {
    if channel == Channel::Terminal {
        set_nonblocking(&fd)?;
    }
    Ok(Rc::new(fd))
}

/// Waits in the ring until `events` are there, or an error or a hang-up is, or `stop` is requested.
async fn wait(fd: &Rc<OwnedFd>, events: PollFlags, stop: &Stop) -> Result<(), Errno> {
    let events = u32::from(events.bits().cast_unsigned());
    let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), events).build();
    let poll = UnsubmittedOneshot::new(Rc::clone(fd), PollDone, entry).submit();
    match finish(poll, fd, stop).await {
        // Also without a stop of ours: a cancellation by descriptor reaches whatever waits for the same file, and the two
        // directions of a terminal are one. Whoever waited looks again.
        Err(Errno::ECANCELED | Errno::EINTR) => Ok(()),
        polled => polled.map(drop),
    }
}

struct PollDone;

impl OneshotOutputTransform for PollDone {
    type Output = Result<usize, Errno>;
    type StoredData = Rc<OwnedFd>;

    fn transform_oneshot_output(self, _: Rc<OwnedFd>, entry: cqueue::Entry) -> Self::Output {
        outcome(&entry)
    }
}

/// A file that is written piece by piece.
#[derive(Debug)]
pub struct Segment {
    fd: Rc<OwnedFd>,
}

impl Segment {
    pub(super) fn new(fd: OwnedFd) -> Segment {
        Segment { fd: Rc::new(fd) }
    }

    /// One write of `data[from..]` at `offset`; contract and cancel safety: [`super::Segment::write_at`].
    pub(super) async fn write_once(
        &mut self,
        data: Vec<u8>,
        from: usize,
        offset: u64,
    ) -> (Result<usize, Errno>, Vec<u8>) {
        let rest = &data[from..];
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let write = opcode::Write::new(Fd(self.fd.as_raw_fd()), rest.as_ptr(), length);
        let entry = write.offset(offset).build();
        // A vector's memory stays where it is when the vector is moved, and nobody else has it until the completion.
        let lent = Lent::new((data, Rc::clone(&self.fd)));
        UnsubmittedOneshot::new(lent, SegmentWriteDone, entry)
            .submit()
            .await
    }
}

struct SegmentWriteDone;

impl OneshotOutputTransform for SegmentWriteDone {
    type Output = (Result<usize, Errno>, Vec<u8>);
    type StoredData = Lent<(Vec<u8>, Rc<OwnedFd>)>;

    fn transform_oneshot_output(
        self,
        lent: Self::StoredData,
        entry: cqueue::Entry,
    ) -> Self::Output {
        let (data, _) = lent.take_back();
        (outcome(&entry), data)
    }
}

/// What the kernel uses while an operation is in flight. Its completion gives it back; dropped without one it is leaked.
///
/// tokio-uring keeps the data of a dropped future until the operation completes, but not when the driver itself is dropped:
/// it frees the data of everything in flight first and cancels the operations after that. In between, the kernel could
/// still write into a block that somebody else has by then. Whoever ends each read before the runtime leaks nothing.
struct Lent<T>(ManuallyDrop<T>);

impl<T> Lent<T> {
    fn new(value: T) -> Lent<T> {
        Lent(ManuallyDrop::new(value))
    }

    /// For the completion only.
    fn take_back(self) -> T {
        ManuallyDrop::into_inner(self.0)
    }
}

/// Pauses by timeout operations.
#[derive(Debug)]
pub struct Timer {
    /// The kernel reads it when the operation is submitted, which is when the runtime next has nothing else to do, or is
    /// dropped: it needs an address of its own until then, and none afterwards.
    length: Rc<Cell<Timespec>>,
}

impl Timer {
    pub(super) fn new() -> Timer {
        Timer {
            length: Rc::default(),
        }
    }

    /// Contract and cancel safety: [`super::Timer::pause`].
    pub(super) async fn pause(&mut self, duration: Duration) {
        self.length.set(Timespec::from(duration));
        let entry = opcode::Timeout::new(self.length.as_ptr()).build();
        // ETIME is the timeout's success; with any other error there was no pause, which the contract allows.
        UnsubmittedOneshot::new(Rc::clone(&self.length), PauseDone, entry)
            .submit()
            .await;
    }
}

struct PauseDone;

impl OneshotOutputTransform for PauseDone {
    type Output = ();
    type StoredData = Rc<Cell<Timespec>>;

    fn transform_oneshot_output(self, _: Rc<Cell<Timespec>>, _: cqueue::Entry) {}
}

/// Awaits an operation on `fd`; when `stop` is requested meanwhile, cancels it and awaits what has become of it.
async fn finish<D, T>(
    mut operation: InFlightOneshot<D, T>,
    fd: &Rc<OwnedFd>,
    stop: &Stop,
) -> T::Output
where
    D: Unpin + 'static,
    T: OneshotOutputTransform<StoredData = D> + Unpin,
{
    tokio::select! {
        biased;
        done = &mut operation => return done,
        () = stop.requested() => {}
    }
    // Submitted after the operation, so the kernel knows that by now, or has completed it. The result (how many were
    // cancelled) is of no use: only the operation's own says what it did.
    let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd.as_raw_fd())).all()).build();
    UnsubmittedOneshot::new(Rc::clone(fd), CancelDone, entry)
        .submit()
        .await;
    operation.await
}

struct CancelDone;

impl OneshotOutputTransform for CancelDone {
    type Output = ();
    type StoredData = Rc<OwnedFd>;

    fn transform_oneshot_output(self, _: Rc<OwnedFd>, _: cqueue::Entry) {}
}

/// A count, or the negative of an error's number.
fn outcome(entry: &cqueue::Entry) -> Result<usize, Errno> {
    usize::try_from(entry.result()).map_err(|_| Errno::from_raw(-entry.result()))
}

/// Whether a read would return at once, with data or with the end.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    // It doesn't wait, so it can't be interrupted; an error means that nothing is known to be there.
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_outlives_a_drop_and_not_its_completion() {
        let value = Rc::new(());
        {
            let _dropped = Lent::new(Rc::clone(&value));
        }
        assert_eq!(Rc::strong_count(&value), 2, "leaked");
        drop(Lent::new(Rc::clone(&value)).take_back());
        assert_eq!(Rc::strong_count(&value), 2, "given back and dropped");
    }
}
