//! What a keeper's children get from it without being told, and any process of the same user can change.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// How many resources have a limit (RLIM_NLIMITS).
const RESOURCES: usize = 16;
/// Room for the processors that a mask may name.
const PROCESSORS: usize = 1024 / 64;

/// Limits, priority, scheduling policy and processors of this process. A job that names its parent to `prlimit`, `renice`,
/// `chrt` or `taskset` changes its keeper, and must not change the next session by that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Inherited {
    limits: [(libc::rlim_t, libc::rlim_t); RESOURCES],
    nice: libc::c_int,
    policy: libc::c_int,
    processors: [u64; PROCESSORS],
}

impl Inherited {
    /// As they are now.
    pub(super) fn now() -> Inherited {
        let mut limits = [(0, 0); RESOURCES];
        for (resource, limit) in (0..).zip(&mut limits) {
            let mut value = MaybeUninit::<libc::rlimit>::zeroed();
            // SAFETY: the pointer is to a local of the type that the kernel writes; zeros are valid for it.
            let value = unsafe {
                libc::getrlimit(resource, value.as_mut_ptr());
                value.assume_init()
            };
            *limit = (value.rlim_cur, value.rlim_max);
        }
        let mut processors = [0; PROCESSORS];
        // SAFETY: integers, 0 being this process, and a pointer to a local of the length that is given. What can't be told
        // stays the same from call to call.
        let (nice, policy) = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(&processors),
                processors.as_mut_ptr(),
            );
            (
                libc::getpriority(libc::PRIO_PROCESS, 0),
                libc::sched_getscheduler(0),
            )
        };
        Inherited {
            limits,
            nice,
            policy,
            processors,
        }
    }
}
