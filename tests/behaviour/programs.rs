//! The session tools with the programs that they are for, as the machine has them; a program that it hasn't is named.
//!
//! Where a test says that an answer is there at once, the call would have been quiet for an hour before it returned for any
//! other reason than that the program is done.

mod postgres;
mod repls;
mod screens;
mod shells;
mod ssh;

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::common::{Owner, Server, Terminal, terminal::drop_in, wait_until};

const HOUR: u64 = 3600;

fn text(body: &Value) -> &str {
    body["output"].as_str().expect("output")
}

/// Types a line and reads until the program waits for the next, which must be seen without a pause.
#[track_caller]
fn at_once(terminal: &Terminal, input: &str) -> Value {
    terminal.ok("session_interact", json!({"input": input, "timeout": HOUR}))
}

/// As [`at_once`], for what the line must have been answered with.
#[track_caller]
fn answers(terminal: &Terminal, input: &str, wanted: &str) {
    let read = at_once(terminal, input);
    assert!(text(&read).contains(wanted), "{input}: {read}");
    assert_eq!(read["prompt_detected"], true, "{input}: {read}");
}

/// Types without Enter.
#[track_caller]
fn typed(terminal: &Terminal, input: &str) {
    let arguments = json!({"input": input, "press_enter": false});
    terminal.ok("session_send", arguments);
}

#[track_caller]
fn key(terminal: &Terminal, key: &str) {
    terminal.ok("session_send", json!({ "key": key }));
}

/// The screen once it shows what is waited for.
#[track_caller]
fn screen(terminal: &Terminal, what: &str, shows: impl Fn(&str) -> bool) -> String {
    let mut screen = String::new();
    wait_until(what, || {
        let read = terminal.ok("session_read", json!({"mode": "snapshot", "timeout": 0.1}));
        screen = text(&read).to_owned();
        shows(&screen)
    });
    screen
}

/// Waits for the program's end by itself, and tells its exit code.
#[track_caller]
fn exit_code(terminal: &Terminal) -> Value {
    wait_until("the program has ended", || {
        terminal.ok("session_read", json!({}))["is_alive"] == false
    });
    terminal.close()["exit_status"].take()
}

/// A server that starts anything in a temporary home that is its folder, too.
fn at_home(owner: Owner, variables: &[(&str, &str)]) -> Server {
    let mut command = drop_in();
    let home = owner.root();
    command.current_dir(&home).env("HOME", &home);
    command.env("XDG_CONFIG_HOME", &home);
    command.envs(variables.iter().copied());
    let server = Server::spawn(owner, command);
    server.initialize();
    server
}

/// A server that starts anything, tells everything it does on stderr and in the audit log, and where that is.
fn audited(owner: Owner) -> (Server, PathBuf) {
    let log = owner.base().join("audit.jsonl");
    let owner = owner
        .argv("cat", &["/bin/cat"])
        .set("audit_log", log.to_str().expect("UTF-8"))
        .set("toolsets", json!(["session"]))
        .set("session_commands", "any");
    let mut command = owner.command();
    command.args(["--log-level", "debug"]);
    command.env("HOME", owner.root()).env("LC_ALL", "C.UTF-8");
    let server = Server::spawn(owner, command);
    server.initialize();
    (server, log)
}

/// Ends the server, and looks for the secret in all it has said. It was typed once.
fn assert_is_secret(mut server: Server, log: PathBuf, secret: &str) {
    server.close_stdin();
    server.assert_exits_cleanly();
    let log = fs::read_to_string(log).expect("the log is there");
    let bytes = secret.len() + 1;
    let writes = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| {
            line["event"] == "write" && line["bytes"] == bytes && line["sha256"].is_null()
        })
        .count();
    assert_eq!(writes, 1, "{log}");
    for place in [log, server.stderr()] {
        assert!(!place.contains(secret), "{place}");
    }
}
