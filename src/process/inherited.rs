//! What a keeper's children get from it without being told, and any process of the same user can change.

#![allow(unsafe_code)]

use std::{ffi::CStr, mem::MaybeUninit};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::read,
};

/// How many resources have a limit (RLIM_NLIMITS).
const RESOURCES: usize = 16;
/// Words of a mask that has room for 1024 processors.
const PROCESSORS: usize = 1024 / 64;
/// Words of the kernel's `struct sched_attr`.
const SCHEDULING: usize = 7;
/// `ioprio_get`'s name for one process.
const WHO_PROCESS: libc::c_int = 1;

/// What has no system call.
const FILES: [&CStr; 3] = [
    c"/proc/self/oom_score_adj",
    c"/proc/self/coredump_filter",
    c"/proc/self/cgroup",
];
/// The start of such a file, in which all of it finds room unless groups are nested deeply.
const FILE_BYTES: usize = 256;

/// Limits, scheduling, processors and groups of this process. A job that names its parent to `prlimit`, `renice`, `chrt`,
/// `taskset`, `ionice` or `choom`, or moves it to another cgroup, changes its keeper, and must not change the next session
/// by that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Inherited {
    limits: [(libc::rlim_t, libc::rlim_t); RESOURCES],
    /// Policy; flags; nice and priority; the clamps of utilisation.
    scheduling: [u64; 4],
    processors: [u64; PROCESSORS],
    io_priority: libc::c_long,
    timer_slack: libc::c_int,
    files: [[u8; FILE_BYTES]; FILES.len()],
}

impl Inherited {
    /// As they are now. What can't be told stays the same from call to call.
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
        let mut scheduling = [0_u64; SCHEDULING];
        let mut processors = [0; PROCESSORS];
        // SAFETY: integers, 0 being this process, and pointers to locals of the lengths that are given.
        let (io_priority, timer_slack) = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                scheduling.as_mut_ptr(),
                size_of_val(&scheduling),
                0,
            );
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(&processors),
                processors.as_mut_ptr(),
            );
            (
                libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0),
                libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0),
            )
        };
        // What lies between is the slice that the kernel has chosen, which may change, or what only root could have set.
        let [policy, flags, priority, .., utilisation] = scheduling;
        Inherited {
            limits,
            scheduling: [policy, flags, priority, utilisation],
            processors,
            io_priority,
            timer_slack,
            files: FILES.map(start_of),
        }
    }
}

fn start_of(path: &CStr) -> [u8; FILE_BYTES] {
    let mut bytes = [0; FILE_BYTES];
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
    file.and_then(|file| read(file, &mut bytes)).ok();
    bytes
}
