//! The protocol's two descriptors: taken off 0 and 1, and read and written without ever blocking the runtime.
//!
//! Owns what was on standard input and output. What must hold:
//! - Whatever prints to descriptor 1 or reads from 0 afterwards, in this process or in a child, never touches the protocol.
//! - An open file description that others share is never made non-blocking: the client's end of a pipe, a terminal that a
//!   shell uses as well. So each kind of descriptor has its own way:
//!
//! | what it is | way |
//! |---|---|
//! | pipe, FIFO, terminal | opened anew through `/proc/self/fd`, which makes a description of our own |
//! | socket (Node hands these to its children) | `recv` and `send` with `MSG_DONTWAIT` |
//! | regular file, `/dev/null` (epoll refuses them with EPERM) | plain reads and writes, which never wait |
//! | one that can't be opened anew (no `/proc`, another user's) | a thread that blocks in its place |
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{MsgFlags, recv, send},
        stat::{Mode, SFlag, fstat},
    },
    unistd::{dup2_stdin, dup2_stdout, isatty, read, write},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
};

use crate::mcp::blocking::{WriterThread, read_in_thread, retry};

/// The descriptors that the protocol runs over.
#[derive(Debug)]
pub struct Protocol {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
}

impl Protocol {
    /// Moves standard input and output to private descriptors. From then on 0 is `/dev/null` and 1 is what 2 is.
    ///
    /// # Errors
    ///
    /// When 0 or 1 can't be duplicated, or `/dev/null` can't be opened.
    pub fn take() -> io::Result<Self> {
        let input = duplicate(io::stdin())?;
        let output = duplicate(io::stdout())?;
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
        dup2_stdin(&null)?;
        dup2_stdout(io::stderr())?;
        Ok(Self { input, output })
    }

    /// A protocol over descriptors that are private already.
    pub fn over(input: OwnedFd, output: OwnedFd) -> Self {
        Self { input, output }
    }
}

/// A duplicate above the standard descriptors that no child inherits.
fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    let raw = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: fcntl has just made this descriptor and returned it to us alone; the OwnedFd is its only owner from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// How a descriptor is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `read` and `write` on a description of our own that doesn't block; a pipe.
    Pipe,
    /// The same on a terminal, where a short read says nothing about what is left.
    Terminal,
    /// `recv` and `send` that don't wait.
    Socket,
}

/// A descriptor, ready for use.
#[derive(Debug)]
enum Port {
    Polled(AsyncFd<OwnedFd>, Way),
    Plain(OwnedFd),
}

impl Port {
    /// Gives the descriptor back when only a thread can use it.
    fn open(fd: OwnedFd, interest: Interest) -> Result<Self, OwnedFd> {
        let kind = fstat(&fd).map_or(SFlag::empty(), |stat| {
            SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
        });
        if kind == SFlag::S_IFREG {
            return Ok(Self::Plain(fd));
        }
        let (fd, way) = if kind == SFlag::S_IFSOCK {
            (fd, Way::Socket)
        } else {
            let way = if isatty(&fd).unwrap_or(false) {
                Way::Terminal
            } else {
                Way::Pipe
            };
            match reopen(&fd, interest) {
                Ok(own) => (own, way),
                Err(errno) => {
                    tracing::debug!(%errno, "a protocol descriptor can't be opened anew; a thread serves it");
                    return Err(fd);
                }
            }
        };
        // SAFETY: the AsyncFd owns the OwnedFd, which nobody else can close, replace or take out before the AsyncFd itself is
        // dropped or hands it back, and whose number never changes.
        match unsafe { AsyncFd::register_with_interest(fd, interest) } {
            Ok(polled) => Ok(Self::Polled(polled, way)),
            Err(refused) => match refused.into_parts() {
                (fd, cause) if cause.raw_os_error() == Some(libc::EPERM) => Ok(Self::Plain(fd)),
                (fd, _) => Err(fd),
            },
        }
    }
}

fn reopen(fd: &OwnedFd, interest: Interest) -> nix::Result<OwnedFd> {
    let access = if interest.is_readable() {
        OFlag::O_RDONLY
    } else {
        OFlag::O_WRONLY
    };
    open(
        format!("/proc/self/fd/{}", fd.as_raw_fd()).as_str(),
        access | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY,
        Mode::empty(),
    )
}

/// Where the client's bytes come from.
#[derive(Debug)]
pub(super) struct Input(Source);

#[derive(Debug)]
enum Source {
    Port(Port),
    Thread {
        chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
        /// What the last chunk still holds.
        rest: Vec<u8>,
    },
}

impl Input {
    /// Readies `fd` for reading. To be called inside a runtime.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(match Port::open(fd, Interest::READABLE) {
            Ok(port) => Source::Port(port),
            Err(fd) => Source::Thread {
                chunks: read_in_thread(fd)?,
                rest: Vec::new(),
            },
        }))
    }

    /// Whether the other side has closed, seen without reading: what it sent before may still be there. Of a descriptor that
    /// a thread serves nothing is known.
    pub(super) fn hung_up(&self) -> bool {
        let fd = match &self.0 {
            Source::Port(Port::Polled(polled, _)) => polled.get_ref(),
            Source::Port(Port::Plain(fd)) => fd,
            Source::Thread { .. } => return false,
        };
        // A pipe's POLLHUP comes unasked; a socket's half-close, which nix has no name for, doesn't.
        let half_closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
        let mut asked = [PollFd::new(fd.as_fd(), half_closed)];
        let count = retry(|| poll(&mut asked, PollTimeout::ZERO)).unwrap_or(0);
        count > 0
    }

    /// Reads into `buffer`, which isn't empty; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// The kernel's, other than "not yet" and "interrupted".
    ///
    /// # Cancel safety
    ///
    /// No byte is lost.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Source::Port(Port::Polled(polled, way)) => loop {
                let mut ready = polled.readable().await?;
                let fd = polled.get_ref();
                let result = match way {
                    Way::Socket => recv(fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT),
                    Way::Pipe | Way::Terminal => read(fd, buffer),
                };
                match result {
                    Ok(count) => {
                        // A pipe or socket gave all it had; what comes next raises a new edge. Spares a read per message.
                        if *way != Way::Terminal && count > 0 && count < buffer.len() {
                            ready.clear_ready();
                        }
                        return Ok(count);
                    }
                    Err(Errno::EAGAIN) => ready.clear_ready(),
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            },
            Source::Port(Port::Plain(fd)) => retry(|| read(&*fd, buffer)).map_err(io::Error::from),
            Source::Thread { chunks, rest } => {
                if rest.is_empty() {
                    match chunks.recv().await {
                        Some(chunk) => *rest = chunk?,
                        None => return Ok(0),
                    }
                }
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                rest.drain(..count);
                Ok(count)
            }
        }
    }
}

/// The pipe that a reply is to fit in that the pipe as it came has no room for. A page of [`MAX_PAGE_BYTES`] takes little more than
/// twice its text on the wire; over a pipe of 64 KiB, the usual size, its writer and its reader would wake each other
/// several times, which costs more than the page.
///
/// [`MAX_PAGE_BYTES`]: crate::config::limits::MAX_PAGE_BYTES
const LARGE_PIPE: i32 = 256 * 1024;

/// Where replies go.
#[derive(Debug)]
pub(super) struct Output {
    sink: Sink,
    /// Whether a larger pipe has been asked for, granted or not.
    asked_for_room: bool,
}

#[derive(Debug)]
enum Sink {
    Port(Port),
    Thread(WriterThread),
}

impl Output {
    /// Readies `fd` for writing. To be called inside a runtime.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let sink = match Port::open(fd, Interest::WRITABLE) {
            Ok(port) => Sink::Port(port),
            Err(fd) => Sink::Thread(WriterThread::start(fd)?),
        };
        Ok(Self {
            sink,
            asked_for_room: false,
        })
    }

    /// Writes some of `bytes` and returns how many.
    ///
    /// # Errors
    ///
    /// The kernel's, other than "not yet" and "interrupted".
    ///
    /// # Cancel safety
    ///
    /// Nothing was written when the future is dropped before it resolves.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Port(Port::Polled(polled, way)) => loop {
                let mut ready = polled.writable().await?;
                let fd = polled.get_ref();
                let result = match way {
                    Way::Socket => send(
                        fd.as_raw_fd(),
                        bytes,
                        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
                    ),
                    Way::Pipe | Way::Terminal => write(fd, bytes),
                };
                let is_full =
                    result == Err(Errno::EAGAIN) || result.is_ok_and(|count| count < bytes.len());
                let grew = is_full
                    && *way == Way::Pipe
                    && !mem::replace(&mut self.asked_for_room, true)
                    && enlarge(fd);
                match result {
                    Ok(count) => return Ok(count),
                    Err(Errno::EAGAIN) if grew => {}
                    Err(Errno::EAGAIN) => ready.clear_ready(),
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            },
            Sink::Port(Port::Plain(fd)) => retry(|| write(&*fd, bytes)).map_err(io::Error::from),
            Sink::Thread(thread) => thread.write(bytes).await,
        }
    }

    /// Waits until what was accepted has reached the descriptor.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub(super) async fn flush(&mut self) {
        if let Sink::Thread(thread) = &mut self.sink {
            thread.flush().await;
        }
    }
}

/// Makes the pipe larger, never smaller. Refused, because the user's quota for pipes is used up (EPERM), it stays as it is,
/// which is slower and nothing else.
fn enlarge(pipe: &OwnedFd) -> bool {
    fcntl(pipe, FcntlArg::F_GETPIPE_SZ).is_ok_and(|bytes| bytes < LARGE_PIPE)
        && fcntl(pipe, FcntlArg::F_SETPIPE_SZ(LARGE_PIPE)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
        os::{fd::BorrowedFd, unix::net::UnixStream},
    };

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    fn blocks(fd: BorrowedFd<'_>) -> bool {
        let flags = fcntl(fd, FcntlArg::F_GETFL).unwrap();
        !OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK)
    }

    async fn read_to_end(input: &mut Input) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 7]);
        loop {
            let count = input.read(&mut buffer).await.unwrap();
            if count == 0 {
                return all;
            }
            all.extend_from_slice(&buffer[..count]);
        }
    }

    async fn write_all(output: &mut Output, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = output.write(bytes).await.unwrap();
            bytes = &bytes[count..];
        }
        output.flush().await;
    }

    #[test]
    fn a_pipe_is_polled_and_its_shared_description_stays_blocking() {
        runtime().block_on(async {
            let (reader, mut writer) = io::pipe().unwrap();
            let shared = reader.try_clone().unwrap();
            let mut input = Input::new(reader.into()).unwrap();
            assert!(matches!(input.0, Source::Port(Port::Polled(_, Way::Pipe))));
            writer.write_all(b"some bytes").unwrap();
            assert!(!input.hung_up());
            drop(writer);
            assert!(input.hung_up());
            assert_eq!(read_to_end(&mut input).await, b"some bytes");
            assert!(blocks(shared.as_fd()));

            let (mut reader, writer) = io::pipe().unwrap();
            let shared = writer.try_clone().unwrap();
            let mut output = Output::new(writer.into()).unwrap();
            write_all(&mut output, b"reply").await;
            assert!(blocks(shared.as_fd()));
            drop((output, shared));
            let mut reply = String::new();
            reader.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "reply");
        });
    }

    #[test]
    fn a_socket_is_polled_and_stays_blocking_for_others() {
        runtime().block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let shared = ours.try_clone().unwrap();
            let mut input = Input::new(ours.try_clone().unwrap().into()).unwrap();
            let mut output = Output::new(ours.into()).unwrap();
            assert!(matches!(
                input.0,
                Source::Port(Port::Polled(_, Way::Socket))
            ));
            write_all(&mut output, b"reply").await;
            let mut reply = [0; 5];
            theirs.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"reply");
            theirs.write_all(b"request").unwrap();
            assert!(!input.hung_up());
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(input.hung_up());
            assert_eq!(read_to_end(&mut input).await, b"request");
            assert!(blocks(shared.as_fd()));
        });
    }

    #[test]
    fn files_and_dev_null_are_read_plainly() {
        runtime().block_on(async {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"from a file").unwrap();
            file.rewind().unwrap();
            let mut input = Input::new(file.into()).unwrap();
            assert!(matches!(input.0, Source::Port(Port::Plain(_))));
            assert_eq!(read_to_end(&mut input).await, b"from a file");
            let null = File::open("/dev/null").unwrap();
            let mut input = Input::new(null.into()).unwrap();
            assert!(matches!(input.0, Source::Port(Port::Plain(_))));
            assert_eq!(read_to_end(&mut input).await, b"");
        });
    }

    #[test]
    fn a_thread_serves_what_cannot_be_opened_anew() {
        runtime().block_on(async {
            let (reader, mut writer) = io::pipe().unwrap();
            let mut input = Input(Source::Thread {
                chunks: read_in_thread(reader.into()).unwrap(),
                rest: Vec::new(),
            });
            writer.write_all(b"a longer piece of text").unwrap();
            drop(writer);
            assert_eq!(read_to_end(&mut input).await, b"a longer piece of text");

            let (mut reader, writer) = io::pipe().unwrap();
            let mut output = Output {
                sink: Sink::Thread(WriterThread::start(writer.into()).unwrap()),
                asked_for_room: false,
            };
            write_all(&mut output, b"reply").await;
            let mut reply = [0; 5];
            reader.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"reply");
            drop(reader);
            // The first write after the reader left is accepted and fails in the thread; a later one tells.
            let error = loop {
                if let Err(error) = output.write(b"x").await {
                    break error;
                }
            };
            assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
        });
    }

    #[test]
    fn a_reply_that_the_pipe_has_no_room_for_gets_a_larger_pipe_and_no_other_does() {
        runtime().block_on(async {
            let (reader, writer) = io::pipe().unwrap();
            let size = || fcntl(&reader, FcntlArg::F_GETPIPE_SZ).unwrap();
            let usual = size();
            let mut output = Output::new(writer.into()).unwrap();
            write_all(&mut output, b"short").await;
            assert_eq!(size(), usual);
            // More than the usual pipe holds, and nobody reads.
            write_all(&mut output, &vec![b'x'; 2 * usual as usize]).await;
            assert_eq!(size(), LARGE_PIPE);

            let (reader, writer) = io::pipe().unwrap();
            let larger = 4 * LARGE_PIPE;
            assert_eq!(fcntl(&writer, FcntlArg::F_SETPIPE_SZ(larger)), Ok(larger));
            let mut output = Output::new(writer.into()).unwrap();
            let written = output.write(&vec![b'x'; 2 * larger as usize]).await;
            assert_eq!(written.unwrap(), larger as usize);
            assert_eq!(fcntl(&reader, FcntlArg::F_GETPIPE_SZ), Ok(larger));
        });
    }

    #[test]
    fn writing_to_a_reader_that_left_is_an_error() {
        runtime().block_on(async {
            let (reader, writer) = io::pipe().unwrap();
            let mut output = Output::new(writer.into()).unwrap();
            drop(reader);
            let error = output.write(b"x").await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut output = Output::new(ours.into()).unwrap();
            drop(theirs);
            let error = output.write(b"x").await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
        });
    }

    #[test]
    fn duplicates_stay_clear_of_the_standard_descriptors_and_of_children() {
        let fd = duplicate(io::stdin()).unwrap();
        assert!(fd.as_raw_fd() >= 3);
        assert_eq!(fcntl(&fd, FcntlArg::F_GETFD).unwrap(), libc::FD_CLOEXEC);
    }
}
