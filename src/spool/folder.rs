//! The directory: private, held by descriptor, shared by servers that each prove to be alive.
//!
//! A server's files bear a name of its own, drawn by lot: `sluicegate-NAME.lock`, on which it holds a lock (`flock(2)`) for as long
//! as it lives, and `sluicegate-NAME-SPOOL-SEGMENT`. The kernel drops the lock with the process, whatever it died of. Who
//! gets it later knows that the files are nobody's, and removes them; a file whose lock is gone is nobody's either.
//! Files of other names are never touched, and no link is followed.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, openat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::config::{quoted, spool_dir};

const PREFIX: &str = "sluicegate-";
const LOCK: &str = ".lock";

/// How often a name is drawn when another server, cleaning up, is quicker than this one's lock.
const ATTEMPTS: usize = 16;

/// Why there is no spool; for the Owner, so the path and the kernel's reason are told.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// What stands at the path may not hold text.
    #[error("spool.dir: {} {message}; {hint}", quoted(&.path.to_string_lossy()))]
    Refused {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The kernel refused.
    #[error("spool.dir: {} can't be used: {why}", quoted(&.path.to_string_lossy()))]
    Failed {
        /// Where.
        path: PathBuf,
        /// The kernel's reason.
        why: io::Error,
    },
    /// There are no threads to read it.
    #[error("spool: no thread to read and write it: {0}")]
    NoThread(io::Error),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    directory: File,
    name: String,
    /// Absent once the folder was closed, and no file may be made any more.
    lock: Mutex<Option<Flock<File>>>,
}

impl Folder {
    /// Opens the directory, making it when it is missing, and removes what dead servers have left in it.
    pub(super) fn open(path: &Path) -> Result<Folder, NotOpened> {
        let failed = |why| NotOpened::Failed {
            path: path.to_owned(),
            why,
        };
        let refused = |complaint: spool_dir::Complaint| NotOpened::Refused {
            path: path.to_owned(),
            message: complaint.message,
            hint: complaint.hint,
        };
        if spool_dir::judge(path).map_err(refused)?.is_none() {
            let mut builder = DirBuilder::new();
            match builder.recursive(true).mode(0o700).create(path) {
                // Another server may have been quicker.
                Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(failed(why)),
                _ => {}
            }
        }
        let directory = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        // What was judged may have been replaced before it was opened; what is open can't be.
        spool_dir::judge_directory(&directory.metadata().map_err(failed)?).map_err(refused)?;
        let (name, lock) = take_name(&directory).map_err(|errno| failed(errno.into()))?;
        let folder = Folder {
            path: path.to_owned(),
            directory,
            name,
            lock: Mutex::new(Some(lock)),
        };
        folder.remove_leftovers().map_err(failed)?;
        Ok(folder)
    }

    fn file_name(&self, spool: u64, segment: u64) -> String {
        format!("{PREFIX}{}-{spool}-{segment}", self.name)
    }

    /// Makes a segment's file.
    pub(super) fn create(&self, spool: u64, segment: u64) -> Result<OwnedFd, Errno> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            return Err(Errno::ESHUTDOWN);
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        self.open_file(&self.file_name(spool, segment), flags)
    }

    /// Opens a segment's file for reading.
    pub(super) fn read(&self, spool: u64, segment: u64) -> Result<File, Errno> {
        self.open_file(&self.file_name(spool, segment), OFlag::O_RDONLY)
            .map(File::from)
    }

    /// Removes a segment's file. One that isn't there is as good.
    pub(super) fn remove(&self, spool: u64, segment: u64) {
        remove(&self.directory, &self.file_name(spool, segment));
    }

    /// Removes all files of this server; none is made after that.
    pub(super) fn close(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = lock.take()
            && let Ok(names) = self.names()
        {
            remove_all(&self.directory, &self.name, &names);
            drop(lock);
        }
    }

    fn open_file(&self, name: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)
    }

    /// Names of files in the directory that servers have made.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && owner_of(&name).is_some()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        let names = self.names()?;
        let owners: BTreeSet<&str> = names.iter().filter_map(|name| owner_of(name)).collect();
        for owner in owners {
            if owner == self.name {
                continue;
            }
            let lock = self.open_file(&format!("{PREFIX}{owner}{LOCK}"), OFlag::O_RDWR);
            let lock = match lock {
                Ok(lock) => Flock::lock(File::from(lock), FlockArg::LockExclusiveNonblock).ok(),
                // Never made, or removed after all others: nobody's.
                Err(Errno::ENOENT) => {
                    remove_all(&self.directory, owner, &names);
                    continue;
                }
                // A link, say: none of ours, so neither is the rest.
                Err(_) => continue,
            };
            if lock.is_some() {
                tracing::info!("removing spooled text of a server that is gone");
                remove_all(&self.directory, owner, &names);
            }
        }
        Ok(())
    }
}

/// Draws a name and locks it. A server that cleans up takes a lock that isn't held yet for a dead one's and removes it; then the file
/// that is locked has no name any more, and another one is drawn.
fn take_name(directory: &File) -> Result<(String, Flock<File>), Errno> {
    let flags =
        OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    for _ in 0..ATTEMPTS {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let file = format!("{PREFIX}{name}{LOCK}");
        let opened = openat(
            directory,
            file.as_str(),
            flags,
            Mode::S_IRUSR | Mode::S_IWUSR,
        )?;
        match Flock::lock(File::from(opened), FlockArg::LockExclusiveNonblock) {
            Ok(lock) if lock.metadata().is_ok_and(|facts| facts.nlink() > 0) => {
                return Ok((name, lock));
            }
            Ok(_) | Err((_, Errno::EWOULDBLOCK)) => {}
            Err((_, errno)) => {
                remove(directory, &file);
                return Err(errno);
            }
        }
    }
    Err(Errno::EBUSY)
}

/// The name in a file's name: `sluicegate-NAME.lock` or `sluicegate-NAME-SPOOL-SEGMENT`.
fn owner_of(file: &str) -> Option<&str> {
    let rest = file.strip_prefix(PREFIX)?;
    let (name, rest) = rest.split_at_checked(32)?;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = rest == LOCK
        || rest
            .strip_prefix('-')
            .and_then(|rest| rest.split_once('-'))
            .is_some_and(|(spool, segment)| is_number(spool) && is_number(segment));
    (is_name && is_ours).then_some(name)
}

/// Removes the files of `owner` among `names`, the lock last: as long as it is there, whoever holds it cleans up.
fn remove_all(directory: &File, owner: &str, names: &[String]) {
    for name in names {
        if owner_of(name) == Some(owner) && !name.ends_with(LOCK) {
            remove(directory, name);
        }
    }
    remove(directory, &format!("{PREFIX}{owner}{LOCK}"));
}

fn remove(directory: &File, name: &str) {
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => tracing::warn!(%errno, "spooled text can't be removed"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn files(path: &Path) -> usize {
        fs::read_dir(path).expect("readable").count()
    }

    fn name_of(folder: &Folder, file: &str) -> String {
        format!("{PREFIX}{}{file}", folder.name)
    }

    #[test]
    fn files_and_their_directory_are_private_and_go_when_it_is_closed() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("a/spool");
        let folder = Folder::open(&path).expect("opened");
        folder.create(0, 0).expect("made");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        assert_eq!(mode(&path), 0o700);
        for entry in fs::read_dir(&path).expect("readable") {
            assert_eq!(mode(&entry.expect("an entry").path()), 0o600);
        }
        assert_eq!(files(&path), 2);
        folder.close();
        assert_eq!(files(&path), 0);
        assert_eq!(folder.create(0, 1).map(drop), Err(Errno::ESHUTDOWN));
    }

    #[test]
    fn only_files_of_servers_that_are_gone_are_removed() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("spool");
        let alive = Folder::open(&path).expect("opened");
        alive.create(3, 4).expect("made");
        let dead = Folder::open(&path).expect("opened");
        dead.create(0, 0).expect("made");
        let orphan = name_of(&dead, "-7-7").replace(&dead.name[..8], "00000000");
        for foreign in ["notes.txt", "sluicegate-x.lock", &orphan] {
            fs::write(path.join(foreign), "").expect("written");
        }
        let victim = base.path().join("victim");
        fs::write(&victim, "kept").expect("written");
        symlink(&victim, path.join(name_of(&dead, "-0-1"))).expect("linked");
        assert_eq!(files(&path), 8);
        // As if it had been killed: its lock goes and nothing else.
        drop(dead);
        let _third = Folder::open(&path).expect("opened");
        let mut left: Vec<String> = alive.names().expect("readable");
        left.retain(|name| owner_of(name) == Some(&alive.name));
        assert_eq!(left.len(), 2);
        assert!(path.join("notes.txt").exists() && path.join("sluicegate-x.lock").exists());
        assert_eq!(files(&path), 5, "those, and the third's lock");
        assert_eq!(fs::read(&victim).expect("there"), b"kept");
    }

    #[test]
    fn a_link_in_the_place_of_a_segment_is_not_followed() {
        let base = tempfile::tempdir().expect("a directory");
        let folder = Folder::open(&base.path().join("spool")).expect("opened");
        let victim = base.path().join("victim");
        fs::write(&victim, "kept").expect("written");
        symlink(&victim, folder.path.join(folder.file_name(1, 2))).expect("linked");
        assert_eq!(folder.create(1, 2).map(drop), Err(Errno::EEXIST));
        assert_eq!(folder.read(1, 2).map(drop), Err(Errno::ELOOP));
    }
}
