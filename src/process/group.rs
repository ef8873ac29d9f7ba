//! Who is alive in which process group.
//!
//! `kill(-pgid, 0)` can't answer that: it succeeds for a group whose only member is a zombie, and the leader stays a
//! zombie until its group is known to be gone. So the answer comes from `/proc/*/stat`. One scan serves every session:
//! 64 sessions that end at once and look once per tick cost one scan per tick, not 64.
//!
//! A scan is no snapshot. A process that forks and exits while the scan runs can be missed together with its child, when
//! the child's id lies behind the scan and its own ahead of it. Whoever acts on a zero sends KILL before it reaps, which
//! needs no census to be complete.

#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Instant,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
    unistd::{Pid, Whence, lseek, read},
};

/// Room for the directory entries of one `getdents64`: about a thousand processes.
const LISTING_BYTES: usize = 32 * 1024;
/// The first eighteen fields of a stat line: a name of at most 64 bytes and numbers of at most 20 digits.
const STAT_BYTES: usize = 512;
/// In a `linux_dirent64`: inode and offset (8 bytes each), record length (2), type (1), then the name, NUL-terminated.
const DIRENT_LENGTH_AT: usize = 16;
const DIRENT_NAME_AT: usize = 19;

/// Counts the live members of process groups. Its buffers are reused from scan to scan.
#[derive(Debug)]
pub struct Census {
    proc: OwnedFd,
    listing: Vec<u8>,
    /// The group of each live process, sorted: a group's members stand together.
    groups: Vec<i32>,
    /// When the scan behind `groups` began.
    taken: Option<Instant>,
}

impl Census {
    /// Opens `/proc`.
    ///
    /// # Errors
    /// The kernel's error when it can't be opened.
    pub fn new() -> Result<Census, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let proc = open("/proc", flags, Mode::empty())?;
        Ok(Census {
            proc,
            listing: vec![0; LISTING_BYTES],
            groups: Vec::new(),
            taken: None,
        })
    }

    /// How many processes of the group `pgid` run (zombies don't), as of some time at or after `not_before`.
    ///
    /// # Errors
    /// The kernel's error when the scan could not be finished (descriptors or memory ran out): nothing is known then.
    pub fn alive(&mut self, pgid: Pid, not_before: Instant) -> Result<usize, Errno> {
        if self.taken.is_none_or(|taken| taken < not_before) {
            let began = Instant::now();
            self.taken = None;
            self.scan()?;
            self.taken = Some(began);
        }
        let pgid = pgid.as_raw();
        let from = self.groups.partition_point(|&group| group < pgid);
        let to = self.groups.partition_point(|&group| group <= pgid);
        Ok(to - from)
    }

    fn scan(&mut self) -> Result<(), Errno> {
        self.groups.clear();
        lseek(&self.proc, 0, Whence::SeekSet)?;
        for_each_process(&self.proc, &mut self.listing, |stat| {
            if !stat.dead {
                self.groups.push(stat.group);
            }
        })?;
        self.groups.sort_unstable();
        Ok(())
    }
}

/// What a stat line says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Nothing of it runs any more.
    pub dead: bool,
    /// It is in a wait from which at most KILL wakes it.
    pub waits: bool,
}

/// Calls `each` with every process that `proc`, a directory at its start, lists. Keepers call it: it allocates nothing, and
/// what the kernel should not give ends the listing instead of the process.
///
/// # Errors
/// The kernel's error when the listing could not be finished; EIO when it is none.
pub(super) fn for_each_process(
    proc: &OwnedFd,
    listing: &mut [u8],
    mut each: impl FnMut(Stat),
) -> Result<(), Errno> {
    loop {
        let filled = list(proc, listing)?;
        let mut rest = listing.get(..filled).ok_or(Errno::EIO)?;
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let (name, next) = first_entry(rest).ok_or(Errno::EIO)?;
            rest = next;
            if name.first().is_some_and(u8::is_ascii_digit)
                && let Some(stat) = stat_of(proc, name)?
            {
                each(stat);
            }
        }
    }
}

/// The name of the first entry, without its NUL, and the entries behind it.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = entries.get(DIRENT_LENGTH_AT..DIRENT_LENGTH_AT + 2)?;
    let length = u16::from_ne_bytes(length.try_into().ok()?);
    let (entry, next) = entries.split_at_checked(usize::from(length))?;
    let name = CStr::from_bytes_until_nul(entry.get(DIRENT_NAME_AT..)?).ok()?;
    Some((name.to_bytes(), next))
}

/// One `getdents64`: bytes of whole entries, 0 at the end.
fn list(directory: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is borrowed for the call, and the kernel writes at most `len` bytes into it.
    let filled = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            directory.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    let filled = Errno::result(filled)?;
    usize::try_from(filled).map_err(|_| Errno::EIO)
}

/// `None` when it vanished since it was listed, or is hidden.
fn stat_of(proc: &OwnedFd, pid: &[u8]) -> Result<Option<Stat>, Errno> {
    let mut path = [0; 32];
    for (place, &byte) in path.iter_mut().zip(pid.iter().chain(b"/stat")) {
        *place = byte;
    }
    // A name too long for a number has no room for the NUL.
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::EIO)?;
    let mut line = [0; STAT_BYTES];
    let stat = openat(
        proc.as_fd(),
        path,
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    );
    match stat.and_then(|stat| read(stat, &mut line)) {
        Ok(filled) => Ok(line.get(..filled).and_then(parse)),
        // ENOENT: gone before the open. ESRCH: gone before the read. EACCES, EPERM: hidden, so of another user.
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EACCES | Errno::EPERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// `None` when the line is cut off.
///
/// The name is the process's own choice and may hold spaces and parentheses; what follows the last `)` is numbers. A
/// process whose first thread has ended while others run is shown as a zombie, with more than one thread left.
fn parse(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let pid = line.split(|&byte| byte == b' ').next()?;
    let pid = str::from_utf8(pid).ok()?.parse().ok()?;
    let mut fields = line
        .get(name_end + 1..)?
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
        .map(|field| str::from_utf8(field).unwrap_or(""));
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let dead = match state {
        "X" | "x" => true,
        "Z" => fields.nth(14)?.parse::<u64>().ok()? <= 1,
        _ => false,
    };
    Some(Stat {
        pid,
        parent,
        group,
        dead,
        waits: state == "D",
    })
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::*;
    use crate::process::{
        Spawned,
        testing::{launch, read_line, reap, spawn, wait_for_exit},
    };

    fn line(name: &str, state: char, threads: u64) -> String {
        format!(
            "42 ({name}) {state} 1 77 78 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 1000 10 18446744073709551615"
        )
    }

    #[test]
    fn names_with_spaces_and_parentheses_are_no_fields() {
        for name in ["sh", "a b", ") Z 9 9 (", "))", "", "\n"] {
            let expected = Stat {
                pid: 42,
                parent: 1,
                group: 77,
                dead: false,
                waits: false,
            };
            assert_eq!(
                parse(line(name, 'S', 1).as_bytes()),
                Some(expected),
                "{name:?}"
            );
        }
    }

    #[test]
    fn zombies_and_dead_are_not_alive_unless_threads_remain() {
        let dead = |state, threads| parse(line("x", state, threads).as_bytes()).unwrap().dead;
        assert!(dead('Z', 1) && dead('Z', 0) && dead('X', 1));
        assert!(!dead('Z', 2));
        for state in ['R', 'S', 'D', 'T', 't', 'I'] {
            assert!(!dead(state, 1));
        }
    }

    #[test]
    fn a_cut_line_is_not_a_process() {
        let whole = line("sh", 'Z', 2);
        for cut in 0..whole.find(" 77").unwrap() + 2 {
            assert_eq!(parse(&whole.as_bytes()[..cut]), None);
        }
    }

    #[test]
    fn a_zombie_leader_counts_for_kill_but_not_for_the_census() {
        let Spawned { leader, .. } = spawn(&launch(&["/bin/sh", "-c", "exit 0"])).unwrap();
        wait_for_exit(&leader);
        assert_eq!(nix::sys::signal::killpg(leader.pid(), None), Ok(()));
        assert_eq!(
            Census::new().unwrap().alive(leader.pid(), Instant::now()),
            Ok(0)
        );
        reap(leader).unwrap();
    }

    #[test]
    fn members_are_counted_and_an_old_scan_serves_until_it_is_too_old() {
        let script = "sleep 1000 & sleep 1000 & echo up; wait";
        let Spawned { leader, stdout, .. } = spawn(&launch(&["/bin/sh", "-c", script])).unwrap();
        assert_eq!(read_line(&stdout), "up");
        let mut census = Census::new().unwrap();
        let before = Instant::now();
        assert_eq!(census.alive(leader.pid(), before), Ok(3));
        assert_eq!(leader.signal_group(Signal::SIGKILL), Ok(()));
        wait_for_exit(&leader);
        assert_eq!(
            census.alive(leader.pid(), before),
            Ok(3),
            "no new scan was asked for"
        );
        while census.alive(leader.pid(), Instant::now()).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(
            census.alive(leader.pid(), before),
            Ok(0),
            "the newer scan serves as well"
        );
        reap(leader).unwrap();
    }

    #[test]
    fn processes_that_vanish_during_the_scan_do_not_end_it() {
        std::thread::scope(|scope| {
            let churn = scope.spawn(|| {
                for _ in 0..50 {
                    let Spawned { leader, .. } =
                        spawn(&launch(&["/bin/sh", "-c", "exit 0"])).unwrap();
                    wait_for_exit(&leader);
                    reap(leader).unwrap();
                }
            });
            let mut census = Census::new().unwrap();
            while !churn.is_finished() {
                assert!(
                    census
                        .alive(nix::unistd::getpgrp(), Instant::now())
                        .unwrap()
                        >= 1
                );
            }
            churn.join().unwrap();
        });
    }

    #[test]
    fn a_scan_longer_than_one_listing_sees_everyone() {
        let Spawned { leader, stdout, .. } =
            spawn(&launch(&["/bin/sh", "-c", "echo up; sleep 1000"])).unwrap();
        assert_eq!(read_line(&stdout), "up");
        let mut census = Census::new().unwrap();
        // The smallest buffer that holds the longest name of /proc.
        census.listing.truncate(128);
        assert!(census.alive(leader.pid(), Instant::now()).unwrap() >= 1);
    }
}
