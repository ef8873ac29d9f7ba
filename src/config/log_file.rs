//! What may take the audit log. The start-up and `config check` ask before anything is opened; whoever opens it asks
//! again about what was opened.
//!
//! A regular file, or a FIFO whose reader keeps the lines out of reach of the server's own user. Never through a link:
//! lines would be appended to whatever it leads to.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};

/// What is wrong with it: `message` reads after the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Such as "is a directory".
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

pub(super) fn complaint<T>(message: impl Into<String>, hint: &'static str) -> Result<T, Complaint> {
    Err(Complaint {
        message: message.into(),
        hint,
    })
}

/// Judges where the file stands, and the file if it is there; returns what it is then.
///
/// # Errors
/// Why no log may be written there, or can't.
pub fn judge(path: &Path) -> Result<Option<Metadata>, Complaint> {
    let parent = path.parent().filter(|_| path.file_name().is_some());
    let Some(parent) = parent.filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"))
    else {
        return complaint("names no file", "name a file in a directory");
    };
    let directory = fs::canonicalize(parent).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => complaint(
            "lies in a directory that does not exist",
            "create the directory, or correct the path",
        ),
        _ => complaint(
            format!("can't be reached: {error}"),
            "correct the path or its permissions",
        ),
    })?;
    judge_above(&directory)?;
    let found = match fs::symlink_metadata(path) {
        Ok(metadata) => {
            judge_file(&metadata)?;
            permitted(path, AccessFlags::W_OK)?;
            Some(metadata)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            permitted(&directory, AccessFlags::W_OK | AccessFlags::X_OK)?;
            None
        }
        Err(error) => {
            return complaint(
                format!("can't be reached: {error}"),
                "correct the path or its permissions",
            );
        }
    };
    Ok(found)
}

/// Judges a resolved directory and those above it.
pub(super) fn judge_above(directory: &Path) -> Result<(), Complaint> {
    directory.ancestors().try_for_each(judge_directory)
}

/// Who may write a directory may put another file in the log's place, unless it is sticky as `/tmp` is.
fn judge_directory(directory: &Path) -> Result<(), Complaint> {
    let mode = match fs::metadata(directory) {
        Ok(metadata) => metadata.mode() & 0o7777,
        // Gone or closed to us since it was resolved; opening the file will say so.
        Err(_) => return Ok(()),
    };
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return complaint(
            format!(
                "lies below {}, which everyone may write (mode {mode:04o}), so everyone could put another in its place",
                super::finding::quoted(&directory.to_string_lossy())
            ),
            "take that away with `chmod o-w`, or choose another directory",
        );
    }
    Ok(())
}

/// Judges what a path is, the path's last part not followed.
///
/// # Errors
/// Why no log may be written to it.
pub fn judge_file(metadata: &Metadata) -> Result<(), Complaint> {
    let kind = metadata.file_type();
    let special = if kind.is_symlink() {
        return complaint(
            "is a symbolic link, which could lead to any file",
            "name the file itself",
        );
    } else if kind.is_dir() {
        return complaint("is a directory", "name a file in it");
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else if kind.is_socket() {
        "a socket"
    } else {
        let mode = metadata.mode() & 0o7777;
        if mode & 0o002 != 0 {
            return complaint(
                format!("may be written by everyone (mode {mode:04o}), so its lines prove nothing"),
                "take that away with `chmod o-w`",
            );
        }
        return Ok(());
    };
    complaint(
        format!("is {special}"),
        "name a regular file, or a FIFO that a collector reads",
    )
}

/// What the Owner should know about a file that may take the log.
pub(super) fn warning(metadata: &Metadata) -> Option<Complaint> {
    let mode = metadata.mode() & 0o7777;
    let owner = metadata.uid();
    if mode & 0o020 != 0 {
        return Some(Complaint {
            message: format!("may be written by its group (mode {mode:04o})"),
            hint: "take that away with `chmod g-w` unless the whole group may change the log",
        });
    }
    (owner != 0 && owner != nix::unistd::geteuid().as_raw()).then(|| Complaint {
        message: format!(
            "belongs to user {owner}, who is neither root nor the one that runs the server"
        ),
        hint: "that user can change the log; take the file over with `chown`",
    })
}

pub(super) fn permitted(path: &Path, access: AccessFlags) -> Result<(), Complaint> {
    match faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS) {
        Ok(()) => Ok(()),
        Err(errno) => complaint(
            format!("can't be written: {}", errno.desc()),
            "give the user that runs the server write permission, or choose another place",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::{
            fs::{PermissionsExt, symlink},
            net::UnixListener,
        },
        path::PathBuf,
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            Place {
                dir: tempfile::tempdir().unwrap(),
            }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.dir.path().join(below)
        }

        fn file(&self, below: &str, mode: u32) -> PathBuf {
            let path = self.path(below);
            fs::write(&path, "").unwrap();
            set_mode(&path, mode);
            path
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn refused(path: &Path) -> String {
        judge(path).expect_err("refused").message
    }

    #[test]
    fn a_private_file_and_one_that_is_not_there_yet_are_taken() {
        let place = Place::new();
        assert!(judge(&place.path("new.jsonl")).unwrap().is_none());
        let there = judge(&place.file("there.jsonl", 0o640)).unwrap().unwrap();
        assert_eq!(warning(&there), None);
        let fifo = place.path("fifo");
        mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
        assert!(judge(&fifo).unwrap().is_some());
    }

    #[test]
    fn what_could_be_another_file_is_refused() {
        let place = Place::new();
        let file = place.file("file", 0o600);
        symlink(&file, place.path("link")).unwrap();
        symlink("nowhere", place.path("dangling")).unwrap();
        for link in ["link", "dangling"] {
            assert!(refused(&place.path(link)).contains("symbolic link"));
        }
        assert_eq!(refused(place.dir.path()), "is a directory");
        assert_eq!(refused(&place.path("new/")), "names no file");
        assert_eq!(refused(Path::new("/")), "names no file");
        assert_eq!(refused(&place.path("..")), "names no file");
        assert_eq!(refused(Path::new("/dev/full")), "is a device");
        let _socket = UnixListener::bind(place.path("socket")).unwrap();
        assert_eq!(refused(&place.path("socket")), "is a socket");
        assert!(refused(&place.path("none/log")).contains("does not exist"));
        assert!(refused(&file.join("log")).contains("can't be reached"));
    }

    #[test]
    fn what_others_may_write_is_refused_and_what_a_group_may_is_told() {
        let place = Place::new();
        let message = refused(&place.file("open", 0o602));
        assert!(message.contains("everyone (mode 0602)"), "{message}");
        let shared = judge(&place.file("shared", 0o660)).unwrap().unwrap();
        let told = warning(&shared).unwrap().message;
        assert!(told.contains("its group (mode 0660)"), "{told}");
    }

    #[test]
    fn a_directory_that_everyone_may_write_is_refused_however_far_above_unless_sticky() {
        let place = Place::new();
        fs::create_dir_all(place.path("open/deep")).unwrap();
        set_mode(&place.path("open"), 0o777);
        let message = refused(&place.path("open/deep/log"));
        assert!(
            message.contains("everyone may write (mode 0777)"),
            "{message}"
        );
        set_mode(&place.path("open"), 0o1777);
        assert!(judge(&place.path("open/deep/log")).unwrap().is_none());
    }

    #[test]
    fn a_link_above_is_followed_to_the_directories_that_count() {
        let place = Place::new();
        fs::create_dir_all(place.path("open/deep")).unwrap();
        fs::create_dir(place.path("closed")).unwrap();
        symlink(place.path("open/deep"), place.path("closed/way")).unwrap();
        set_mode(&place.path("open"), 0o777);
        assert!(refused(&place.path("closed/way/log")).contains("everyone may write"));
    }
}
