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
mod tests;
