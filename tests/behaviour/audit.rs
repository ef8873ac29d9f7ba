//! The Owner's audit log: a line for whatever a client had done, with what it had done and never with what it typed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::common::{Owner, Server, Session, wait_until};

/// `printf 'hello\n' | sha256sum`
const HELLO_SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

fn log_of(owner: &Owner) -> PathBuf {
    owner.base().join("audit.jsonl")
}

/// A config that keeps a log.
fn audited(owner: Owner) -> Owner {
    let log = log_of(&owner);
    owner.set("audit_log", log.to_str().expect("a UTF-8 path"))
}

/// Every line of the log. Each must be whole.
fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("the log is there");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let parsed = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    parsed.collect()
}

fn of_kind(lines: &[Value], event: &str) -> Vec<Value> {
    let chosen = lines.iter().filter(|line| line["event"] == event);
    chosen.cloned().collect()
}

/// What the log of a server that has ended says, in order.
fn closed(server: &mut Server) -> Vec<Value> {
    server.close_stdin();
    server.assert_exits_cleanly();
    lines(&log_of(&server.owner))
}

/// The line without when and by which server, which [`check`] looked at.
fn rest(mut line: Value) -> Value {
    let fields = line.as_object_mut().expect("an object");
    fields.remove("time");
    fields.remove("server_pid");
    line
}

fn wait_for_end(server: &Server, session: &Session<'_>) -> Value {
    let log = log_of(&server.owner);
    let mut end = None;
    wait_until("the end is logged", || {
        // The newest line may be half there.
        let text = fs::read_to_string(&log).expect("the log is there");
        let so_far = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        end = so_far
            .into_iter()
            .find(|line| line["event"] == "end" && line["session_id"] == *session.id);
        end.is_some()
    });
    end.expect("the loop ended because of it")
}

#[test]
fn each_kind_of_line_has_its_fields() {
    let owner = Owner::new().profile(
        "job",
        json!({"argv": ["/bin/sh", "-c", "cat; exit 7"], "allowed_env": ["MODE", "LEVEL"], "timeout_ms": 60000}),
    );
    let real = owner.root().join("real");
    let link = owner.root().join("link");
    fs::create_dir(&real).expect("the root takes directories");
    symlink(&real, &link).expect("and links");
    let mut server = audited(owner).serve();
    let client = json!({"name": "behaviour-tests", "version": "1"});

    let session = server.start_with(
        json!({"command_id": "job", "cwd": link, "env": {"MODE": "fast", "LEVEL": "3"}}),
    );
    session.write("hello\n");
    session.wait_for_text("hello\n");
    session.close_stdin();
    let end = session.wait_settled();
    assert_eq!(end["exit_code"], 7);
    wait_for_end(&server, &session);
    session.terminate(100);
    let (id, pid, created) = (
        session.id.clone(),
        session.pid,
        session.started["created_at"].clone(),
    );
    let config = server.owner.config();
    let server_pid = server.pid();
    let lines = closed(&mut server);

    let uid = nix::unistd::geteuid().as_raw();
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let expected = [
        json!({"event": "server_start", "version": env!("CARGO_PKG_VERSION"), "config": config, "user_id": uid}),
        json!({
            "event": "start", "session_id": id, "command_id": "job", "client": client, "cwd": real,
            "env": ["LEVEL", "MODE"], "process_id": pid, "timeout_ms": 60000, "outcome": "ok",
        }),
        json!({
            "event": "write", "session_id": id, "command_id": "job", "client": client, "bytes": 6,
            "sha256": HELLO_SHA256, "close_stdin": false, "accepted_bytes": 6, "outcome": "ok",
        }),
        json!({
            "event": "write", "session_id": id, "command_id": "job", "client": client, "bytes": 0,
            "sha256": empty, "close_stdin": true, "accepted_bytes": 0, "outcome": "ok",
        }),
        json!({
            "event": "end", "session_id": id, "command_id": "job", "client": client, "status": "EXITED",
            "exit_code": 7, "exit_signal": null, "termination_reason": "natural", "output_bytes": 6,
            "output_complete": true, "output_incomplete": false,
        }),
        json!({
            "event": "terminate", "session_id": id, "command_id": "job", "client": client, "grace_ms": 100,
            "outcome": "ok",
        }),
        json!({"event": "server_stop", "reason": "input_ended"}),
    ];
    let said: Vec<Value> = lines.iter().cloned().map(rest).collect();
    assert_eq!(said, expected);
    let mut before = String::new();
    for line in &lines {
        let time = line["time"].as_str().expect("a time");
        let shape: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
        assert!(before.as_str() <= time, "{before} comes before {time}");
        time.clone_into(&mut before);
        assert_eq!(line["server_pid"], server_pid);
    }
    // The same clock and the same format as a snapshot's.
    assert!(lines[0]["time"].as_str() <= created.as_str());
    assert!(created.as_str() <= lines[1]["time"].as_str());
}

#[test]
fn every_refused_start_has_a_line_with_its_code() {
    let owner = Owner::new()
        .profile(
            "cat",
            json!({"argv": ["/bin/cat"], "allowed_env": ["MODE"]}),
        )
        .argv("absent", &["/nonexistent/program"])
        .set("max_sessions", 1)
        .set("max_timeout_ms", 300_000);
    let mut server = audited(owner).serve();
    let refuse = |arguments: Value| server.code("terminal_start", arguments);
    refuse(json!({"command_id": "rm"}));
    refuse(json!({"command_id": "cat", "cwd": "/etc"}));
    refuse(json!({"command_id": "cat", "env": {"MODE": "a", "OTHER": "b"}}));
    refuse(json!({"command_id": "absent"}));
    refuse(json!({"command_id": "cat", "timeout_ms": 300_001}));
    refuse(json!({"command_id": "cat", "shell": true}));
    refuse(json!([]));
    let first = server.start("cat");
    refuse(json!({"command_id": "cat"}));
    first.terminate(0);
    let lines = closed(&mut server);

    let client = json!({"name": "behaviour-tests", "version": "1"});
    let line = |command: Value, cwd: Value, env: Value, outcome: &str| {
        json!({
            "event": "start_refused", "command_id": command, "client": client, "cwd": cwd, "env": env,
            "outcome": outcome,
        })
    };
    let none = Value::Null;
    let expected = [
        line(json!("rm"), none.clone(), json!([]), "COMMAND_NOT_FOUND"),
        line(json!("cat"), json!("/etc"), json!([]), "CWD_NOT_ALLOWED"),
        line(
            json!("cat"),
            none.clone(),
            json!(["MODE", "OTHER"]),
            "ENV_NOT_ALLOWED",
        ),
        line(json!("absent"), none.clone(), json!([]), "START_FAILED"),
        line(json!("cat"), none.clone(), json!([]), "INVALID_ARGUMENT"),
        line(json!("cat"), none.clone(), json!([]), "INVALID_ARGUMENT"),
        line(none.clone(), none.clone(), json!([]), "INVALID_ARGUMENT"),
        line(json!("cat"), none, json!([]), "SESSION_LIMIT"),
    ];
    let said: Vec<Value> = of_kind(&lines, "start_refused")
        .into_iter()
        .map(rest)
        .collect();
    assert_eq!(said, expected);
    assert_eq!(of_kind(&lines, "start").len(), 1);
}

#[test]
fn a_start_over_either_limit_has_a_line() {
    let owner = Owner::new()
        .argv("true", &["/bin/true"])
        .sh(
            "stubborn",
            "trap '' TERM; echo ready; while :; do sleep 0.1; done",
        )
        .set("max_sessions", 1)
        .set("max_records", 2);
    let mut server = audited(owner).serve();
    server.start("true").wait_settled();
    let stubborn = server.start("stubborn");
    stubborn.wait_for_text("ready");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "true"})),
        "SESSION_LIMIT"
    );
    stubborn.terminate(0);
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "true"})),
        "RECORD_LIMIT"
    );
    let lines = closed(&mut server);
    let refused = of_kind(&lines, "start_refused");
    let outcomes: Vec<&Value> = refused.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["SESSION_LIMIT", "RECORD_LIMIT"]);
}

#[test]
fn writes_and_terminations_tell_what_came_of_them() {
    let owner = Owner::new()
        .argv("cat", &["/bin/cat"])
        .argv("deaf", &["/bin/sleep", "600"])
        .set("max_input_bytes", 1_000_000);
    let mut server = audited(owner).serve();
    let ghost = json!({"session_id": "ghost", "text": "hello\n"});
    server.code("terminal_write", ghost);
    server.code("terminal_terminate", json!({"session_id": "ghost"}));
    server.code("terminal_write", json!({"session_id": "ghost", "text": 7}));
    server.code(
        "terminal_terminate",
        json!({"session_id": "ghost", "grace_ms": -1}),
    );
    let deaf = server.start("deaf");
    // More than a pipe takes.
    assert_eq!(deaf.write_code(&"x".repeat(900_000)), "INPUT_BACKPRESSURE");
    assert_eq!(deaf.write_code("x"), "INPUT_UNCERTAIN");
    let cat = server.start("cat");
    cat.close_stdin();
    cat.wait_settled();
    assert_eq!(cat.write_code("x"), "SESSION_NOT_RUNNING");
    let lines = closed(&mut server);

    let writes = of_kind(&lines, "write");
    let outcomes: Vec<&Value> = writes.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(
        outcomes,
        [
            "SESSION_NOT_FOUND",
            "INVALID_ARGUMENT",
            "INPUT_BACKPRESSURE",
            "INPUT_UNCERTAIN",
            "ok",
            "SESSION_NOT_RUNNING"
        ]
    );
    assert_eq!(writes[0]["sha256"], HELLO_SHA256);
    assert_eq!(writes[0]["command_id"], Value::Null);
    assert_eq!(writes[1]["session_id"], "ghost");
    assert_eq!(writes[1]["bytes"], Value::Null);
    assert_eq!(writes[2]["bytes"], 900_000);
    let taken = writes[2]["accepted_bytes"].as_u64().expect("a count");
    assert!(0 < taken && taken < 900_000, "{taken}");
    assert_eq!(writes[2]["command_id"], "deaf");
    assert_eq!(writes[3]["accepted_bytes"], 0);
    let terminations = of_kind(&lines, "terminate");
    let outcomes: Vec<&Value> = terminations.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["SESSION_NOT_FOUND", "INVALID_ARGUMENT"]);
}

#[test]
fn no_text_of_a_write_and_no_value_of_a_variable_is_in_the_file() {
    let secret = "hunter2";
    let owner = Owner::new()
        .profile(
            "cat",
            json!({"argv": ["/bin/cat"], "allowed_env": ["MODE"], "env": {"HOME": format!("/{secret}")}}),
        );
    let mut server = audited(owner).serve();
    let cat = server.start_with(json!({"command_id": "cat", "env": {"MODE": secret}}));
    cat.write(&format!("{secret}\n"));
    cat.wait_for_text(secret);
    for arguments in [
        json!({"command_id": "cat", "env": {"MODE": secret, "OTHER": secret}}),
        json!({"command_id": "cat", "env": {"MODE": format!("{secret}\u{0}")}}),
        json!({"command_id": "cat", "env": format!("MODE={secret}")}),
        json!({"command_id": "cat", "env": [secret]}),
        json!({"command_id": "cat", "env": {"MODE": {"value": secret}}}),
        json!({"command_id": "cat", "timeout_ms": secret}),
    ] {
        server.refused("terminal_start", arguments);
    }
    for arguments in [
        json!({"session_id": cat.id, "text": [secret]}),
        json!({"session_id": cat.id, "text": "x", "close_stdin": secret}),
        json!({"session_id": "ghost", "text": secret}),
    ] {
        server.refused("terminal_write", arguments);
    }
    let lines = closed(&mut server);
    assert_eq!(of_kind(&lines, "start_refused").len(), 6);
    assert_eq!(of_kind(&lines, "write").len(), 4);
    let text = fs::read_to_string(log_of(&server.owner)).expect("the log is there");
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn an_end_tells_its_reason_and_how_much_was_printed() {
    let owner = Owner::new()
        .sh("natural", "printf '\\377\\303'; printf 'abc' >&2; exit 3")
        .sh("signal", "kill -9 $$")
        .argv("sleep", &["/bin/sleep", "600"])
        .profile(
            "late",
            json!({"argv": ["/bin/sleep", "600"], "allowed_env": [], "timeout_ms": 100}),
        )
        .set("max_sessions", 8);
    let mut server = audited(owner).serve();
    let sessions = ["natural", "signal", "late", "sleep", "sleep"].map(|id| server.start(id));
    sessions[3].terminate(1_000);
    for session in &sessions[..4] {
        wait_for_end(&server, session);
    }
    let ids = sessions.map(|session| session.id);
    let lines = closed(&mut server);
    let end = |id: &String| {
        let ends = of_kind(&lines, "end");
        let mut own = ends.into_iter().filter(|line| line["session_id"] == **id);
        let end = own.next().expect("an end");
        assert_eq!(own.next(), None, "told of once");
        let told = [
            "status",
            "exit_code",
            "exit_signal",
            "termination_reason",
            "output_bytes",
        ];
        assert_eq!(
            (&end["output_complete"], &end["output_incomplete"]),
            (&json!(true), &json!(false))
        );
        Value::Array(told.iter().map(|field| end[*field].clone()).collect())
    };
    // Bytes as they came: two that are no UTF-8, and three.
    assert_eq!(end(&ids[0]), json!(["EXITED", 3, null, "natural", 5]));
    assert_eq!(end(&ids[1]), json!(["EXITED", null, 9, "natural", 0]));
    assert_eq!(end(&ids[2]), json!(["TERMINATED", null, 15, "timeout", 0]));
    assert_eq!(end(&ids[3]), json!(["TERMINATED", null, 15, "user", 0]));
    assert_eq!(end(&ids[4]), json!(["TERMINATED", null, 15, "shutdown", 0]));
    assert_eq!(lines.last().expect("lines")["event"], "server_stop");
}

#[test]
fn the_client_is_the_one_of_the_request_in_the_stateless_revision() {
    let owner = audited(Owner::job("cat"));
    let command = owner.command();
    let mut server = Server::spawn(owner, command);
    let call = |client: Value| {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if !client.is_null() {
            meta["io.modelcontextprotocol/clientInfo"] = client;
        }
        let arguments = json!({"command_id": "none"});
        let params = json!({"name": "terminal_start", "arguments": arguments, "_meta": meta});
        server.request("tools/call", params).whole();
    };
    call(json!({"name": "one", "version": "1.0"}));
    call(json!({"name": "two", "version": "\u{1b}[31m\u{9b}2"}));
    call(Value::Null);
    let lines = closed(&mut server);
    let clients: Vec<Value> = of_kind(&lines, "start_refused")
        .into_iter()
        .map(|line| line["client"].clone())
        .collect();
    assert_eq!(
        clients,
        [
            json!({"name": "one", "version": "1.0"}),
            json!({"name": "two", "version": "\u{1b}[31m\u{9b}2"}),
            Value::Null
        ]
    );
    let bytes = fs::read(log_of(&server.owner)).expect("the log is there");
    let is_plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    assert!(bytes.iter().all(is_plain), "a terminal can show it");
}

#[test]
fn a_signal_that_ends_the_server_is_named() {
    for (signal, name) in [
        (Signal::SIGTERM, "SIGTERM"),
        (Signal::SIGINT, "SIGINT"),
        (Signal::SIGHUP, "SIGHUP"),
    ] {
        let mut server = audited(Owner::new().argv("sleep", &["/bin/sleep", "600"])).serve();
        server.start("sleep");
        server.signal(signal);
        server.assert_exits_cleanly();
        let lines = lines(&log_of(&server.owner));
        let events: Vec<&Value> = lines.iter().map(|line| &line["event"]).collect();
        assert_eq!(events, ["server_start", "start", "end", "server_stop"]);
        assert_eq!(lines[2]["termination_reason"], "shutdown");
        assert_eq!(lines[3]["reason"], name);
    }
}

#[test]
fn the_file_is_private_whatever_the_umask_and_is_continued() {
    let owner = audited(Owner::job("true"));
    let log = log_of(&owner);
    for servers in 1..=2 {
        let mut server = Server::spawn(Owner::new(), owner.command_after("umask 0"));
        server.initialize();
        server.close_stdin();
        server.assert_exits_cleanly();
        let mode = fs::metadata(&log)
            .expect("the log is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(lines(&log).len(), 2 * servers);
    }
}

#[test]
fn no_command_inherits_the_log() {
    let server = audited(Owner::job("ls -l /proc/self/fd; echo end")).serve();
    let output = server.start("job").read_all();
    assert!(output.stdout.contains("end"), "{}", output.stdout);
    assert!(!output.stdout.contains("audit"), "{}", output.stdout);
}

#[test]
fn two_servers_share_a_file_and_every_line_is_whole() {
    let owner = audited(Owner::job("true"));
    let log = log_of(&owner);
    let command = owner.command();
    let mut servers = [owner.serve(), Server::spawn(Owner::new(), command)];
    servers[1].initialize();
    const EACH: usize = 300;
    for n in 0..EACH {
        for server in &servers {
            let cwd = "d".repeat(n * 13);
            server.send("terminal_start", json!({"command_id": "none", "cwd": cwd}));
        }
    }
    let pids = [servers[0].pid(), servers[1].pid()];
    wait_until("all is written", || {
        let so_far = fs::read(&log).expect("the log is there");
        so_far.iter().filter(|&&byte| byte == b'\n').count() == 2 * (1 + EACH)
    });
    for server in &mut servers {
        server.close_stdin();
        server.assert_exits_cleanly();
    }
    let lines = lines(&log);
    for pid in pids {
        let own: Vec<Value> = lines
            .iter()
            .filter(|line| line["server_pid"] == pid)
            .cloned()
            .collect();
        let lengths: Vec<usize> = of_kind(&own, "start_refused")
            .iter()
            .map(|line| line["cwd"].as_str().expect("a cwd").len())
            .collect();
        let sent: Vec<usize> = (0..EACH).map(|n| n * 13).collect();
        assert_eq!(lengths, sent, "all of them, in order");
        assert_eq!(own.len(), EACH + 2);
    }
}
