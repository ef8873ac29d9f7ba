//! The end under load: as many floods as may run, half of them deaf to TERM, a client that has stopped reading or is gone,
//! and a log that nobody takes. Nothing of it may hold the server up, and nothing may be left.

use std::{io::PipeReader, path::PathBuf, process::Stdio, time::Instant};

use crate::common::{Owner, Server, proc, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Sessions that may run at once.
const SESSIONS: usize = 64;

/// What has become of the other end of the server's stderr.
#[derive(Clone, Copy, Debug)]
enum Log {
    /// It is there, and nobody reads it.
    Unread,
    Closed,
}

struct Flooded {
    server: Server,
    /// All that is there because of the server.
    family: Vec<proc::Stat>,
    /// Exists once the sessions have been told to end.
    told: PathBuf,
    _unread: Option<PipeReader>,
}

/// A server at its limit of sessions whose stdout and stderr are full.
fn flooded(log: Log) -> Flooded {
    let owner = Owner::new();
    let (listens, told) = (owner.base().join("listens"), owner.base().join("told"));
    let witness = format!(
        "trap 'echo told > {}' TERM; echo up > {}; while :; do sleep 0.05; done",
        told.display(),
        listens.display()
    );
    let owner = owner
        .set("max_sessions", SESSIONS)
        .set("max_records", SESSIONS)
        .set("buffer_records", 32768)
        .sh("witness", &witness)
        .argv("flood", &["/usr/bin/yes"])
        // What is ignored stays ignored over exec.
        .sh("deaf-flood", "trap '' TERM HUP INT; exec yes");
    let (unread, stderr) = std::io::pipe().expect("a pipe");
    let mut command = owner.command();
    command
        .args(["--log-level", "debug"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut server = Server::spawn_as_is(owner, command);
    server.talk();
    let line = |id: usize, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    };
    let client = json!({"name": "deaf", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    server.send_bytes(line(0, "initialize", params).as_bytes());
    for number in 1..=SESSIONS {
        let id = match number {
            SESSIONS => "witness",
            _ if number % 2 == 0 => "flood",
            _ => "deaf-flood",
        };
        let call = json!({"name": "terminal_start", "arguments": {"command_id": id}});
        server.send_bytes(line(number, "tools/call", call).as_bytes());
    }
    let floods = |family: &[proc::Stat]| family.iter().filter(|one| one.name == "yes").count();
    let mut family = Vec::new();
    wait_until("all floods run", || {
        family = proc::descendants_of(server.pid());
        floods(&family) == SESSIONS - 1 && listens.exists()
    });
    // Far more answers and log lines than the two pipes hold.
    let status = json!({"name": "terminal_status", "arguments": {"session_id": "none"}});
    let batch =
        line(9, "tools/call", status).repeat(100) + &line(9, "tools/list", json!({})).repeat(20);
    let mut refusals = 0;
    wait_until("the server takes no more", || {
        let taken = server.send_what_fits(batch.as_bytes());
        refusals = if taken == 0 { refusals + 1 } else { 0 };
        refusals == 20
    });
    Flooded {
        server,
        family,
        told,
        _unread: matches!(log, Log::Unread).then_some(unread),
    }
}

/// Ends the server and looks at what is left, with either fate of the log.
#[track_caller]
fn assert_ends(how: &str, end: fn(&mut Flooded)) {
    for log in [Log::Unread, Log::Closed] {
        let mut flooded = flooded(log);
        let pids: Vec<i32> = flooded.family.iter().map(|process| process.pid).collect();
        let _doomed: Vec<proc::Doomed> = pids.iter().copied().map(proc::Doomed::process).collect();
        let asked = Instant::now();
        end(&mut flooded);
        flooded.server.assert_exits_cleanly();
        eprintln!(
            "{how}, log {log:?}: gone after {} ms",
            asked.elapsed().as_millis()
        );
        wait_until("nothing is left", || {
            pids.iter().all(|&pid| !proc::is_alive(pid))
        });
    }
}

#[test]
fn the_end_of_stdin_ends_sixty_four_floods_although_nobody_reads() {
    assert_ends("end of stdin", |flooded| flooded.server.close_stdin());
}

#[test]
fn a_client_that_vanishes_leaves_none_of_sixty_four_floods() {
    assert_ends("client gone", |flooded| {
        flooded.server.close_unread_stdout();
        flooded.server.close_stdin();
    });
}

#[test]
fn a_closed_stdout_alone_ends_sixty_four_floods() {
    assert_ends("stdout closed", |flooded| {
        flooded.server.close_unread_stdout();
    });
}

#[test]
fn a_signal_ends_sixty_four_floods_although_nobody_reads() {
    assert_ends("SIGTERM", |flooded| flooded.server.signal(Signal::SIGTERM));
}

#[test]
fn a_second_signal_ends_sixty_four_floods_although_nobody_reads() {
    assert_ends("SIGTERM twice", |flooded| {
        flooded.server.signal(Signal::SIGTERM);
        wait_until("the sessions were told to end", || flooded.told.exists());
        flooded.server.signal(Signal::SIGTERM);
    });
}
