//! Starting a child: its own kernel session and process group, descriptors 0 to 2, a clean signal state, the checked
//! working directory, and nothing else of this process.
//!
//! `posix_spawn` runs on a borrowed address space until exec, so its price doesn't grow with this process's memory (a
//! fork's does), and it reports the error of every step, exec included. It searches no path and starts no shell for a file
//! without a known format. Every descriptor of this process is close-on-exec from its creation, so that threads may start
//! children at the same time without one inheriting the other's pipes.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, OsStr},
    fs::{self, File},
    io::Read,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
    ptr,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl, open},
    sys::stat::Mode,
    unistd::{AccessFlags, Pid, access, pipe2},
};

use super::{Leader, SpawnError};
use crate::config::StdinKind;

/// A child to be started, checked and in the form that the kernel takes.
#[derive(Debug)]
pub struct Launch {
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: OwnedFd,
    stdin: StdinKind,
}

impl Launch {
    /// `cwd` is the directory that was checked (an `O_PATH` descriptor will do); it is entered without its path being
    /// looked up again. `env` is the child's whole environment.
    ///
    /// # Errors
    /// `Other(EINVAL)` when `argv[0]` is absent or not absolute, a string holds a NUL, or a name is empty or holds `=`.
    pub fn new(
        argv: &[impl AsRef<str>],
        env: &[(impl AsRef<str>, impl AsRef<str>)],
        cwd: OwnedFd,
        stdin: StdinKind,
    ) -> Result<Launch, SpawnError> {
        let invalid = SpawnError::Other(Errno::EINVAL);
        if !argv
            .first()
            .is_some_and(|program| program.as_ref().starts_with('/'))
        {
            return Err(invalid);
        }
        let argv = argv.iter().map(|arg| CString::new(arg.as_ref()));
        let argv = argv.collect::<Result<Vec<_>, _>>().map_err(|_| invalid)?;
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            let (name, value) = (name.as_ref(), value.as_ref());
            if name.is_empty() || name.contains('=') {
                return Err(invalid);
            }
            variables.push(CString::new(format!("{name}={value}")).map_err(|_| invalid)?);
        }
        Ok(Launch {
            argv,
            env: variables,
            cwd,
            stdin,
        })
    }
}

/// A child that runs, and our ends of its pipes. All are close-on-exec and above descriptor 2.
#[derive(Debug)]
pub struct Spawned {
    /// The child, leader of its own process group.
    pub leader: Leader,
    /// What the child reads on descriptor 0; absent with [`StdinKind::Null`].
    pub stdin: Option<OwnedFd>,
    /// What the child writes to descriptor 1.
    pub stdout: OwnedFd,
    /// What the child writes to descriptor 2.
    pub stderr: OwnedFd,
}

/// Starts a child. Blocks until its exec has succeeded or failed: about 0.1 ms, longer when the executable must come from
/// a slow disk. May be called from several threads at once.
///
/// # Errors
/// See [`SpawnError`]. Nothing is left then: no process, no zombie, no descriptor.
pub fn spawn(launch: &Launch) -> Result<Spawned, SpawnError> {
    let (stdin, child_stdin) = match launch.stdin {
        StdinKind::Pipe => {
            let (theirs, ours) = pipe()?;
            (Some(ours), theirs)
        }
        StdinKind::Null => {
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
            let null = open("/dev/null", flags, Mode::empty()).and_then(above_stderr);
            (None, null.map_err(resources)?)
        }
    };
    let (stdout, child_stdout) = pipe()?;
    let (stderr, child_stderr) = pipe()?;

    let mut actions = FileActions::new().map_err(resources)?;
    actions.enter(&launch.cwd).map_err(resources)?;
    for (theirs, number) in [(&child_stdin, 0), (&child_stdout, 1), (&child_stderr, 2)] {
        actions.duplicate(theirs, number).map_err(resources)?;
    }
    let attributes = Attributes::new().map_err(resources)?;
    let program = launch.argv[0].as_c_str();
    let argv = pointers(&launch.argv);
    let env = pointers(&launch.env);
    let mut pid = 0;
    // SAFETY: `program` and the strings behind `argv` and `env` are NUL-terminated and owned by `launch`, the two lists
    // end with a null pointer, `actions` and `attributes` are initialised, and all of them are borrowed until the call
    // returns, which is after the child has left this address space by exec or exit. The child runs libc's code only.
    let failed = unsafe {
        libc::posix_spawn(
            &mut pid,
            program.as_ptr(),
            &actions.0,
            &attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    if failed != 0 {
        return Err(classify(Errno::from_raw(failed), program));
    }
    let leader = Leader::adopt(Pid::from_raw(pid)).map_err(resources)?;
    Ok(Spawned {
        leader,
        stdin,
        stdout,
        stderr,
    })
}

/// (read end, write end), both close-on-exec and above descriptor 2.
fn pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(resources)?;
    let ends = above_stderr(read).and_then(|read| Ok((read, above_stderr(write)?)));
    ends.map_err(resources)
}

/// Were a source number one of the targets 0 to 2, one duplication could overwrite the source of the next.
fn above_stderr(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    let moved = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

/// The list that exec takes. Valid for as long as `strings` is borrowed.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    // exec takes `char *const[]` and doesn't write to the strings.
    let each = strings.iter().map(|string| string.as_ptr().cast_mut());
    each.chain([ptr::null_mut()]).collect()
}

fn check(returned: libc::c_int) -> Result<(), Errno> {
    // The posix_spawn family returns the error and doesn't set errno.
    if returned == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw(returned))
    }
}

/// Errors of the steps around exec, none of which is about the executable.
fn resources(errno: Errno) -> SpawnError {
    match errno {
        Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => SpawnError::OutOfProcesses,
        errno => SpawnError::Other(errno),
    }
}

/// What an error of exec means for the client. The kernel reports the same numbers for the executable and for the
/// interpreter that it names, so the file is looked at again; it may have changed since, which costs a less exact message
/// and nothing else.
fn classify(errno: Errno, program: &CStr) -> SpawnError {
    let path = Path::new(OsStr::from_bytes(program.to_bytes()));
    let there = || fs::metadata(path).is_ok();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP if there() => SpawnError::BadInterpreter,
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => SpawnError::NotFound,
        Errno::EACCES if may_execute(path) && is_script(path) => SpawnError::BadInterpreter,
        Errno::ENOEXEC if is_script(path) => SpawnError::BadInterpreter,
        Errno::ELIBBAD => SpawnError::BadInterpreter,
        Errno::EACCES | Errno::ENOEXEC | Errno::EISDIR => SpawnError::NotExecutable,
        Errno::ETXTBSY => SpawnError::Busy,
        Errno::E2BIG => SpawnError::TooLarge,
        errno => resources(errno),
    }
}

fn may_execute(path: &Path) -> bool {
    access(path, AccessFlags::X_OK).is_ok() && fs::metadata(path).is_ok_and(|facts| facts.is_file())
}

fn is_script(path: &Path) -> bool {
    // A FIFO put in the file's place must not block us.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let mut start = Vec::with_capacity(2);
    file.and_then(|file| file.take(2).read_to_end(&mut start))
        .is_ok()
        && start == b"#!"
}

/// What the child does with descriptors before exec, in order.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> Result<FileActions, Errno> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the pointer is to a local of the right size, which the call initialises when it returns 0.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised above. The type holds no pointer to itself, so it may be moved.
        Ok(FileActions(unsafe { actions.assume_init() }))
    }

    fn enter(&mut self, directory: &OwnedFd) -> Result<(), Errno> {
        // SAFETY: `self` is initialised. The number is only recorded; `spawn` borrows its owner until the child has used it.
        check(unsafe {
            libc::posix_spawn_file_actions_addfchdir_np(&mut self.0, directory.as_raw_fd())
        })
    }

    fn duplicate(&mut self, fd: &OwnedFd, number: libc::c_int) -> Result<(), Errno> {
        // SAFETY: as in `enter`.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(&mut self.0, fd.as_raw_fd(), number)
        })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and never used again.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// Own session (hence own group), every signal at its default, none blocked.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> Result<Attributes, Errno> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is to a local of the right size, which the call initialises when it returns 0.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised above. The type holds no pointer to itself, so it may be moved.
        let mut attributes = Attributes(unsafe { attributes.assume_init() });
        let flags = libc::POSIX_SPAWN_SETSID
            | libc::c_short::try_from(libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF)
                .expect("flags of a short");
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a signal set is integers, so every pattern of bits is one, and both sets are written before they are
        // read; all pointers are to locals that outlive the calls.
        unsafe {
            none.as_mut_ptr().write_bytes(0, 1);
            // Not sigfillset: it leaves out the two signals that libc keeps to itself, which glibc's child then ignores.
            all.as_mut_ptr().write_bytes(0xff, 1);
            check(libc::posix_spawnattr_setsigmask(
                &mut attributes.0,
                none.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigdefault(
                &mut attributes.0,
                all.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setflags(&mut attributes.0, flags))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and never used again.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, io::Write, path::PathBuf, process::Command};

    use nix::sys::{
        signal::{SigHandler, SigSet, Signal, signal},
        wait::{Id, WaitPidFlag, waitid},
    };
    use tempfile::TempDir;

    use super::*;
    use crate::process::{
        prepare,
        testing::{
            in_own_process, launch, launch_in, open_descriptors, read_to_end, root, run,
            wait_for_exit, with_private_descriptors,
        },
    };

    fn output(argv: &[&str]) -> String {
        let (exit, text) = run(&launch(argv));
        assert_eq!(exit.code, Some(0), "{argv:?}");
        text
    }

    fn refused(argv: &[&str]) -> SpawnError {
        spawn(&launch(argv)).map(drop).unwrap_err()
    }

    /// Written by a process of its own: were the descriptor ours, a child that another test starts at this moment would
    /// hold it until its exec, and the file would be busy.
    fn executable(directory: &TempDir, name: &str, text: &str) -> PathBuf {
        let path = directory.path().join(name);
        let status = Command::new("/bin/sh")
            .args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"])
            .args([path.as_os_str(), text.as_ref()])
            .status();
        assert!(status.unwrap().success());
        path
    }

    #[test]
    fn a_child_leads_its_own_session_and_group() {
        let script = "cat /proc/$$/stat";
        let Spawned { leader, stdout, .. } = spawn(&launch(&["/bin/sh", "-c", script])).unwrap();
        let pid = leader.pid().as_raw().to_string();
        let stat = read_to_end(stdout);
        let fields = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .collect::<Vec<_>>();
        assert_eq!(
            fields[2..4],
            [pid.as_str(), pid.as_str()],
            "group and session"
        );
        assert_eq!(fields[4], "0", "no controlling terminal");
        wait_for_exit(&leader);
        leader.reap().unwrap();
    }

    #[test]
    fn a_child_has_descriptors_0_to_2_and_the_listing_itself() {
        prepare().unwrap();
        let _open = File::open("/dev/null").unwrap();
        assert_eq!(output(&["/bin/ls", "/proc/self/fd"]), "0\n1\n2\n3\n");
        let spawned = spawn(&launch_in(
            &["/bin/ls", "/proc/self/fd"],
            root(),
            StdinKind::Pipe,
        ))
        .unwrap();
        assert_eq!(read_to_end(spawned.stdout), "0\n1\n2\n3\n");
    }

    #[test]
    fn the_three_pipes_lead_to_the_child() {
        let script = "read line; echo \"out $line\"; echo \"err $line\" >&2; cat";
        let spawned = spawn(&launch_in(
            &["/bin/sh", "-c", script],
            root(),
            StdinKind::Pipe,
        ))
        .unwrap();
        let mut stdin = File::from(spawned.stdin.unwrap());
        stdin.write_all("päng\nrest".as_bytes()).unwrap();
        drop(stdin);
        assert_eq!(read_to_end(spawned.stdout), "out päng\nrest");
        assert_eq!(read_to_end(spawned.stderr), "err päng\n");
    }

    #[test]
    fn null_stdin_is_at_its_end() {
        assert_eq!(output(&["/bin/cat"]), "");
        assert_eq!(output(&["/bin/readlink", "/proc/self/fd/0"]), "/dev/null\n");
    }

    #[test]
    fn no_signal_is_blocked_or_ignored_whatever_the_parent_does() {
        // SAFETY: SIG_IGN installs no handler, and no test relies on these two signals.
        unsafe {
            signal(Signal::SIGUSR2, SigHandler::SigIgn).unwrap();
            signal(Signal::SIGPIPE, SigHandler::SigIgn).unwrap();
        }
        SigSet::all().thread_block().unwrap();
        let status = output(&["/bin/cat", "/proc/self/status"]);
        for field in ["SigBlk", "SigIgn", "SigCgt", "SigPnd"] {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(field))
                .unwrap();
            assert_eq!(line, ":\t0000000000000000", "{field}");
        }
    }

    #[test]
    fn the_environment_is_what_was_given() {
        let env = [("LANG", "C.UTF-8"), ("EMPTY", ""), ("TEXT", "a=b c\nd")];
        let launch = Launch::new(&["/usr/bin/env", "-0"], &env, root(), StdinKind::Null).unwrap();
        assert_eq!(run(&launch).1, "LANG=C.UTF-8\0EMPTY=\0TEXT=a=b c\nd\0");
        let none: [(&str, &str); 0] = [];
        let launch = Launch::new(&["/usr/bin/env"], &none, root(), StdinKind::Null).unwrap();
        assert_eq!(run(&launch).1, "");
    }

    #[test]
    fn arguments_arrive_as_they_are() {
        assert_eq!(
            output(&["/usr/bin/printf", "[%s]", "", "a b", "$HOME;*", "é"]),
            "[][a b][$HOME;*][é]"
        );
    }

    #[test]
    fn the_checked_directory_is_entered_even_when_its_path_leads_elsewhere() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().canonicalize().unwrap();
        fs::create_dir(path.join("checked")).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let checked = open(&path.join("checked"), flags, Mode::empty()).unwrap();
        fs::rename(path.join("checked"), path.join("moved")).unwrap();
        std::os::unix::fs::symlink("/etc", path.join("checked")).unwrap();
        let (_, text) = run(&launch_in(&["/bin/pwd", "-P"], checked, StdinKind::Null));
        assert_eq!(text.trim_end(), path.join("moved").to_str().unwrap());
    }

    #[test]
    fn each_cause_of_a_failed_start_has_its_variant() {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let script = |name: &str, text: &str| {
            executable(&directory, name, text)
                .to_str()
                .unwrap()
                .to_owned()
        };
        fs::write(at("plain"), "text").unwrap();

        assert_eq!(refused(&[&at("absent")]), SpawnError::NotFound);
        assert_eq!(refused(&[&at("absent/deeper")]), SpawnError::NotFound);
        assert_eq!(refused(&[&at("plain/deeper")]), SpawnError::NotFound);
        assert_eq!(
            refused(&[&format!("/{}", "x".repeat(5000))]),
            SpawnError::NotFound
        );
        assert_eq!(refused(&[&at("plain")]), SpawnError::NotExecutable);
        assert_eq!(
            refused(&[directory.path().to_str().unwrap()]),
            SpawnError::NotExecutable
        );
        assert_eq!(
            refused(&[&script("no-format", "echo never run by a shell\n")]),
            SpawnError::NotExecutable
        );
        assert_eq!(refused(&[&script("empty", "")]), SpawnError::NotExecutable);
        let absent = format!("#!{}\n", at("absent"));
        assert_eq!(
            refused(&[&script("interpreter-absent", &absent)]),
            SpawnError::BadInterpreter
        );
        let plain = format!("#!{}\n", at("plain"));
        assert_eq!(
            refused(&[&script("interpreter-plain", &plain)]),
            SpawnError::BadInterpreter
        );
        assert_eq!(
            refused(&[&script("interpreter-none", "#!\n")]),
            SpawnError::BadInterpreter
        );
        assert_eq!(
            refused(&["/bin/echo", &"x".repeat(1 << 20)]),
            SpawnError::TooLarge
        );

        let busy = script("busy", "#!/bin/sh\n");
        let writer = File::options().write(true).open(&busy).unwrap();
        assert_eq!(refused(&[&busy]), SpawnError::Busy);
        drop(writer);
    }

    #[test]
    fn a_launch_that_the_kernel_would_misread_is_refused() {
        let invalid = SpawnError::Other(Errno::EINVAL);
        let new = |argv: &[&str], env: &[(&str, &str)]| {
            Launch::new(argv, env, root(), StdinKind::Null).map(drop)
        };
        assert_eq!(new(&["/bin/true"], &[("A", "b")]), Ok(()));
        assert_eq!(new(&[], &[]), Err(invalid));
        assert_eq!(new(&["bin/true"], &[]), Err(invalid));
        assert_eq!(new(&["/bin/true", "a\0b"], &[]), Err(invalid));
        assert_eq!(new(&["/bin/true"], &[("A", "b\0c")]), Err(invalid));
        assert_eq!(new(&["/bin/true"], &[("", "b")]), Err(invalid));
        assert_eq!(new(&["/bin/true"], &[("A=B", "c")]), Err(invalid));
    }

    #[test]
    fn failed_starts_leave_no_descriptor() {
        with_private_descriptors(|| {
            let absent = launch_in(&["/absent"], root(), StdinKind::Pipe);
            let large = launch(&["/bin/echo", &"x".repeat(1 << 20)]);
            let before = open_descriptors();
            for _ in 0..250 {
                assert_eq!(spawn(&absent).map(drop), Err(SpawnError::NotFound));
                assert_eq!(spawn(&large).map(drop), Err(SpawnError::TooLarge));
            }
            assert_eq!(open_descriptors(), before);
        });
    }

    #[test]
    fn our_ends_lie_above_stderr_even_when_0_to_2_are_free() {
        with_private_descriptors(|| {
            prepare().unwrap();
            for number in 0..3 {
                // SAFETY: this thread's table is its own, and nothing on it uses the numbers until its end.
                unsafe { libc::close(number) };
            }
            let Spawned {
                leader,
                stdin,
                stdout,
                stderr,
            } = spawn(&launch_in(
                &["/bin/ls", "/proc/self/fd"],
                root(),
                StdinKind::Pipe,
            ))
            .unwrap();
            let numbers = [
                stdin.unwrap().as_raw_fd(),
                stdout.as_raw_fd(),
                stderr.as_raw_fd(),
            ];
            let distinct = numbers.into_iter().collect::<BTreeSet<_>>();
            let listing = read_to_end(stdout);
            drop(leader);
            // Panicking needs no descriptor here: the harness captures the message.
            assert!(
                numbers.iter().all(|&number| number > 2) && distinct.len() == 3,
                "{numbers:?}"
            );
            assert_eq!(listing, "0\n1\n2\n3\n");
        });
    }

    #[test]
    fn running_out_of_descriptors_at_any_step_is_reported_and_leaves_nothing() {
        in_own_process(
            "process::spawn::tests::inner_running_out_of_descriptors",
            "ulimit -n 40; exec",
        );
    }

    #[test]
    #[ignore = "runs in a process of its own, started by the test above"]
    fn inner_running_out_of_descriptors() {
        let launch = launch_in(&["/bin/true"], root(), StdinKind::Pipe);
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        // Three pipes and a pidfd, minus the three ends that the child's start gives back.
        let mut failures = 0;
        loop {
            match spawn(&launch) {
                Err(error) => {
                    assert_eq!(error, SpawnError::OutOfProcesses);
                    failures += 1;
                }
                Ok(spawned) => {
                    drop(spawned);
                    break;
                }
            }
            let free = (0..failures - 1)
                .map(|_| File::open("/dev/null").unwrap())
                .collect::<Vec<_>>();
            assert!(
                File::open("/dev/null").is_err(),
                "exactly as many are free as before"
            );
            drop(free);
            drop(held.pop().unwrap());
        }
        assert_eq!(failures, 7, "free descriptors at each failure: 0 to 6");
        let any = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
        assert_eq!(any, Err(Errno::ECHILD), "neither child nor zombie");
    }

    #[test]
    fn threads_start_children_at_once_and_none_inherits_anothers_pipes() {
        prepare().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let launch =
                            launch_in(&["/bin/ls", "/proc/self/fd"], root(), StdinKind::Pipe);
                        assert_eq!(run(&launch).1, "0\n1\n2\n3\n");
                    }
                });
            }
        });
    }
}
