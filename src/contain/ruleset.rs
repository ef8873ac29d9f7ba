//! Rulesets: which paths a process may read, which it may also change.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat},
    sys::stat::{Mode, SFlag, fstat},
};

/// The last ABI that this program knows. What the kernel hasn't of it is left out, but never what [`REQUIRED`] has.
const KNOWN: ABI = ABI::V10;
/// Below it a file that can't be opened for writing can still be cut off by `truncate`.
pub(super) const REQUIRED: ABI = ABI::V3;

/// What one process is going to be kept to: a ruleset of the kernel, and whether it may have sockets.
#[derive(Debug)]
pub struct Containment {
    ruleset: OwnedFd,
    sockets: bool,
}

/// Why a process can't be contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotContained {
    /// This path can't be reached, or leads through a symbolic link.
    Path(PathBuf, Errno),
    /// The kernel refuses the ruleset.
    Kernel(Errno),
}

impl Containment {
    /// A containment in which `read` may be read and executed, `write` changed too, everything below included, and nothing
    /// else. No path may lead through a symbolic link: one that has come to since it was resolved was put there by somebody
    /// who may not widen the containment, perhaps by a contained process.
    ///
    /// # Errors
    /// See [`NotContained`].
    pub fn new(
        read: &[PathBuf],
        write: &[PathBuf],
        sockets: bool,
    ) -> Result<Containment, NotContained> {
        let mut ruleset = handled(sockets)?.create().map_err(refused)?;
        for (paths, access) in [
            (read, AccessFs::from_read(KNOWN)),
            (write, AccessFs::from_all(KNOWN)),
        ] {
            for path in paths {
                let unreachable = |errno| NotContained::Path(path.clone(), errno);
                let place = open(path).map_err(unreachable)?;
                let kind = SFlag::from_bits_truncate(fstat(&place).map_err(unreachable)?.st_mode);
                let access = if kind.contains(SFlag::S_IFDIR) {
                    access
                } else {
                    access & AccessFs::from_file(KNOWN)
                };
                ruleset = ruleset
                    .add_rule(PathBeneath::new(place, access))
                    .map_err(refused)?;
            }
        }
        match ruleset.into() {
            Some(ruleset) => Ok(Containment { ruleset, sockets }),
            None => Err(NotContained::Kernel(Errno::ENOSYS)),
        }
    }

    /// For [`super::enter`], or to be handed to the process that calls it.
    pub fn ruleset(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }

    /// Whether sockets are left to it.
    pub fn sockets(&self) -> bool {
        self.sockets
    }
}

/// Everything that a ruleset can withhold. Signals and abstract Unix sockets reach no process outside, and with no sockets
/// at all the ports are withheld too.
fn handled(sockets: bool) -> Result<Ruleset, NotContained> {
    let required = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))
        .map_err(refused)?
        .set_compatibility(CompatLevel::BestEffort);
    let handled = required
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
        .map_err(refused)?;
    if sockets {
        return Ok(handled);
    }
    handled
        .handle_access(AccessNet::from_all(KNOWN))
        .map_err(refused)
}

fn refused(error: RulesetError) -> NotContained {
    NotContained::Kernel(Errno::from_raw(*landlock::Errno::from(error)))
}

/// Opens an absolute path name by name, none of them a link. `openat2` does it in one call where it may be called: a service
/// manager's `RestrictSUIDSGID=` and the filters of older containers refuse it.
fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut place = openat(AT_FDCWD, "/", flags, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => place = openat(&place, name, flags, Mode::empty())?,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::EINVAL),
        }
        // With O_PATH a link is opened itself, and the next name would then fail with ENOTDIR.
        let mode = SFlag::from_bits_truncate(fstat(&place)?.st_mode);
        if mode & SFlag::S_IFMT == SFlag::S_IFLNK {
            return Err(Errno::ELOOP);
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_through_a_link_is_refused_wherever_the_link_stands() {
        if super::super::offered().files.is_err() {
            eprintln!("SKIPPED: {:?}", super::super::offered());
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/below")).unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        let contained = |path: &str| {
            let paths = [base.join(path)];
            Containment::new(&paths, &[], true)
                .and_then(|_| Containment::new(&[], &paths, true))
                .map(drop)
        };
        assert_eq!(contained("real/below"), Ok(()));
        for path in ["link", "link/below"] {
            let refused = NotContained::Path(base.join(path), Errno::ELOOP);
            assert_eq!(contained(path), Err(refused));
        }
        let absent = NotContained::Path(base.join("absent"), Errno::ENOENT);
        assert_eq!(contained("absent"), Err(absent));
    }
}
