//! The file: opened once, judged, appended to line by line, and looked for at its path again before each line, since
//! whoever rotates logs renames or removes it and tells nobody.

use std::{
    borrow::Cow,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::write,
};

use crate::config::{log_file, quoted};

/// Why there is no log; for the Owner, so the path and the kernel's reason are told.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// Something stands at the path that may not take it.
    #[error("audit_log: {} {message}; {hint}", quoted(&.path.to_string_lossy()))]
    Refused {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The kernel refused.
    #[error("audit_log: {} can't be opened: {why}", quoted(&.path.to_string_lossy()))]
    Failed {
        /// Where.
        path: PathBuf,
        /// The kernel's reason.
        why: io::Error,
    },
    /// There is no thread to write it.
    #[error("audit_log: no thread to write it: {0}")]
    NoThread(io::Error),
}

/// Why a line was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritten {
    #[error("the file was removed, and there is no other: {0}")]
    Removed(NotOpened),
    #[error("{}", .0.desc())]
    Refused(Errno),
    #[error("only a part of a line was taken")]
    Torn,
}

/// Where a line went.
#[derive(Debug)]
pub(super) enum Written {
    AtItsPath,
    /// To the file that was renamed, since what stands at the path now can't be opened.
    Aside(NotOpened),
}

/// See the module.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Device and inode.
    id: (u64, u64),
    /// Whether the last byte that this server wrote ends no line.
    torn: bool,
}

impl LogFile {
    /// Opens the file in append mode, creating it with mode 0600 when there is none.
    pub(super) fn open(path: &Path) -> Result<LogFile, NotOpened> {
        let refused = |complaint: log_file::Complaint| NotOpened::Refused {
            path: path.to_owned(),
            message: complaint.message,
            hint: complaint.hint,
        };
        let failed = |why| NotOpened::Failed {
            path: path.to_owned(),
            why,
        };
        log_file::judge(path).map_err(refused)?;
        // O_NONBLOCK: opening a FIFO that nobody reads would wait for a reader; so it is refused.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)
            .map_err(|why| match why.raw_os_error() {
                Some(libc::ENXIO) => refused(log_file::Complaint {
                    message: "is a FIFO that nobody reads".to_owned(),
                    hint: "start its reader first",
                }),
                _ => failed(why),
            })?;
        // What was judged may have been replaced before it was opened; what is open can't be.
        let metadata = file.metadata().map_err(failed)?;
        log_file::judge_file(&metadata).map_err(refused)?;
        if metadata.file_type().is_fifo() {
            // Its reader may be slow, and the thread that writes has the time. Our own description: nobody shares it.
            fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))
                .map_err(|errno| failed(errno.into()))?;
        }
        Ok(LogFile {
            path: path.to_owned(),
            id: identity(&metadata),
            file,
            torn: false,
        })
    }

    /// Appends a line, newline included, in one `write(2)`. May wait as long as the disk does.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<Written, Unwritten> {
        let aside = self.follow().err();
        let line = if self.torn {
            Cow::Owned([b"\n", line].concat())
        } else {
            Cow::Borrowed(line)
        };
        let written = match aside {
            Some(refused) if self.is_removed() => return Err(Unwritten::Removed(refused)),
            Some(refused) => Written::Aside(refused),
            None => Written::AtItsPath,
        };
        let taken = loop {
            match write(self.file.as_fd(), &line) {
                Err(Errno::EINTR) => {}
                other => break other.map_err(Unwritten::Refused)?,
            }
        };
        // A full disk takes what fits. Taking it back would cut off what another server wrote since.
        let last = taken.checked_sub(1).map(|last| line[last]);
        self.torn = last.map_or(self.torn, |last| last != b'\n');
        if taken == line.len() {
            Ok(written)
        } else {
            Err(Unwritten::Torn)
        }
    }

    /// Opens what stands at the path when it is no longer this file.
    fn follow(&mut self) -> Result<(), NotOpened> {
        let there = fs::symlink_metadata(&self.path).map(|metadata| identity(&metadata));
        if there.is_ok_and(|there| there == self.id) {
            return Ok(());
        }
        *self = LogFile::open(&self.path)?;
        Ok(())
    }

    fn is_removed(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests;
