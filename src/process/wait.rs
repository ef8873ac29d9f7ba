//! The wait calls of a parent, in the form that keepers need: without allocation, and one child at a time.
//!
//! nix's `waitid` is not used, since it has no name for the death by a real-time signal and reports it as an error.

#![allow(unsafe_code)]

use std::{
    mem::{self, MaybeUninit},
    time::Duration,
};

use nix::errno::Errno;

use super::Exit;

/// What a look at the children came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// This child has exited and is not reaped.
    Exited(i32),
    /// There are children, and none has exited.
    AllRun,
    /// There is no child.
    NoChild,
}

/// Looks for a child that has exited, the oldest first, and leaves it as it is.
pub(super) fn look() -> Look {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    match waitid(libc::P_ALL, 0, flags) {
        Ok(0) => Look::AllRun,
        Ok(pid) => Look::Exited(pid),
        // WNOHANG and constants leave ECHILD as the only error.
        Err(_) => Look::NoChild,
    }
}

/// A child that somebody stopped, once for each stop; `None` when there is none.
pub(super) fn take_stopped() -> Option<i32> {
    let stopped = waitid(libc::P_ALL, 0, libc::WSTOPPED | libc::WNOHANG);
    stopped.ok().filter(|&pid| pid > 0)
}

/// Reaps one child if it has exited, whatever its end was. Does nothing to any other process.
pub(super) fn discard(pid: i32) {
    if let Ok(id) = libc::id_t::try_from(pid) {
        // An error is ECHILD: it is no child of ours, so there is nothing to reap.
        waitid(libc::P_PID, id, libc::WEXITED | libc::WNOHANG).ok();
    }
}

/// Waits for a child's end and reaps it.
pub(super) fn discard_at_its_end(pid: i32) {
    if let Ok(id) = libc::id_t::try_from(pid) {
        while waitid(libc::P_PID, id, libc::WEXITED) == Err(Errno::EINTR) {}
    }
}

/// Waits until a child is stopped or has exited, and leaves it as it is.
pub(super) fn until_stopped_or_ended(pid: i32) {
    if let Ok(id) = libc::id_t::try_from(pid) {
        let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        while waitid(libc::P_PID, id, flags) == Err(Errno::EINTR) {}
    }
}

/// The child's id, 0 when none is in the state that is waited for.
fn waitid(kind: libc::idtype_t, id: libc::id_t, flags: libc::c_int) -> Result<i32, Errno> {
    // SAFETY: zeroed is a valid siginfo (integers only), and stays so for WNOHANG without a result. The pointer is to a
    // local that outlives the call. `si_pid` reads the field that SIGCHLD's layout has there.
    unsafe {
        let mut info = mem::zeroed::<libc::siginfo_t>();
        Errno::result(libc::waitid(kind, id, &mut info, flags))?;
        Ok(info.si_pid())
    }
}

/// Reaps a child; `None` when it has not exited.
///
/// # Errors
/// ECHILD when it is no child of this process.
pub(super) fn reap(pid: i32) -> Result<Option<Exit>, Errno> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to locals that outlive the call, of the types that the kernel writes.
    let reaped = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if Errno::result(reaped)? == 0 {
        return Ok(None);
    }
    // SAFETY: zeroed is a valid rusage (integers only), whether or not the kernel has written over it.
    let usage = unsafe { usage.assume_init() };
    let exited = libc::WIFEXITED(status);
    Ok(Some(Exit {
        code: exited.then(|| libc::WEXITSTATUS(status)),
        signal: (!exited).then(|| libc::WTERMSIG(status)),
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or_default() * 1024,
    }))
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_usec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}
