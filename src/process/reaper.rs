//! The leader of a child's process group, from its start to its reaping.
//!
//! What must hold: nobody else in this program reaps a leader (no `waitpid(-1)`, no waiting by group), and SIGCHLD is at
//! its default (see [`super::prepare`]). Then the leader's id means this child and its group for as long as the [`Leader`]
//! exists, and every signal goes through it.

#![allow(unsafe_code)]

use std::{
    fs,
    mem::{self, ManuallyDrop, MaybeUninit},
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
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

/// How a leader ended. Both `code` and `signal` are absent only when the kernel no longer knew the child: its end is then
/// unconfirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, when it exited.
    pub code: Option<i32>,
    /// The signal's number, when one ended it.
    pub signal: Option<i32>,
    /// User and system time of the leader and of the descendants that it waited for.
    pub cpu: Duration,
    /// Largest resident set of one of those processes. Absent when it can't be told from this server's own: exec hands the
    /// peak of the calling address space on, so the kernel's number is never below ours at the child's start.
    pub max_rss_bytes: Option<u64>,
}

/// Proof that a leader is not reaped, so that its id can't have been given to another process or group.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    pidfd: OwnedFd,
    /// What the kernel's mark of the child's memory starts from, in bytes.
    inherited_rss: u64,
}

impl Leader {
    /// Takes charge of a child that is leader of its own group and that nobody has waited for.
    ///
    /// # Errors
    /// The kernel's error when it gives no pidfd. The group is then killed and the child reaped.
    pub(super) fn adopt(pid: Pid) -> Result<Leader, Errno> {
        assert!(
            pid.as_raw() > 1,
            "kill(2) gives groups 0 and 1 (and their negatives) another meaning"
        );
        // SAFETY: two integers. The pid is of our own unreaped child, so it can't name another process.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
        match Errno::result(fd) {
            Ok(fd) => {
                let fd = RawFd::try_from(fd)
                    .expect("the kernel returns a descriptor, which fits an int");
                // SAFETY: the kernel has just made this descriptor (close-on-exec) and nobody else knows it.
                let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
                Ok(Leader {
                    pid,
                    pidfd,
                    inherited_rss: own_peak_rss(),
                })
            }
            Err(errno) => {
                kill_and_reap(pid);
                Err(errno)
            }
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

    /// Sends a signal to every member of the group.
    pub fn signal_group(&self, signal: Signal) -> Delivery {
        match killpg(self.pid, signal) {
            Ok(()) => Delivery::Delivered,
            Err(Errno::EPERM) => Delivery::Refused,
            // The other documented error is EINVAL, for a bad signal number, which the type excludes.
            Err(_) => Delivery::Gone,
        }
    }

    /// Whether the leader has exited. It stays unreaped.
    pub fn has_exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // By pid: waiting by pidfd needs Linux 5.4, and the pid is as certain while we hold it unreaped.
        match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => false,
            // ECHILD: the kernel no longer knows it as our child, and it can't exit twice. EINVAL: nix has no name for the
            // real-time signal that ended it.
            Ok(_) | Err(_) => true,
        }
    }

    /// Takes the leader's status and gives its id back to the kernel. The group must have been swept before.
    ///
    /// # Errors
    /// The leader itself when it has not exited.
    pub fn reap(self) -> Result<Exit, Leader> {
        match wait4(self.pid, libc::WNOHANG) {
            Ok(None) => Err(self),
            Ok(Some(mut exit)) => {
                exit.max_rss_bytes = exit.max_rss_bytes.filter(|&peak| peak > self.inherited_rss);
                self.release();
                Ok(exit)
            }
            Err(_) => {
                // WNOHANG and a constant leave ECHILD as the only error.
                self.release();
                Ok(Exit {
                    code: None,
                    signal: None,
                    cpu: Duration::ZERO,
                    max_rss_bytes: None,
                })
            }
        }
    }

    /// Closes the pidfd without touching the process, which is no longer ours.
    fn release(self) {
        let mut leader = ManuallyDrop::new(self);
        // SAFETY: the value is never used or dropped after this, so its descriptor has one owner: the copy dropped here.
        drop(unsafe { std::ptr::read(&raw mut leader.pidfd) });
    }
}

impl Drop for Leader {
    /// For error paths: blocks until the killed leader is gone, which takes as long as it needs to leave the kernel.
    fn drop(&mut self) {
        kill_and_reap(self.pid);
    }
}

/// Leaves neither a running group nor a zombie. Does nothing to a child that was not ours (any more).
fn kill_and_reap(pid: Pid) {
    // A group that runs as another user now is out of our reach: waiting for it could take for ever.
    let refused = killpg(pid, Signal::SIGKILL) == Err(Errno::EPERM);
    let options = if refused { libc::WNOHANG } else { 0 };
    while wait4(pid, options) == Err(Errno::EINTR) {}
}

/// `None` when the child has not exited.
fn wait4(pid: Pid, options: libc::c_int) -> Result<Option<Exit>, Errno> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to locals that outlive the call, of the types that the kernel writes.
    let reaped = unsafe { libc::wait4(pid.as_raw(), &mut status, options, usage.as_mut_ptr()) };
    if Errno::result(reaped)? == 0 {
        return Ok(None);
    }
    // SAFETY: zeroed is a valid rusage (integers only), whether or not the kernel has written over it.
    let usage = unsafe { usage.assume_init() };
    let exited = libc::WIFEXITED(status);
    Ok(Some(Exit {
        code: exited.then(|| libc::WEXITSTATUS(status)),
        signal: (!exited).then(|| libc::WTERMSIG(status)),
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss_bytes: Some(kib(
            u64::try_from(usage.ru_maxrss).expect("a size is not negative")
        )),
    }))
}

/// Upper bound of this address space's peak, in bytes; the largest number when it can't be had.
///
/// VmHWM and not getrusage, whose number holds what this process inherited in the same way from its own launcher.
fn own_peak_rss() -> u64 {
    // The kernel counts pages per CPU in batches, so that two looks at one peak may differ.
    const BATCHES: u64 = 1 << 20;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()
    });
    peak.map_or(u64::MAX, |peak| kib(peak) + BATCHES)
}

fn kib(count: u64) -> u64 {
    count * 1024
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).expect("CPU time is not negative");
    let micros = u64::try_from(time.tv_usec).expect("CPU time is not negative");
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

const _: () = assert!(
    mem::size_of::<libc::pid_t>() == 4,
    "pidfd_open takes an int"
);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::config::StdinKind;
    use crate::process::{
        Census, Spawned, spawn,
        testing::{launch, launch_in, read_line, read_to_end, root, run, wait_for_exit},
    };

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
    fn a_running_leader_is_handed_back_and_can_be_ended() {
        let spawned = spawn(&launch(&["/bin/sleep", "1000"])).unwrap();
        assert!(!spawned.leader.has_exited());
        let leader = spawned.leader.reap().unwrap_err();
        assert_eq!(leader.signal_group(Signal::SIGTERM), Delivery::Delivered);
        wait_for_exit(&leader);
        assert_eq!(
            leader.signal_group(Signal::SIGKILL),
            Delivery::Delivered,
            "the zombie keeps the group"
        );
        assert_eq!(leader.reap().unwrap().signal, Some(libc::SIGTERM));
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
        assert_eq!(leader.reap().unwrap().code, Some(0));
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
        // WSTOPPED is waited for here only, so that the stop is certain.
        waitid(
            Id::Pid(leader.pid()),
            WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT,
        )
        .unwrap();
        assert!(!leader.has_exited());
        assert_eq!(leader.signal_group(Signal::SIGCONT), Delivery::Delivered);
        wait_for_exit(&leader);
        assert_eq!(leader.reap().unwrap().code, Some(3));
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
        assert_eq!(leader.reap().unwrap().code, Some(0));
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
        assert_eq!(
            waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG),
            Err(Errno::ECHILD)
        );
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
    fn memory_is_the_childs_own_or_absent() {
        let ours = vec![1_u8; 32 << 20];
        let (exit, _) = run(&launch(&["/bin/true"]));
        assert_eq!(exit.max_rss_bytes, None, "{} bytes are ours", ours.len());
        let (exit, _) = run(&launch(&[
            "/bin/dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=512M",
            "count=1",
        ]));
        assert!(
            exit.max_rss_bytes
                .is_some_and(|peak| (512 << 20..600 << 20).contains(&peak)),
            "{exit:?}"
        );
    }
}
