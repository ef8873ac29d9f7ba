//! The server's own standard streams: what may stand behind them, how they end, and what each carries.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
};

use crate::common::{Call, Owner, Server, call::is_error, launch, owner, ping_of, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The longest frame, newline included.
const FRAME: usize = 1_048_576;

#[test]
fn calls_that_were_received_are_answered_before_the_end() {
    let mut server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let calls: Vec<Value> = {
        let session = server.start("cat");
        let waits = (0..10).map(|_| {
            server
                .send("terminal_read", session.with_id(json!({"wait_ms": 2000})))
                .id
        });
        let mut calls: Vec<Value> = waits.collect();
        calls.extend((0..200).map(|_| server.request("ping", json!({})).id));
        calls
    };
    server.close_stdin();
    for id in &calls {
        assert!(server.answer_to(id).get("result").is_some(), "{id}");
    }
    server.assert_exits_cleanly();
}

#[test]
fn a_line_that_the_end_cuts_off_is_no_fault() {
    for rest in [
        "{\"jsonrpc\":\"2.0\",\"id\":",
        "   ",
        "\u{1}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}",
    ] {
        let server = Owner::job("echo hi").serve();
        server.send_bytes(rest.as_bytes());
        server.finish();
    }
}

#[test]
fn socketpairs_serve_as_standard_streams() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    let (our_stdin, their_stdin) = UnixStream::pair().expect("a socket pair");
    let (our_stdout, their_stdout) = UnixStream::pair().expect("a socket pair");
    command
        .stdin(OwnedFd::from(their_stdin))
        .stdout(OwnedFd::from(their_stdout))
        .stderr(Stdio::piped());
    let mut server = Server::spawn_as_is(owner, command);
    server.talk_through(our_stdin.into());
    server.listen_to(our_stdout);
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    server.send_bytes(ping_of(FRAME, "exact").as_bytes());
    assert!(server.answer_to(&json!("exact")).get("result").is_some());
    server.signal(Signal::SIGTERM);
    server.assert_exits_cleanly();
}

#[test]
fn a_terminal_serves_as_stdin() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    command
        .stdin(pty.slave)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = Server::spawn_as_is(owner, command);
    server.talk_through(pty.master);
    server.listen();
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    server.signal(Signal::SIGTERM);
    server.assert_exits_cleanly();
}

#[test]
fn a_file_serves_as_stdin_and_is_answered_to_its_end() {
    let owner = Owner::job("echo hi");
    let line = |id: u32, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    };
    let client = json!({"name": "file", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let start = json!({"name": "terminal_start", "arguments": {"command_id": "job"}});
    let text = line(1, "initialize", hello)
        + &line(2, "tools/list", json!({}))
        + &line(3, "tools/call", start);
    let path = owner.file("stdin", text.as_bytes());
    let mut command = owner.command();
    command
        .stdin(File::open(path).expect("our own file"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = Server::spawn_as_is(owner, command);
    server.listen();
    for id in 1..=3 {
        assert!(server.answer_to(&json!(id)).get("result").is_some(), "{id}");
    }
    server.assert_exits_cleanly();
}

#[test]
fn an_empty_stdin_ends_the_server_at_once() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = Server::spawn_as_is(owner, command);
    server.assert_exits_cleanly();
}

#[test]
fn a_closed_stderr_changes_nothing() {
    let owner = Owner::job("echo hi; echo oops >&2");
    let mut command = owner.command();
    launch::close_descriptor(&mut command, 2);
    let server = Server::spawn(owner, command);
    server.initialize();
    for _ in 0..5 {
        let output = server.start("job").read_all();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("hi\n", "oops\n")
        );
    }
    server.finish();
}

#[test]
fn a_closed_stdin_ends_the_server_without_a_crash() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    launch::close_descriptor(&mut command, 0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Server::spawn_as_is(owner, command);
    let status = server.wait();
    assert!(
        matches!(status.code(), Some(0..=2)),
        "{status}: {}",
        server.stderr()
    );
}

#[test]
fn a_client_that_reads_no_stderr_stalls_nothing() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    command.arg("--log-level").arg("debug");
    // The pipe's reading end stays open and unread.
    let (unread, stderr) = std::io::pipe().expect("a pipe");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut server = Server::spawn_as_is(owner, command);
    server.talk();
    server.listen();
    server.initialize();
    for _ in 0..3000 {
        server.code("terminal_status", json!({"session_id": "none"}));
    }
    server.finish();
    drop(unread);
}

#[test]
fn stdout_carries_nothing_but_answers() {
    let owner = Owner::job("echo hi");
    let mut command = owner.command();
    command.arg("--log-level").arg("debug");
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    server.send_line("not json");
    server.ping();
    for notice in server.notices() {
        assert!(is_error(&notice), "{notice}");
    }
    server.finish();
}

#[test]
fn what_is_typed_never_reaches_the_log() {
    let owner = Owner::new().argv("cat", &["/bin/cat"]);
    let mut command = owner.command();
    command.arg("--log-level").arg("debug");
    let server = Server::spawn(owner, command);
    server.initialize();
    let session = server.start("cat");
    session.write("hunter2-typed\n");
    session.wait_for_text("hunter2-typed\n");
    session.close_stdin();
    session.wait_settled();
    assert!(!server.stderr().contains("hunter2"), "{}", server.stderr());
    server.finish();
}

#[test]
fn results_may_be_structured_only() {
    let server = Owner::job("echo hi").set("results", "structured").serve();
    let result = server
        .send("terminal_start", json!({"command_id": "job"}))
        .result();
    assert_eq!(result["structuredContent"]["ok"], true);
    let text = result["content"][0]["text"].as_str().expect("a text block");
    assert!(
        !text.is_empty() && !text.contains('\n') && text.len() < 400,
        "one summary line: {text:?}"
    );
    let id = result["structuredContent"]["session_id"].clone();
    wait_until("the page came", || {
        let page = server
            .send("terminal_read", json!({"session_id": id, "wait_ms": 1000}))
            .result();
        assert!(
            !page["content"][0]["text"]
                .as_str()
                .expect("a text block")
                .contains("hi\n")
        );
        crate::common::session::stream_text(&page["structuredContent"], "stdout") == "hi\n"
    });
    let failed = server
        .send("terminal_status", json!({"session_id": "none"}))
        .result();
    assert_eq!(
        failed["structuredContent"]["error"]["code"],
        "SESSION_NOT_FOUND"
    );
    assert_eq!(failed["isError"], true);
    server.finish();
}

#[test]
fn results_may_be_text_only() {
    let server = Owner::job("echo hi").set("results", "text").serve();
    let body = |call: Call| -> Value {
        let result = call.result();
        assert_eq!(result.get("structuredContent"), None, "{result}");
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text block"))
            .expect("JSON")
    };
    let started = body(server.send("terminal_start", json!({"command_id": "job"})));
    assert_eq!(started["ok"], true);
    let failed = body(server.send("terminal_status", json!({"session_id": "none"})));
    assert_eq!(failed["error"]["code"], "SESSION_NOT_FOUND");
    let tools = server.request("tools/list", json!({})).result();
    for tool in tools["tools"].as_array().expect("tools") {
        assert_eq!(tool.get("outputSchema"), None, "{}", tool["name"]);
    }
    server.finish();
}

#[test]
fn the_binary_names_itself() {
    let output = owner::binary()
        .arg("--version")
        .output()
        .expect("the binary starts");
    assert!(output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("sluicegate "),
        "{output:?}"
    );
}
