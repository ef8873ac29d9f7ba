//! From a keeper to a leader: what runs between clone and exec.
//!
//! The child borrows the keeper's memory until its exec (`CLONE_VM`), and the keeper sleeps as long (`CLONE_VFORK`). So no
//! page table is copied, and the child leaves the error of a step that failed where the keeper finds it. It runs on a
//! stack of its own. Its descriptors, working directory and signal state are copies from the start, so that what it does
//! to them stays its own.

#![allow(unsafe_code)]

use std::{
    ffi::{c_char, c_int, c_void},
    num::NonZeroUsize,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
};

use nix::{
    errno::Errno,
    sys::{
        mman::{MapFlags, ProtFlags, mmap_anonymous, munmap},
        prctl,
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
    },
};

use super::{
    hold,
    request::{Body, RESTRICTIONS},
    wait,
};
use crate::contain;

/// Stack of the child until its exec. It calls a dozen thin wrappers of system calls, none nested.
const STACK: NonZeroUsize = NonZeroUsize::new(64 * 1024).expect("not zero");

/// The kernel's `struct sigaction` of 64-bit systems with nothing set: the default action, no flags, an empty mask.
const DEFAULT_ACTION: [u64; 4] = [0; 4];
/// Size of the kernel's signal set, whose bits are the signals 1 to 64.
const SIGNAL_SET: usize = 8;
const LAST_SIGNAL: c_int = 64;

/// Puts every signal to its default action, those included that libc keeps to itself: the raw call, because libc's
/// refuses these.
pub(super) fn default_signals() {
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the pointer is to a constant of the kernel's layout. No handler is installed. KILL and STOP are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT_ACTION.as_ptr(),
                ptr::null_mut::<c_void>(),
                SIGNAL_SET,
            );
        }
    }
}

/// Sets the calling thread's mask, in which bit 0 is signal 1. The raw call, as in [`default_signals`].
pub(super) fn mask_signals(set: u64) {
    // SAFETY: the pointer is to a local of the kernel's size that outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const set,
            ptr::null_mut::<c_void>(),
            SIGNAL_SET,
        );
    }
}

/// A child that runs its program.
pub(super) struct Started {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

/// Why it doesn't run. It is reaped.
#[derive(Clone, Copy)]
pub(super) struct Failed {
    pub errno: Errno,
    /// Whether exec itself failed, or a step before it.
    pub at_exec: bool,
}

impl Failed {
    fn before_exec(errno: Errno) -> Failed {
        Failed {
            errno,
            at_exec: false,
        }
    }
}

/// What the child needs, and where it leaves its error.
struct Plan<'a> {
    arguments: *const *const c_char,
    variables: *const *const c_char,
    cwd: RawFd,
    stdio: [RawFd; 3],
    restrictions: [Option<u64>; RESTRICTIONS],
    /// With whether sockets are left.
    containment: Option<(BorrowedFd<'a>, bool)>,
    held: bool,
    terminal: bool,
    keeper: i32,
    failed: Option<Failed>,
}

/// Starts the program of `body`, and holds it if that asks for it. The calling process has one thread, all signals blocked and at their default actions,
/// every descriptor from 3 up close-on-exec, and `cwd`, `stdio` and `ruleset` among these.
///
/// # Errors
/// See [`Failed`].
pub(super) fn start(
    body: &Body,
    cwd: &OwnedFd,
    stdio: [&OwnedFd; 3],
    ruleset: Option<&OwnedFd>,
) -> Result<Started, Failed> {
    let mut plan = Plan {
        arguments: body.arguments(),
        variables: body.variables(),
        cwd: cwd.as_raw_fd(),
        stdio: stdio.map(AsRawFd::as_raw_fd),
        restrictions: body.restrictions(),
        containment: ruleset.map(|ruleset| (ruleset.as_fd(), body.sockets())),
        held: body.held(),
        terminal: body.terminal(),
        keeper: nix::unistd::getpid().as_raw(),
        failed: None,
    };
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let kind = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let stack =
        unsafe { mmap_anonymous(None, STACK, access, kind) }.map_err(Failed::before_exec)?;
    let mut pidfd: RawFd = -1;
    // SAFETY: CLONE_VFORK suspends this process, which has no other thread, until the child has left this memory by exec
    // or exit; until then `plan`, the body behind it and the stack are in place. The stack grows down from its end, which
    // is aligned to a page, and `pidfd` is where CLONE_PIDFD writes. The child shares no descriptors and no signal
    // actions with us, and writes to no memory but its stack, `plan.failed` and errno.
    let pid = unsafe {
        libc::clone(
            child,
            stack.as_ptr().byte_add(STACK.get()),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            (&raw mut plan).cast(),
            &raw mut pidfd,
        )
    };
    let cloned = Errno::result(pid);
    release(stack);
    let pid = cloned.map_err(Failed::before_exec)?;
    // Kernels before 5.2 don't know CLONE_PIDFD and leave the number alone.
    // SAFETY: any other number is a descriptor that the kernel has just made and nobody else knows.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    // SAFETY: `plan` is a local; the child, the only other writer, has left this memory.
    let failed = unsafe { (&raw const plan.failed).read_volatile() };
    match (failed, pidfd) {
        (None, Some(pidfd)) => {
            if body.held() {
                hold::wait_until_held(pid);
            }
            Ok(Started { pid, pidfd })
        }
        (failed, _) => {
            end(pid);
            Err(failed.unwrap_or(Failed::before_exec(Errno::ENOSYS)))
        }
    }
}

fn release(stack: NonNull<c_void>) {
    // SAFETY: the mapping is of this size, and the child that ran on it has left this memory. An error would be EINVAL for
    // a range that mmap did not give.
    unsafe { munmap(stack, STACK.get()) }.ok();
}

/// Waits for a child that has exited or is about to.
fn end(pid: i32) {
    // SAFETY: two integers; the child is ours and unreaped, so the id is its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait::discard_at_its_end(pid);
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan<'_>>();
    // SAFETY: `start` keeps the plan in place until this process has left its memory, and is suspended meanwhile.
    let plan = unsafe { &mut *plan };
    plan.failed = Some(run(plan));
    127
}

/// Returns only when a step failed.
fn run(plan: &Plan<'_>) -> Failed {
    match prepare(plan) {
        Ok(()) => {}
        Err(errno) => return Failed::before_exec(errno),
    }
    // SAFETY: both lists end with a null pointer and their strings with a NUL, the first list has a first string, and the
    // body that holds them is alive in the suspended keeper.
    unsafe { libc::execve(*plan.arguments, plan.arguments, plan.variables) };
    Failed {
        errno: Errno::last(),
        at_exec: true,
    }
}

fn prepare(plan: &Plan<'_>) -> Result<(), Errno> {
    nix::unistd::setsid()?;
    // Kept across exec: should the keeper be killed, its leader goes with it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if nix::unistd::getppid().as_raw() != plan.keeper {
        // It was killed before the line above, which then came too late.
        return Err(Errno::ESRCH);
    }
    // SAFETY: an integer; the keeper holds the descriptor, and this process has a copy of its table.
    Errno::result(unsafe { libc::fchdir(plan.cwd) })?;
    for (number, &fd) in (0..).zip(&plan.stdio) {
        // SAFETY: two integers. The sources lie above 2, since the keeper's 0 to 2 are taken, so none is overwritten
        // before its turn. What was on 0 to 2 is a copy of the keeper's own, which has no other owner here.
        Errno::result(unsafe { libc::dup2(fd, number) })?;
    }
    if plan.terminal {
        // SAFETY: integers. The session is new, so it has no terminal yet, and 0 isn't to be taken from another session.
        Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
    }
    restrict(plan.restrictions)?;
    if let Some((ruleset, sockets)) = plan.containment {
        // Last, since the steps before it may need what it withholds.
        contain::enter(ruleset, sockets)?;
    }
    if plan.held {
        hold::at_exec()
    } else {
        mask_signals(0);
        Ok(())
    }
}

/// Lowers limits and priority, never raises them: a limit above the hard one that the server got leaves that in force.
fn restrict(restrictions: [Option<u64>; RESTRICTIONS]) -> Result<(), Errno> {
    let [cpu, memory, processes, files, file_size, nice, umask] = restrictions;
    for (resource, limit) in [
        (Resource::RLIMIT_CPU, cpu),
        (Resource::RLIMIT_AS, memory),
        (Resource::RLIMIT_NPROC, processes),
        (Resource::RLIMIT_NOFILE, files),
        (Resource::RLIMIT_FSIZE, file_size),
    ] {
        let Some(limit) = limit else { continue };
        let (_, hard) = getrlimit(resource)?;
        // SIGXCPU comes at the soft limit of CPU time and KILL at the hard one; a program may save its work in between.
        let last = if resource == Resource::RLIMIT_CPU {
            limit + 1
        } else {
            limit
        };
        setrlimit(resource, limit.min(hard), last.min(hard))?;
    }
    if let Some(nice) = nice.and_then(|nice| c_int::try_from(nice).ok()) {
        // Only downwards; a privileged server would be allowed the other direction.
        // SAFETY: integers; 0 is this process. The first call can't fail for it.
        unsafe {
            let current = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, nice.max(current));
        }
    }
    if let Some(umask) = umask.and_then(|umask| libc::mode_t::try_from(umask).ok()) {
        // SAFETY: an integer; the mask is this process's own copy, and the call can't fail.
        unsafe { libc::umask(umask) };
    }
    Ok(())
}
