//! The third backend: plays what a kernel might do, in virtual time, for tests of what reads and writes.
//!
//! A script is what the kernel does with one pipe, in order. Nothing is random here: whoever writes a script rolls the
//! dice. Each await is announced first ([`Witness::at_await`]), so that a test can act at exactly that point.

use std::{collections::VecDeque, fmt, rc::Rc, time::Duration};

use bytes::Bytes;
use nix::errno::Errno;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Channel, READ_BYTES, Read, Stop, Write};
use crate::arena::Block;

/// How long a read of [`End::Flood`] takes.
const FLOOD_READ: Duration = Duration::from_millis(25);

/// What the kernel does next with a pipe that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing for so long.
    Quiet(Duration),
    /// What follows has happened, and is told so much later.
    Late(Duration),
    /// Other tasks run first.
    Yield,
    /// It has these bytes; a read takes at most a block of them.
    Bytes(Vec<u8>),
    /// The call fails. EINTR and EAGAIN (nothing there after all) are not the end.
    Error(Errno),
}

/// What comes after the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The writers are gone.
    Eof,
    /// The kernel reports an error, such as EIO.
    Failed(Errno),
    /// Nothing: reads wait for the stop.
    Open,
    /// More bytes at each read, for ever. A read takes some time, or virtual time would stand still.
    Flood,
}

/// What the kernel does next with a pipe that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// None for so long.
    None(Duration),
    /// What follows has happened, and is told so much later.
    Late(Duration),
    /// For so many bytes.
    Bytes(usize),
    /// The call fails. EINTR and EAGAIN (no room after all) are not the end.
    Error(Errno),
}

/// What comes after the last of the [`Room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Takes everything.
    Reads,
    /// Takes nothing more, for ever.
    Stalls,
}

/// Who looks on.
pub trait Witness {
    /// The pipe's task is about to wait, or to let others run.
    fn at_await(&self) {}
    /// A read ended; `bytes` is what it brought, `stop` the one that it was given.
    fn read(&self, _read: Read, _bytes: &[u8], _stop: &Stop) {}
    /// A write ended; `taken` is what the pipe took.
    fn wrote(&self, _write: Write, _taken: &[u8]) {}
}

/// Nobody.
impl Witness for () {}

/// The read end.
pub struct Source {
    script: VecDeque<Event>,
    end: End,
    /// When the quiet that has begun is over.
    quiet_until: Option<Instant>,
    witness: Rc<dyn Witness>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} then {:?}", self.script, self.end)
    }
}

impl Source {
    /// A pipe that goes by `script` and then by `end`.
    pub fn new(script: Vec<Event>, end: End, witness: Rc<dyn Witness>) -> Source {
        Source {
            script: script.into(),
            end,
            quiet_until: None,
            witness,
        }
    }

    pub(super) async fn read(&mut self, mut block: Block, stop: &Stop) -> (Read, Block) {
        let read = loop {
            self.witness.at_await();
            match self.script.front_mut() {
                None => match self.end {
                    End::Eof => break Read::Eof,
                    End::Failed(errno) => break Read::Failed(errno),
                    End::Open => {
                        stop.requested().await;
                        break Read::Stopped;
                    }
                    End::Flood => {
                        sleep(FLOOD_READ).await;
                        block.extend_from_slice(b"flood ");
                        break Read::Data(6);
                    }
                },
                Some(Event::Quiet(duration)) => {
                    let until = *self.quiet_until.get_or_insert(Instant::now() + *duration);
                    tokio::select! {
                        biased;
                        () = sleep_until(until) => {}
                        () = stop.requested() => break Read::Stopped,
                    }
                    self.quiet_until = None;
                    self.script.pop_front();
                }
                Some(Event::Late(duration)) => {
                    sleep(*duration).await;
                    self.script.pop_front();
                }
                Some(Event::Yield) => {
                    tokio::task::yield_now().await;
                    self.script.pop_front();
                }
                Some(Event::Bytes(bytes)) => {
                    let n = bytes.len().min(READ_BYTES);
                    block.extend_from_slice(&bytes[..n]);
                    bytes.drain(..n);
                    if bytes.is_empty() {
                        self.script.pop_front();
                    }
                    break Read::of(Channel::Pipe, Ok(n)).expect("bytes are there");
                }
                Some(Event::Error(errno)) => {
                    let errno = *errno;
                    self.script.pop_front();
                    if errno == Errno::EAGAIN {
                        if stop.is_requested() {
                            break Read::Stopped;
                        }
                    } else if let Some(read) = Read::of(Channel::Pipe, Err(errno)) {
                        break read;
                    }
                }
            }
        };
        self.witness.read(read, block.filled(), stop);
        (read, block)
    }
}

/// The write end.
pub struct Sink {
    script: VecDeque<Room>,
    reader: Reader,
    none_until: Option<Instant>,
    witness: Rc<dyn Witness>,
}

impl fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} then {:?}", self.script, self.reader)
    }
}

impl Sink {
    /// A pipe that goes by `script` and then by `reader`.
    pub fn new(script: Vec<Room>, reader: Reader, witness: Rc<dyn Witness>) -> Sink {
        Sink {
            script: script.into(),
            reader,
            none_until: None,
            witness,
        }
    }

    pub(super) async fn write(&mut self, data: Bytes, stop: &Stop) -> Write {
        let write = loop {
            self.witness.at_await();
            match self.script.front() {
                None if self.reader == Reader::Reads => break Write::Accepted(data.len()),
                None => {
                    stop.requested().await;
                    break Write::Stopped;
                }
                Some(Room::None(duration)) => {
                    let until = *self.none_until.get_or_insert(Instant::now() + *duration);
                    tokio::select! {
                        biased;
                        () = sleep_until(until) => {}
                        () = stop.requested() => break Write::Stopped,
                    }
                    self.none_until = None;
                    self.script.pop_front();
                }
                Some(Room::Late(duration)) => {
                    sleep(*duration).await;
                    self.script.pop_front();
                }
                Some(&Room::Bytes(room)) => {
                    let n = room.min(data.len());
                    if n == room {
                        self.script.pop_front();
                    } else {
                        self.script[0] = Room::Bytes(room - n);
                    }
                    break Write::of(Channel::Pipe, Ok(n)).expect("it took them");
                }
                Some(&Room::Error(errno)) => {
                    if matches!(errno, Errno::EINTR | Errno::EAGAIN) {
                        self.script.pop_front();
                        if errno == Errno::EAGAIN && stop.is_requested() {
                            break Write::Stopped;
                        }
                    // Stays: a pipe whose reader is gone, or that failed, does so at every write.
                    } else if let Some(write) = Write::of(Channel::Pipe, Err(errno)) {
                        break write;
                    }
                }
            }
        };
        let taken = match write {
            Write::Accepted(n) => &data[..n],
            _ => &[],
        };
        self.witness.wrote(write, taken);
        write
    }
}
