//! What the server inherits from whoever launched it and must not pass on, or trip over.

#![allow(unsafe_code)]

use std::{fs, os::fd::RawFd};

use nix::{errno::Errno, sys::signal::SigSet};

use super::forked;

/// First descriptor that is not standard input, output or error.
const FIRST_PRIVATE: RawFd = 3;

/// Brings the process into a state of its own. To be called once, first thing in `main`, while there is one thread: the
/// signal mask is a thread's own, and threads inherit it.
///
/// - SIGCHLD goes to its default. Ignored (which survives exec), the kernel would reap the nursery by itself, and its id
///   could be another's.
/// - No signal stays blocked, or SIGTERM might never arrive.
/// - Inherited descriptors from 3 up become close-on-exec: whatever this process starts by itself (the demo its server)
///   gets 0 to 2 only. Hosted children get nothing of it anyway; the nursery closes all.
///
/// # Errors
/// The kernel's error when the descriptors can be marked in neither of two ways (no `close_range`, and no `/proc`), or
/// when the mask can't be set.
pub fn prepare() -> Result<(), Errno> {
    // SAFETY: SIG_DFL installs no handler, so no code of ours can run in a signal context; no pointer is passed.
    if unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(Errno::last());
    }
    SigSet::empty().thread_set_mask()?;
    close_range_on_exec().or_else(|_| close_each_on_exec())
}

/// For a process that waits for no child's status: as the first process of a pid namespace, as in a container without an
/// init, it is given whatever loses its parent there, and the kernel reaps that from now on. Elsewhere nothing changes.
pub fn reap_strangers() {
    if nix::unistd::getpid().as_raw() == 1 {
        forked::child_action(libc::SA_NOCLDWAIT);
    }
}

/// Linux 5.11 has the flag. The raw system call, because musl has no wrapper.
fn close_range_on_exec() -> Result<(), Errno> {
    // SAFETY: the call takes three integers and changes one flag of descriptors; it closes none now, so no owner in this
    // process loses its descriptor.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            libc::c_uint::try_from(FIRST_PRIVATE).expect("a small positive constant"),
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Errno::result(done).map(drop)
}

/// For kernels before 5.11, and filters that refuse `close_range`.
fn close_each_on_exec() -> Result<(), Errno> {
    let errno = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    for entry in fs::read_dir("/proc/thread-self/fd").map_err(errno)? {
        let name = entry.map_err(errno)?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if fd < FIRST_PRIVATE {
            continue;
        }
        // SAFETY: F_SETFD takes an integer and changes one flag; a number that is no open descriptor gives EBADF.
        let done = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        match Errno::result(done) {
            Ok(_) | Err(Errno::EBADF) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use nix::{
        fcntl::{FcntlArg, FdFlag, fcntl},
        sys::signal::Signal,
    };

    use super::*;
    use crate::process::testing::{in_own_process, with_private_descriptors};

    fn leaky_descriptor() -> OwnedFd {
        let null = fs::File::open("/dev/null").unwrap();
        // SAFETY: dup gives a new descriptor, whose only owner is the value made here.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::dup(null.as_raw_fd())) };
        assert!(!close_on_exec(&fd), "dup clears the flag");
        fd
    }

    fn close_on_exec(fd: &OwnedFd) -> bool {
        FdFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFD).unwrap()).contains(FdFlag::FD_CLOEXEC)
    }

    #[test]
    fn both_ways_mark_inherited_descriptors_and_leave_0_to_2() {
        with_private_descriptors(|_| {
            for way in [close_range_on_exec, close_each_on_exec] {
                let fd = leaky_descriptor();
                let before = fcntl(std::io::stderr(), FcntlArg::F_GETFD).unwrap();
                way().unwrap();
                assert!(close_on_exec(&fd));
                assert_eq!(fcntl(std::io::stderr(), FcntlArg::F_GETFD).unwrap(), before);
            }
        });
    }

    #[test]
    fn sigchld_ignored_at_launch_is_undone_and_children_can_be_reaped() {
        in_own_process(
            "process::prepare::tests::inner_sigchld_ignored_at_launch",
            "exec env --ignore-signal=CHLD",
        );
    }

    #[test]
    #[ignore = "runs in a process of its own, started by the test above"]
    fn inner_sigchld_ignored_at_launch() {
        use crate::process::testing::{launch, run};
        // SAFETY: passing no new action only reads the old one into a local that outlives the call.
        let disposition = || unsafe {
            let mut old = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut old);
            old.sa_sigaction
        };
        assert_eq!(disposition(), libc::SIG_IGN, "the launcher's part");
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTERM);
        blocked.thread_block().unwrap();
        prepare().unwrap();
        assert_eq!(disposition(), libc::SIG_DFL);
        assert_eq!(SigSet::thread_get_mask().unwrap(), SigSet::empty());
        let (exit, _) = run(&launch(&["/bin/sh", "-c", "exit 7"]));
        assert_eq!(exit.code, Some(7));
    }
}
