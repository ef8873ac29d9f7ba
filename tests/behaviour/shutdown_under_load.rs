//! The end under load: as many floods as may run, half of them deaf to TERM, a client that has stopped reading or is gone,
//! and a log that nobody takes. Nothing of it may hold the server up, and nothing may be left.

use std::{
    fs::File,
    io::{PipeReader, Write},
    path::PathBuf,
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::common::{Owner, Server, proc, wait_until};
use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
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
    _gate: File,
}

/// One load at a time: two of them would measure the machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A server at its limit of sessions whose stdout and stderr are full.
fn flooded(log: Log) -> Flooded {
    let owner = Owner::new();
    let at = |name: &str| owner.base().join(name);
    let (gate, listens, told) = (at("gate"), at("listens"), at("told"));
    mkfifo(&gate, Mode::S_IRWXU).expect("a pipe with a name");
    let witness = format!(
        "trap 'echo told > {}' TERM; echo up > {}; while :; do sleep 0.05; done",
        told.display(),
        listens.display()
    );
    let flood = format!("read go < {}; exec yes", gate.display());
    let owner = owner
        .set("max_sessions", SESSIONS)
        .set("max_records", SESSIONS)
        .set("buffer_records", 32768)
        .sh("witness", &witness)
        .sh("flood", &flood)
        // What is ignored stays ignored over exec.
        .sh("deaf-flood", &format!("trap '' TERM HUP INT; {flood}"));
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
    // The log is full after these, and stdout after as many of the others as the server takes.
    let status = json!({"name": "terminal_status", "arguments": {"session_id": "none"}});
    server.send_bytes(line(9, "tools/call", status).repeat(1500).as_bytes());
    let lists = line(9, "tools/list", json!({})).repeat(500);
    let mut refusals = 0;
    wait_until("the server takes no more", || {
        let taken = server.send_what_fits(lists.as_bytes());
        refusals = if taken == 0 { refusals + 1 } else { 0 };
        refusals == 20
    });
    // Opened for both, so that neither it nor a flood that comes late waits for the other.
    let mut open = File::options()
        .read(true)
        .write(true)
        .open(&gate)
        .expect("our own");
    open.write_all("\n".repeat(SESSIONS - 1).as_bytes())
        .expect("a pipe holds more");
    let mut family = Vec::new();
    wait_until("all floods run", || {
        family = proc::descendants_of(server.pid());
        let floods = family.iter().filter(|process| process.name == "yes");
        floods.count() == SESSIONS - 1 && listens.exists()
    });
    Flooded {
        server,
        family,
        told,
        _unread: matches!(log, Log::Unread).then_some(unread),
        _gate: open,
    }
}

/// Ends the server and looks at what is left.
#[track_caller]
fn assert_ends(how: &str, log: Log, end: fn(&mut Flooded)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

#[test]
fn the_end_of_stdin_ends_sixty_four_floods_although_nobody_reads() {
    assert_ends("end of stdin", Log::Unread, |flooded| {
        flooded.server.close_stdin();
    });
}

#[test]
fn a_client_that_vanishes_leaves_none_of_sixty_four_floods() {
    assert_ends("client gone", Log::Closed, |flooded| {
        flooded.server.close_unread_stdout();
        flooded.server.close_stdin();
    });
}

#[test]
fn a_closed_stdout_alone_ends_sixty_four_floods() {
    assert_ends("stdout closed", Log::Unread, |flooded| {
        flooded.server.close_unread_stdout();
    });
}

#[test]
fn a_signal_ends_sixty_four_floods_although_nobody_reads() {
    for log in [Log::Unread, Log::Closed] {
        assert_ends("SIGTERM", log, |flooded| {
            flooded.server.signal(Signal::SIGTERM);
        });
    }
}

#[test]
fn a_second_signal_ends_sixty_four_floods_although_nobody_reads() {
    assert_ends("SIGTERM twice", Log::Unread, |flooded| {
        flooded.server.signal(Signal::SIGTERM);
        wait_until("the sessions were told to end", || flooded.told.exists());
        flooded.server.signal(Signal::SIGTERM);
    });
}
