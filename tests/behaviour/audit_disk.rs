//! The audit log on disks that are full, slow, rotated or not what they should be: no job and no call waits for it, and
//! what is missing is counted.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    thread,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use crate::common::{Owner, Server, SmallDisk, launch, wait_until};

fn audited(owner: Owner, log: &Path) -> Owner {
    owner.set("audit_log", log.to_str().expect("a UTF-8 path"))
}

/// The whole lines of a file, and how many pieces of lines stand between them.
fn lines(log: &Path) -> (Vec<Value>, usize) {
    let text = fs::read_to_string(log).expect("the log is there");
    let (mut whole, mut pieces) = (Vec::new(), 0);
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        match serde_json::from_str(line) {
            Ok(line) => whole.push(line),
            Err(_) => pieces += 1,
        }
    }
    (whole, pieces)
}

fn of_kind<'l>(lines: &'l [Value], event: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// How many lines the log says are missing from it.
fn lost(lines: &[Value]) -> usize {
    let counts = of_kind(lines, "lost");
    let lost: u64 = counts
        .iter()
        .map(|line| line["lines"].as_u64().expect("a count"))
        .sum();
    usize::try_from(lost).expect("a small count")
}

/// Refused starts, each a line of a bit more than `length` bytes.
fn refuse(server: &Server, count: usize, length: usize) {
    let cwd = format!("/{}", "d".repeat(length));
    for _ in 0..count {
        let code = server.code("terminal_start", json!({"command_id": "none", "cwd": cwd}));
        assert_eq!(code, "COMMAND_NOT_FOUND");
    }
}

fn complaints(server: &Server) -> usize {
    server
        .stderr()
        .matches("the audit log can't be written")
        .count()
}

#[test]
fn what_may_not_take_the_log_is_refused_by_name() {
    let owner = Owner::job("true");
    let base = owner.base().to_owned();
    let file = owner.file("everyones", b"");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("our own file");
    symlink(&file, base.join("link")).expect("the directory takes links");
    mkfifo(&base.join("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).expect("and FIFOs");
    fs::create_dir(base.join("open")).expect("and directories");
    fs::set_permissions(base.join("open"), fs::Permissions::from_mode(0o777)).expect("our own");
    let mut owner = owner;
    for (log, why) in [
        (base.clone(), "is a directory"),
        (base.join("link"), "is a symbolic link"),
        (file, "may be written by everyone (mode 0666)"),
        (base.join("open/log"), "everyone may write (mode 0777)"),
        (base.join("fifo"), "is a FIFO that nobody reads"),
        (PathBuf::from("/dev/full"), "is a device"),
        (base.join("none/log"), "does not exist"),
        (PathBuf::from("audit.jsonl"), "must be an absolute path"),
    ] {
        owner = audited(owner, &log);
        let stderr = launch::refusal(&mut owner.command());
        assert!(
            stderr.contains("audit_log: ") && stderr.contains(why),
            "{stderr}"
        );
    }
}

#[test]
fn a_renamed_or_removed_file_is_made_anew() {
    let owner = Owner::job("true");
    let log = owner.base().join("audit.jsonl");
    let old = owner.base().join("audit.jsonl.1");
    let mut server = audited(owner, &log).serve();
    refuse(&server, 3, 1);
    wait_until("they are written", || lines(&log).0.len() == 4);
    fs::rename(&log, &old).expect("a rotation");
    refuse(&server, 2, 1);
    wait_until("the new file is there", || {
        log.exists() && lines(&log).0.len() == 2
    });
    fs::remove_file(&log).expect("a rotation without mercy");
    refuse(&server, 1, 1);
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_eq!(lines(&old).0.len(), 4);
    let mode = fs::metadata(&log)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let (left, _) = lines(&log);
    let events: Vec<&Value> = left.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["start_refused", "server_stop"]);
    assert_eq!(server.stderr(), "");
}

#[test]
fn a_link_in_the_place_of_a_rotated_file_is_not_followed() {
    let owner = Owner::job("true");
    let log = owner.base().join("audit.jsonl");
    let old = owner.base().join("audit.jsonl.1");
    let victim = owner.file("victim", b"");
    let mut server = audited(owner, &log).serve();
    refuse(&server, 1, 1);
    wait_until("it is written", || lines(&log).0.len() == 2);
    fs::rename(&log, &old).expect("a rotation");
    symlink(&victim, &log).expect("an attack");
    refuse(&server, 5, 1);
    wait_until("they are written", || lines(&old).0.len() == 7);
    assert_eq!(
        server.stderr().matches("symbolic link").count(),
        1,
        "{}",
        server.stderr()
    );
    // Once the place is free again the log goes on there.
    fs::remove_file(&log).expect("the Owner looked");
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_eq!(lines(&log).0.len(), 1);
    assert_eq!(fs::read(&victim).expect("it is there"), b"");
}

/// A FIFO that has a reader which doesn't read: for whoever writes, a disk that hangs.
fn hanging_log(owner: &Owner) -> (PathBuf, File) {
    let log = owner.base().join("audit.fifo");
    mkfifo(&log, Mode::S_IRUSR | Mode::S_IWUSR).expect("the directory takes FIFOs");
    let reader = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&log)
        .expect("a FIFO can be opened for reading");
    (log, reader)
}

/// More lines than the pipe and the queue hold, all made while nothing takes them.
const TOO_MANY: usize = 400;
const LONG: usize = 4_000;

#[test]
fn a_disk_that_hangs_holds_up_neither_calls_nor_floods_and_what_was_lost_is_counted() {
    let owner = Owner::new().sh("flood", "head -c 50000000 /dev/zero | tr '\\0' x");
    let (log, reader) = hanging_log(&owner);
    let mut server = audited(owner, &log).serve();
    refuse(&server, TOO_MANY, LONG);
    wait_until("the Owner is told", || {
        server.stderr().contains("no more can wait")
    });
    // Its lines find no room either.
    let flood = server.start("flood");
    let end = flood.wait_settled();
    assert_eq!(end["exit_code"], 0);
    assert_eq!(end["next_cursor"], 50_000_000);
    assert_eq!(
        server.stderr().matches("audit log").count(),
        1,
        "{}",
        server.stderr()
    );

    // The disk comes back.
    nix::fcntl::fcntl(
        &reader,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()),
    )
    .expect("our own end");
    let collected = thread::spawn(move || {
        let lines = BufReader::new(reader).lines();
        let parse = |line: String| serde_json::from_str(&line).expect("whole lines only");
        lines
            .map(|line| parse(line.expect("a FIFO can be read")))
            .collect::<Vec<Value>>()
    });
    wait_until("the log has caught up", || {
        server.stderr().contains("is written again")
    });
    refuse(&server, 1, LONG);
    server.close_stdin();
    server.assert_exits_cleanly();
    let lines = collected.join().expect("the reader doesn't panic");
    let told = of_kind(&lines, "lost").len();
    assert!(told > 0 && lost(&lines) > 0);
    // The server's start and stop, each refused start, the flood's start and end.
    assert_eq!(lines.len() - told + lost(&lines), 2 + TOO_MANY + 1 + 2);
    assert_eq!(lines[0]["event"], "server_start");
    assert_eq!(lines.last().expect("lines")["event"], "server_stop");
}

#[test]
fn a_disk_that_hangs_does_not_keep_the_server() {
    let owner = Owner::job("sleep 600");
    let (log, _reader) = hanging_log(&owner);
    let mut server = audited(owner, &log).serve();
    server.start("job");
    refuse(&server, TOO_MANY, LONG);
    server.close_stdin();
    // The pipe stays full for as long as its reader lives: a server that waits for it never ends.
    server.assert_exits_cleanly();
    // What it wrote last may still be on its way through the test's own thread.
    wait_until("it says so", || {
        server.stderr().contains("its last lines are lost")
    });
}

#[test]
fn a_file_that_may_not_grow_loses_lines_aloud_and_stops_nothing() {
    let owner = Owner::new().sh("job", "echo done");
    let base = owner.base().to_owned();
    let log = base.join("audit.jsonl");
    let owner = audited(owner, &log);
    // By default the kernel ends a process that writes beyond this limit (SIGXFSZ).
    let command = owner.command_after("ulimit -f 16");
    let mut server = Server::spawn(owner, command);
    server.initialize();
    refuse(&server, 40, 1_000);
    wait_until("the Owner is told", || complaints(&server) == 1);
    refuse(&server, 10, 1_000);
    assert_eq!(complaints(&server), 1, "{}", server.stderr());

    // A rotation makes room. Lines that still waited may fill the new file as well; then another one is needed.
    let mut rotated = Vec::new();
    loop {
        let told = complaints(&server);
        let old = base.join(format!("audit.jsonl.{}", rotated.len()));
        fs::rename(&log, &old).expect("a rotation");
        rotated.push(old);
        let length = rotated.len();
        refuse(&server, 1, length);
        let mut caught_up = false;
        wait_until("the last line is there, or lost", || {
            let newest = if log.exists() {
                lines(&log).0
            } else {
                Vec::new()
            };
            let cwd = newest.last().and_then(|line| line["cwd"].as_str());
            caught_up = cwd.is_some_and(|cwd| cwd.len() == 1 + length);
            caught_up || complaints(&server) > told
        });
        if caught_up {
            break;
        }
    }
    let (mut written, mut missing) = (0, 0);
    for file in rotated.iter().chain([&log]) {
        let (lines, pieces) = lines(file);
        assert!(pieces <= 1, "at most the line that was cut short");
        missing += lost(&lines);
        written += lines.len() - of_kind(&lines, "lost").len();
    }
    // The server's start, fifty refused starts, and one for each rotation.
    assert_eq!(written + missing, 1 + 50 + rotated.len());
    let (first, second) = (
        lines(&rotated[0]).0,
        lines(rotated.get(1).unwrap_or(&log)).0,
    );
    assert_eq!(second[0]["event"], "lost");
    assert!(first.last().expect("lines")["time"].as_str() <= second[0]["since"].as_str());

    // It failed, worked, and fails again: that is told again.
    let told = complaints(&server);
    refuse(&server, 40, 1_000);
    wait_until("the Owner is told again", || {
        complaints(&server) == told + 1
    });
    assert_eq!(server.start("job").read_all().stdout, "done\n");
    server.close_stdin();
    server.assert_exits_cleanly();
}

#[test]
fn a_full_disk_loses_lines_aloud_and_tells_how_many_when_there_is_room_again() {
    let owner = Owner::new().sh("job", "echo done");
    let Some(disk) = SmallDisk::mount(owner.base().join("disk"), 128) else {
        eprintln!("SKIPPED a_full_disk: a tmpfs can't be mounted here (it takes root)");
        return;
    };
    let filler = disk.place.join("filler");
    fs::write(&filler, [0; 98_304]).expect("there is room for it");
    let log = disk.place.join("audit.jsonl");
    let mut server = audited(owner, &log).serve();
    refuse(&server, 60, 1_000);
    wait_until("the Owner is told", || complaints(&server) == 1);
    assert_eq!(server.start("job").read_all().stdout, "done\n");
    refuse(&server, 10, 1_000);
    assert_eq!(complaints(&server), 1, "{}", server.stderr());
    fs::remove_file(&filler).expect("our own file");
    refuse(&server, 1, 1);
    wait_until("the log goes on", || {
        server.stderr().contains("is written again")
    });
    server.close_stdin();
    server.assert_exits_cleanly();

    let (lines, pieces) = lines(&log);
    assert!(pieces <= 1, "at most the line that was cut short");
    assert_eq!(of_kind(&lines, "lost").len(), 1);
    // The server's start and stop, 71 refused starts, the job's start and end, and what tells of the others.
    assert_eq!(lines.len() - 1 + lost(&lines), 2 + 71 + 2);
    assert_eq!(
        server.stderr().matches("audit log").count(),
        2,
        "{}",
        server.stderr()
    );
}
