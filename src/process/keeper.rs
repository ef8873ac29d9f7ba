//! The parent of one session: starts its leader, adopts whatever descendant loses its parent, reaps, and ends them all when
//! the session is over.
//!
//! A keeper is a child subreaper, and every session has one of its own. So a descendant that left the group, by setsid, a
//! double fork or a group of its own, with whatever environment and whatever descriptors closed, becomes a child of exactly
//! this keeper as soon as its own parents are gone. Whose it is needs no mark and no guess.
//!
//! The life of a keeper:
//!
//! 1. Spare: it waits on the nursery's socket, together with the other spares, for a start. It dies with the nursery until
//!    it has one.
//! 2. It starts the leader and says so on the session's control socket. One that the server wants to look at first is held
//!    before its first instruction until the server says go.
//! 3. It reaps adopted orphans at once, and the leader only when told to: a number that is not reaped can't be another's,
//!    and that is what the server's signals to the group rely on.
//! 4. The control socket ends, because the session is over or because the server is gone, killed or not. What is left of
//!    the session is killed and reaped, and the keeper exits.
//!
//! Every signal is blocked here but KILL and STOP, so nothing that is sent to the server's name or group ends a keeper. One
//! that is killed takes its leader with it (`PR_SET_PDEATHSIG`) and leaves the rest to the nursery.
//!
//! Nothing in this file allocates or panics: the process may be the forked copy of one that had other threads.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{Signal, kill, killpg},
    },
    unistd::{Pid, getppid, write},
};

use super::{
    children::for_each_child,
    exec::{self, Failed, Started},
    hold,
    nursery::{ChildSignal, exit},
    request::Body,
    wait::{self, Look},
    wire::{self, GO, LEAVE, REAP, Received, Reply, START},
};

/// The name that `ps -e` shows and killall matches; not the server's, so that a `killall` meant for the server reaches it
/// only. Full command lines are the server's.
const NAME: &std::ffi::CStr = c"sluice-keeper";
/// How often what must die is looked for again when no child's end has said so before. An orphan that comes is not
/// announced by itself.
const SWEEP: u8 = 5;
/// How long killed children may take before they are left to init: one in an uninterruptible wait may take for ever, and
/// one that runs as another user can't be killed.
const GIVE_UP: Duration = Duration::from_secs(2);

/// Runs a spare, and the session that it gets, to the end. `starts` is the nursery's socket, `signals` reports SIGCHLD,
/// `taken` gets one byte when a start was taken.
pub(super) fn run(starts: OwnedFd, signals: &ChildSignal, taken: OwnedFd, nursery: Pid) -> ! {
    if prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != nursery {
        exit();
    }
    // An older kernel without the name or the role: a session's escaped descendants would go to init.
    prctl::set_name(NAME).ok();
    prctl::set_child_subreaper(true).ok();
    signals.reap_ourselves();
    let Some(start) = take_start(starts.as_fd()) else {
        exit();
    };
    // The nursery may be gone; this session goes on then.
    write(&taken, &[START]).ok();
    // A socket that is held here would hide from the server that the nursery is gone.
    drop((taken, starts));
    prctl::set_pdeathsig(None).ok();
    let Start {
        control,
        cwd,
        stdio,
        ruleset,
    } = start;
    let started = match Body::receive(control.as_fd()) {
        Ok(Some(body)) => exec::start(&body, &cwd, stdio.each_ref(), ruleset.as_ref()),
        Ok(None) => exit(),
        Err(errno) => Err(Failed {
            errno,
            at_exec: false,
        }),
    };
    // Our copies of the child's ends would keep its pipes from ever reaching their end.
    drop((cwd, stdio, ruleset));
    match started {
        Err(Failed { errno, at_exec }) => {
            let reply = Reply::Failed { errno, at_exec }.encode();
            wire::send_all(control.as_fd(), &reply).ok();
        }
        Ok(Started { pid, pidfd }) => {
            let reply = Reply::Started(pid).encode();
            let told = wire::send(control.as_fd(), &reply, &[pidfd.as_fd()]);
            drop(pidfd);
            let mut session = Session {
                leader: Some(Pid::from_raw(pid)),
                may_stay: false,
            };
            match told {
                Ok(_) => session.keep(control.as_fd(), signals),
                // ETOOMANYREFS, for one: the user has too many descriptors in flight. What can't be announced must not run;
                // unanswered, the server would wait for ever.
                Err(errno) => {
                    wire::send_all(control.as_fd(), &unreaped(errno).encode()).ok();
                }
            }
            drop(control);
            session.end(signals);
        }
    }
    exit()
}

/// What a start hands over.
pub(super) struct Start {
    pub control: OwnedFd,
    cwd: OwnedFd,
    stdio: [OwnedFd; 3],
    ruleset: Option<OwnedFd>,
}

/// Waits for the next start; `None` when the server is gone.
pub(super) fn take_start(starts: BorrowedFd<'_>) -> Option<Start> {
    loop {
        let mut byte = [0];
        let mut received = Received::default();
        match wire::receive(starts, &mut byte, &mut received, 0) {
            Ok(0) => return None,
            Ok(_) => {}
            // Too many descriptors: dropping those that came tells the server, whose control socket ends.
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => continue,
            Err(_) => return None,
        }
        if let [
            Some(control),
            Some(cwd),
            Some(stdin),
            Some(stdout),
            Some(stderr),
            ruleset,
        ] = received
        {
            return Some(Start {
                control,
                cwd,
                stdio: [stdin, stdout, stderr],
                ruleset,
            });
        }
    }
}

fn unreaped(errno: Errno) -> Reply {
    Reply::Failed {
        errno,
        at_exec: false,
    }
}

struct Session {
    /// Absent once reaped.
    leader: Option<Pid>,
    /// Whether descendants that left the group outlive the session.
    may_stay: bool,
}

impl Session {
    /// Reaps and obeys until the control socket ends.
    fn keep(&mut self, control: BorrowedFd<'_>, signals: &ChildSignal) {
        loop {
            let mut ready = [
                PollFd::new(control, PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            // An error but EINTR is ENOMEM: the calls below block no longer than the loop would.
            poll(&mut ready, PollTimeout::NONE).ok();
            let [commands, child] = ready.map(|ready| ready.any().unwrap_or_default());
            if child {
                signals.take();
                self.reap_orphans();
            }
            if commands && !self.obey(control) {
                return;
            }
        }
    }

    /// `false` at the end of the socket.
    fn obey(&mut self, control: BorrowedFd<'_>) -> bool {
        let mut command = [0];
        match wire::receive(
            control,
            &mut command,
            &mut Received::default(),
            libc::MSG_DONTWAIT,
        ) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EINTR) => return true,
            // ECONNRESET: it ended with a reply of ours unread.
            Err(_) => return false,
        }
        match command {
            [REAP] => {
                let reply = self.reap_leader().encode();
                wire::send_all(control, &reply).ok();
            }
            [LEAVE] => self.may_stay = true,
            [GO] => {
                if let Some(leader) = self.leader {
                    hold::release(leader.as_raw());
                }
            }
            _ => {}
        }
        true
    }

    fn reap_leader(&mut self) -> Reply {
        let leader = self.leader.ok_or(Errno::ECHILD);
        match leader.and_then(|leader| wait::reap(leader.as_raw())) {
            Ok(Some(exit)) => {
                self.leader = None;
                self.reap_orphans();
                Reply::Ended(exit)
            }
            Ok(None) => unreaped(Errno::EAGAIN),
            Err(errno) => unreaped(errno),
        }
    }

    /// Reaps every child that has exited but the leader.
    fn reap_orphans(&self) {
        loop {
            match wait::look() {
                Look::Exited(pid) if Some(Pid::from_raw(pid)) == self.leader => {
                    // It stands before all others and hides them from such a look.
                    for_each_child(|other| {
                        if other != pid {
                            wait::discard(other);
                        }
                    });
                    return;
                }
                Look::Exited(pid) => wait::discard(pid),
                Look::AllRun | Look::NoChild => return,
            }
        }
    }

    /// Ends what is left. Returns when no child is left, or those that are can't be ended.
    fn end(&mut self, signals: &ChildSignal) {
        if let Some(leader) = self.leader.take() {
            // Before its reaping, so the number still means this group. At once for all its members, forks under way
            // included: the kernel takes the list of processes for it.
            killpg(leader, Signal::SIGKILL).ok();
        }
        if self.may_stay {
            return self.linger(signals);
        }
        let mut last_end = Instant::now();
        loop {
            // Each child that dies makes its own children ours, whom the next round finds. One that is killed forks no
            // more, so a storm of them loses ground with each round.
            for_each_child(|child| {
                kill(Pid::from_raw(child), Signal::SIGKILL).ok();
            });
            loop {
                match wait::look() {
                    Look::Exited(pid) => {
                        wait::discard(pid);
                        last_end = Instant::now();
                    }
                    Look::AllRun => break,
                    Look::NoChild => return,
                }
            }
            if last_end.elapsed() > GIVE_UP {
                return;
            }
            let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::from(SWEEP)).ok();
            signals.take();
        }
    }

    /// Stays the parent of what was left on purpose, until none of it is there.
    fn linger(&self, signals: &ChildSignal) {
        loop {
            self.reap_orphans();
            if wait::look() == Look::NoChild {
                return;
            }
            let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::NONE).ok();
            signals.take();
        }
    }
}
