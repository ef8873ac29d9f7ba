//! What the server, the nursery and the keepers say to each other, and how bytes and descriptors cross a socket.
//!
//! Three kinds of message, all between processes of one program, hence in the machine's own byte order:
//!
//! - to the nursery: one byte with the control socket of the keeper that is to be forked;
//! - to a keeper, on its control socket: the body of a start ([`super::request`]) with its [`HANDOVER`] descriptors, then
//!   single-byte commands, until the session is over; then the next start;
//! - from a keeper: a [`Reply`] each.
//!
//! Nothing here allocates: one side of every exchange may be the forked copy of a process that had other threads, where
//! the allocator's locks may be held for ever.

#![allow(unsafe_code)]

use std::{
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    time::Duration,
};

use nix::errno::Errno;

use super::Exit;

/// Descriptors of a start, at most, in this order: working directory, the child's 0, 1 and 2, and the ruleset that contains
/// it, if one does.
pub(super) const HANDOVER: usize = 5;
/// To the nursery: fork a keeper.
pub(super) const FORK: u8 = b'F';
/// Command: take the leader's status, if it has exited, and say how it ended.
pub(super) const REAP: u8 = b'R';
/// Command: let the leader, which is held before its first instruction, run.
pub(super) const GO: u8 = b'G';
/// Command: what is left at the end of this socket may stay.
pub(super) const LEAVE: u8 = b'L';
/// Command: the session is over. End what is left of it; another may come.
pub(super) const END: u8 = b'E';

/// Received descriptors; absent where fewer came.
pub(super) type Received = [Option<OwnedFd>; HANDOVER];

/// What a keeper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The leader runs; its pidfd comes along.
    Started(i32),
    /// It doesn't, and nothing is left of it; or, after [`REAP`], it could not be reaped.
    Failed {
        errno: Errno,
        /// Whether exec itself failed, or a step before it.
        at_exec: bool,
        /// Whether the keeper waits for the next start.
        serves_on: bool,
    },
    /// The leader was reaped.
    Ended(Exit),
    /// After [`END`]: nothing is left of the session, and the next start may come. From the nursery: it is at work.
    Idle,
}

/// Size of a [`Reply`] on the wire: five numbers.
pub(super) const REPLY_BYTES: usize = 5 * mem::size_of::<i64>();
/// Stands for an absent exit code or signal.
const ABSENT: i64 = -1;

impl Reply {
    /// Something around exec failed, and the keeper serves no further start.
    pub(super) fn failed(errno: Errno) -> Reply {
        Reply::Failed {
            errno,
            at_exec: false,
            serves_on: false,
        }
    }

    pub(super) fn encode(self) -> [u8; REPLY_BYTES] {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let numbers = match self {
            Reply::Started(pid) => [0, i64::from(pid), 0, 0, 0],
            Reply::Failed {
                errno,
                at_exec,
                serves_on,
            } => [
                1,
                i64::from(errno as i32),
                i64::from(at_exec),
                i64::from(serves_on),
                0,
            ],
            Reply::Ended(exit) => [
                2,
                exit.code.map_or(ABSENT, i64::from),
                exit.signal.map_or(ABSENT, i64::from),
                number(u64::try_from(exit.cpu.as_micros()).unwrap_or(u64::MAX)),
                number(exit.max_rss_bytes),
            ],
            Reply::Idle => [3, 0, 0, 0, 0],
        };
        let mut bytes = [0; REPLY_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// `None` for bytes that [`Reply::encode`] doesn't make.
    pub(super) fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<Reply> {
        let mut numbers = [0; 5];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = i64::from_ne_bytes(place.try_into().ok()?);
        }
        let [kind, first, second, third, fourth] = numbers;
        let optional = |number: i64| match number {
            ABSENT => Some(None),
            number => i32::try_from(number).ok().map(Some),
        };
        match kind {
            0 => Some(Reply::Started(i32::try_from(first).ok()?)),
            1 => Some(Reply::Failed {
                errno: Errno::from_raw(i32::try_from(first).ok()?),
                at_exec: second != 0,
                serves_on: third != 0,
            }),
            2 => Some(Reply::Ended(Exit {
                code: optional(first)?,
                signal: optional(second)?,
                cpu: Duration::from_micros(u64::try_from(third).ok()?),
                max_rss_bytes: u64::try_from(fourth).ok()?,
            })),
            3 => Some(Reply::Idle),
            _ => None,
        }
    }
}

/// Room for the control message of [`HANDOVER`] descriptors, with the alignment that its header needs.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

// SAFETY: the macro's function only computes.
const _: () = assert!(
    unsafe { libc::CMSG_SPACE((HANDOVER * mem::size_of::<RawFd>()) as u32) } as usize
        <= mem::size_of::<Ancillary>()
);

/// Sends bytes (at least one), and descriptors with the first of them. A closed peer is EPIPE, never a signal.
///
/// # Errors
/// The kernel's.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize, Errno> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    // SAFETY: integers and pointers, for which zeros are valid; each is set below where it matters.
    let mut message = unsafe { mem::zeroed::<libc::msghdr>() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        // No panic: keepers send too.
        let payload = u32::try_from(mem::size_of_val(descriptors)).map_err(|_| Errno::EINVAL)?;
        if descriptors.len() > HANDOVER {
            return Err(Errno::EINVAL);
        }
        message.msg_control = (&raw mut ancillary).cast();
        // SAFETY: `msg_control` is room for HANDOVER descriptors (no more get here), aligned for a header, and lives until
        // the end of this function, so the header and the data behind it may be written. A `BorrowedFd` is a descriptor's
        // number by its documented representation.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            ptr::copy_nonoverlapping(
                descriptors.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                mem::size_of_val(descriptors),
            );
        }
    }
    loop {
        // SAFETY: everything that `message` points to is borrowed or local until the call has returned; the kernel reads.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
        match Errno::result(sent) {
            Ok(sent) => return Ok(usize::try_from(sent).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Sends all of `bytes` on a stream.
///
/// # Errors
/// The kernel's; part may have been sent.
pub(super) fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let sent = send(socket, bytes, &[])?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Receives what is there, 0 bytes at the end, and the descriptors that came along, close-on-exec.
///
/// # Errors
/// The kernel's; EMFILE when descriptors were lost because this process may not open so many.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    descriptors: &mut Received,
    flags: libc::c_int,
) -> Result<usize, Errno> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    // SAFETY: integers and pointers, for which zeros are valid; each is set below.
    let mut message = unsafe { mem::zeroed::<libc::msghdr>() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut ancillary).cast();
    message.msg_controllen = mem::size_of::<Ancillary>() as _;
    let received = loop {
        // SAFETY: everything that `message` points to is borrowed mutably or local until the call has returned, and the
        // lengths are those of the buffers.
        let received = unsafe {
            libc::recvmsg(
                socket.as_raw_fd(),
                &mut message,
                flags | libc::MSG_CMSG_CLOEXEC,
            )
        };
        match Errno::result(received) {
            Ok(received) => break usize::try_from(received).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    let mut places = descriptors.iter_mut();
    // SAFETY: the kernel has filled `ancillary` with well-formed control messages and set the length of what it wrote; the
    // macros stay inside it. Each descriptor in it was made for this process by the call and is owned nowhere else; one
    // for which there is no place is closed.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let length =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..length / mem::size_of::<RawFd>() {
                    let fd = OwnedFd::from_raw_fd(first.add(index).read_unaligned());
                    if let Some(place) = places.next() {
                        *place = Some(fd);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        *descriptors = Received::default();
        return Err(Errno::EMFILE);
    }
    Ok(received)
}

/// Fills `bytes` from a stream; `false` when it ended before.
///
/// # Errors
/// The kernel's.
pub(super) fn receive_all(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<bool, Errno> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match receive(socket, rest, &mut Received::default(), 0)? {
            0 => return Ok(false),
            count => filled += count,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use proptest::prelude::*;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap()
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let exit = (
            proptest::option::of(0..256),
            proptest::option::of(1..65),
            0..u64::from(u32::MAX),
            any::<u32>(),
        );
        prop_oneof![
            Just(Reply::Idle),
            (1..i32::MAX).prop_map(Reply::Started),
            ((1..134_i32), any::<bool>(), any::<bool>()).prop_map(|(errno, at_exec, serves_on)| {
                Reply::Failed {
                    errno: Errno::from_raw(errno),
                    at_exec,
                    serves_on,
                }
            }),
            exit.prop_map(|(code, signal, micros, rss)| Reply::Ended(Exit {
                code,
                signal,
                cpu: Duration::from_micros(micros),
                max_rss_bytes: u64::from(rss),
            })),
        ]
    }

    proptest! {
        #[test]
        fn a_reply_arrives_as_it_was_sent(reply in reply()) {
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }

        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in any::<[u8; REPLY_BYTES]>()) {
            Reply::decode(&bytes);
        }
    }

    #[test]
    fn descriptors_arrive_in_order_and_close_on_exec() {
        let (ours, theirs) = pair();
        let files = ["/dev/null", "/dev/zero", "/", "/proc", "/dev/full"]
            .map(|path| File::open(path).unwrap());
        send(ours.as_fd(), &[FORK], &files.each_ref().map(AsFd::as_fd)).unwrap();
        let mut descriptors = Received::default();
        let mut byte = [0];
        assert_eq!(
            receive(theirs.as_fd(), &mut byte, &mut descriptors, 0),
            Ok(1)
        );
        assert_eq!(byte, [FORK]);
        for (sent, received) in files.iter().zip(descriptors) {
            let received = received.unwrap();
            let facts = |fd: BorrowedFd<'_>| {
                let facts = nix::sys::stat::fstat(fd).unwrap();
                (facts.st_dev, facts.st_ino)
            };
            assert_eq!(facts(sent.as_fd()), facts(received.as_fd()));
            let flags = nix::fcntl::fcntl(&received, nix::fcntl::FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags, libc::FD_CLOEXEC);
        }
    }

    #[test]
    fn a_stream_that_ends_early_is_no_message() {
        let (ours, theirs) = pair();
        send_all(ours.as_fd(), &[1, 2, 3]).unwrap();
        drop(ours);
        let mut four = [0; 4];
        assert_eq!(receive_all(theirs.as_fd(), &mut four), Ok(false));
        assert_eq!(send_all(theirs.as_fd(), &[1]), Err(Errno::EPIPE));
    }
}
