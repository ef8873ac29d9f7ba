//! Whether the kernel has what hosting rests on, asked of this process itself before a session depends on it.

#![allow(unsafe_code)]

use std::{
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

use nix::{errno::Errno, sys::prctl};

use super::leader::TO_GROUP;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Whether processes can be watched and signalled through descriptors.
    pub pidfd: Result<(), Errno>,
    /// Whether a whole group can be signalled through one. Without it groups are signalled by number.
    pub group_signals: Result<(), Errno>,
    /// Whether a keeper can adopt what its session's processes leave behind.
    pub subreaper: Result<(), Errno>,
}

/// Tries each on the calling process, which is as it was afterwards unless another thread asks at the same time.
pub fn offered() -> Offered {
    let own = own_pidfd();
    let signal = |flags| {
        own.as_ref()
            .map_err(|errno| *errno)
            .and_then(|own| probe(own, flags))
    };
    Offered {
        pidfd: signal(0),
        group_signals: signal(TO_GROUP),
        subreaper: subreaper(),
    }
}

fn own_pidfd() -> Result<OwnedFd, Errno> {
    // SAFETY: two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let fd = Errno::result(fd)?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just given the descriptor to this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signal 0 is checked like any other and reaches nobody.
fn probe(pidfd: &OwnedFd, flags: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: integers and a null for the optional siginfo.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            0,
            ptr::null_mut::<libc::c_void>(),
            flags,
        )
    };
    match Errno::result(sent) {
        // Of a group that other processes lead there is no member to be found through this one.
        Err(Errno::ESRCH) if flags == TO_GROUP => Ok(()),
        sent => sent.map(drop),
    }
}

fn subreaper() -> Result<(), Errno> {
    let before = prctl::get_child_subreaper()?;
    prctl::set_child_subreaper(true)?;
    prctl::set_child_subreaper(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_of_hosting_rest_on_is_found() {
        let offered = offered();
        assert_eq!((offered.pidfd, offered.subreaper), (Ok(()), Ok(())));
        // Linux 6.9.
        assert!(matches!(offered.group_signals, Ok(()) | Err(Errno::EINVAL)));
        assert_eq!(prctl::get_child_subreaper(), Ok(false));
    }
}
