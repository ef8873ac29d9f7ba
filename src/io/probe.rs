//! Whether io_uring works here, asked of a small ring of its own before the runtime depends on one.
//!
//! Kernels without it, sysctls, memory limits and seccomp filters refuse at different steps, and a filter may let the set-up
//! pass and refuse only `io_uring_enter`. So every kind of call that the backend needs is made once. None of them waits.

#![allow(unsafe_code)]

use std::{fmt, io, os::fd::AsRawFd};

use io_uring::{
    IoUring, Probe, opcode, squeue,
    types::{CancelBuilder, Fd},
};
use nix::errno::Errno;

/// Entries of the ring that is tried.
const ENTRIES: u32 = 4;

/// What the backend submits.
const OPERATIONS: [u8; 4] = [
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::AsyncCancel::CODE,
    opcode::Timeout::CODE,
];

/// What was tried last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `io_uring_setup`, and mapping the queues.
    Setup,
    /// The kernel's list of features.
    Features,
    /// `io_uring_register`, to ask for the operations.
    Register,
    /// The list of operations.
    Operations,
    /// `io_uring_enter`, with an operation that does nothing.
    Enter,
    /// A cancellation by descriptor.
    Cancel,
}

/// Why io_uring can't be used. Displayed as one line that says what would allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was tried.
    pub step: Step,
    /// What the kernel, or a filter in its name, answered.
    pub errno: Errno,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = match self.step {
            Step::Setup => "io_uring_setup",
            Step::Features => "io_uring lacks fast poll or overflow protection",
            Step::Register => "io_uring_register",
            Step::Operations => "io_uring lacks an operation",
            Step::Enter => "io_uring_enter",
            Step::Cancel => "io_uring cancellation by descriptor",
        };
        let allow = match self.errno {
            Errno::EPERM | Errno::EACCES => {
                "allow the io_uring system calls in the seccomp filter, and set kernel.io_uring_disabled=0"
            }
            Errno::ENOSYS => {
                "use a kernel built with CONFIG_IO_URING, and a seccomp filter that doesn't hide it"
            }
            Errno::ENOMEM => "raise the limit of locked memory (ulimit -l)",
            Errno::EMFILE | Errno::ENFILE => "raise the limit of open files (ulimit -n)",
            _ => "Linux 5.19 or later is needed",
        };
        write!(out, "{tried}: {:?}; {allow}", self.errno)
    }
}

impl std::error::Error for Refused {}

/// Tries each kind of call that the io_uring backend makes, on a ring that is gone afterwards.
///
/// # Errors
/// [`Refused`], with the first step that failed. No descriptor is left.
pub fn probe() -> Result<(), Refused> {
    let failed = |step| {
        move |error: io::Error| Refused {
            step,
            // Of the crate's errors only those of system calls occur here, and they carry their number.
            errno: error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        }
    };
    let mut ring = IoUring::new(ENTRIES).map_err(failed(Step::Setup))?;

    // Without fast poll each waiting read occupies a kernel thread; without nodrop completions can be lost.
    if !(ring.params().is_feature_fast_poll() && ring.params().is_feature_nodrop()) {
        return Err(Refused {
            step: Step::Features,
            errno: Errno::EINVAL,
        });
    }

    let mut known = Probe::new();
    ring.submitter()
        .register_probe(&mut known)
        .map_err(failed(Step::Register))?;
    if !OPERATIONS
        .iter()
        .all(|&operation| known.is_supported(operation))
    {
        return Err(Refused {
            step: Step::Operations,
            errno: Errno::EINVAL,
        });
    }

    let done = round_trip(&mut ring, &opcode::Nop::new().build()).map_err(failed(Step::Enter))?;
    if done != Some(0) {
        return Err(Refused {
            step: Step::Enter,
            errno: answer(done),
        });
    }

    // Nothing is in flight on the ring's own descriptor, so the right answer is that nothing was found: a count of 0, or
    // ENOENT. Before Linux 5.19 the flags are unknown: EINVAL.
    let target = CancelBuilder::fd(Fd(ring.as_raw_fd())).all();
    let cancel = opcode::AsyncCancel2::new(target).build();
    match round_trip(&mut ring, &cancel).map_err(failed(Step::Cancel))? {
        Some(0) => Ok(()),
        Some(result) if result == -libc::ENOENT => Ok(()),
        other => Err(Refused {
            step: Step::Cancel,
            errno: answer(other),
        }),
    }
}

/// Submits an operation that completes within its submission, without waiting: a filter may pretend to have submitted it,
/// and then nothing would ever come. `None` when there is no completion.
fn round_trip(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<Option<i32>> {
    // SAFETY: neither of the two operations that come here refers to memory; the ring's descriptor, which one of them
    // names, is open for as long as the ring.
    unsafe { ring.submission().push(entry) }.expect("each entry leaves before the next comes");
    ring.submit()?;
    Ok(ring.completion().next().map(|entry| entry.result()))
}

/// The error in a completion that isn't the expected one.
fn answer(result: Option<i32>) -> Errno {
    match result {
        Some(result) if result < 0 => Errno::from_raw(-result),
        _ => Errno::ENODATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/thread-self/fd").unwrap().count()
    }

    /// Runs `body` on a thread with a descriptor table of its own, where `call` answers `errno`.
    fn where_refused(call: libc::c_long, errno: Errno, body: impl FnOnce() + Send) {
        let load = |at| libc::sock_filter {
            code: 0x20,
            jt: 0,
            jf: 0,
            k: at,
        };
        let answer = |value| libc::sock_filter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: value,
        };
        let number = u32::try_from(call).unwrap();
        let refusal = libc::SECCOMP_RET_ERRNO | u32::try_from(errno as i32).unwrap();
        let mut program = [
            load(0),
            libc::sock_filter {
                code: 0x15,
                jt: 0,
                jf: 1,
                k: number,
            },
            answer(refusal),
            answer(libc::SECCOMP_RET_ALLOW),
        ];
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let filter = libc::sock_fprog {
                    len: 4,
                    filter: program.as_mut_ptr(),
                };
                // SAFETY: `filter` and the program that it points to outlive the calls, which copy them. Filter and
                // table are this thread's own and end with it.
                unsafe {
                    assert_eq!(libc::unshare(libc::CLONE_FILES), 0);
                    assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                    assert_eq!(
                        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
                        0
                    );
                }
                body();
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    #[test]
    fn a_filter_at_any_step_is_reported_without_hanging_or_leaking() {
        if let Err(refused) = probe() {
            eprintln!("NOT TESTED, io_uring is refused here: {refused}");
            return;
        }
        for (call, step) in [
            (libc::SYS_io_uring_setup, Step::Setup),
            (libc::SYS_io_uring_register, Step::Register),
            (libc::SYS_io_uring_enter, Step::Enter),
        ] {
            for errno in [Errno::EPERM, Errno::ENOSYS, Errno::ENOMEM] {
                where_refused(call, errno, || {
                    let before = open_descriptors();
                    assert_eq!(probe(), Err(Refused { step, errno }));
                    assert_eq!(open_descriptors(), before);
                });
            }
        }
    }

    #[test]
    fn a_filter_that_pretends_success_is_noticed() {
        if probe().is_err() {
            eprintln!("NOT TESTED, io_uring is refused here");
            return;
        }
        where_refused(libc::SYS_io_uring_enter, Errno::from_raw(0), || {
            assert_eq!(
                probe(),
                Err(Refused {
                    step: Step::Enter,
                    errno: Errno::ENODATA
                })
            );
        });
    }

    #[test]
    fn the_choice_falls_back_only_when_it_may() {
        use crate::io::{Backend, Choice};
        where_refused(libc::SYS_io_uring_setup, Errno::EPERM, || {
            let refused = Refused {
                step: Step::Setup,
                errno: Errno::EPERM,
            };
            assert_eq!(Choice::Auto.resolve(), Ok((Backend::Epoll, Some(refused))));
            assert_eq!(Choice::Uring.resolve(), Err(refused));
            assert_eq!(Choice::Epoll.resolve(), Ok((Backend::Epoll, None)));
        });
    }

    #[test]
    fn a_refusal_is_one_line_that_says_what_would_help() {
        let line = Refused {
            step: Step::Setup,
            errno: Errno::EPERM,
        }
        .to_string();
        assert_eq!(
            line,
            "io_uring_setup: EPERM; allow the io_uring system calls in the seccomp filter, and set kernel.io_uring_disabled=0"
        );
    }
}
