//! A pseudo-terminal: our end of it, its size, and what the kernel says of the other end.
//!
//! The kernel's line discipline sits between the two ends: it echoes, edits lines, turns keys into signals and
//! newlines into carriage return and newline. How it does so is the child's affair from its first instruction on.

#![allow(unsafe_code)]

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    pty::{posix_openpt, unlockpt},
    sys::termios::{
        InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, tcgetattr, tcgetsid, tcsetattr,
    },
    unistd::{Pid, getpgid, tcgetpgrp},
};

use super::descriptors::{above_stderr, is_readable};
use crate::screen::Size;

/// Our end. The child's end is gone when no process has it open; reading ours then gives EIO.
#[derive(Debug)]
pub struct Terminal {
    ours: OwnedFd,
}

/// Opens a terminal, to see whether one can be had.
///
/// # Errors
/// As for a session: the kernel's.
pub fn offered() -> Result<(), Errno> {
    Terminal::open(Size::USUAL).map(drop)
}

/// How the line discipline treats what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Lines are handed over whole, and one that is longer than the kernel's buffer would be cut.
    pub canonical: bool,
    /// What is typed comes back as output.
    pub echo: bool,
    /// What ends the input at the start of a line, where the mode is canonical.
    pub end_of_file: u8,
}

impl Terminal {
    /// A new terminal of this size, and the child's end of it. Both are close-on-exec and above descriptor 2.
    ///
    /// # Errors
    /// ENOSPC when there are as many terminals as the kernel or its mount of devpts allows, EMFILE and the like, ENOENT and
    /// EACCES where there is no devpts.
    pub(super) fn open(size: Size) -> Result<(Terminal, OwnedFd), Errno> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let ours = posix_openpt(flags)?;
        unlockpt(&ours)?;
        let ours = above_stderr(ours.into())?;
        let theirs = above_stderr(other_end(&ours, flags)?)?;
        let mut settings = tcgetattr(&theirs)?;
        // Or erasing a character in the line that is typed would erase one of its bytes.
        settings.input_flags |= InputFlags::IUTF8;
        tcsetattr(&theirs, SetArg::TCSANOW, &settings)?;
        let terminal = Terminal { ours };
        terminal.resize(size)?;
        Ok((terminal, theirs))
    }

    /// A further descriptor of our end, which shares its flags with all others.
    pub(super) fn duplicate(&self) -> Result<OwnedFd, Errno> {
        let copy = self.ours.try_clone();
        copy.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    }

    /// Gives it this size. The foreground group gets SIGWINCH if it had another.
    ///
    /// # Errors
    /// The kernel's.
    pub fn resize(&self, size: Size) -> Result<(), Errno> {
        let size = libc::winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the pointer is to a local of the type that this request reads.
        let done = unsafe { libc::ioctl(self.ours.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        Errno::result(done).map(drop)
    }

    /// See [`Mode`]. It may be another one the moment after.
    ///
    /// # Errors
    /// The kernel's.
    pub fn mode(&self) -> Result<Mode, Errno> {
        // Asked of our end, the kernel tells of the other.
        let settings = tcgetattr(&self.ours)?;
        Ok(Mode {
            canonical: settings.local_flags.contains(LocalFlags::ICANON),
            echo: settings.local_flags.contains(LocalFlags::ECHO),
            end_of_file: settings.control_chars[SpecialCharacterIndices::VEOF as usize],
        })
    }

    /// Whether all that was typed has been read, and a process of the group that the terminal's keys go to sleeps until something is typed: in a read of a
    /// terminal, or in a poll, of which the kernel doesn't say what it is for.
    ///
    /// Where only the state of a process may be seen, not its system call, one that sleeps counts.
    pub fn awaits_input(&self) -> bool {
        let Ok(group) = tcgetpgrp(&self.ours) else {
            return false;
        };
        // The group's first process is the one that a shell put in the foreground. It may wait for a child that reads, as
        // what has a pager does, and in a pipeline it may be gone.
        let somebody = awaits(group) || self.members(group).into_iter().any(awaits);
        somebody && self.is_read().unwrap_or_default()
    }

    /// Whether the program has read all that was typed: in canonical mode, all finished lines.
    ///
    /// # Errors
    /// EMFILE and the like: only the other end tells, and it is opened for that.
    pub fn is_read(&self) -> Result<bool, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        // A program has it open as well, so closing it again hangs nobody up.
        let theirs = other_end(&self.ours, flags)?;
        // By poll, which first hands on what is still between the two ends.
        Ok(!is_readable(theirs.as_fd()))
    }

    /// Sends the foreground group the signal that the line discipline makes of this key, past what was typed before it.
    ///
    /// # Errors
    /// EINVAL for a key of which it makes none, otherwise the kernel's.
    pub fn interrupt(&self, key: u8) -> Result<(), Errno> {
        let settings = tcgetattr(&self.ours)?;
        let keys = [
            (SpecialCharacterIndices::VINTR, libc::SIGINT),
            (SpecialCharacterIndices::VQUIT, libc::SIGQUIT),
            (SpecialCharacterIndices::VSUSP, libc::SIGTSTP),
        ];
        let of_key = |(index, _): &(SpecialCharacterIndices, _)| {
            settings.control_chars[*index as usize] == key
        };
        let signals = settings.local_flags.contains(LocalFlags::ISIG);
        let (_, signal) = keys
            .into_iter()
            .find(of_key)
            .filter(|_| signals)
            .ok_or(Errno::EINVAL)?;
        // SAFETY: integers; the kernel sends the signal by itself, so no number can be another group's meanwhile.
        let sent = unsafe { libc::ioctl(self.ours.as_raw_fd(), libc::TIOCSIG, signal) };
        Errno::result(sent).map(drop)
    }

    /// Whether something was printed that nobody has taken yet, or the terminal is hung up.
    pub fn has_output(&self) -> bool {
        is_readable(self.ours.as_fd())
    }

    /// Further processes of the group: descendants of the terminal's session leader.
    fn members(&self, group: Pid) -> Vec<Pid> {
        let Ok(leader) = tcgetsid(&self.ours) else {
            return Vec::new();
        };
        let (mut found, mut next) = (Vec::new(), vec![leader]);
        let mut looked = 0;
        while let Some(process) = next.pop()
            && looked < MAX_PROCESSES
        {
            looked += 1;
            if process != group && getpgid(Some(process)) == Ok(group) {
                found.push(process);
            }
            let children = format!("/proc/{process}/task/{process}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            let children = children.split_ascii_whitespace();
            next.extend(children.filter_map(|pid| pid.parse().ok().map(Pid::from_raw)));
        }
        found
    }
}

/// Opens the other end. By descriptor and not by name: the name under /dev/pts may be another terminal's in this mount
/// namespace.
fn other_end(ours: &impl AsRawFd, flags: OFlag) -> Result<OwnedFd, Errno> {
    // SAFETY: two integers; the call opens a descriptor and touches no memory.
    let theirs = unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) };
    let theirs = Errno::result(theirs)?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(theirs) })
}

/// Processes that are looked at for one that waits: more than are between a shell and what reads for it.
const MAX_PROCESSES: usize = 64;

/// System calls that wait for one of several descriptors.
const POLLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];

fn awaits(process: Pid) -> bool {
    let process = Path::new("/proc").join(process.to_string());
    let Ok(call) = fs::read_to_string(process.join("syscall")) else {
        return is_asleep(&process);
    };
    // `running`, or the call's number and its arguments.
    let mut words = call.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse().ok()) else {
        return false;
    };
    if number == libc::SYS_read {
        let argument = words.next().and_then(|word| word.strip_prefix("0x"));
        let fd = argument.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        return fd.is_some_and(|fd| is_terminal(&process.join(format!("fd/{fd}"))));
    }
    POLLS.contains(&number)
}

fn is_terminal(link: &Path) -> bool {
    let target = fs::read_link(link).unwrap_or_default();
    target.starts_with("/dev/pts") || target == Path::new("/dev/tty")
}

fn is_asleep(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name, which may hold anything, ends with the last parenthesis.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    state == Some('S')
}
