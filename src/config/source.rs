//! Opens a config file and judges it before its content: what kind of file it is, who else may write it, whether
//! it is text at all. Everything is asked of the one opened descriptor, so that no rename changes the answer.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use super::{
    finding::{Finding, Severity, quoted},
    limits::MAX_CONFIG_BYTES,
    trust::{Doubt, Who, doubts},
};

/// A file's content and what the Owner should know about the file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) bytes: Vec<u8>,
    pub(super) warnings: Vec<Finding>,
}

/// Reads the file `path`, which must be a regular file that others may not write.
pub(super) fn read(path: &Path) -> Result<Source, Box<Finding>> {
    // Without O_NONBLOCK opening a FIFO would wait for a writer, before it can be seen that it is one.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| not_opened(path, &error))?;
    let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        return Err(about(
            path,
            "is a directory, but must be a config file",
            "name the file in it",
        ));
    }
    if !metadata.is_file() {
        return Err(about(
            path,
            "is not a regular file",
            "write the config into a file on disk",
        ));
    }
    let mut warnings = judge_mode(path, metadata.mode(), metadata.uid())?;
    warnings.extend(judge_directories(path)?);
    Ok(Source {
        bytes: read_bounded(path, file)?,
        warnings,
    })
}

/// Who may write the file may choose what runs with the server's rights.
fn judge_mode(path: &Path, mode: u32, owner: u32) -> Result<Vec<Finding>, Box<Finding>> {
    let shown = mode & 0o7777;
    if mode & 0o002 != 0 {
        return Err(about(
            path,
            format!(
                "may be written by everyone (mode {shown:04o}), so everyone could choose what runs"
            ),
            "take that away with `chmod o-w`, and look whether its content is still yours",
        ));
    }
    let mut warnings = Vec::new();
    let mut warn = |message: String, hint: &str| {
        warnings.push(Finding {
            severity: Severity::Warning,
            ..Finding::about_file(path, message, hint)
        });
    };
    if mode & 0o020 != 0 {
        warn(
            format!("may be written by its group (mode {shown:04o})"),
            "take that away with `chmod g-w` unless the whole group may choose what runs",
        );
    }
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        warn(
            format!(
                "belongs to user {owner}, who is neither root nor the one that runs the server"
            ),
            "that user can choose what runs; take the file over with `chown`",
        );
    }
    Ok(warnings)
}

/// Who may write a directory above the file may put another one in its place.
fn judge_directories(path: &Path) -> Result<Vec<Finding>, Box<Finding>> {
    let absolute = std::path::absolute(path).map_err(|error| unreadable(path, &error))?;
    let file = std::fs::canonicalize(path).map_err(|error| unreadable(path, &error))?;
    let mut warnings = Vec::new();
    for Doubt {
        place,
        mode,
        owner,
        who,
    } in doubts(&absolute)
    {
        let is_file = place == file;
        let place = quoted(&place.to_string_lossy());
        let (message, hint) = match who {
            Who::Planted => {
                return Err(about(
                    path,
                    format!(
                        "leads through {place}, which belongs to user {owner} and lies where everyone may put files"
                    ),
                    "keep the config in a directory that only you may write",
                ));
            }
            // Its own permissions were asked of the descriptor.
            _ if is_file => continue,
            Who::Everyone => {
                return Err(about(
                    path,
                    format!(
                        "lies below {place}, which everyone may write (mode {mode:04o}), so everyone could choose what runs"
                    ),
                    "take that away with `chmod o-w`, and look whether the config is still yours",
                ));
            }
            Who::Group => (
                format!("lies below {place}, which its group may write (mode {mode:04o})"),
                "take that away with `chmod g-w` unless the whole group may choose what runs",
            ),
            Who::Owner => (
                format!(
                    "lies below {place}, which belongs to user {owner}, who is neither root nor the one that runs the server"
                ),
                "that user can choose what runs; take the directory over with `chown`",
            ),
        };
        warnings.push(Finding {
            severity: Severity::Warning,
            ..Finding::about_file(path, message, hint)
        });
    }
    Ok(warnings)
}

fn read_bounded(path: &Path, file: File) -> Result<Vec<u8>, Box<Finding>> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(MAX_CONFIG_BYTES).expect("4 MiB fit in 64 bits");
    file.take(bound + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(about(
            path,
            format!("is larger than {MAX_CONFIG_BYTES} bytes"),
            "name a config file; 128 commands need far less",
        ));
    }
    Ok(bytes)
}

/// The text of a config's bytes: UTF-8 without byte order mark, and not nothing.
pub(super) fn text<'b>(file: &Path, bytes: &'b [u8]) -> Result<&'b str, Box<Finding>> {
    if bytes.is_empty() {
        return Err(about(
            file,
            "is empty",
            "write a config with `sluicegate config new --root DIR --output FILE`",
        ));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(at(
            file,
            1,
            1,
            "begins with a byte order mark (bytes EF BB BF)",
            "save it as UTF-8 without one",
        ));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(at(file, 1, 1, "is UTF-16", "save it as UTF-8"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        let line_start = valid
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        at(
            file,
            bytecount::count(valid, b'\n') + 1,
            bytecount::num_chars(&valid[line_start..]) + 1,
            &format!("is not UTF-8: byte 0x{:02X} begins no character", rest[0]),
            "save it as UTF-8",
        )
    })
}

fn about(file: &Path, message: impl Into<String>, hint: &str) -> Box<Finding> {
    Box::new(Finding::about_file(file, message, hint))
}

fn at(file: &Path, line: usize, column: usize, message: &str, hint: &str) -> Box<Finding> {
    Box::new(Finding {
        line: Some(line),
        column: Some(column),
        ..Finding::about_file(file, message, hint)
    })
}

fn not_opened(path: &Path, error: &io::Error) -> Box<Finding> {
    match error.kind() {
        io::ErrorKind::NotFound => about(
            path,
            "does not exist",
            "write one with `sluicegate config new --root DIR --output FILE`",
        ),
        io::ErrorKind::PermissionDenied => about(
            path,
            "may not be read by the user that runs the server",
            "give that user read permission",
        ),
        _ => unreadable(path, error),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Box<Finding> {
    about(
        path,
        format!("can't be read: {error}"),
        "correct the cause, or name another file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{sys::stat::Mode, unistd::mkfifo};
    use std::{fs, os::unix::fs::PermissionsExt};

    fn refusal(path: &Path) -> String {
        read(path).expect_err("refused").to_string()
    }

    fn file_with_mode(mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("owner.json");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_file_that_everyone_may_write_is_refused() {
        let (_dir, path) = file_with_mode(0o602);
        assert!(refusal(&path).contains("may be written by everyone (mode 0602)"));
    }

    #[test]
    fn the_mode_is_that_of_the_file_behind_a_link() {
        let (dir, path) = file_with_mode(0o606);
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(&link).contains("may be written by everyone (mode 0606)"));
    }

    #[test]
    fn a_file_that_its_group_may_write_draws_a_warning() {
        let (_dir, path) = file_with_mode(0o620);
        let source = read(&path).unwrap();
        assert_eq!(source.bytes, b"{}");
        let [warning] = &source.warnings[..] else {
            panic!("one warning: {:?}", source.warnings)
        };
        assert_eq!(warning.severity, Severity::Warning);
        assert!(
            warning
                .message
                .contains("may be written by its group (mode 0620)")
        );
    }

    #[test]
    fn a_private_file_draws_none() {
        let (_dir, path) = file_with_mode(0o600);
        assert!(read(&path).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_file_of_another_user_draws_a_warning() {
        let me = nix::unistd::geteuid().as_raw();
        let path = Path::new("owner.json");
        assert_eq!(judge_mode(path, 0o600, me).unwrap(), []);
        assert_eq!(judge_mode(path, 0o600, 0).unwrap(), []);
        let stranger = if me == 4_242 { 4_243 } else { 4_242 };
        let warnings = judge_mode(path, 0o600, stranger).unwrap();
        assert!(
            warnings[0]
                .message
                .contains(&format!("belongs to user {stranger}"))
        );
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        assert!(refusal(dir.path()).contains("is a directory"));
        assert!(refusal(&dir.path().join("none.json")).contains("does not exist"));
        assert!(refusal(Path::new("/dev/null")).contains("is not a regular file"));
        let fifo = dir.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRUSR).unwrap();
        assert!(refusal(&fifo).contains("is not a regular file"));
        let under_a_file = Path::new("/etc/passwd/owner.json");
        assert!(refusal(under_a_file).contains("can't be read"));
    }

    #[test]
    fn a_file_over_the_bound_is_refused_and_one_at_it_is_not() {
        let (_dir, path) = file_with_mode(0o600);
        fs::write(&path, vec![b' '; MAX_CONFIG_BYTES]).unwrap();
        assert_eq!(read(&path).unwrap().bytes.len(), MAX_CONFIG_BYTES);
        fs::write(&path, vec![b' '; MAX_CONFIG_BYTES + 1]).unwrap();
        assert!(refusal(&path).contains("is larger than 4194304 bytes"));
    }

    #[test]
    fn bytes_that_are_no_text_are_placed() {
        let said = |bytes: &[u8]| text(Path::new("f"), bytes).unwrap_err().to_string();
        assert!(said(b"").starts_with("f: is empty"));
        assert!(said(b"\xef\xbb\xbf{}").starts_with("f:1:1: begins with a byte order mark"));
        assert!(said(b"\xff\xfe{\0").starts_with("f:1:1: is UTF-16"));
        assert!(
            said(
                "{\n \"é\u{4e2d}"
                    .as_bytes()
                    .iter()
                    .chain(b"\xc3(")
                    .copied()
                    .collect::<Vec<_>>()
                    .as_slice()
            )
            .starts_with("f:2:5: is not UTF-8: byte 0xC3 begins no character")
        );
    }
}
