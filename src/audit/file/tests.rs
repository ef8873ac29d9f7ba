use std::{
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
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

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn open(&self) -> LogFile {
        LogFile::open(&self.path("log")).unwrap()
    }

    fn fifo(&self) -> PathBuf {
        let path = self.path("log");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        path
    }
}

#[track_caller]
fn at_its_path(written: Result<Written, Unwritten>) {
    assert!(matches!(written, Ok(Written::AtItsPath)), "{written:?}");
}

#[track_caller]
fn aside(written: Result<Written, Unwritten>, why: &str) {
    match written {
        Ok(Written::Aside(refused)) => {
            let told = refused.to_string();
            assert!(told.contains(why) && !told.contains('\n'), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_file_is_private_and_an_old_one_is_continued() {
    let place = Place::new();
    at_its_path(place.open().append(b"one\n"));
    let mode = fs::metadata(place.path("log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    at_its_path(place.open().append(b"two\n"));
    assert_eq!(place.text("log"), "one\ntwo\n");
}

#[test]
fn a_file_that_was_renamed_or_removed_is_made_anew() {
    let place = Place::new();
    let mut log = place.open();
    at_its_path(log.append(b"one\n"));
    fs::rename(place.path("log"), place.path("log.1")).unwrap();
    at_its_path(log.append(b"two\n"));
    fs::remove_file(place.path("log")).unwrap();
    at_its_path(log.append(b"three\n"));
    assert_eq!(place.text("log.1"), "one\n");
    assert_eq!(place.text("log"), "three\n");
    let mode = fs::metadata(place.path("log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_file_that_was_put_in_its_place_is_continued() {
    let place = Place::new();
    let mut log = place.open();
    at_its_path(log.append(b"one\n"));
    fs::rename(place.path("log"), place.path("log.1")).unwrap();
    fs::write(place.path("log"), "zero\n").unwrap();
    fs::set_permissions(place.path("log"), fs::Permissions::from_mode(0o640)).unwrap();
    at_its_path(log.append(b"two\n"));
    assert_eq!(place.text("log"), "zero\ntwo\n");
}

#[test]
fn a_link_in_its_place_is_never_written_through() {
    let place = Place::new();
    let mut log = place.open();
    fs::write(place.path("victim"), "").unwrap();
    fs::rename(place.path("log"), place.path("log.1")).unwrap();
    symlink(place.path("victim"), place.path("log")).unwrap();
    aside(log.append(b"one\n"), "symbolic link");
    assert_eq!(
        (place.text("victim"), place.text("log.1")),
        (String::new(), "one\n".into())
    );

    fs::remove_file(place.path("log.1")).unwrap();
    match log.append(b"two\n") {
        Err(Unwritten::Removed(refused)) => assert!(refused.to_string().contains("symbolic link")),
        other => panic!("{other:?}"),
    }
    assert_eq!(place.text("victim"), "");

    fs::remove_file(place.path("log")).unwrap();
    at_its_path(log.append(b"three\n"));
    assert_eq!(place.text("log"), "three\n");
}

#[test]
fn a_directory_or_an_open_file_in_its_place_is_not_taken() {
    let place = Place::new();
    let mut log = place.open();
    fs::rename(place.path("log"), place.path("log.1")).unwrap();
    fs::create_dir(place.path("log")).unwrap();
    aside(log.append(b"one\n"), "is a directory");
    fs::remove_dir(place.path("log")).unwrap();
    fs::write(place.path("log"), "").unwrap();
    fs::set_permissions(place.path("log"), fs::Permissions::from_mode(0o666)).unwrap();
    aside(log.append(b"two\n"), "may be written by everyone");
    assert_eq!(
        (place.text("log"), place.text("log.1")),
        (String::new(), "one\ntwo\n".into())
    );
}

#[test]
fn a_fifo_is_refused_without_its_reader_and_waited_for_with_it() {
    let place = Place::new();
    let path = place.fifo();
    let refused = LogFile::open(&path).unwrap_err().to_string();
    assert!(refused.contains("FIFO that nobody reads"), "{refused}");
    let reader = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .unwrap();
    let mut log = LogFile::open(&path).unwrap();
    let flags = OFlag::from_bits_truncate(fcntl(&log.file, FcntlArg::F_GETFL).unwrap());
    assert!(
        !flags.contains(OFlag::O_NONBLOCK),
        "a full pipe is waited for"
    );
    at_its_path(log.append(b"one\n"));
    let mut line = String::new();
    BufReader::new(&reader).read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    drop(reader);
    let left = log.append(b"two\n");
    assert!(
        matches!(left, Err(Unwritten::Refused(Errno::EPIPE))),
        "{left:?}"
    );
}

#[test]
fn the_descriptor_appends_and_no_program_inherits_it() {
    let place = Place::new();
    let log = place.open();
    let flags = OFlag::from_bits_truncate(fcntl(&log.file, FcntlArg::F_GETFL).unwrap());
    assert!(flags.contains(OFlag::O_APPEND | OFlag::O_WRONLY));
    assert_eq!(
        fcntl(&log.file, FcntlArg::F_GETFD).unwrap(),
        libc::FD_CLOEXEC
    );
}
