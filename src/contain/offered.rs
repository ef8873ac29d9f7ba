//! What the kernel offers for containment, tried rather than guessed: a filter may refuse what the kernel has.

use std::{fmt, path::PathBuf, sync::LazyLock, thread};

use nix::errno::Errno;

use super::{
    Containment, NotContained,
    enter::{enter, landlock_abi, refuse_sockets},
    ruleset::REQUIRED,
};

/// The ABI from which on signals and abstract Unix sockets can be kept inside.
const SCOPES: i32 = 6;

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The number of Landlock's ABI, or why there is none.
    pub landlock: Result<i32, Errno>,
    /// Whether a process can be kept to paths.
    pub files: Result<(), Lack>,
    /// Whether a process can be kept from having sockets.
    pub sockets: Result<(), Lack>,
}

impl Offered {
    /// Whether a contained process is also kept from signalling others, and from their abstract Unix sockets.
    pub fn scopes(&self) -> bool {
        self.landlock.is_ok_and(|abi| abi >= SCOPES)
    }
}

/// What is missing. Displayed as a part of a line; [`Lack::remedy`] is what may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No Landlock.
    Landlock(Errno),
    /// A Landlock too old to withhold every way to change a file.
    OldLandlock(i32),
    /// It is there, but no process can be put under a ruleset.
    Ruleset(Errno),
    /// No seccomp filter.
    Filter(Errno),
    /// No thread could be had to try it on.
    Untried,
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Landlock(Errno::ENOSYS) => out.write_str("the kernel has no Landlock"),
            Lack::Landlock(Errno::EOPNOTSUPP) => {
                out.write_str("Landlock was not enabled when the kernel booted")
            }
            Lack::OldLandlock(abi) => write!(
                out,
                "the kernel's Landlock (ABI {abi}) can't keep a file from being truncated"
            ),
            Lack::Landlock(errno) | Lack::Ruleset(errno) => {
                write!(out, "Landlock is refused here ({errno:?})")
            }
            Lack::Filter(errno) => write!(out, "no seccomp filter can be installed ({errno:?})"),
            Lack::Untried => out.write_str("no thread could be had to try it on"),
        }
    }
}

impl Lack {
    /// What would provide it.
    pub fn remedy(self) -> &'static str {
        match self {
            Lack::Landlock(Errno::ENOSYS) => {
                "use Linux 6.2 or later, built with CONFIG_SECURITY_LANDLOCK, and a container that doesn't hide it"
            }
            Lack::Landlock(Errno::EOPNOTSUPP) => "add landlock to the kernel's lsm= parameter",
            Lack::OldLandlock(_) => "use Linux 6.2 or later",
            Lack::Landlock(_) | Lack::Ruleset(_) => {
                "allow the landlock system calls in the filter that the server runs under"
            }
            Lack::Filter(_) => {
                "use a kernel with CONFIG_SECCOMP_FILTER, and allow seccomp in the filter that the server runs under"
            }
            Lack::Untried => "raise the limit of processes (ulimit -u)",
        }
    }
}

/// What the kernel offers this process. Tried once, on threads that end under what they have put themselves under.
pub fn offered() -> &'static Offered {
    static OFFERED: LazyLock<Offered> = LazyLock::new(try_out);
    &OFFERED
}

fn try_out() -> Offered {
    let landlock = landlock_abi();
    let files = match landlock {
        Err(errno) => Err(Lack::Landlock(errno)),
        Ok(abi) if abi < REQUIRED as i32 => Err(Lack::OldLandlock(abi)),
        Ok(_) => on_a_thread(|| {
            let root = [PathBuf::from("/")];
            let contained = Containment::new(&root, &root, true).map_err(|error| match error {
                NotContained::Path(_, errno) | NotContained::Kernel(errno) => errno,
            });
            contained
                .and_then(|contained| enter(contained.ruleset(), contained.sockets()))
                .map_err(Lack::Ruleset)
        }),
    };
    let sockets = on_a_thread(|| {
        nix::sys::prctl::set_no_new_privs()
            .and_then(|()| refuse_sockets())
            .map_err(Lack::Filter)
    });
    Offered {
        landlock,
        files,
        sockets,
    }
}

fn on_a_thread(attempt: impl FnOnce() -> Result<(), Lack> + Send) -> Result<(), Lack> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, attempt);
        let ended = thread.ok().and_then(|thread| thread.join().ok());
        ended.unwrap_or(Err(Lack::Untried))
    })
}
