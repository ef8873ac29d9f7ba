//! Opens the directory that a child will work in, and proves that it lies inside a root.
//!
//! The path is walked once, by the kernel, into a descriptor. What is checked is where that descriptor's directory
//! really is, and what the child enters (`fchdir`) is that descriptor: a link or a rename swapped in afterwards
//! changes what the path means, never what the descriptor is. A directory that is itself moved out of its root
//! after the check is still the directory that was checked; only who may write in the root can do that.

use std::{
    ffi::OsString,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlink},
    sys::stat::{FileStat, Mode, fstat, fstatat},
};

use super::CwdRefused;

/// A directory that a child may work in.
#[derive(Debug)]
pub struct Directory {
    /// For `fchdir`: `O_PATH`, closes on exec.
    pub descriptor: OwnedFd,
    /// Where it was when it was checked, links resolved.
    pub place: PathBuf,
}

/// Opens `path` if it is a directory that may be entered and that lies in one of `roots`, both taken with links
/// resolved now.
///
/// # Errors
/// See [`CwdRefused`]. A root that is no longer there allows nothing.
pub fn open_cwd(path: &Path, roots: &[PathBuf]) -> Result<Directory, CwdRefused> {
    if !path.is_absolute() {
        return Err(CwdRefused::NotAbsolute);
    }
    let directory = open_directory(path)?;
    let place = real_place(&directory)?;
    for root in roots {
        let real_root = match open_directory(root).and_then(|root| real_place(&root)) {
            Ok(real_root) => real_root,
            Err(CwdRefused::Unavailable(errno)) => return Err(CwdRefused::Unavailable(errno)),
            Err(_) => continue,
        };
        // Path::starts_with compares components, so `/srv/work-evil` is not inside `/srv/work`.
        if place.starts_with(&real_root) {
            return Ok(Directory {
                descriptor: directory,
                place,
            });
        }
    }
    Err(CwdRefused::OutsideRoots)
}

fn open_directory(path: &Path) -> Result<OwnedFd, CwdRefused> {
    // nix refuses a path with a NUL as EINVAL, which no other path gives with these flags.
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    openat(AT_FDCWD, path, flags, Mode::empty()).map_err(refusal)
}

/// Where the directory is, links resolved, provided that it may be entered and is there at all.
fn real_place(directory: &OwnedFd) -> Result<PathBuf, CwdRefused> {
    // To look up "." the kernel asks for search permission with the rights that fchdir will ask with.
    let entered = fstatat(directory, ".", AtFlags::empty()).map_err(refusal)?;
    let link = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    let place: OsString = readlink(link.as_str()).map_err(refusal)?;
    // A directory outside this process's root or mounts has no path here; proc(5) shows none that is absolute.
    if !place.as_bytes().starts_with(b"/") {
        return Err(CwdRefused::OutsideRoots);
    }
    let place = PathBuf::from(place);
    // A removed directory shows its old path and " (deleted)", which is also a possible name. The path is the
    // directory's own exactly when it leads to the same inode.
    match openat(
        AT_FDCWD,
        &place,
        OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .and_then(|there| fstat(&there))
    {
        Ok(there) if is_same(&there, &entered) => Ok(place),
        Ok(_) => Err(CwdRefused::NotFound),
        Err(errno) => Err(refusal(errno)),
    }
}

fn is_same(a: &FileStat, b: &FileStat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

fn refusal(errno: Errno) -> CwdRefused {
    match errno {
        Errno::ENOTDIR => CwdRefused::NotDirectory,
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EINTR | Errno::EAGAIN => {
            CwdRefused::Unavailable(errno)
        }
        // ENOENT, EACCES, ELOOP, ENAMETOOLONG, EINVAL for a NUL, and what a file system makes up (EIO, ESTALE):
        // for the client there is no directory that can be entered at this path.
        _ => CwdRefused::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    /// A root `allowed` with `sub` in it, and beside it `allowed-evil`; all under one temporary directory.
    struct Tree {
        _dir: tempfile::TempDir,
        base: PathBuf,
        roots: Vec<PathBuf>,
    }

    impl Tree {
        fn new() -> Tree {
            let dir = tempfile::tempdir().unwrap();
            let base = fs::canonicalize(dir.path()).unwrap();
            fs::create_dir_all(base.join("allowed/sub")).unwrap();
            fs::create_dir(base.join("allowed-evil")).unwrap();
            fs::write(base.join("allowed/file"), "").unwrap();
            let roots = vec![base.join("allowed")];
            Tree {
                _dir: dir,
                base,
                roots,
            }
        }

        fn path(&self, below: &str) -> String {
            format!("{}/{below}", self.base.to_str().unwrap())
        }

        fn open(&self, below: &str) -> Result<OwnedFd, CwdRefused> {
            open_cwd(Path::new(&self.path(below)), &self.roots).map(|opened| opened.descriptor)
        }

        fn refused(&self, below: &str) -> CwdRefused {
            self.open(below).expect_err(below)
        }

        /// Asserts that `below` opens and is the directory at `expected`.
        fn opens_as(&self, below: &str, expected: &str) {
            let opened = self.open(below).expect(below);
            assert_eq!(inode(&opened), inode_of(&self.path(expected)), "{below}");
        }
    }

    fn inode(directory: &OwnedFd) -> (u64, u64) {
        let stat = fstat(directory).unwrap();
        (stat.st_dev, stat.st_ino)
    }

    fn inode_of(path: &str) -> (u64, u64) {
        let metadata = fs::metadata(path).unwrap();
        (metadata.dev(), metadata.ino())
    }

    #[test]
    fn the_root_and_what_lies_below_it_open_in_any_spelling() {
        let tree = Tree::new();
        for (below, expected) in [
            ("allowed", "allowed"),
            ("allowed/", "allowed"),
            ("allowed/.", "allowed"),
            ("allowed/sub/..", "allowed"),
            ("allowed//sub", "allowed/sub"),
            ("allowed-evil/../allowed/sub", "allowed/sub"),
        ] {
            tree.opens_as(below, expected);
        }
    }

    #[test]
    fn a_sibling_that_shares_the_root_s_beginning_is_outside() {
        let tree = Tree::new();
        assert_eq!(tree.refused("allowed-evil"), CwdRefused::OutsideRoots);
        assert_eq!(
            tree.refused("allowed/../allowed-evil"),
            CwdRefused::OutsideRoots
        );
        assert_eq!(tree.refused("allowed/.."), CwdRefused::OutsideRoots);
    }

    #[test]
    fn links_are_judged_by_where_they_lead() {
        let tree = Tree::new();
        symlink("/etc", tree.path("allowed/out")).unwrap();
        symlink(tree.path("allowed/sub"), tree.path("allowed/in")).unwrap();
        symlink(tree.path("allowed/sub"), tree.path("entry")).unwrap();
        symlink("loop", tree.path("allowed/loop")).unwrap();
        assert_eq!(tree.refused("allowed/out"), CwdRefused::OutsideRoots);
        assert_eq!(tree.refused("allowed/out/none"), CwdRefused::NotFound);
        assert_eq!(tree.refused("allowed/loop"), CwdRefused::NotFound);
        tree.opens_as("allowed/in", "allowed/sub");
        tree.opens_as("entry", "allowed/sub");
    }

    #[test]
    fn a_root_that_is_a_link_allows_where_it_leads_at_the_time() {
        let mut tree = Tree::new();
        symlink("allowed", tree.path("root")).unwrap();
        tree.roots = vec![tree.base.join("root")];
        tree.opens_as("allowed/sub", "allowed/sub");
        tree.opens_as("root/sub", "allowed/sub");
        fs::remove_file(tree.path("root")).unwrap();
        assert_eq!(tree.refused("allowed/sub"), CwdRefused::OutsideRoots);
        symlink("allowed-evil", tree.path("root")).unwrap();
        assert_eq!(tree.refused("allowed/sub"), CwdRefused::OutsideRoots);
    }

    #[test]
    fn what_is_no_directory_to_enter_is_refused_for_its_own_reason() {
        let tree = Tree::new();
        for path in ["", "sub", "./sub", "~", " /"] {
            assert_eq!(
                open_cwd(Path::new(path), &tree.roots).unwrap_err(),
                CwdRefused::NotAbsolute,
                "{path:?}"
            );
        }
        assert_eq!(tree.refused("allowed/file"), CwdRefused::NotDirectory);
        assert_eq!(tree.refused("allowed/file/x"), CwdRefused::NotDirectory);
        assert_eq!(tree.refused("allowed/none"), CwdRefused::NotFound);
        assert_eq!(tree.refused("allowed\0/etc"), CwdRefused::NotFound);
        assert_eq!(tree.refused(&"x".repeat(5_000)), CwdRefused::NotFound);
        assert_eq!(tree.refused(&"x/".repeat(2_500)), CwdRefused::NotFound);
        assert_eq!(
            open_cwd(Path::new("/"), &[]).unwrap_err(),
            CwdRefused::OutsideRoots
        );
        assert!(!Path::new(&tree.path("allowed/none")).exists());
    }

    #[test]
    fn a_directory_named_deleted_opens_and_a_deleted_one_does_not() {
        let tree = Tree::new();
        fs::create_dir(tree.path("allowed/x (deleted)")).unwrap();
        tree.opens_as("allowed/x (deleted)", "allowed/x (deleted)");

        fs::create_dir(tree.path("allowed/x")).unwrap();
        let gone = open_directory(Path::new(&tree.path("allowed/x"))).unwrap();
        fs::remove_dir(tree.path("allowed/x")).unwrap();
        // Its link reads `…/x (deleted)`, a path that exists and is another directory.
        assert_eq!(real_place(&gone), Err(CwdRefused::NotFound));
    }

    #[test]
    fn a_directory_without_search_permission_is_refused() {
        let tree = Tree::new();
        fs::set_permissions(&tree.base, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(tree.path("allowed/sub"), fs::Permissions::from_mode(0o644)).unwrap();
        let nobody = nix::unistd::Uid::from_raw(65_534);
        // File system ids belong to the thread, so root can drop its own here without changing other tests.
        let refused = std::thread::scope(|scope| {
            let checked = scope.spawn(|| {
                if nix::unistd::geteuid().is_root() {
                    nix::unistd::setfsuid(nobody);
                }
                let neighbour = tree.open("allowed").map(|_| ());
                (neighbour, tree.open("allowed/sub").map(|_| ()))
            });
            checked.join().unwrap()
        });
        fs::set_permissions(tree.path("allowed/sub"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(refused, (Ok(()), Err(CwdRefused::NotFound)));
    }

    #[test]
    fn want_of_descriptors_or_memory_is_no_verdict_on_the_path() {
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM] {
            assert_eq!(refusal(errno), CwdRefused::Unavailable(errno));
        }
    }

    #[test]
    fn the_descriptor_is_for_entering_only_and_closes_on_exec() {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        let tree = Tree::new();
        let opened = tree.open("allowed/sub").unwrap();
        let flags = fcntl(&opened, FcntlArg::F_GETFL).unwrap();
        assert!(OFlag::from_bits_retain(flags).contains(OFlag::O_PATH));
        let flags = fcntl(&opened, FcntlArg::F_GETFD).unwrap();
        assert!(FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC));
    }

    #[test]
    fn a_link_swapped_in_at_any_moment_never_leads_outside() {
        let tree = Tree::new();
        let sub = tree.path("allowed/sub");
        let aside = tree.path("allowed/aside");
        let link = tree.path("allowed/link");
        let inside = inode_of(&sub);
        symlink("/etc", &link).unwrap();
        let done = AtomicBool::new(false);
        let (mut opened, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::rename(&sub, &aside).unwrap();
                    fs::rename(&link, &sub).unwrap();
                    fs::rename(&sub, &link).unwrap();
                    fs::rename(&aside, &sub).unwrap();
                }
            });
            while opened < 2_000 || refused < 200 {
                match tree.open("allowed/sub") {
                    Ok(directory) => {
                        assert_eq!(inode(&directory), inside);
                        opened += 1;
                    }
                    Err(CwdRefused::NotFound | CwdRefused::OutsideRoots) => refused += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
