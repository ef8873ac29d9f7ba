//! The parent of one session at a time: starts its leader, adopts whatever descendant loses its parent, reaps, and ends them
//! all when the session is over.
//!
//! A keeper is a child subreaper, and every session that runs has one of its own. So a descendant that left the group, by
//! setsid, a double fork or a group of its own, with whatever environment and whatever descriptors closed, becomes a child
//! of exactly this keeper as soon as its own parents are gone. Whose it is needs no mark and no guess.
//!
//! The life of a keeper:
//!
//! 1. It waits on its control socket for a start.
//! 2. It starts the leader and says so. One that the server wants to look at first is held before its first instruction
//!    until the server says go.
//! 3. It reaps adopted orphans at once, and the leader only when told to: a number that is not reaped can't be another's,
//!    and that is what the server's signals to the group rely on.
//! 4. It is told that the session is over, or the control socket ends, because the server is gone, killed or not. What is
//!    left of the session is killed and reaped.
//! 5. If all of it is gone, it says so and waits for the next start, as it was before the first. Otherwise it exits.
//!
//! That all is gone needs no mark either: every descendant is a child of this process or of another descendant, so a parent
//! to whom the kernel says that it has no child has no descendant. Nothing else is carried from session to session. What
//! a start brought is closed and unmapped, and what a leader must have otherwise than its keeper (mask, umask, limits,
//! priority, sandbox) it sets itself, as a process of its own ([`exec`]). The reply to each message is sent before the next
//! is read. A keeper takes no further start when somebody has changed what its children get from it ([`Inherited`]), when
//! a large request has made its memory larger (its peak counts as the next child's), or when its leader was held or in a
//! sandbox: what the Owner wants looked at so closely shares nothing with another session.
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
    unistd::Pid,
};

use super::{
    children::for_each_child,
    exec::{self, Failed, Started},
    forked::{ChildSignal, exit},
    hold,
    inherited::Inherited,
    request::Body,
    wait::{self, Look},
    wire::{self, END, GO, LEAVE, REAP, Received, Reply},
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
/// The longest body after which a keeper counts as unchanged: its memory's peak becomes that of the next child.
const SMALL: usize = 64 * 1024;

/// Serves one session after the other, as the server at the other end of `control` says. `signals` reports SIGCHLD.
pub(super) fn run(control: &OwnedFd, signals: &ChildSignal) -> ! {
    // The nursery has this role, so it can't be refused.
    prctl::set_child_subreaper(true).ok();
    prctl::set_name(NAME).ok();
    signals.reap_ourselves();
    let keeper = Keeper {
        control: control.as_fd(),
        signals,
        inherited: Inherited::now(),
    };
    while keeper.serve() == After::Next {}
    exit()
}

struct Keeper<'a> {
    control: BorrowedFd<'a>,
    signals: &'a ChildSignal,
    /// What children get from this process, as it was forked.
    inherited: Inherited,
}

/// What a keeper does when a session is over. The server has been told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The next start may come.
    Next,
    /// Exit, so that nothing of it can reach another session.
    Exit,
}

impl Keeper<'_> {
    /// Takes a start and keeps its session to the end.
    fn serve(&self) -> After {
        let mut received = Received::default();
        let body = match Body::receive(self.control, &mut received) {
            Ok(Some(body)) => body,
            Ok(None) => return After::Exit,
            Err(errno) => return self.refuse(errno),
        };
        let [Some(cwd), Some(stdin), Some(stdout), Some(stderr), ruleset] = received else {
            return self.refuse(Errno::EMFILE);
        };
        let stdio = [stdin, stdout, stderr];
        let started = exec::start(&body, &cwd, stdio.each_ref(), ruleset.as_ref());
        let is_plain = body.length() <= SMALL && !body.held() && ruleset.is_none();
        // Our copies of the child's ends would keep its pipes from ever reaching their end.
        drop((body, cwd, stdio, ruleset));
        let Started { pid, pidfd } = match started {
            Ok(started) => started,
            Err(Failed { errno, at_exec }) => {
                let serves_on = at_exec && is_plain && self.is_unchanged();
                let reply = Reply::Failed {
                    errno,
                    at_exec,
                    serves_on,
                };
                return self.tell(reply, serves_on);
            }
        };
        let reply = Reply::Started(pid).encode();
        let told = wire::send(self.control, &reply, &[pidfd.as_fd()]);
        drop(pidfd);
        let mut session = Session {
            leader: Some(Pid::from_raw(pid)),
            may_stay: false,
            hides_others: false,
        };
        let over = match told {
            Ok(_) => session.keep(self.control, self.signals),
            // ETOOMANYREFS, for one: the user has too many descriptors in flight. What can't be announced must not run;
            // unanswered, the server would wait for ever.
            Err(errno) => {
                self.refuse(errno);
                Over::Gone
            }
        };
        let nothing_left = session.end(self.signals);
        if over == Over::Told && nothing_left && is_plain && self.is_unchanged() {
            self.tell(Reply::Idle, true)
        } else {
            After::Exit
        }
    }

    fn is_unchanged(&self) -> bool {
        Inherited::now() == self.inherited
    }

    /// Says that nothing was started. What else is in the socket is not read.
    fn refuse(&self, errno: Errno) -> After {
        self.tell(Reply::failed(errno), false)
    }

    fn tell(&self, reply: Reply, serves_on: bool) -> After {
        let told = wire::send_all(self.control, &reply.encode());
        if told.is_ok() && serves_on {
            After::Next
        } else {
            After::Exit
        }
    }
}

/// How a session came to be over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The server said so.
    Told,
    /// The control socket has ended.
    Gone,
}

struct Session {
    /// Absent once reaped.
    leader: Option<Pid>,
    /// Whether descendants that left the group outlive the session.
    may_stay: bool,
    /// Whether the leader is a zombie, which stands before all others and hides them from a look at who has exited.
    hides_others: bool,
}

impl Session {
    /// Reaps and obeys until the session is over.
    fn keep(&mut self, control: BorrowedFd<'_>, signals: &ChildSignal) -> Over {
        loop {
            let mut ready = [
                PollFd::new(control, PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            // Nearly always the leader's end is the session's, and the command to reap it comes at once.
            let limit = if self.hides_others {
                PollTimeout::from(SWEEP)
            } else {
                PollTimeout::NONE
            };
            // An error but EINTR is ENOMEM: the calls below block no longer than the loop would.
            let count = poll(&mut ready, limit).unwrap_or_default();
            let [commands, child] = ready.map(|ready| ready.any().unwrap_or_default());
            if commands && let Some(over) = self.obey(control) {
                return over;
            }
            if child {
                signals.take();
                self.reap_orphans();
            } else if count == 0 && self.hides_others {
                self.reap_hidden();
            }
        }
    }

    fn obey(&mut self, control: BorrowedFd<'_>) -> Option<Over> {
        let mut command = [0];
        match wire::receive(
            control,
            &mut command,
            &mut Received::default(),
            libc::MSG_DONTWAIT,
        ) {
            Ok(0) => return Some(Over::Gone),
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            // ECONNRESET: it ended with a reply of ours unread.
            Err(_) => return Some(Over::Gone),
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
            [END] => return Some(Over::Told),
            _ => {}
        }
        None
    }

    fn reap_leader(&mut self) -> Reply {
        let leader = self.leader.ok_or(Errno::ECHILD);
        match leader.and_then(|leader| wait::reap(leader.as_raw())) {
            Ok(Some(exit)) => {
                self.leader = None;
                self.hides_others = false;
                Reply::Ended(exit)
            }
            Ok(None) => Reply::failed(Errno::EAGAIN),
            Err(errno) => Reply::failed(errno),
        }
    }

    /// Reaps every child that has exited but the leader, as far as the leader doesn't hide them.
    fn reap_orphans(&mut self) {
        loop {
            match wait::look() {
                Look::Exited(pid) if Some(Pid::from_raw(pid)) == self.leader => {
                    self.hides_others = true;
                    return;
                }
                Look::Exited(pid) => wait::discard(pid),
                Look::AllRun | Look::NoChild => return,
            }
        }
    }

    /// Reaps those whom a zombie leader hides. Whoever dies later announces it.
    fn reap_hidden(&mut self) {
        self.hides_others = false;
        for_each_child(|child| {
            if Some(Pid::from_raw(child)) != self.leader {
                wait::discard(child);
            }
        });
    }

    /// Ends what is left. Returns whether no child is left: those that can't be ended, and those that may stay, are.
    fn end(&mut self, signals: &ChildSignal) -> bool {
        if let Some(leader) = self.leader.take() {
            // Before its reaping, so the number still means this group. At once for all its members, forks under way
            // included: the kernel takes the list of processes for it.
            killpg(leader, Signal::SIGKILL).ok();
        }
        if self.may_stay {
            self.linger(signals);
            return false;
        }
        let mut last_end = Instant::now();
        loop {
            loop {
                match wait::look() {
                    Look::Exited(pid) => {
                        wait::discard(pid);
                        last_end = Instant::now();
                    }
                    Look::AllRun => break,
                    Look::NoChild => return true,
                }
            }
            // Each child that dies makes its own children ours, whom the next round finds. One that is killed forks no
            // more, so a storm of them loses ground with each round.
            for_each_child(|child| {
                kill(Pid::from_raw(child), Signal::SIGKILL).ok();
            });
            if last_end.elapsed() > GIVE_UP {
                return false;
            }
            let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::from(SWEEP)).ok();
            signals.take();
        }
    }

    /// Stays the parent of what was left on purpose, until none of it is there.
    fn linger(&mut self, signals: &ChildSignal) {
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
