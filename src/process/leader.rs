//! The leader of a child's process group, from its start to its reaping, as the server sees it.
//!
//! The leader's parent is its keeper ([`super::keeper`]), which reaps it when told to and not before. So the leader's id
//! means this child and its group for as long as the [`Leader`] exists, and every signal goes through it.

#![allow(unsafe_code)]

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

#[cfg(test)]
use super::scripted;
use super::{
    Census,
    wire::{self, GO, LEAVE, REAP, REPLY_BYTES, Received, Reply},
};

/// What became of a signal to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At least one member, which may be the zombie leader, was sent it.
    Delivered,
    /// The group has no member at all.
    Gone,
    /// Every member runs as another user now, and none may be signalled.
    Refused,
}

/// How a leader ended. One of `code` and `signal` is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, when it exited.
    pub code: Option<i32>,
    /// The signal's number, when one ended it.
    pub signal: Option<i32>,
    /// User and system time of the leader and of the descendants that it waited for.
    pub cpu: Duration,
    /// Largest resident set of one of those processes. Exec hands on the peak of the calling address space, here the
    /// keeper's, so that the number is never below about 1 MiB.
    pub max_rss_bytes: u64,
}

/// The keeper is gone, or did not find the leader: how that ended can't be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed;

/// Proof that a leader is not reaped, so that its id can't have been given to another process or group.
///
/// Dropped, it tells the keeper that the session is over: the keeper kills the group and whatever has left it, and reaps.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    pidfd: Line,
    keeper: Line,
}

/// The way to a child: a pidfd, or the socket of its keeper.
#[derive(Debug)]
enum Line {
    Kernel(OwnedFd),
    /// Both lines of a leader that a test plays.
    #[cfg(test)]
    Scripted(scripted::Child),
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Line::Kernel(fd) => fd.as_fd(),
            #[cfg(test)]
            Line::Scripted(_) => panic!("a script has no descriptor"),
        }
    }
}

/// `pidfd_send_signal`'s flag for the group that the process leads; Linux 6.9.
pub(super) const TO_GROUP: libc::c_uint = 1 << 2;

impl Leader {
    pub(super) fn new(pid: Pid, pidfd: OwnedFd, keeper: OwnedFd) -> Leader {
        assert!(
            pid.as_raw() > 1,
            "kill(2) gives groups 0 and 1 (and their negatives) another meaning"
        );
        Leader {
            pid,
            pidfd: Line::Kernel(pidfd),
            keeper: Line::Kernel(keeper),
        }
    }

    /// A leader without a process, with a number that the kernel gives to none.
    #[cfg(test)]
    pub(crate) fn scripted(child: scripted::Child) -> Leader {
        Leader {
            pid: Pid::from_raw(i32::MAX),
            pidfd: Line::Scripted(child.clone()),
            keeper: Line::Scripted(child),
        }
    }

    /// Process id of the leader, which is also its group's and its kernel session's id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Becomes readable when the leader exits, and stays so.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Becomes readable when the keeper is gone, and after [`Leader::reap`] when it has answered.
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.keeper.as_fd()
    }

    /// Sends a signal to every member of the group.
    pub fn signal_group(&self, signal: Signal) -> Delivery {
        #[cfg(test)]
        if let Line::Scripted(child) = &self.pidfd {
            return child.signal(signal);
        }
        // SAFETY: integers and a null for the optional siginfo.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd().as_raw_fd(),
                signal as libc::c_int,
                ptr::null_mut::<libc::c_void>(),
                TO_GROUP,
            )
        };
        let sent = match Errno::result(sent) {
            // An older kernel, or a filter. By number then, which needs the leader's parent to be there: were the keeper
            // killed, init might have reaped the leader by now.
            Err(Errno::EINVAL | Errno::ENOSYS) if !readable(self.keeper()) => {
                killpg(self.pid, signal)
            }
            Err(Errno::EINVAL | Errno::ENOSYS) => Err(Errno::ESRCH),
            sent => sent.map(drop),
        };
        match sent {
            Ok(()) => Delivery::Delivered,
            Err(Errno::EPERM) => Delivery::Refused,
            Err(_) => Delivery::Gone,
        }
    }

    /// Whether the leader has exited. It stays unreaped.
    pub fn has_exited(&self) -> bool {
        #[cfg(test)]
        if let Line::Scripted(child) = &self.pidfd {
            return child.has_exited();
        }
        readable(self.pidfd())
    }

    /// How many processes of the group run, as of some time at or after `not_before`.
    ///
    /// # Errors
    /// As [`Census::alive`].
    pub fn members(&self, census: &mut Census, not_before: Instant) -> Result<usize, Errno> {
        #[cfg(test)]
        if let Line::Scripted(child) = &self.pidfd {
            return child.members();
        }
        census.alive(self.pid, not_before)
    }

    /// Has a held leader run its first instruction.
    pub(super) fn release(&self) {
        tell(&self.keeper, GO);
    }

    /// Asks the keeper to reap the leader, which has exited. The group must have been swept before: no signal can be sent
    /// to it any more.
    pub fn reap(self) -> Reaping {
        tell(&self.keeper, REAP);
        Reaping {
            keeper: self.keeper,
        }
    }
}

/// A session whose leader's status is being taken, or was. Dropped, it tells the keeper that the session is over.
#[derive(Debug)]
pub struct Reaping {
    keeper: Line,
}

impl Reaping {
    /// Becomes readable when the keeper has answered, or is gone.
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.keeper.as_fd()
    }

    /// How the leader ended. To be called once, when [`Leader::keeper`] has become readable; doesn't block.
    ///
    /// # Errors
    /// See [`Unconfirmed`].
    pub fn exit(&self) -> Result<Exit, Unconfirmed> {
        #[cfg(test)]
        if let Line::Scripted(child) = &self.keeper {
            return child.answer();
        }
        let mut reply = [0; REPLY_BYTES];
        let received = wire::receive(
            self.keeper.as_fd(),
            &mut reply,
            &mut Received::default(),
            libc::MSG_DONTWAIT,
        );
        match (received, Reply::decode(&reply)) {
            // Sent in one piece on a stream whose buffer was empty, so it is received in one.
            (Ok(REPLY_BYTES), Some(Reply::Ended(exit))) => Ok(exit),
            _ => Err(Unconfirmed),
        }
    }

    /// Lets descendants that left the group stay when the session is over. The keeper stays their parent until they end.
    pub fn leave_descendants(&self) {
        // A keeper that is gone has left them to the nursery, which kills them.
        tell(&self.keeper, LEAVE);
    }
}

/// Sends a command to a keeper. Whether it is still there shows at its answer.
fn tell(keeper: &Line, command: u8) {
    #[cfg(test)]
    if let Line::Scripted(child) = keeper {
        return child.command(command);
    }
    wire::send_all(keeper.as_fd(), &[command]).ok();
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StdinKind;
    use crate::process::{
        Spawned,
        testing::{
            in_own_process, launch, launch_in, read_line, read_to_end, reap, root, run, spawn,
            wait_for_exit,
        },
    };

    /// The letter of ps, `None` when there is no such process.
    fn state(pid: Pid) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn an_exit_code_is_a_code_and_a_signal_is_a_signal() {
        for code in [0, 7, 143, 255] {
            let (exit, _) = run(&launch(&["/bin/sh", "-c", &format!("exit {code}")]));
            assert_eq!((exit.code, exit.signal), (Some(code), None));
        }
        for signal in [
            libc::SIGTERM,
            libc::SIGKILL,
            libc::SIGSEGV,
            libc::SIGRTMIN(),
        ] {
            let (exit, _) = run(&launch(&["/bin/sh", "-c", &format!("kill -{signal} $$")]));
            assert_eq!((exit.code, exit.signal), (None, Some(signal)));
        }
    }

    #[test]
    fn a_leader_that_runs_is_not_reaped_and_its_end_is_unconfirmed() {
        let spawned = spawn(&launch(&["/bin/sleep", "1000"])).unwrap();
        assert!(!spawned.leader.has_exited());
        assert_eq!(reap(spawned.leader), Err(Unconfirmed));
        assert_eq!(
            read_to_end(spawned.stdout),
            "",
            "it is killed with its session"
        );
    }

    #[test]
    fn a_zombie_leader_keeps_its_group() {
        let Spawned { leader, .. } = spawn(&launch(&["/bin/sleep", "1000"])).unwrap();
        assert_eq!(leader.signal_group(Signal::SIGTERM), Delivery::Delivered);
        wait_for_exit(&leader);
        assert_eq!(leader.signal_group(Signal::SIGKILL), Delivery::Delivered);
        assert_eq!(reap(leader).unwrap().signal, Some(libc::SIGTERM));
    }

    #[test]
    fn the_end_of_a_leader_wakes_a_task_and_goes_on_being_seen() {
        use crate::io::{Backend, Runtime, Watch};
        let spawned = spawn(&launch_in(&["/bin/cat"], root(), StdinKind::Pipe)).unwrap();
        let leader = spawned.leader;
        Runtime::new(Backend::Epoll).unwrap().block_on(async {
            let watch = Watch::new(leader.pidfd().try_clone_to_owned().unwrap()).unwrap();
            assert!(!leader.has_exited());
            drop(spawned.stdin);
            watch.ready().await.unwrap();
            assert!(leader.has_exited());
            watch.ready().await.unwrap();
        });
        assert_eq!(reap(leader).unwrap().code, Some(0));
    }

    #[test]
    fn a_stopped_leader_has_not_exited() {
        let Spawned { leader, stdout, .. } = spawn(&launch(&[
            "/bin/sh",
            "-c",
            "echo up; kill -STOP $$; exit 3",
        ]))
        .unwrap();
        assert_eq!(read_line(&stdout), "up");
        while state(leader.pid()) != Some('T') {
            std::thread::yield_now();
        }
        assert!(!leader.has_exited());
        assert_eq!(leader.signal_group(Signal::SIGCONT), Delivery::Delivered);
        wait_for_exit(&leader);
        assert_eq!(reap(leader).unwrap().code, Some(3));
    }

    #[test]
    fn kill_reaches_grandchildren_after_the_leader_exited() {
        let script = "(sh -c 'trap \"\" TERM HUP; echo up; sleep 1000; sleep 1000') & exit 0";
        let Spawned { leader, stdout, .. } = spawn(&launch(&["/bin/sh", "-c", script])).unwrap();
        assert_eq!(read_line(&stdout), "up");
        wait_for_exit(&leader);
        let mut census = Census::new().unwrap();
        assert!(census.alive(leader.pid(), Instant::now()).unwrap() >= 1);
        assert_eq!(leader.signal_group(Signal::SIGKILL), Delivery::Delivered);
        assert_eq!(read_to_end(stdout), "", "every holder of the pipe is gone");
        while census.alive(leader.pid(), Instant::now()).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(reap(leader).unwrap().code, Some(0));
    }

    #[test]
    fn dropping_a_leader_leaves_neither_group_nor_zombie() {
        let Spawned { leader, stdout, .. } = spawn(&launch(&[
            "/bin/sh",
            "-c",
            "sleep 1000 & echo up; sleep 1000",
        ]))
        .unwrap();
        assert_eq!(read_line(&stdout), "up");
        let pid = leader.pid();
        drop(leader);
        assert_eq!(read_to_end(stdout), "");
        while state(pid).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn accounting_is_that_of_the_child() {
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (exit, _) = run(&launch(&["/bin/sh", "-c", burn]));
        assert!(
            exit.cpu > Duration::from_millis(1) && exit.cpu < Duration::from_secs(600),
            "{exit:?}"
        );
    }

    #[test]
    fn memory_is_the_childs_own_however_large_the_server_is() {
        in_own_process(
            "process::leader::tests::inner_memory_is_the_childs_own",
            "exec",
        );
    }

    #[test]
    #[ignore = "runs in a process of its own, whose nursery is forked while it is small, by the test above"]
    fn inner_memory_is_the_childs_own() {
        run(&launch(&["/bin/true"]));
        let ours = vec![1_u8; 64 << 20];
        let (exit, _) = run(&launch(&["/bin/true"]));
        assert!(
            (1..8 << 20).contains(&exit.max_rss_bytes),
            "{exit:?}, {} bytes are ours",
            ours.len()
        );
        let (exit, _) = run(&launch(&[
            "/bin/dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=512M",
            "count=1",
        ]));
        assert!(
            (512 << 20..600 << 20).contains(&exit.max_rss_bytes),
            "{exit:?}"
        );
    }
}
