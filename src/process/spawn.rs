//! Starting a child: its own kernel session and process group, descriptors 0 to 2, a clean signal state, the checked
//! working directory, and nothing else of this process.
//!
//! The server makes the pipes and asks for the rest: a spare keeper is the one that starts the child
//! ([`super::keeper`], [`super::exec`]) and reports the error of every step, exec included. No path is searched and no
//! shell is started for a file without a known format. Since the server itself never forks here, neither its memory nor
//! its other descriptors have a way into a child.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::{self, File},
    io::Read,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::{AccessFlags, Pid, access, pipe2},
};

use super::{
    Leader, Nursery, SpawnError, Terminal,
    descriptors::above_stderr,
    request,
    wire::{self, REPLY_BYTES, Received, Reply},
};
use crate::{
    config::{Pin, Restrictions, Sandbox, StdinKind},
    contain::{Containment, NotContained},
    io::Channel,
    screen::Size,
};

/// A child to be started, checked and in the form that the kernel takes.
#[derive(Debug)]
pub struct Launch {
    argv: Vec<CString>,
    env: Vec<CString>,
    restrictions: Restrictions,
    containment: Option<Containment>,
    pin: Option<Pin>,
    cwd: OwnedFd,
    stdin: StdinKind,
    terminal: Option<Size>,
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
            restrictions: Restrictions::default(),
            containment: None,
            pin: None,
            cwd,
            stdin,
            terminal: None,
        })
    }
}

impl Launch {
    /// The same launch under these restrictions.
    pub fn restricted(self, restrictions: Restrictions) -> Launch {
        Launch {
            restrictions,
            ..self
        }
    }

    /// The same launch of an executable that must be the one that is pinned, if one is.
    pub fn pinned(self, pin: Option<Pin>) -> Launch {
        Launch { pin, ..self }
    }

    /// The same launch on a terminal of this size instead of pipes, if one is given.
    pub fn on_terminal(self, terminal: Option<Size>) -> Launch {
        Launch { terminal, ..self }
    }

    /// The same launch in this sandbox, if there is one. Its paths are opened now.
    ///
    /// # Errors
    /// `SandboxPath` for a path that can't be opened as it was resolved; otherwise for want of descriptors, or the kernel's.
    pub fn sandboxed(self, sandbox: Option<&Sandbox>) -> Result<Launch, SpawnError> {
        let containment = sandbox.map(|Sandbox { read, write, network }| {
            Containment::new(read, write, *network).map_err(|refused| match refused {
                NotContained::Path(path, errno) => match resources(errno) {
                    SpawnError::OutOfProcesses => SpawnError::OutOfProcesses,
                    _ => {
                        tracing::warn!(path = %path.display(), %errno, "a path of a sandbox can't be opened");
                        SpawnError::SandboxPath
                    }
                },
                NotContained::Kernel(errno) => resources(errno),
            })
        });
        Ok(Launch {
            containment: containment.transpose()?,
            ..self
        })
    }
}

/// A child that runs, and our ends of its pipes, or of its terminal, for reading and for writing. All are close-on-exec and above descriptor 2.
#[derive(Debug)]
pub struct Spawned {
    /// The child, leader of its own process group.
    pub leader: Leader,
    /// What the child reads on descriptor 0; absent with [`StdinKind::Null`].
    pub stdin: Option<OwnedFd>,
    /// What the child writes to descriptor 1.
    pub stdout: OwnedFd,
    /// What the child writes to descriptor 2; absent on a terminal, where it is the same as 1.
    pub stderr: Option<OwnedFd>,
    /// What the three above are ends of.
    pub channel: Channel,
    /// Its terminal, if it has one.
    pub terminal: Option<Terminal>,
    /// The leader's pidfd and its keeper's socket once more, for whoever waits for them: made here, so that a lack of
    /// descriptors fails the start and not the session. To be dropped with the leader: the keeper sees the end of its
    /// session when nobody holds its socket any more.
    pub watched: Watched,
}

/// See [`Spawned::watched`].
#[derive(Debug)]
pub struct Watched {
    /// [`Leader::pidfd`].
    pub exit: OwnedFd,
    /// [`Leader::keeper`].
    pub keeper: OwnedFd,
}

/// Starts a child. Blocks until its exec has succeeded or failed: well under 1 ms, longer when the executable must come from
/// a slow disk. May be called from several threads at once.
///
/// # Errors
/// See [`SpawnError`]. Nothing is left then: no process, no descriptor; the keeper is gone a moment later.
pub fn spawn(launch: &Launch, nursery: &Nursery) -> Result<Spawned, SpawnError> {
    let (ours, theirs) = match launch.terminal {
        Some(size) => terminal(size)?,
        None => pipes(launch.stdin)?,
    };
    let containment = launch.containment.as_ref();
    let held = launch.pin.is_some();
    let body = request::encode(
        &launch.argv,
        &launch.env,
        &launch.restrictions,
        containment.is_none_or(Containment::sockets),
        held,
        launch.terminal.is_some(),
    );
    let mut handover = vec![launch.cwd.as_fd()];
    handover.extend(theirs.as_fds());
    handover.extend(containment.map(Containment::ruleset));
    let spares = nursery.spares();
    let keeper = spares.take().map_err(resources)?;
    match wire::send(keeper.as_fd(), &body, &handover) {
        // Whoever doesn't read it all says why in the reply, or is gone.
        Ok(sent) => wire::send_all(keeper.as_fd(), &body[sent..]).unwrap_or_default(),
        Err(Errno::EPIPE | Errno::ECONNRESET) => {}
        // ETOOMANYREFS, for one: the user has too many descriptors in flight. Nothing was sent.
        Err(errno) => return Err(resources(errno)),
    }
    drop(theirs);
    let mut reply = [0; REPLY_BYTES];
    let mut received = Received::default();
    let length = match wire::receive(keeper.as_fd(), &mut reply, &mut received, 0) {
        Ok(length) => length,
        Err(Errno::ECONNRESET) => 0,
        Err(errno) => return Err(resources(errno)),
    };
    let [pidfd, ..] = received;
    let reply = Some(reply).filter(|_| length == REPLY_BYTES);
    match (reply.as_ref().and_then(Reply::decode), pidfd) {
        (Some(Reply::Started(pid)), Some(pidfd)) => {
            let pidfd = above_stderr(pidfd).map_err(resources)?;
            let watched = Watched {
                exit: duplicate(&pidfd)?,
                keeper: duplicate(&keeper)?,
            };
            let leader = Leader::new(Pid::from_raw(pid), pidfd, keeper, Arc::downgrade(spares));
            if let Some(pin) = launch.pin {
                // One that is refused is killed as its value is dropped.
                compare(&leader, pin, &launch.argv[0])?;
                leader.release();
            }
            // Last, so that it takes no descriptor from this start.
            spares.refill();
            let Ours {
                stdin,
                stdout,
                stderr,
                channel,
                terminal,
            } = ours;
            Ok(Spawned {
                leader,
                stdin,
                stdout,
                stderr,
                channel,
                terminal,
                watched,
            })
        }
        (
            Some(Reply::Failed {
                errno,
                at_exec,
                serves_on,
            }),
            _,
        ) => {
            if serves_on {
                spares.give_back(keeper);
            } else {
                drop(keeper);
                spares.refill();
            }
            Err(match errno {
                _ if at_exec => classify(errno, &launch.argv[0], containment.is_some()),
                Errno::EPERM | Errno::EACCES if held => {
                    tracing::warn!(
                        "an executable can't be held for the comparison with its sha256: tracing is not allowed here"
                    );
                    SpawnError::Unpinnable
                }
                errno => resources(errno),
            })
        }
        _ => Err(SpawnError::NurseryGone),
    }
}

/// Compares what a held leader is about to run with its pin. Takes as long as it takes to read it all.
fn compare(leader: &Leader, pin: Pin, program: &CStr) -> Result<(), SpawnError> {
    let path = Path::new(OsStr::from_bytes(program.to_bytes()));
    let image = File::open(format!("/proc/{}/exe", leader.pid()));
    match image.and_then(Pin::of) {
        Ok(found) if found == pin => Ok(()),
        Ok(_) if is_script(path) => Err(SpawnError::PinnedScript),
        Ok(found) => {
            tracing::warn!(path = %path.display(), sha256 = %found, "an executable is not what it is pinned to");
            Err(SpawnError::Mismatch)
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "an executable can't be compared with its sha256");
            Err(SpawnError::Unpinnable)
        }
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, SpawnError> {
    let copy = fd.try_clone();
    copy.map_err(|error| resources(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)))
}

/// Our ends, see [`Spawned`].
struct Ours {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
    channel: Channel,
    terminal: Option<Terminal>,
}

/// The child's ends.
enum Theirs {
    /// Its descriptors 0 to 2.
    Each([OwnedFd; 3]),
    /// One that is all three.
    All(OwnedFd),
}

impl Theirs {
    fn as_fds(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Theirs::Each(fds) => fds.each_ref().map(AsFd::as_fd),
            Theirs::All(fd) => [fd.as_fd(); 3],
        }
    }
}

fn pipes(stdin: StdinKind) -> Result<(Ours, Theirs), SpawnError> {
    let (stdin, child_stdin) = match stdin {
        StdinKind::Pipe => {
            let (theirs, ours) = pipe()?;
            (Some(ours), theirs)
        }
        StdinKind::Null => {
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
            let null = open("/dev/null", flags, Mode::empty());
            (None, null.map_err(resources)?)
        }
    };
    let (stdout, child_stdout) = pipe()?;
    let (stderr, child_stderr) = pipe()?;
    let ours = Ours {
        stdin,
        stdout,
        stderr: Some(stderr),
        channel: Channel::Pipe,
        terminal: None,
    };
    Ok((
        ours,
        Theirs::Each([child_stdin, child_stdout, child_stderr]),
    ))
}

fn terminal(size: Size) -> Result<(Ours, Theirs), SpawnError> {
    let (terminal, theirs) = Terminal::open(size).map_err(|errno| match resources(errno) {
        SpawnError::Other(errno) => SpawnError::NoTerminal(errno),
        shortage => shortage,
    })?;
    let ours = Ours {
        stdin: Some(terminal.duplicate().map_err(resources)?),
        stdout: terminal.duplicate().map_err(resources)?,
        stderr: None,
        channel: Channel::Terminal,
        terminal: Some(terminal),
    };
    Ok((ours, Theirs::All(theirs)))
}

/// (read end, write end), both close-on-exec and above descriptor 2.
fn pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(resources)?;
    let ends = above_stderr(read).and_then(|read| Ok((read, above_stderr(write)?)));
    ends.map_err(resources)
}

/// Errors of the steps around exec, none of which is about the executable.
fn resources(errno: Errno) -> SpawnError {
    match errno {
        // ETOOMANYREFS: as many descriptors of this user are in flight as one process may have open.
        Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE | Errno::ETOOMANYREFS => {
            SpawnError::OutOfProcesses
        }
        Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN => SpawnError::NurseryGone,
        errno => SpawnError::Other(errno),
    }
}

/// What an error of exec means for the client. The kernel reports the same numbers for the executable and for the
/// interpreter that it names, so the file is looked at again; it may have changed since, which costs a less exact message
/// and nothing else.
fn classify(errno: Errno, program: &CStr, contained: bool) -> SpawnError {
    let path = Path::new(OsStr::from_bytes(program.to_bytes()));
    let there = || fs::metadata(path).is_ok();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP if there() => SpawnError::BadInterpreter,
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => SpawnError::NotFound,
        Errno::EACCES if contained && may_execute(path) => SpawnError::Sandboxed,
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

#[cfg(test)]
mod tests;
