//! Nothing outlives the server, however it ends and whoever has stopped listening.

use crate::common::{GUARD, Owner, Server, assert_shown, proc, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A config with a quiet child, one that ignores TERM, a flood, and a tree.
fn owner() -> Owner {
    Owner::new()
        .argv("sleep", &["/bin/sleep", "600"])
        .sh(
            "stubborn",
            "trap '' TERM HUP INT; echo ready; while :; do sleep 0.1; done",
        )
        .argv("yes", &["/usr/bin/yes"])
        .sh(
            "tree",
            "sleep 600 & (trap '' TERM; sleep 600 | cat) & echo ready; wait",
        )
}

/// Starts one of each and returns their groups.
fn start_all(server: &Server) -> Vec<i32> {
    let sessions = ["sleep", "stubborn", "yes", "tree"].map(|id| server.start(id));
    // The flood's first lines are evicted sooner than anybody could read them; the others have announced themselves.
    for session in &sessions[1..] {
        wait_until("it prints", || session.status()["next_cursor"] != 0);
    }
    sessions.map(|session| session.pid).to_vec()
}

/// Every member of these groups was killed and dies as soon as the kernel gets to it.
fn assert_groups_are_gone(groups: &[i32]) {
    let is_gone = |&group: &i32| proc::group_members(group).is_empty();
    wait_until("the groups are gone", || groups.iter().all(is_gone));
}

#[test]
fn the_end_of_stdin_ends_everything() {
    let mut server = owner().serve();
    let groups = start_all(&server);
    let _groups = proc::Doomed::groups(&groups);
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_groups_are_gone(&groups);
}

#[track_caller]
fn assert_one_signal_is_enough(signal: Signal) {
    let mut server = owner().serve();
    let groups = start_all(&server);
    let _groups = proc::Doomed::groups(&groups);
    server.signal(signal);
    // Our end of its stdin stays open until the server is gone.
    server.assert_exits_cleanly();
    assert_groups_are_gone(&groups);
    assert!(!server.is_running());
}

#[test]
fn one_sigterm_is_enough_while_stdin_stays_open() {
    assert_one_signal_is_enough(Signal::SIGTERM);
}

#[test]
fn one_sigint_is_enough_while_stdin_stays_open() {
    assert_one_signal_is_enough(Signal::SIGINT);
}

#[test]
fn one_sighup_is_enough_while_stdin_stays_open() {
    assert_one_signal_is_enough(Signal::SIGHUP);
}

#[test]
fn a_second_signal_kills_at_once() {
    let owner = owner();
    let mut command = owner.command();
    command.args(["--log-level", "info"]);
    let mut server = Server::spawn(owner, command);
    server.initialize();
    let groups = start_all(&server);
    let _groups = proc::Doomed::groups(&groups);
    server.signal(Signal::SIGTERM);
    wait_until("the shutdown has begun", || {
        server.stderr().contains("ending")
    });
    server.signal(Signal::SIGTERM);
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{}", server.stderr());
    assert!(
        server.stderr().contains("again: killing"),
        "{}",
        server.stderr()
    );
    assert_groups_are_gone(&groups);
}

#[test]
fn sessions_see_a_clean_shutdown() {
    let owner = Owner::new();
    let witness = owner.base().join("witness");
    let script = format!(
        "trap 'echo told > {}; exit 0' TERM; echo up; while :; do sleep 0.05; done",
        witness.display()
    );
    let mut server = owner.sh("job", &script).serve();
    server.start("job").wait_for_text("up\n");
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_eq!(
        std::fs::read_to_string(&witness).expect("the child wrote it"),
        "told\n"
    );
}

/// Starts that are on their way when the server is told to end must leave nothing, whether they are answered or not.
fn assert_racing_starts_leave_nothing(marker: &str, end: fn(&Server)) {
    for _ in 0..10 {
        let mut server = Owner::new().argv("job", &["/bin/sleep", marker]).serve();
        for _ in 0..8 {
            server.send("terminal_start", json!({"command_id": "job"}));
        }
        end(&server);
        server.assert_exits_cleanly();
        wait_until("no child is left", || {
            proc::with_argument(marker).is_empty()
        });
    }
}

#[test]
fn starts_that_race_with_the_end_of_stdin_leave_nothing() {
    assert_racing_starts_leave_nothing("600.0001", Server::close_stdin);
}

#[test]
fn starts_that_race_with_a_signal_leave_nothing() {
    assert_racing_starts_leave_nothing("600.0002", |server| server.signal(Signal::SIGTERM));
}

/// Fills the server's stdout while nobody reads it, with floods running; returns the floods' groups.
fn stop_reading(server: &Server) -> Vec<i32> {
    let start = |id: u32| {
        let call = json!({"name": "terminal_start", "arguments": {"command_id": "yes"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}).to_string()
            + "\n"
    };
    let client = json!({"name": "deaf", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        .to_string()
        + "\n";
    server.send_bytes((hello + &(1..=4).map(start).collect::<String>()).as_bytes());
    let floods = || {
        let children = proc::children_of(&server.processes());
        children
            .into_iter()
            .filter(|child| child.name == "yes")
            .map(|child| child.pid)
            .collect::<Vec<_>>()
    };
    wait_until("the floods run", || floods().len() == 4);
    // Far more answers than a pipe and any sensible queue hold; a server that stops taking requests is right.
    let list =
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}}).to_string() + "\n";
    let batch = list.repeat(100);
    for _ in 0..20 {
        server.send_what_fits(batch.as_bytes());
    }
    floods()
}

#[test]
fn a_client_that_no_longer_reads_does_not_delay_a_signal() {
    let owner = owner();
    let command = owner.command();
    let mut server = Server::spawn_unheard(owner, command);
    let floods = stop_reading(&server);
    server.signal(Signal::SIGTERM);
    server.assert_exits_cleanly();
    assert_groups_are_gone(&floods);
}

#[test]
fn a_client_that_no_longer_reads_does_not_delay_the_end_of_stdin() {
    let owner = owner();
    let command = owner.command();
    let mut server = Server::spawn_unheard(owner, command);
    let floods = stop_reading(&server);
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_groups_are_gone(&floods);
}

#[test]
fn a_client_that_no_longer_reads_does_not_make_the_server_grow() {
    let owner = owner();
    let command = owner.command();
    let server = Server::spawn_unheard(owner, command);
    stop_reading(&server);
    let before = server.resident();
    let list =
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}}).to_string() + "\n";
    let batch = list.repeat(500);
    // Each round offers requests whose answers are some hundred times as long.
    for _ in 0..200 {
        server.send_what_fits(batch.as_bytes());
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {grown} bytes");
}

#[test]
fn a_closed_stdout_ends_the_server() {
    let owner = owner();
    let command = owner.command();
    let mut server = Server::spawn_unheard(owner, command);
    let floods = stop_reading(&server);
    server.close_unread_stdout();
    server.assert_exits_cleanly();
    assert_groups_are_gone(&floods);
}

#[test]
fn a_restarted_server_knows_no_old_sessions() {
    for end in [Server::close_stdin, |server: &Server| {
        server.signal(Signal::SIGKILL)
    }] {
        let mut server = owner().serve();
        let id = server.start("sleep").id;
        end(&server);
        server.wait();
        let server = owner().serve();
        for tool in ["terminal_status", "terminal_read", "terminal_terminate"] {
            assert_eq!(
                server.code(tool, json!({"session_id": id})),
                "SESSION_NOT_FOUND"
            );
        }
        let write = json!({"session_id": id, "text": "x"});
        assert_eq!(server.code("terminal_write", write), "SESSION_NOT_FOUND");
        server.finish();
    }
}

/// A client that is still there may ask what becomes of its sessions, and is told that nothing new is started.
#[test]
fn while_it_ends_the_server_tells_why_its_sessions_do() {
    let asked = |session: &str| {
        let call = |id: &str, tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
                .to_string()
                + "\n"
        };
        call("status", "terminal_status", json!({"session_id": session}))
            + &call("start", "terminal_start", json!({"command_id": "sleep"}))
    };
    assert_shown("the client is answered while the server ends", || {
        let owner = owner();
        let mut command = owner.command();
        command.args(["--log-level", "info"]);
        let mut server = Server::spawn(owner, command);
        server.initialize();
        let (id, _group) = {
            let session = server.start("stubborn");
            session.wait_for_text("ready\n");
            (session.id, proc::Doomed::groups(&[session.pid]))
        };
        server.signal(Signal::SIGTERM);
        wait_until("the shutdown has begun", || {
            server.stderr().contains("ending")
        });
        // The session holds out for its whole grace. That is half a second, which a stalled machine may miss.
        server.send_what_fits(asked(&id).as_bytes());
        let answers = ["status", "start"].map(|id| server.answer_within(&json!(id), GUARD));
        server.assert_exits_cleanly();
        let [Some(status), Some(start)] = answers else {
            return false;
        };
        let status = &status["result"]["structuredContent"];
        let error = &start["result"]["structuredContent"]["error"];
        assert_eq!(error["code"], "SHUTTING_DOWN", "{start}");
        assert_eq!(status["termination_reason"], "shutdown", "{status}");
        true
    });
}

#[test]
fn an_idle_server_stays() {
    let mut server = owner().set("retention_seconds", 1).serve();
    let (pid, quiet) = {
        let session = server.start("sleep");
        (session.pid, session.id)
    };
    let ended = {
        let session = server.start("stubborn");
        session.wait_for_text("ready\n");
        session.terminate(0);
        session.id
    };
    // The shortest timer of the config has run out once this session is forgotten.
    wait_until("retention is over", || {
        let body = server.call("terminal_status", json!({"session_id": ended}));
        body["error"]["code"] == "SESSION_NOT_FOUND"
    });
    assert!(server.is_running() && proc::is_alive(pid));
    let status = server.ok("terminal_status", json!({"session_id": quiet}));
    assert_eq!(status["status"], "RUNNING");
    server.finish();
}
