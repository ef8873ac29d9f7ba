//! What may hold spooled text: a directory that is nobody else's. The start-up and `config check` ask before anything is
//! opened or made; whoever opens it asks again about what was opened.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use nix::unistd::{AccessFlags, geteuid};

pub use super::log_file::Complaint;
use super::log_file::{complaint, judge_above, permitted};

/// Judges where the directory stands or will be made, and the directory if it is there; returns what it is then.
///
/// # Errors
/// Why no text may be kept there, or can't.
pub fn judge(path: &Path) -> Result<Option<Metadata>, Complaint> {
    // A slash at the end, or a dot, would have a link followed.
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return complaint(
            "doesn't end with the name of a directory",
            "name it without a slash at the end",
        );
    }
    let there = match fs::symlink_metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return unreachable(&error),
    };
    // The nearest directory above that is there.
    let above = path.ancestors().skip(1).find(|above| above.exists());
    let above = above.map_or_else(|| Ok("/".into()), fs::canonicalize);
    let above = above.or_else(|error| unreachable(&error))?;
    judge_above(&above)?;
    match &there {
        Some(metadata) => {
            judge_directory(metadata)?;
            permitted(
                path,
                AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK,
            )?;
        }
        None => permitted(&above, AccessFlags::W_OK | AccessFlags::X_OK)?,
    }
    Ok(there)
}

fn unreachable<T>(error: &io::Error) -> Result<T, Complaint> {
    complaint(
        format!("can't be reached: {error}"),
        "correct the path or its permissions",
    )
}

/// Judges what a path is, the path's last part not followed.
///
/// # Errors
/// Why no text may be kept in it.
pub fn judge_directory(metadata: &Metadata) -> Result<(), Complaint> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return complaint(
            "is a symbolic link, which could lead to any directory",
            "name the directory itself",
        );
    }
    if !kind.is_dir() {
        return complaint("is not a directory", "name a directory, or one to be made");
    }
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if owner != geteuid().as_raw() {
        return complaint(
            format!("belongs to user {owner}, not to the one that runs the server"),
            "name a directory of that user's, or one to be made",
        );
    }
    if mode & 0o077 != 0 {
        return complaint(
            format!("is open to others (mode {mode:04o}), and what commands print would be, too"),
            "take that away with `chmod 700`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
    }

    #[track_caller]
    fn refused(path: &Path) -> String {
        judge(path).expect_err("refused").message
    }

    #[test]
    fn a_private_directory_and_one_to_be_made_are_taken() {
        let base = tempfile::tempdir().expect("a directory");
        assert!(
            judge(&base.path().join("new/deeper"))
                .expect("taken")
                .is_none()
        );
        let there = base.path().join("there");
        fs::create_dir(&there).expect("made");
        set_mode(&there, 0o700);
        assert!(judge(&there).expect("taken").is_some());
    }

    #[test]
    fn what_others_could_look_into_or_replace_is_refused() {
        let base = tempfile::tempdir().expect("a directory");
        let at = |name: &str| base.path().join(name);
        fs::create_dir(at("there")).expect("made");
        for mode in [0o750, 0o701, 0o1777] {
            set_mode(&at("there"), mode);
            assert!(refused(&at("there")).contains(&format!("open to others (mode {mode:04o})")));
        }
        set_mode(&at("there"), 0o700);
        symlink(at("there"), at("link")).expect("linked");
        assert!(refused(&at("link")).contains("symbolic link"));
        symlink("nowhere", at("dangling")).expect("linked");
        assert!(refused(&at("dangling")).contains("symbolic link"));
        fs::write(at("file"), "").expect("written");
        assert_eq!(refused(&at("file")), "is not a directory");
        assert!(refused(&at("file/below")).contains("can't be"));
        assert!(refused(Path::new("/tmp/x/")).contains("doesn't end"));
        set_mode(base.path(), 0o777);
        assert!(refused(&at("there")).contains("everyone may write (mode 0777)"));
        assert!(refused(&at("new")).contains("everyone may write (mode 0777)"));
        set_mode(base.path(), 0o700);
    }
}
