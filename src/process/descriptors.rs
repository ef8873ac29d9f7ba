//! Two questions that a descriptor is asked in several places.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// A process that was launched without some of 0 to 2 must not give these numbers to a pipe: it logs to 2.
///
/// # Errors
/// EMFILE when there is no other number.
pub(super) fn above_stderr(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    let moved = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

/// Whether something can be read, the end included.
pub(super) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}
