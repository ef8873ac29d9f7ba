//! Putting the calling thread under a ruleset and the filter. Also what a process does to itself between clone and exec:
//! system calls only, no allocation.

#![allow(unsafe_code)]

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use nix::{errno::Errno, sys::prctl};

use super::filter;

/// The first Landlock ABI has the number 1.
const VERSION: libc::c_uint = 1;

/// Puts the calling thread, and all that it will start, under `ruleset`, without sockets if `sockets` is false, and without
/// the privileges of set-user-ID and like programs. There is no way back.
///
/// # Errors
/// The kernel's. The thread may be under a part of it then.
pub fn enter(ruleset: BorrowedFd<'_>, sockets: bool) -> Result<(), Errno> {
    // Without it an unprivileged process may do neither of the other two.
    prctl::set_no_new_privs()?;
    // SAFETY: integers; the ruleset is open for as long as it is borrowed.
    let entered =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    Errno::result(entered)?;
    if sockets { Ok(()) } else { refuse_sockets() }
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub(super) fn refuse_sockets() -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter::NO_SOCKETS.len()).map_err(|_| Errno::EINVAL)?,
        filter: filter::NO_SOCKETS.as_ptr().cast_mut(),
    };
    // SAFETY: `program` is a local that outlives the call and points to as many constant statements as it says; the kernel
    // only reads them.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            ptr::from_ref(&program),
        )
    };
    Errno::result(installed).map(drop)
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
pub(super) fn refuse_sockets() -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

/// The number of Landlock's ABI.
///
/// # Errors
/// ENOSYS when the kernel is built without it, EOPNOTSUPP when it was not enabled at boot, and whatever a filter answers.
pub(super) fn landlock_abi() -> Result<i32, Errno> {
    // SAFETY: a null attribute of size 0 with this flag asks for the version; nothing is read or written.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0,
            VERSION,
        )
    };
    let abi = Errno::result(abi)?;
    Ok(i32::try_from(abi).unwrap_or(i32::MAX))
}
