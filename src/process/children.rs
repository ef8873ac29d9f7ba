//! Which children this process has, adopted ones included. Single-threaded processes only, and nothing allocates.
//!
//! A listing is no snapshot: children that come, or go and take others' places, while it is read can be missed. Whoever
//! must have them all lists again until waiting says that there are none.

use std::os::fd::{AsFd, OwnedFd};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::{Pid, getpid, read},
};

use super::group::{self, Stat};

/// Calls `each` with the id of every child.
pub(super) fn for_each_child(mut each: impl FnMut(i32)) {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    // The file is there where the kernel has CONFIG_PROC_CHILDREN, as every distribution's has.
    match open(c"/proc/thread-self/children", flags, Mode::empty()) {
        Ok(file) => from_list(&file, &mut each),
        Err(_) => from_all_processes(&mut each),
    }
}

/// Ids in decimal, a space after each.
fn from_list(file: &OwnedFd, each: &mut impl FnMut(i32)) {
    let mut buffer = [0_u8; 1024];
    let mut id = 0_i32;
    loop {
        let filled = match read(file.as_fd(), &mut buffer) {
            Ok(0) => return,
            Ok(filled) => filled,
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        for byte in buffer.iter().take(filled) {
            if byte.is_ascii_digit() {
                id = id.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else if id > 0 {
                each(id);
                id = 0;
            }
        }
    }
}

/// A child in a wait from which at most KILL wakes it: a keeper whose leader doesn't come to its program.
pub(super) fn find_waiting() -> Option<Pid> {
    let mut found = None;
    scan(&mut |stat| {
        if stat.waits {
            found = Some(Pid::from_raw(stat.pid));
        }
    });
    found
}

fn from_all_processes(each: &mut impl FnMut(i32)) {
    scan(&mut |stat| each(stat.pid));
}

fn scan(each: &mut impl FnMut(Stat)) {
    let own = getpid().as_raw();
    let mut listing = [0_u8; 8 * 1024];
    // An error leaves the listing incomplete, which it may be anyway.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let proc = open(c"/proc", flags, Mode::empty());
    proc.and_then(|proc| {
        group::for_each_process(&proc, &mut listing, |stat| {
            if stat.parent == own {
                each(stat);
            }
        })
    })
    .ok();
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn both_ways_list_children_and_zombies_and_nobody_else() {
        let start = |program: &str| -> Child {
            let mut command = Command::new(program);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            command.spawn().unwrap()
        };
        let mut running = start("/bin/cat");
        let mut zombie = start("/bin/true");
        let ids = [&running, &zombie].map(|child| i32::try_from(child.id()).unwrap());
        let mut listed = Vec::new();
        for_each_child(|pid| listed.push(pid));
        let mut scanned = Vec::new();
        from_all_processes(&mut |pid| scanned.push(pid));
        for id in ids {
            assert!(
                listed.contains(&id) && scanned.contains(&id),
                "{id}: {listed:?} {scanned:?}"
            );
        }
        assert!(!scanned.contains(&getpid().as_raw()));
        drop(running.stdin.take());
        running.wait().unwrap();
        zombie.wait().unwrap();
    }
}
