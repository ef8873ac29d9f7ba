//! The process that forks keepers, and the server's end of it.
//!
//! It is forked from the server before there is a second thread, an arena or a config, so it and all that it forks are small,
//! and what the server opens later is never in them. All that it does is fork: each request brings the control socket that
//! the new keeper is to have ([`super::spares`] makes them).
//!
//! It leads a kernel session of its own, so that no signal to the server's group or terminal reaches it, blocks every signal,
//! and holds /dev/null, one socket and no directory. It ends when the server has closed the other end of the socket, which
//! the kernel does whatever the server died of, and the last keeper has exited.
//!
//! It is the second net below the keepers. A keeper that is killed from outside leaves its children to the nursery, which
//! tells them from keepers by their kernel session: a leader opens one of its own and nobody can enter another's, so
//! whatever child is not of the nursery's session is such an orphan, and is killed.
//! A keeper that still sleeps until its leader executes when the server has ended is killed too: it can't see that end.
//!
//! A nursery that somebody kills is not replaced. By then the server has threads, descriptors and the text of sessions,
//! and a copy of all that is what it was forked early to avoid. What runs goes on, starts are refused and say why, and
//! whoever launched the server can launch it again.

#![allow(unsafe_code)]

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{Signal, kill},
        socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair},
        stat::Mode,
    },
    unistd::{Pid, chdir, getpid, getsid, setsid},
};

use super::{
    children::{find_waiting, for_each_child},
    exec,
    forked::{self, ChildSignal, exit},
    keeper,
    leader::{self, TO_GROUP},
    spares::Spares,
    wait,
    wire::{self, REPLY_BYTES, Received, Reply},
};

const NAME: &std::ffi::CStr = c"sluice-nursery";
/// How long dropping a [`Nursery`] may take: one that stays longer has a keeper with what it can't or may not end.
const DROP_LIMIT: Duration = Duration::from_millis(200);
/// How often, in milliseconds, keepers that hang are looked for at the end. One that is found twice in a row is killed.
const LOOK: u8 = 40;
/// How many times they are looked for. What hangs does so from the start; daemons that may stay can stay for long.
const LOOKS: u32 = 100;

/// Why no process can be started here at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A child's stdin, and the descriptors of the processes between, need it.
    #[error("/dev/null can't be opened ({}); it must be there", .0.desc())]
    Null(Errno),
    /// No socket or process to be had.
    #[error("a process can't be started: {}", .0.desc())]
    Resources(Errno),
    /// The kernel is too old, or a filter refuses it.
    #[error(
        "processes can't be told apart safely: the kernel gives no pidfd for a new process ({}); Linux 5.3 or later is \
         needed, and a seccomp filter must allow clone with CLONE_PIDFD",
        .0.desc()
    )]
    NoPidfd(Errno),
    /// A filter refuses it; nothing could be ended.
    #[error(
        "processes can't be signalled: pidfd_send_signal is refused ({}); the seccomp filter must allow it, or fail it \
         with ENOSYS",
        .0.desc()
    )]
    NoSignal(Errno),
    /// A filter refuses signalfd or `PR_SET_CHILD_SUBREAPER`.
    #[error(
        "descendants can't be adopted: signalfd or prctl(PR_SET_CHILD_SUBREAPER) is refused ({}); the seccomp filter \
         must allow both",
        .0.desc()
    )]
    NoAdoption(Errno),
}

/// The server's end. Dropped, or closed by the kernel with the server's death, it ends the nursery.
#[derive(Debug)]
pub struct Nursery {
    /// With the socket.
    spares: Arc<Spares>,
    /// Our child; absent once reaped.
    pid: Mutex<Option<Pid>>,
}

impl Nursery {
    /// Forks the nursery. To be called early, while this process is small: its memory is what every keeper starts with.
    /// Returns when it has seen that it can do its work.
    ///
    /// # Errors
    /// See [`Unfit`]. Nothing is left then.
    pub fn start() -> Result<Nursery, Unfit> {
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty());
        let null = null.map_err(Unfit::Null)?;
        // Packets, so that a request is taken whole.
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(Unfit::Resources)?;
        let copy = match forked::fork() {
            Ok(None) => run(&theirs, &null),
            Ok(Some(copy)) => copy,
            Err(errno @ (Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE)) => {
                return Err(Unfit::Resources(errno));
            }
            Err(errno) => return Err(Unfit::NoPidfd(errno)),
        };
        drop(theirs);
        let nursery = Nursery {
            spares: Arc::new(Spares::new(ours)),
            pid: Mutex::new(Some(copy.pid)),
        };
        nursery.check(copy.pidfd)?;
        nursery.spares.fill();
        Ok(nursery)
    }

    /// Whether processes can be followed and ended by their pidfds, and the nursery has what it needs.
    fn check(&self, pidfd: Option<OwnedFd>) -> Result<(), Unfit> {
        let pidfd = pidfd.ok_or(Unfit::NoPidfd(Errno::ENOSYS))?;
        match leader::signal(pidfd.as_fd(), 0, TO_GROUP) {
            // Where the call or its flag is unknown, numbers will do; the nursery may not lead a group yet.
            Ok(()) | Err(Errno::ENOSYS | Errno::EINVAL | Errno::ESRCH) => {}
            Err(errno) => return Err(Unfit::NoSignal(errno)),
        }
        let mut word = [0; REPLY_BYTES];
        let received = wire::receive(self.gone(), &mut word, &mut Received::default(), 0);
        match (received, Reply::decode(&word)) {
            (Ok(REPLY_BYTES), Some(Reply::Idle)) => Ok(()),
            (Ok(REPLY_BYTES), Some(Reply::Failed { errno, .. })) => Err(Unfit::NoAdoption(errno)),
            (Err(errno), _) => Err(Unfit::Resources(errno)),
            _ => Err(Unfit::Resources(Errno::ECHILD)),
        }
    }

    /// Keepers that wait for a start.
    pub(super) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    /// Becomes readable when the nursery is gone, and stays so.
    pub fn gone(&self) -> BorrowedFd<'_> {
        self.spares.nursery()
    }

    /// Takes no more starts, and waits until every keeper whose session is over has ended. Returns whether they have
    /// within the time.
    pub fn close(&self, within: Duration) -> bool {
        self.spares.close();
        shutdown(self.gone().as_raw_fd(), Shutdown::Write).ok();
        let mut ended = [PollFd::new(self.gone(), PollFlags::POLLIN)];
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

    /// Reaps the nursery, which is gone or about to be, and lets the keepers go that have no session.
    pub fn reap(&self) {
        self.spares.close();
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

/// The nursery from its fork to its end.
fn run(socket: &OwnedFd, null: &OwnedFd) -> ! {
    exec::mask_signals(u64::MAX);
    exec::default_signals();
    // SAFETY: this is the copy; what its original owned is never used or dropped in it, as this function doesn't return and
    // uses `socket` by the returned owner only.
    let Ok(socket) = (unsafe { forked::keep_only(socket, null) }) else {
        exit();
    };
    // These can't fail; without the name it is only harder to recognise.
    setsid().ok();
    chdir(c"/").ok();
    prctl::set_name(NAME).ok();
    let prepared = prctl::set_child_subreaper(true).and_then(|()| ChildSignal::new());
    let signals = match prepared {
        Ok(signals) => signals,
        Err(errno) => {
            wire::send(socket.as_fd(), &Reply::failed(errno).encode(), &[]).ok();
            exit();
        }
    };
    signals.reap_by_kernel();
    let own = getpid();
    if wire::send(socket.as_fd(), &Reply::Idle.encode(), &[]).is_err() {
        exit();
    }
    loop {
        let mut ready = [
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        // An error but EINTR is ENOMEM; what follows blocks no longer than the loop would.
        poll(&mut ready, PollTimeout::NONE).ok();
        let [request, child] = ready.map(|ready| ready.any().unwrap_or_default());
        if child {
            signals.take();
            tend(own);
        }
        if !request {
            continue;
        }
        let control = match take_request(socket.as_fd()) {
            Request::Fork(control) => control,
            Request::None => continue,
            Request::End => break,
        };
        match forked::fork() {
            Ok(None) => {
                // Held there, it would hide from the server that the nursery is gone.
                drop(socket);
                keeper::run(&control, &signals)
            }
            Ok(Some(_)) => {}
            Err(errno) => {
                wire::send(control.as_fd(), &Reply::failed(errno).encode(), &[]).ok();
            }
        }
    }
    // Keepers that are still at work are ours to reap, where init is none that does it. Until then the socket stays.
    let mut hangs = None;
    let mut looks = 0;
    while wait::look() != wait::Look::NoChild {
        tend(own);
        // A keeper sleeps until its leader has executed, and on a dead mount that is never: it can't see that the server
        // has ended. Nothing that it was to start may run any more, and its leader dies with it.
        let waits = find_waiting();
        if let Some(keeper) = waits.filter(|_| waits == hangs) {
            kill(keeper, Signal::SIGKILL).ok();
        }
        hangs = waits;
        let limit = if looks < LOOKS {
            looks += 1;
            PollTimeout::from(LOOK)
        } else {
            PollTimeout::NONE
        };
        let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, limit).ok();
        signals.take();
    }
    exit()
}

/// What the server wants.
enum Request {
    /// A keeper with this control socket.
    Fork(OwnedFd),
    /// Nothing after all.
    None,
    /// No more keepers: it is ending, or gone.
    End,
}

fn take_request(socket: BorrowedFd<'_>) -> Request {
    let mut received = Received::default();
    match wire::receive(socket, &mut [0], &mut received, libc::MSG_DONTWAIT) {
        Ok(0) => Request::End,
        Ok(_) => {
            let [control, ..] = received;
            control.map_or(Request::None, Request::Fork)
        }
        // Without a number for it, the control socket is closed, which tells the server.
        Err(Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => Request::None,
        Err(_) => Request::End,
    }
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
