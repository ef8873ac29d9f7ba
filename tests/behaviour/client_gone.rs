//! Clients that stop reading, stop writing, or vanish: the server waits for them without spinning, gives up where it must,
//! and answers all that it was asked before.

use std::{
    io::{PipeReader, Read},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
};

use crate::common::{Owner, Server, assert_shown, proc, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

fn line(id: &str, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
}

fn call(id: &str, tool: &str, arguments: Value) -> String {
    line(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

fn hello() -> String {
    let client = json!({"name": "hasty", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    line("hello", "initialize", params)
}

/// The server with a log of all calls, whose stdout nobody reads yet. The pipe behind stderr is given back unread.
fn serve_unheard(owner: Owner) -> (Server, PipeReader) {
    let (log, stderr) = std::io::pipe().expect("a pipe");
    let mut command = owner.command();
    command
        .args(["--log-level", "debug"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut server = Server::spawn_as_is(owner, command);
    server.talk();
    (server, log)
}

/// Hosts one quiet session and returns its process.
fn host_a_sleeper(server: &Server) -> i32 {
    server.send_bytes(
        (hello() + &call("start", "terminal_start", json!({"command_id": "job"}))).as_bytes(),
    );
    let mut sleeper = None;
    wait_until("it is hosted", || {
        let children = proc::children_of(&server.processes());
        sleeper = children.into_iter().find(|child| child.name == "sleep");
        sleeper.is_some()
    });
    sleeper.expect("the loop ended because of it").pid
}

fn sleeper() -> Owner {
    Owner::new().argv("job", &["/bin/sleep", "600"])
}

/// CPU ticks of the server's own processes while this thread uses up fifty. One that spins gets about as many as we do,
/// however loaded the machine is; one that waits gets next to none.
fn ticks_while_we_spin(server: &Server) -> u64 {
    let used = || -> u64 {
        let processes = server.processes().into_iter();
        processes
            .filter_map(|pid| proc::cpu_ticks(&pid.to_string()))
            .sum()
    };
    let ours = || proc::cpu_ticks("thread-self").expect("we run");
    let (before, began) = (used(), ours());
    while ours() < began + 50 {
        std::hint::spin_loop();
    }
    used() - before
}

/// Whether the server rests. One that was told something just before may have to be asked again.
fn waits(server: &Server) -> bool {
    let ticks = ticks_while_we_spin(server);
    if ticks >= 25 {
        eprintln!("the server used {ticks} ticks while a spinning thread used 50");
    }
    ticks < 25
}

#[track_caller]
fn assert_waits(server: &Server) {
    assert_shown("the server waits", || waits(server));
}

/// Both of the server's pipes are full and so is its stdin: all that is left is to wait.
#[test]
fn a_client_that_reads_neither_stream_makes_the_server_neither_spin_nor_grow() {
    let (mut server, mut log) = serve_unheard(sleeper());
    let hosted = host_a_sleeper(&server);
    let _hosted = proc::Doomed::process(hosted);
    // Each of these logs a line, 1500 more than the pipe holds; each of the others is answered at length.
    let calls = call("status", "terminal_status", json!({"session_id": "none"}));
    server.send_bytes(calls.repeat(1500).as_bytes());
    let lists = line("list", "tools/list", json!({})).repeat(500);
    let mut refusals = 0;
    wait_until("the server takes no more", || {
        let taken = server.send_what_fits(lists.as_bytes());
        refusals = if taken == 0 { refusals + 1 } else { 0 };
        refusals == 20
    });
    assert_shown("it waits and stays as large as it is", || {
        let before = server.resident();
        waits(&server) && server.resident() < before + (1 << 20)
    });
    server.signal(Signal::SIGTERM);
    server.assert_exits_cleanly();
    wait_until("nothing is hosted", || !proc::is_alive(hosted));
    let mut logged = Vec::new();
    log.read_to_end(&mut logged).expect("our own pipe");
    assert!(
        logged.len() > 60_000,
        "the log was full: {} bytes",
        logged.len()
    );
}

/// The client's reading end goes while its writing end stays, as when only one of its threads dies.
#[test]
fn a_closed_stdout_is_no_reason_to_spin_and_ends_the_server_at_its_next_answer() {
    let (mut server, _log) = serve_unheard(sleeper());
    let hosted = host_a_sleeper(&server);
    let _hosted = proc::Doomed::process(hosted);
    server.close_unread_stdout();
    assert_waits(&server);
    server.send_what_fits(line("ping", "ping", json!({})).as_bytes());
    server.assert_exits_cleanly();
    wait_until("nothing is hosted", || !proc::is_alive(hosted));
}

/// What answers there are when the reading end goes is unknown; so is whether the server was writing just then.
#[test]
fn a_stdout_that_is_closed_while_it_is_full_ends_the_server() {
    let (mut server, _log) = serve_unheard(sleeper());
    let hosted = host_a_sleeper(&server);
    let _hosted = proc::Doomed::process(hosted);
    let list = line("list", "tools/list", json!({})).repeat(100);
    for _ in 0..20 {
        server.send_what_fits(list.as_bytes());
    }
    server.close_unread_stdout();
    server.assert_exits_cleanly();
    wait_until("nothing is hosted", || !proc::is_alive(hosted));
}

#[test]
fn a_log_whose_reader_is_gone_is_no_reason_to_spin() {
    let (mut server, log) = serve_unheard(sleeper());
    server.listen();
    drop(log);
    server.initialize();
    let session = server.start("job");
    for _ in 0..500 {
        server.code("terminal_status", json!({"session_id": "none"}));
    }
    assert_waits(&server);
    assert_eq!(session.status()["status"], "RUNNING");
    drop(session);
    server.finish();
}

/// Requests of every kind under ids of their own, and the ids.
fn requests(count: usize) -> (String, Vec<Value>) {
    let request = |number: usize| {
        let id = format!("request {number}");
        let line = match number % 5 {
            0 => line(&id, "ping", json!({})),
            1 => line(&id, "tools/list", json!({})),
            2 => call(&id, "terminal_start", json!({"command_id": "job"})),
            3 => call(&id, "terminal_status", json!({"session_id": "none"})),
            _ => call(
                &id,
                "terminal_read",
                json!({"session_id": "none", "wait_ms": 2000}),
            ),
        };
        (line, json!(id))
    };
    (0..count).map(request).unzip()
}

#[track_caller]
fn assert_each_is_answered_once(server: &Server, ids: &[Value]) {
    for id in ids {
        server.answer_to(id);
    }
    for id in ids {
        assert_eq!(server.answers_left(id), 0, "{id} was answered twice");
    }
}

/// A script that writes all that it wants to know and closes its end, as `printf … | sluicegate stdio` does.
#[test]
fn requests_right_before_the_end_of_a_pipe_are_each_answered_once() {
    for _ in 0..10 {
        let (mut server, _log) = serve_unheard(sleeper());
        server.listen();
        let (text, ids) = requests(200);
        server.send_bytes((hello() + &text).as_bytes());
        server.close_stdin();
        assert_each_is_answered_once(&server, &ids);
        server.assert_exits_cleanly();
    }
}

#[test]
fn requests_right_before_the_half_close_of_a_socket_are_each_answered_once() {
    for _ in 0..10 {
        let owner = sleeper();
        let mut command = owner.command();
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let theirs: OwnedFd = theirs.into();
        command
            .stdin(theirs.try_clone().expect("a descriptor"))
            .stdout(theirs)
            .stderr(Stdio::null());
        let mut server = Server::spawn_as_is(owner, command);
        server.talk_through(ours.try_clone().expect("a descriptor").into());
        let (text, ids) = requests(200);
        // Reading begins before, or a full socket could hold up our own writing. The descriptor doesn't block, so the
        // reader gets a description of its own kind: poll before each read.
        server.listen_to(Patient(ours.try_clone().expect("a descriptor")));
        server.send_bytes((hello() + &text).as_bytes());
        ours.shutdown(Shutdown::Write).expect("our own socket");
        assert_each_is_answered_once(&server, &ids);
        server.assert_exits_cleanly();
    }
}

/// Reads from a socket that others have made non-blocking as if it blocked.
struct Patient(UnixStream);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut wait = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut wait, PollTimeout::NONE)?;
        self.0.read(buffer)
    }
}

/// Far more answers than the pipe holds, and the client begins to read when it has long said that it is done.
#[test]
fn a_client_that_reads_only_after_it_has_closed_its_end_misses_no_answer() {
    assert_shown("all is answered within the time that answers have", || {
        let (mut server, _log) = serve_unheard(sleeper());
        let ids: Vec<Value> = (0..200)
            .map(|number| json!(format!("list {number}")))
            .collect();
        let lists: String = ids
            .iter()
            .map(|id| line(id.as_str().expect("text"), "tools/list", json!({})))
            .collect();
        server.send_bytes((hello() + &lists).as_bytes());
        server.close_stdin();
        server.listen();
        let answered = ids
            .iter()
            .filter(|id| server.answer_within(id, crate::common::GUARD).is_some())
            .count();
        server.assert_exits_cleanly();
        answered == ids.len()
    });
}
