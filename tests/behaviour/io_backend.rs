//! Which way of reading the pipes the server takes, and that it makes no difference.
//!
//! io_uring is refused here as hosts refuse it: by a seccomp filter that lets the system call fail.

use std::process::Command;

use crate::common::{Owner, Server, launch, owner, proc};
use serde_json::{Value, json};

/// The command that serves this config with an I/O choice of the test's own.
fn command(owner: &Owner, io: Option<&str>) -> Command {
    let mut command = owner::binary();
    command.arg("stdio").arg("--config").arg(owner.config());
    if let Some(io) = io {
        command.arg("--io").arg(io);
    }
    command
}

/// Whether this kernel and its host allow io_uring: what `auto` chooses without a filter.
fn uring_is_allowed() -> bool {
    let owner = Owner::job("true");
    let command = command(&owner, Some("uring"));
    let mut server = Server::spawn(owner, command);
    server.close_stdin();
    server.wait().success()
}

fn skipped_without_uring(test: &str) -> bool {
    let skipped = crate::common::skipped_under_epoll(test) || !uring_is_allowed();
    if skipped {
        eprintln!("SKIPPED {test}: io_uring is not to be had here");
    }
    skipped
}

pub fn holds_a_ring(server: &Server) -> bool {
    let processes = server.processes().into_iter();
    processes
        .flat_map(proc::descriptors)
        .any(|(_, target)| target.to_str().is_some_and(|t| t.contains("io_uring")))
}

/// A little of everything that goes through a backend.
pub fn scenarios() -> Owner {
    let mixed = "a\u{1f600}\u{4e2d}".repeat(20_000);
    Owner::new()
        .set("buffer_bytes", 1 << 20)
        .set("buffer_records", Value::Null)
        .argv("cat", &["/bin/cat"])
        .sh("both", "echo out; echo err >&2; exit 3")
        .sh("grandchild", "sleep 60 & echo done")
        .sh("flood", "yes | head -c 3145728; printf END")
        .bytes("mixed", mixed.as_bytes())
        .argv("yes", &["/usr/bin/yes"])
}

pub fn play(server: &Server) {
    let session = server.start("both");
    let output = session.read_all();
    assert_eq!(
        (
            output.stdout.as_str(),
            output.stderr.as_str(),
            output.complete
        ),
        ("out\n", "err\n", true)
    );
    assert_eq!(session.wait_final()["exit_code"], 3);

    let session = server.start("grandchild");
    let output = session.read_all();
    assert_eq!((output.stdout.as_str(), output.complete), ("done\n", true));
    session.wait_final();
    session.assert_group_is_gone();

    let session = server.start("cat");
    let block = "q".repeat(60_000);
    for _ in 0..5 {
        assert_eq!(session.write(&block)["accepted_bytes"], 60_000);
    }
    session.close_stdin();
    assert!(session.read_all().stdout == block.repeat(5));

    let session = server.start("mixed");
    assert!(session.read_all().stdout == "a\u{1f600}\u{4e2d}".repeat(20_000));

    let session = server.start("flood");
    let end = session.wait_settled();
    assert_eq!(end["next_cursor"], 3_145_731);
    let base = end["base_cursor"].as_u64().expect("a cursor");
    assert_eq!(base, 3_145_731 - (1 << 20));
    assert!(session.read_from(base, 65536).stdout.ends_with("y\nEND"));

    let session = server.start("yes");
    crate::common::wait_until("it prints", || session.status()["next_cursor"] != 0);
    assert_eq!(session.terminate(500)["status"], "TERMINATED");
}

#[test]
fn everything_works_over_epoll() {
    let owner = scenarios();
    let command = command(&owner, Some("epoll"));
    let server = Server::spawn(owner, command);
    server.initialize();
    play(&server);
    assert!(!holds_a_ring(&server));
    server.finish();
}

#[test]
fn everything_works_over_io_uring() {
    if skipped_without_uring("everything_works_over_io_uring") {
        return;
    }
    let owner = scenarios();
    let command = command(&owner, Some("uring"));
    let server = Server::spawn(owner, command);
    server.initialize();
    play(&server);
    assert!(holds_a_ring(&server));
    server.finish();
}

#[test]
fn io_uring_is_the_choice_where_it_is_allowed() {
    if skipped_without_uring("io_uring_is_the_choice_where_it_is_allowed") {
        return;
    }
    for io in [None, Some("auto")] {
        let owner = scenarios();
        let command = command(&owner, io);
        let server = Server::spawn(owner, command);
        server.initialize();
        assert!(holds_a_ring(&server), "--io {io:?}");
        server.finish();
    }
}

/// What a child prints, a piece at a time, before the count is taken.
const PRINTED: u64 = 200_000;

/// Bytes that the server's processes took in with read(2) and its kin while a child printed [`PRINTED`] or more.
fn read_calls_moved(io: &str) -> Option<u64> {
    // Each piece is waited for: when a child floods its pipe, both backends read on by plain calls.
    let pieces = "while :; do printf %02000d 7; sleep 0.005; done";
    let owner = Owner::new()
        .set("buffer_records", Value::Null)
        .sh("pieces", pieces);
    let command = command(&owner, Some(io));
    let server = Server::spawn(owner, command);
    server.initialize();
    let moved = || {
        server
            .processes()
            .into_iter()
            .map(proc::read_chars)
            .sum::<Option<u64>>()
    };
    let before = moved()?;
    let session = server.start("pieces");
    let mut cursor = 0;
    while cursor < PRINTED {
        // Calls are read with read(2), too; so they wait, and stay few.
        let page = session.read(json!({"cursor": cursor, "wait_ms": 2_000}));
        cursor = page["next_cursor"].as_u64().expect("a page");
    }
    // Looked at while the child lives: once it is reaped, the kernel adds to the count what the child itself read.
    let after = moved()?;
    server.finish();
    Some(after - before)
}

#[test]
fn output_that_is_waited_for_comes_through_the_ring() {
    if skipped_without_uring("output_that_is_waited_for_comes_through_the_ring") {
        return;
    }
    // The kernel counts what read(2) moves; what a ring moves is not in that count.
    let (Some(epoll), Some(uring)) = (read_calls_moved("epoll"), read_calls_moved("uring")) else {
        eprintln!(
            "SKIPPED output_that_is_waited_for_comes_through_the_ring: this kernel keeps no /proc/PID/io"
        );
        return;
    };
    assert!(
        epoll >= PRINTED,
        "over epoll all of it comes through read(2): {epoll}"
    );
    assert!(uring < PRINTED / 2, "over io_uring little does: {uring}");
}

/// The refusals that are met in the field: a filter, a kernel without it, a limit on locked memory; and a
/// filter that forgot that a ring also has to be entered.
const REFUSALS: &[(u32, i32, &str)] = &[
    (launch::IO_URING_SETUP, libc::EPERM, "EPERM"),
    (launch::IO_URING_SETUP, libc::ENOSYS, "ENOSYS"),
    (launch::IO_URING_SETUP, libc::ENOMEM, "ENOMEM"),
    (launch::IO_URING_SETUP, libc::EINVAL, "EINVAL"),
    (launch::IO_URING_ENTER, libc::EPERM, "EPERM"),
    (launch::IO_URING_ENTER, libc::ENOSYS, "ENOSYS"),
];

fn refuse(command: &mut Command, (number, errno, _): (u32, i32, &str)) {
    launch::refuse_syscall(
        command,
        number,
        u16::try_from(errno).expect("errno values are small"),
    );
}

#[test]
fn a_refused_ring_means_epoll_and_says_so_once() {
    for &refusal in REFUSALS {
        let owner = scenarios();
        let mut command = command(&owner, None);
        refuse(&mut command, refusal);
        let server = Server::spawn(owner, command);
        server.initialize();
        play(&server);
        assert!(!holds_a_ring(&server), "{refusal:?}");
        let stderr = server.stderr();
        let lines: Vec<&str> = stderr
            .lines()
            .filter(|line| line.contains("io_uring"))
            .collect();
        assert_eq!(lines.len(), 1, "{refusal:?}: {stderr}");
        assert!(
            lines[0].contains("epoll"),
            "it says what is used instead: {stderr}"
        );
        let helps = ["seccomp", "ulimit", "Linux 5"];
        assert!(
            helps.iter().any(|word| lines[0].contains(word)),
            "it says what would allow it: {stderr}"
        );
        server.finish();
    }
}

#[test]
fn a_ring_that_was_demanded_and_refused_stops_the_start() {
    for &refusal in REFUSALS {
        let owner = scenarios();
        let mut command = command(&owner, Some("uring"));
        refuse(&mut command, refusal);
        let mut server = Server::spawn(owner, command);
        let status = server.wait();
        assert!(matches!(status.code(), Some(1..)), "{refusal:?}: {status}");
        crate::common::wait_until("stderr was read", || server.stderr().ends_with('\n'));
        let stderr = server.stderr();
        assert_eq!(stderr.lines().count(), 1, "{refusal:?}: {stderr}");
        assert!(stderr.contains("io_uring"), "{refusal:?}: {stderr}");
    }
}

#[test]
fn an_unknown_backend_is_refused_by_the_command_line() {
    let owner = scenarios();
    let output = command(&owner, Some("kqueue"))
        .output()
        .expect("the binary starts");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("uring") && stderr.contains("epoll"),
        "the choices are named: {stderr}"
    );
    assert!(output.stdout.is_empty());
}
