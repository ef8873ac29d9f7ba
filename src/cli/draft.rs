//! Files that are there whole or not at all: a reader sees no half of one, and a crash leaves none.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::reason;

/// Why a file was not written; the text is for whoever named it.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotWritten {
    #[error("{} exists; choose another --output, or replace it with --force", .0.display())]
    Exists(PathBuf),
    #[error("{} is a directory; name a file in it", .0.display())]
    Directory(PathBuf),
    #[error("{} is no regular file; name one, or one that isn't there yet", .0.display())]
    Special(PathBuf),
    #[error("can't write {}: {}; choose another --output", .path.display(), reason(.why))]
    Failed { path: PathBuf, why: io::Error },
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Present {
    /// It stays, and nothing is written.
    Kept,
    /// It is replaced.
    Replaced,
}

/// An empty file beside the one that it is to become. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
    present: Present,
}

impl Draft {
    /// Creates the draft (mode 0600), and its parent directories (0700) where they are missing. From here on writing can
    /// only fail for want of room.
    ///
    /// # Errors
    /// See [`NotWritten`].
    pub(super) fn create(target: &Path, present: Present) -> Result<Draft, NotWritten> {
        if target.is_dir() {
            return Err(NotWritten::Directory(target.to_owned()));
        }
        if let Ok(facts) = fs::symlink_metadata(target) {
            // Says so before anything is created; the link in `place` is what holds against a race.
            if present == Present::Kept {
                return Err(NotWritten::Exists(target.to_owned()));
            }
            if !facts.is_file() && !facts.is_symlink() {
                return Err(NotWritten::Special(target.to_owned()));
            }
        }
        let name = target
            .file_name()
            .ok_or_else(|| NotWritten::Directory(target.to_owned()))?;
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let failed = |why| NotWritten::Failed {
            path: target.to_owned(),
            why,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|why| match why.kind() {
                // What is in the way is no directory: one would have been taken as it is.
                io::ErrorKind::AlreadyExists => failed(io::ErrorKind::NotADirectory.into()),
                _ => failed(why),
            })?;
        let mut draft_name = OsString::from(".");
        draft_name.push(name);
        draft_name.push(format!(".{}", std::process::id()));
        let path = parent.join(draft_name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        Ok(Draft {
            file,
            path,
            target: target.to_owned(),
            present,
        })
    }

    /// Puts the file there with this text.
    ///
    /// # Errors
    /// See [`NotWritten`]. What was there before is there still.
    pub(super) fn place(mut self, text: &str) -> Result<(), NotWritten> {
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_all());
        let placed = written.and_then(|()| match self.present {
            Present::Replaced => fs::rename(&self.path, &self.target),
            // Unlike rename, link refuses a name that is taken.
            Present::Kept => fs::hard_link(&self.path, &self.target),
        });
        placed.map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => NotWritten::Exists(self.target.clone()),
            _ => NotWritten::Failed {
                path: self.target.clone(),
                why,
            },
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A rename took it away already. After anything else it must not stay, and if it does it hurts nobody.
        fs::remove_file(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_and_private_and_no_draft_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/b/file");
        let draft = Draft::create(&target, Present::Kept).unwrap();
        assert!(!target.exists());
        draft.place("text").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
        let mode = fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(names(target.parent().unwrap()), ["file"]);
    }

    #[test]
    fn what_is_there_is_kept_or_replaced_as_told() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("file");
        // It comes to be between the look and the placing.
        let draft = Draft::create(&target, Present::Kept).unwrap();
        fs::write(&target, "mine").unwrap();
        assert!(matches!(draft.place("new"), Err(NotWritten::Exists(_))));
        let refused = Draft::create(&target, Present::Kept);
        assert!(matches!(refused, Err(NotWritten::Exists(_))));
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
        let draft = Draft::create(&target, Present::Replaced).unwrap();
        draft.place("new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_draft_that_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(Draft::create(&dir.path().join("file"), Present::Kept).unwrap());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn directories_devices_and_dangling_links_are_not_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |target: &Path, present| Draft::create(target, present).unwrap_err();
        for target in [dir.path(), Path::new("/"), &dir.path().join("..")] {
            let refused = refused(target, Present::Replaced);
            assert!(matches!(refused, NotWritten::Directory(_)), "{refused}");
        }
        let device = refused(Path::new("/dev/null"), Present::Replaced);
        assert!(matches!(device, NotWritten::Special(_)));
        let link = dir.path().join("link");
        symlink("elsewhere", &link).unwrap();
        assert!(matches!(
            refused(&link, Present::Kept),
            NotWritten::Exists(_)
        ));
        assert!(!dir.path().join("elsewhere").exists());
        fs::write(dir.path().join("file"), "").unwrap();
        let below = refused(&dir.path().join("file/below"), Present::Kept);
        assert!(matches!(below, NotWritten::Failed { .. }), "{below}");
    }
}
