//! Holding a leader between its exec and its first instruction, so that the server can look at what is about to run.
//!
//! From its exec on, the kernel lets nobody open a running executable for writing, and lets no exec succeed of one that
//! somebody has open so or mapped. What `/proc/PID/exe` shows of a held leader is therefore what will run, however the path
//! is renamed, replaced or written meanwhile. A check before the exec, on the path or on a descriptor, has a gap behind it.
//!
//! The leader is held by tracing, which its parent, the keeper, may do without privileges. Until it is released it has no
//! signal delivered, so that none can stop it before the exec, while its parent sleeps. Nothing here allocates or panics.

#![allow(unsafe_code)]

use std::ptr;

use nix::errno::Errno;

use super::{exec, wait};

/// Every signal but that of the stop at exec.
const ALL_BUT_TRAP: u64 = !(1 << (libc::SIGTRAP - 1));
/// Size of the kernel's signal set.
const SIGNAL_SET: usize = 8;

/// In the child: has its next exec stop before the first instruction.
///
/// # Errors
/// EPERM where tracing is not allowed, or somebody traces it already.
pub(super) fn at_exec() -> Result<(), Errno> {
    // SAFETY: the request takes no other argument and only sets who the calling process is traced by.
    let asked = unsafe {
        libc::ptrace(
            libc::PTRACE_TRACEME,
            0,
            ptr::null_mut::<u8>(),
            ptr::null_mut::<u8>(),
        )
    };
    Errno::result(asked)?;
    exec::mask_signals(ALL_BUT_TRAP);
    Ok(())
}

/// In the parent: waits until the child, whose exec has succeeded, is held, or has been killed.
pub(super) fn wait_until_held(pid: i32) {
    wait::until_stopped_or_ended(pid);
    let none = 0_u64;
    // SAFETY: the address is the size of the set, and the data a pointer to a local of that size, which the kernel reads. A
    // child that was killed gives ESRCH.
    unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, pid, SIGNAL_SET, &raw const none) };
}

/// In the parent: lets a held child run.
pub(super) fn release(pid: i32) {
    // SAFETY: two numbers, the last of which is the signal that it goes on with: none. One that was killed gives ESRCH.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0_usize, 0_usize) };
}
