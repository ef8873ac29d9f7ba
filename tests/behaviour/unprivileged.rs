//! A server that isn't root: pipes of two pages once its user's quota is used up, and no memory that may be locked.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Command, Stdio},
};

use crate::{
    common::{Owner, Server, launch, owner, wait_until},
    input::{deaf, open_gate},
    io_backend::{holds_a_ring, play, scenarios},
};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::resource::Resource,
};
use serde_json::json;

/// Pipes that use up the usual quota of 16384 pages, at 16 each, and a few for good measure.
const PIPES: usize = 1100;

fn skipped(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: only root may become another user");
    }
    !root
}

/// A user that nobody else is: the kernel counts the pipes of all processes of one.
fn user(number: u32) -> u32 {
    2_000_000 + std::process::id() % 1_000_000 * 32 + number
}

/// The command that serves this config as `user`.
fn command(owner: &Owner, user: u32) -> Command {
    let mut command = bare_command(owner, user);
    if let Some(io) = owner::backend() {
        command.arg("--io").arg(io);
    }
    command
}

/// The same without a choice of the I/O. The user may read nothing but what it needs.
fn bare_command(owner: &Owner, user: u32) -> Command {
    let program = owner.base().join("sluicegate");
    // Not by this process: what it has open for writing, the children of other tests have for a moment too, and then
    // nobody can execute it.
    let copied = Command::new("/bin/cp")
        .arg(env!("CARGO_BIN_EXE_sluicegate"))
        .arg(&program)
        .status();
    assert!(copied.expect("cp is there").success());
    fs::set_permissions(owner.base(), fs::Permissions::from_mode(0o755)).expect("our own");
    let mut command = Command::new(program);
    command.arg("stdio").arg("--config").arg(owner.config());
    command.uid(user).gid(user);
    command
}

/// A process that holds pipes until it is dropped.
struct Holder(Child);

impl Holder {
    fn of_pipes(user: u32) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo ready; exec sleep 600"]);
        command.uid(user).gid(user).stdout(Stdio::piped());
        launch::open_pipes(&mut command, PIPES);
        let mut child = command.spawn().expect("sh is there");
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut ready).expect("it holds them");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().expect("our own child");
        self.0.wait().expect("our own child");
    }
}

/// The size of the pipe behind a descriptor of a process.
fn pipe_size(pid: i32, descriptor: u32) -> usize {
    let end = fs::OpenOptions::new()
        .read(descriptor == 0)
        .write(descriptor != 0)
        .open(format!("/proc/{pid}/fd/{descriptor}"))
        .expect("root may");
    let size = fcntl(&end, FcntlArg::F_GETPIPE_SZ).expect("a pipe");
    usize::try_from(size).expect("a size")
}

/// Beyond its quota a user gets pipes of two pages, in silence. They are slower, and nothing else.
#[test]
fn pipes_of_two_pages_lose_nothing() {
    if skipped("pipes_of_two_pages_lose_nothing") {
        return;
    }
    let user = user(0);
    let owner = deaf(scenarios()).sh("lines", "seq 1 100000; seq 1 1000 >&2");
    let command = command(&owner, user);
    let _holder = Holder::of_pipes(user);
    let server = Server::spawn(owner, command);
    server.initialize();
    let session = server.start("cat");
    let sizes: Vec<usize> = (0..3).map(|fd| pipe_size(session.pid, fd)).collect();
    assert_eq!(sizes, [8192; 3], "the quota is used up");
    // More than the pipe holds, by a child that takes it at its own pace.
    assert_eq!(session.write(&"z".repeat(60_000))["accepted_bytes"], 60_000);
    session.close_stdin();
    assert_eq!(session.read_all().stdout.len(), 60_000);
    let lines = |last: u32| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
    let output = server.start("lines").read_all();
    assert!(output.stdout == lines(100_000) && output.stderr == lines(1000));
    play(&server);
    // What the pipe took is told exactly.
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    let write = session.with_id(json!({"text": "z".repeat(60_000)}));
    let error = server.refused("terminal_write", write);
    assert_eq!(
        (&error["code"], &error["accepted_bytes"]),
        (&json!("INPUT_BACKPRESSURE"), &json!(8192))
    );
    open_gate(&server.owner);
    assert_eq!(session.read_all().stdout, "up\n8192\n");
    assert_eq!(server.stderr(), "", "nobody needs to be told");
    server.finish();
}

/// The quota is used up by others while a session with pipes of the usual size runs: they can't be enlarged any more.
#[test]
fn a_pipe_that_may_not_grow_stays_as_it_is() {
    if skipped("a_pipe_that_may_not_grow_stays_as_it_is") {
        return;
    }
    let user = user(1);
    let owner = Owner::new()
        .set("buffer_bytes", 1 << 20)
        .set("buffer_records", json!(null))
        .sh(
            "job",
            "read go; head -c 67108864 /dev/zero | tr '\\0' x; printf END; read go",
        );
    let command = command(&owner, user);
    let server = Server::spawn(owner, command);
    server.initialize();
    let session = server.start("job");
    let before = pipe_size(session.pid, 1);
    let _holder = Holder::of_pipes(user);
    session.write("\n");
    let expected = (64 << 20) + 3;
    wait_until("all of it came", || {
        session.status()["next_cursor"] == expected
    });
    assert_eq!(pipe_size(session.pid, 1), before);
    session.close_stdin();
    let output = session.read_from(expected - (1 << 20), 65536);
    assert!(output.stdout.ends_with("xEND") && output.complete);
    assert_eq!(server.stderr(), "");
    server.finish();
}

/// Some kernels count rings as locked memory, all those of a user together. Where that is refused, be it the ring that is
/// tried or the larger one that is used, epoll serves and it is said.
#[test]
fn with_little_or_no_locked_memory_everything_works() {
    if skipped("with_little_or_no_locked_memory_everything_works") {
        return;
    }
    for (number, kib) in [0, 8, 16, 32, 48, 64, 128].into_iter().enumerate() {
        let owner = scenarios();
        // Users of their own: the kernel takes its time to give back what a ring has locked.
        let mut command = command(&owner, user(8 + u32::try_from(number).expect("a few")));
        launch::limit(&mut command, Resource::RLIMIT_MEMLOCK, kib << 10);
        let server = Server::spawn(owner, command);
        server.initialize();
        let ring = holds_a_ring(&server);
        let stderr = server.stderr();
        if ring || owner::backend().is_some_and(|io| io == "epoll") {
            assert_eq!(stderr, "", "{kib} KiB");
        } else {
            assert_eq!(stderr.lines().count(), 1, "{kib} KiB: {stderr}");
            assert!(stderr.contains("using epoll: io_uring"), "{stderr}");
            assert!(stderr.contains("ulimit -l"), "what would help: {stderr}");
        }
        if number % 2 == 0 {
            play(&server);
        }
        server.finish();
    }
}

/// A ring that is demanded and can't be had is a start that fails in one line, whichever ring it was.
#[test]
fn a_demanded_ring_without_locked_memory_is_refused_in_one_line() {
    if skipped("a_demanded_ring_without_locked_memory_is_refused_in_one_line") {
        return;
    }
    for (number, kib) in [0, 8, 16, 32, 48].into_iter().enumerate() {
        let owner = Owner::job("read go");
        let mut command = bare_command(&owner, user(16 + u32::try_from(number).expect("a few")));
        command.args(["--io", "uring"]).stdin(Stdio::null());
        launch::limit(&mut command, Resource::RLIMIT_MEMLOCK, kib << 10);
        let output = command.output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            // Most kernels don't count rings.
            assert_eq!(stderr, "", "{kib} KiB");
            continue;
        }
        assert_eq!(stderr.lines().count(), 1, "{kib} KiB: {stderr}");
        assert!(stderr.contains("--io uring: io_uring"), "{stderr}");
    }
}

/// After `su` or `setuid` descriptor 2 is the pipe or terminal of another user, which can't be opened anew.
#[test]
fn a_log_of_another_users_tells_all_and_holds_nothing_up() {
    if skipped("a_log_of_another_users_tells_all_and_holds_nothing_up") {
        return;
    }
    let owner = Owner::job("read go");
    let mut served = command(&owner, user(3));
    served.args(["--log-level", "debug"]);
    let server = Server::spawn(owner, served);
    server.initialize();
    let calls = |server: &Server| {
        for _ in 0..2000 {
            server.code("terminal_status", json!({"session_id": "none"}));
        }
    };
    calls(&server);
    wait_until("each call is logged", || {
        server.stderr().matches("terminal_status").count() == 2000
    });
    server.finish();

    let owner = Owner::job("read go");
    let mut served = command(&owner, user(3));
    let (unread, stderr) = std::io::pipe().expect("a pipe");
    served
        .args(["--log-level", "debug"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut server = Server::spawn_as_is(owner, served);
    server.talk();
    server.listen();
    server.initialize();
    calls(&server);
    server.finish();
    drop(unread);
}
