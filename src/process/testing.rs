//! What the tests of this layer share: children to start, and surroundings in which leaks can be counted.

#![allow(unsafe_code)]

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Command,
    sync::LazyLock,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Exit, Launch, Leader, Nursery, SpawnError, Spawned, Unconfirmed};
use crate::config::StdinKind;

/// One for all tests of this binary.
static NURSERY: LazyLock<Nursery> = LazyLock::new(|| Nursery::start().unwrap());

pub(super) fn spawn(launch: &Launch) -> Result<Spawned, SpawnError> {
    super::spawn(launch, &NURSERY)
}

pub(super) fn root() -> OwnedFd {
    File::open("/").unwrap().into()
}

pub(super) fn launch(argv: &[&str]) -> Launch {
    launch_in(argv, root(), StdinKind::Null)
}

pub(super) fn launch_in(argv: &[&str], cwd: OwnedFd, stdin: StdinKind) -> Launch {
    let env = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    Launch::new(argv, &env, cwd, stdin).unwrap()
}

/// Blocks until the leader is a zombie.
pub(super) fn wait_for_exit(leader: &Leader) {
    wait_readable(leader.pidfd());
    assert!(leader.has_exited());
}

pub(super) fn wait_readable(fd: BorrowedFd<'_>) {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).unwrap();
}

/// Reaps a leader that has exited, and ends its session.
pub(super) fn reap(leader: Leader) -> Result<Exit, Unconfirmed> {
    let mut reaping = leader.reap();
    wait_readable(reaping.keeper());
    let exit = reaping.exit();
    reaping.finish();
    exit
}

pub(super) fn read_to_end(fd: OwnedFd) -> String {
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text).unwrap();
    text
}

/// Reads one line, byte by byte, so that nothing after it is taken from the pipe.
pub(super) fn read_line(fd: &OwnedFd) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while nix::unistd::read(fd.as_fd(), &mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Starts, reads stdout to its end, reaps.
pub(super) fn run(launch: &Launch) -> (Exit, String) {
    let Spawned {
        leader,
        stdout,
        stderr: _open,
        ..
    } = spawn(launch).unwrap();
    let text = read_to_end(stdout);
    wait_for_exit(&leader);
    (reap(leader).unwrap(), text)
}

/// Runs `body` on a thread with its own descriptor table, where nothing that other tests open can be seen. It is given a
/// nursery of its own, since that of the others is known by numbers of their table.
pub(super) fn with_private_descriptors(body: impl FnOnce(&Nursery) + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: an integer argument; from here on this thread's table is a copy. Descriptors of other threads stay
            // open in theirs, and values owned by other threads are not used here.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            body(&Nursery::start().unwrap());
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Open descriptors of the calling thread's table, the one that reads the directory not counted.
pub(super) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/thread-self/fd").unwrap().count() - 1
}

/// Runs an ignored test of this binary in a process of its own; `exec` is the shell line that its name is appended to.
pub(crate) fn in_own_process(test: &str, exec: &str) {
    let output = Command::new("/bin/sh")
        .args([
            "-c",
            &format!("{exec} \"$0\" --exact \"$1\" --ignored --test-threads=1"),
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
