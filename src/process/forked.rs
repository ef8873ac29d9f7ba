//! What nursery and keepers are made of: a copy of the process without another thread, and what such a copy may do.
//!
//! Nothing that runs in a copy allocates or panics: tests and benches fork from processes with many threads, one of which
//! may hold the allocator's lock for ever in the copy.

#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};

/// The first number that [`keep_only`] gives to what is kept.
const FIRST: RawFd = 3;
/// Above every number that [`keep_only`] writes.
const ASIDE: RawFd = 16;

/// The other side of a [`fork`], as its original sees it.
pub(super) struct Copy {
    pub pid: Pid,
    /// Absent where the kernel makes none (Linux before 5.2).
    pub pidfd: Option<OwnedFd>,
}

/// A copy of this process; `None` in the copy. The raw call: libc's runs handlers and takes locks, for which a process
/// with other threads is no place.
///
/// # Errors
/// EAGAIN or ENOMEM when no process can be had; what a filter gives that refuses CLONE_PIDFD.
pub(super) fn fork() -> Result<Option<Copy>, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and a stack this is fork(2): the copy has its own memory, and its callers make system calls
    // only. The third argument is where CLONE_PIDFD writes in the original; the other two are not looked at.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    let pid = i32::try_from(Errno::result(pid)?).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: any number but the initial one is a descriptor that the kernel has just made and nobody else knows.
    let pidfd = (pid > 0 && pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok((pid > 0).then(|| Copy {
        pid: Pid::from_raw(pid),
        pidfd,
    }))
}

/// Ends a copy without running anything that its original has registered.
pub(super) fn exit() -> ! {
    // SAFETY: an integer; it doesn't return.
    unsafe { libc::_exit(0) }
}

/// Closes everything but `kept`, which gets number 3, and `null`, which gets 0 to 2: a child whose own descriptor were to
/// land there would lose it to the one that is put over it.
///
/// # Errors
/// The kernel's, for want of numbers below the limit.
///
/// # Safety
/// The caller is a [`fork`]'s copy, and no owner of any descriptor is used or dropped in it afterwards but the returned one.
pub(super) unsafe fn keep_only(kept: &OwnedFd, null: &OwnedFd) -> Result<OwnedFd, Errno> {
    // SAFETY: integers, and the caller's promise. Both are moved above the numbers that are written before these are.
    unsafe {
        let aside =
            |fd: &OwnedFd| Errno::result(libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE));
        let (kept, null) = (aside(kept)?, aside(null)?);
        for number in 0..FIRST {
            Errno::result(libc::dup2(null, number))?;
        }
        Errno::result(libc::dup3(kept, FIRST, libc::O_CLOEXEC))?;
        close_from(FIRST + 1);
        Ok(OwnedFd::from_raw_fd(FIRST))
    }
}

/// Closes every descriptor from `first` up.
///
/// # Safety
/// Nobody uses or drops an owner of one of them afterwards.
unsafe fn close_from(first: RawFd) {
    // SAFETY: three integers; the caller's promise.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return;
    }
    // Kernels before 5.9, and filters that refuse it. Numbers beyond the soft limit could only be left from a higher one.
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is to a local of the type that the kernel writes; zeros are valid for it.
    let limit = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr());
        limit.assume_init().rlim_cur
    };
    for number in first..RawFd::try_from(limit).unwrap_or(RawFd::MAX).min(1 << 20) {
        // SAFETY: an integer; the caller's promise. A number that is not open gives EBADF.
        unsafe { libc::close(number) };
    }
}

/// Says that a child has exited, stopped or continued.
pub(super) struct ChildSignal(SignalFd);

impl ChildSignal {
    /// Every signal must be blocked: one that is delivered is not reported.
    ///
    /// # Errors
    /// The kernel's: no descriptor to be had, or a filter that refuses it.
    pub(super) fn new() -> Result<ChildSignal, Errno> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map(ChildSignal)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Makes it unreadable until the next child. Whoever calls it looks at the children afterwards.
    pub(super) fn take(&self) {
        // One read is enough: a second signal while one is pending is dropped.
        self.0.read_signal().ok();
    }

    /// From here on, children stay until they are waited for.
    pub(super) fn reap_ourselves(&self) {
        child_action(0);
    }

    /// From here on, the kernel reaps children by itself, and says so all the same.
    pub(super) fn reap_by_kernel(&self) {
        child_action(libc::SA_NOCLDWAIT);
    }
}

/// Puts SIGCHLD to its default action with these flags.
pub(super) fn child_action(flags: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid action (the default, an empty mask), and the pointer is to a local that outlives the call.
    unsafe {
        (*action.as_mut_ptr()).sa_flags = flags;
        libc::sigaction(libc::SIGCHLD, action.as_ptr(), ptr::null_mut());
    }
}
