//! The process that forks keepers, and the server's end of it.
//!
//! It is forked from the server before there is a second thread, an arena or a config, so it and all that it forks are small,
//! and what the server opens later is never in them. It does nothing but keep a few spare keepers ready: the price of a
//! fork is paid before a start asks for it.
//!
//! It leads a kernel session of its own, so that no signal to the server's group or terminal reaches it, blocks every signal,
//! and holds /dev/null, one socket and no directory. It ends when the server has closed the other end of the socket, which
//! the kernel does whatever the server died of, and the last keeper has exited.
//!
//! It is the second net below the keepers. A keeper that is killed from outside leaves its children to the nursery, which
//! tells them from keepers by their kernel session: a leader opens one of its own and nobody can enter another's, so
//! whatever child is not of the nursery's session is such an orphan, and is killed.
//!
//! Nothing that runs in the forked process allocates or panics: tests and benches start nurseries from processes with many
//! threads, one of which may hold the allocator's lock for ever in the copy.

#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair},
        stat::Mode,
    },
    unistd::{Pid, chdir, getpid, getsid, pipe2, read, setsid},
};

use super::{
    children::for_each_child,
    exec, keeper, wait,
    wire::{self, Reply, START},
};

const NAME: &std::ffi::CStr = c"sluice-nursery";
/// The number of the socket in the forked processes.
const SOCKET: RawFd = 3;
/// Keepers that are forked ahead of starts. Starts that come faster than one fork after the other find one ready.
const SPARES: usize = 3;
/// How long dropping a [`Nursery`] may take: one that stays longer has a keeper with what it can't or may not end.
const DROP_LIMIT: Duration = Duration::from_millis(200);
/// How long the nursery waits before it forks again after a spare that ended without a start.
const PAUSE: u8 = 20;

/// The server's end. Dropped, or closed by the kernel with the server's death, it ends the nursery.
#[derive(Debug)]
pub struct Nursery {
    socket: OwnedFd,
    /// Our child; absent once reaped.
    pid: Mutex<Option<Pid>>,
}

impl Nursery {
    /// Forks the nursery. To be called early, while this process is small: its memory is what every keeper starts with.
    ///
    /// # Errors
    /// The kernel's: no socket or no process to be had.
    pub fn start() -> Result<Nursery, Errno> {
        // Packets: each start is taken whole, by whichever spare comes first.
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        match fork()? {
            None => run(&theirs),
            Some(pid) => Ok(Nursery {
                socket: ours,
                pid: Mutex::new(Some(pid)),
            }),
        }
    }

    /// Hands a start over to whichever keeper is free.
    ///
    /// # Errors
    /// EPIPE or ECONNRESET when the nursery is gone; otherwise the kernel's, about descriptors in flight.
    pub(super) fn hand_over(&self, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        wire::send(self.socket.as_fd(), &[START], descriptors).map(drop)
    }

    /// Becomes readable when the nursery is gone, and stays so.
    pub fn gone(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes no more starts, and waits until every keeper whose session is over has ended. Returns whether they have
    /// within the time.
    pub fn close(&self, within: Duration) -> bool {
        shutdown(self.socket.as_raw_fd(), Shutdown::Write).ok();
        let mut ended = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
        let ended = poll(&mut ended, limit).is_ok_and(|count| count > 0);
        if ended {
            self.reap();
        } else {
            // Whoever reaps this process's orphans will reap it.
            self.unreaped().take();
        }
        ended
    }

    /// Reaps the nursery, which is gone or about to be.
    pub fn reap(&self) {
        let pid = self.unreaped().take();
        if let Some(pid) = pid {
            wait::discard_at_its_end(pid.as_raw());
        }
    }

    fn unreaped(&self) -> MutexGuard<'_, Option<Pid>> {
        self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Nursery {
    /// Ends it. Blocks for as long as keepers take to end what the last sessions have left, 200 ms at most.
    fn drop(&mut self) {
        if self.unreaped().is_some() {
            self.close(DROP_LIMIT);
        }
    }
}

/// A copy of this process; `None` in the copy. The raw call: libc's runs handlers and takes locks, for which a process
/// with other threads is no place.
fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: without flags and a stack this is fork(2): the copy has its own memory. The code that runs in it (`run`,
    // `keeper::run`) makes system calls only.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    let pid = i32::try_from(Errno::result(pid)?).map_err(|_| Errno::EOVERFLOW)?;
    Ok((pid > 0).then(|| Pid::from_raw(pid)))
}

/// Ends a forked process without running anything that its original has registered.
pub(super) fn exit() -> ! {
    // SAFETY: an integer; it doesn't return.
    unsafe { libc::_exit(0) }
}

/// Says that a child has exited, stopped or continued.
pub(super) struct ChildSignal(SignalFd);

impl ChildSignal {
    fn new() -> Result<ChildSignal, Errno> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map(ChildSignal)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Makes it unreadable until the next child. Whoever calls it looks at the children afterwards.
    pub(super) fn take(&self) {
        while matches!(self.0.read_signal(), Ok(Some(_))) {}
    }

    /// From here on, children stay until they are waited for.
    pub(super) fn reap_ourselves(&self) {
        child_action(0);
    }

    /// From here on, the kernel reaps children by itself, and says so all the same.
    fn reap_by_kernel(&self) {
        child_action(libc::SA_NOCLDWAIT);
    }
}

fn child_action(flags: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid action (the default, an empty mask), and the pointer is to a local that outlives the call.
    unsafe {
        (*action.as_mut_ptr()).sa_flags = flags;
        libc::sigaction(libc::SIGCHLD, action.as_ptr(), ptr::null_mut());
    }
}

/// The nursery from its fork to its end.
fn run(socket: &OwnedFd) -> ! {
    exec::mask_signals(u64::MAX);
    exec::default_signals();
    let Ok(socket) = keep_only(socket) else {
        exit();
    };
    // The first three can't fail; without a name it is only harder to recognise, without the role it is no second net.
    setsid().ok();
    chdir(c"/").ok();
    prctl::set_name(NAME).ok();
    prctl::set_child_subreaper(true).ok();
    let Ok(signals) = ChildSignal::new() else {
        exit();
    };
    signals.reap_by_kernel();
    let mut nest = Nest {
        socket: Some(socket),
        spares: [const { None }; SPARES],
        signals,
        own: getpid(),
    };
    loop {
        let filled = nest.fill();
        let served = match filled {
            Err(errno) if nest.spares.iter().all(Option::is_none) => nest.refuse(errno),
            _ => nest.watch(),
        };
        if !served {
            break;
        }
    }
    // Keepers that are still at work are ours to reap, where init is none that does it.
    loop {
        tend(nest.own);
        if wait::look() == wait::Look::NoChild {
            exit();
        }
        let mut ready = [PollFd::new(nest.signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::NONE).ok();
        nest.signals.take();
    }
}

/// Closes everything but the socket, which becomes [`SOCKET`], and puts /dev/null on 0 to 2.
fn keep_only(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let null = open(
        c"/dev/null",
        OFlag::O_RDWR | OFlag::O_CLOEXEC,
        Mode::empty(),
    );
    // Where there is no /dev/null, anything that a descriptor of a child can't be mistaken for.
    let filler = null.as_ref().unwrap_or(socket).as_raw_fd();
    // SAFETY: integers. This is a copy of the server with one thread; the owners of the numbers that are closed and
    // overwritten here are never used or dropped in it, as `run` doesn't return. The socket and the filler are moved above
    // the numbers that are written before these are.
    unsafe {
        let socket = Errno::result(libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10))?;
        let filler = Errno::result(libc::fcntl(filler, libc::F_DUPFD_CLOEXEC, 10))?;
        for number in 0..3 {
            Errno::result(libc::dup2(filler, number))?;
        }
        Errno::result(libc::dup3(socket, SOCKET, libc::O_CLOEXEC))?;
        close_from(SOCKET + 1);
        std::mem::forget(null);
        Ok(OwnedFd::from_raw_fd(SOCKET))
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

/// What the nursery keeps.
struct Nest {
    /// Where starts come from. Absent only in a copy that has given it to its keeper.
    socket: Option<OwnedFd>,
    /// The pipe of each spare, on which it says that it was taken.
    spares: [Option<OwnedFd>; SPARES],
    signals: ChildSignal,
    own: Pid,
}

impl Nest {
    /// Forks a spare for each place that is free.
    fn fill(&mut self) -> Result<(), Errno> {
        for index in 0..SPARES {
            if self.spares.get(index).is_some_and(Option::is_some) {
                continue;
            }
            let (taken, theirs) = pipe2(OFlag::O_CLOEXEC)?;
            if fork()?.is_none() {
                drop(taken);
                self.spares = [const { None }; SPARES];
                match self.socket.take() {
                    Some(socket) => keeper::run(socket, &self.signals, theirs, self.own),
                    None => exit(),
                }
            }
            if let Some(place) = self.spares.get_mut(index) {
                *place = Some(taken);
            }
        }
        Ok(())
    }

    /// Tends the other children until a spare has taken a start or is gone, and frees its place. `false` when the server
    /// is gone.
    fn watch(&mut self) -> bool {
        let mut ready: [PollFd<'_>; SPARES + 1] = std::array::from_fn(|index| {
            let fd = match self.spares.get(index) {
                Some(Some(taken)) => taken.as_fd(),
                // The last one is for the other children, and so is a place that could not be filled.
                _ => self.signals.as_fd(),
            };
            PollFd::new(fd, PollFlags::POLLIN)
        });
        poll(&mut ready, PollTimeout::NONE).ok();
        let ready = ready.map(|ready| ready.any().unwrap_or_default());
        if ready.last() == Some(&true) {
            self.signals.take();
            tend(self.own);
        }
        for (place, ready) in self.spares.iter_mut().zip(ready) {
            if ready && let Some(taken) = place.take() {
                // Without the byte it ended without a start: because the server is gone, or killed by somebody.
                if read(&taken, &mut [0]) != Ok(1) && is_over(self.socket.as_ref()) {
                    return false;
                }
            }
        }
        true
    }

    /// Answers one start with the reason why nothing can be forked. `false` when the server is gone.
    fn refuse(&self, errno: Errno) -> bool {
        let start = self
            .socket
            .as_ref()
            .and_then(|socket| keeper::take_start(socket.as_fd()));
        let Some(start) = start else {
            return false;
        };
        let reply = Reply::Failed {
            errno,
            at_exec: false,
        };
        wire::send_all(start.control.as_fd(), &reply.encode()).ok();
        true
    }
}

/// Whether the server's end is closed; waits a little, so that a spare that can't live is not forked without a pause.
fn is_over(socket: Option<&OwnedFd>) -> bool {
    let Some(socket) = socket else {
        return true;
    };
    let closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
    let mut over = [PollFd::new(socket.as_fd(), closed)];
    poll(&mut over, PollTimeout::from(PAUSE)).is_ok_and(|count| count > 0)
}

/// Kills what a killed keeper has left, and lets a stopped keeper go on.
fn tend(own: Pid) {
    for_each_child(|child| {
        let child = Pid::from_raw(child);
        // A leader that has not come to its setsid yet has no children, and dies with its keeper.
        if getsid(Some(child)).is_ok_and(|session| session != own) {
            kill(child, Signal::SIGKILL).ok();
        }
    });
    while let Some(stopped) = wait::take_stopped() {
        kill(Pid::from_raw(stopped), Signal::SIGCONT).ok();
    }
}
