//! The wire: frames, malformed input, revisions, concurrency, cancellation, and the ends of the conversation.

mod common;

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
    time::Duration,
};

use common::{Call, Owner, Server, launch, owner, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The longest frame, newline included.
const FRAME: usize = 1_048_576;

fn unshaken(owner: Owner) -> Server {
    let command = owner.command();
    Server::spawn(owner, command)
}

fn is_error(answer: &Value) -> bool {
    answer
        .get("error")
        .is_some_and(|error| error["code"].is_i64() && error["message"].is_string())
        && answer.get("result").is_none()
}

#[test]
fn each_handshake_revision_is_echoed() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = unshaken(Owner::job("echo hi"));
        let answer = server.initialize_as(version);
        assert_eq!(answer["protocolVersion"], version);
        assert_eq!(answer["serverInfo"]["name"], "sluicegate");
        assert!(answer["capabilities"]["tools"].is_object(), "{answer}");
        assert_eq!(server.start("job").read_all().stdout, "hi\n", "{version}");
        server.finish();
    }
}

#[test]
fn an_unknown_revision_is_answered_with_one_that_is_served() {
    let server = unshaken(Owner::job("echo hi"));
    let answer = server.initialize_as("1999-01-01");
    assert_eq!(answer["protocolVersion"], "2025-11-25");
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    server.finish();
}

/// The parameters of a request of the stateless revision.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "behaviour-tests", "version": "1"},
    });
    params
}

#[test]
fn the_stateless_revision_needs_no_handshake() {
    let server = unshaken(Owner::job("read line; echo \"$line\""));
    let discovered = server
        .request("server/discover", stateless(json!({})))
        .result();
    assert!(
        discovered.to_string().contains("2026-07-28"),
        "{discovered}"
    );
    let tools = server.request("tools/list", stateless(json!({}))).result();
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(5));
    let call = |tool: &str, arguments: Value| {
        server
            .request(
                "tools/call",
                stateless(json!({"name": tool, "arguments": arguments})),
            )
            .ok()
    };
    let started = call("terminal_start", json!({"command_id": "job"}));
    let id = started["session_id"].clone();
    call(
        "terminal_write",
        json!({"session_id": id, "text": "stateless\n"}),
    );
    wait_until("the line came back", || {
        let page = call("terminal_read", json!({"session_id": id, "wait_ms": 2000}));
        common::session::stream_text(&page, "stdout") == "stateless\n"
    });
    // A client that shakes hands on the same connection is served as well, and sees the same sessions.
    server.initialize();
    assert_eq!(
        server.ok("terminal_status", json!({"session_id": id}))["session_id"],
        id
    );
    server.finish();
}

#[test]
fn a_notification_before_the_handshake_is_harmless() {
    let server = unshaken(Owner::job("echo hi"));
    server.notify("notifications/cancelled", json!({"requestId": 99}));
    server.notify("notifications/unheard-of", json!({}));
    server.initialize();
    server.ping();
    server.finish();
}

#[test]
fn unknown_methods_and_tools_are_protocol_errors() {
    let server = Owner::job("echo hi").serve();
    assert!(is_error(
        &server.request("tools/destroy", json!({})).whole()
    ));
    assert!(is_error(
        &server
            .request(
                "tools/call",
                json!({"name": "terminal_explode", "arguments": {}})
            )
            .whole()
    ));
    assert!(is_error(
        &server
            .request("tools/call", json!({"arguments": {}}))
            .whole()
    ));
    server.ping();
    server.finish();
}

#[test]
fn malformed_lines_never_end_the_conversation() {
    let server = Owner::job("echo hi").serve();
    let lines: &[&[u8]] = &[
        b"not json",
        b"{",
        b"[]",
        b"\"\"",
        b"null",
        b"17",
        b"",
        b"\r",
        b"   ",
        b"{}",
        b"\xff\xfe\x00garbage\x80",
        b"{\"jsonrpc\":\"2.0\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":\"old\",\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"m\",\"method\":5}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"result\":{}}",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"tools/call\",\"params\":{\"name\":\"terminal_status\",\"arguments\":{\"session_id\":\"\\ud800\"}}}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}",
    ];
    for line in lines {
        server.send_bytes(line);
        server.send_bytes(b"\n");
        server.ping();
    }
    server.send_bytes("[".repeat(200_000).as_bytes());
    server.send_line("");
    server.ping();
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    server.finish();
}

#[test]
fn a_request_that_can_not_be_understood_fails_on_its_own_id() {
    let server = Owner::job("echo hi").serve();
    server.send_line(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"terminal_read","arguments":[]}}"#);
    server.send_line(r#"{"jsonrpc":"2.0","id":"b","method":"tools/call","params":7}"#);
    server.send_line(r#"{"jsonrpc":"2.0","id":"c","method":"tools/call"}"#);
    for id in ["a", "b", "c"] {
        let answer = server.answer_to(&json!(id));
        assert!(
            is_error(&answer) || answer["result"]["isError"] == true,
            "{answer}"
        );
    }
    server.finish();
}

#[test]
fn line_ends_and_white_space_are_tolerated() {
    let server = Owner::job("echo hi").serve();
    server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r\n");
    server.send_bytes(
        b"  {\"jsonrpc\": \"2.0\" , \"id\" : \"spaced\", \"method\": \"ping\"}  \n\n\n",
    );
    server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"two\",\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":\"at once\",\"method\":\"ping\"}\n");
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"dribbled\",\"method\":\"ping\"}\n" {
        server.send_bytes(&[*byte]);
    }
    for id in ["crlf", "spaced", "two", "at once", "dribbled"] {
        assert!(server.answer_to(&json!(id)).get("result").is_some());
    }
    server.finish();
}

#[test]
fn ids_are_given_back_as_they_came() {
    let server = Owner::job("echo hi").serve();
    for id in [
        json!(0),
        json!(-5),
        json!(9_007_199_254_740_991_i64),
        json!("7"),
        json!("\u{4e2d}\n\"\\"),
        json!(""),
    ] {
        server.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string());
        assert!(server.answer_to(&id).get("result").is_some(), "{id}");
    }
    server.finish();
}

/// A ping whose line, newline included, has `length` bytes.
fn ping_of(length: usize, id: &str) -> String {
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping","params":{{"_meta":{{"pad":""#);
    let tail = r#""}}}"#;
    format!(
        "{head}{}{tail}\n",
        "x".repeat(length - head.len() - tail.len() - 1)
    )
}

#[test]
fn a_frame_of_exactly_one_mebibyte_is_taken_and_one_byte_more_is_not() {
    let server = Owner::job("echo hi").serve();
    server.send_bytes(ping_of(FRAME - 1, "below").as_bytes());
    server.send_bytes(ping_of(FRAME, "exact").as_bytes());
    server.send_bytes(ping_of(FRAME + 1, "above").as_bytes());
    server.send_bytes(ping_of(2 * FRAME, "far above").as_bytes());
    for id in ["below", "exact"] {
        assert!(server.answer_to(&json!(id)).get("result").is_some(), "{id}");
    }
    for id in ["above", "far above"] {
        assert!(is_error(&server.answer_to(&json!(id))), "{id}");
    }
    server.ping();
    server.finish();
}

#[test]
fn an_over_long_frame_is_answered_on_its_own_id_wherever_that_stands() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let session = server.start("cat");
    let text = "x".repeat(FRAME);
    let write = format!(
        r#"{{"name":"terminal_write","arguments":{{"session_id":"{}","text":"{text}"}}}}"#,
        session.id
    );
    // The decoys are an id inside the parameters, one inside a string, and one behind an escaped quote.
    let decoys =
        r#""x":{"id":"decoy"},"y":"\"id\":\"decoy\"","z":["id",{"id":"decoy"}],"w\"id":"decoy""#;
    server.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{write}}}"#
    ));
    server.send_line(&format!(
        r#"{{"jsonrpc":"2.0","method":"tools/call","params":{write},"id":"last"}}"#
    ));
    server.send_line(&format!(
        r#"{{"a":{{{decoys}}},"params":{write},{decoys},"method":"tools/call","id" : 4711 }}"#
    ));
    server.send_line(&format!(
        r#"{{"b":[[{{}}]],"pad":"{text}","i\u0064":"escaped key or none","id":"esc\"aped"}}"#
    ));
    for id in [json!("first"), json!("last"), json!(4711)] {
        assert!(is_error(&server.answer_to(&id)), "{id}");
    }
    server.ping();
    assert_eq!(server.answers_left(&json!("decoy")), 0);
    // An over-long frame without an id has nobody who waits for an answer.
    server.send_line(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"pad":"{text}"}}}}"#
    ));
    server.ping();
    let status = session.status();
    assert_eq!(
        (&status["next_cursor"], &status["stdin_closed"]),
        (&json!(0), &json!(false)),
        "nothing was written"
    );
    server.finish();
}

#[test]
fn a_line_of_64_mebibytes_is_skipped_without_being_kept() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let session = server.start("cat");
    server.ping();
    let before = server.resident();
    let block = vec![b'x'; 1 << 20];
    let mut highest = 0;
    for _ in 0..64 {
        server.send_bytes(&block);
        highest = highest.max(server.resident());
    }
    server.send_line("");
    server.ping();
    let grown = highest.max(server.resident()).saturating_sub(before);
    assert!(grown < 16 << 20, "the server grew by {grown} bytes");
    assert_eq!(session.status()["status"], "RUNNING");
    server.finish();
}

#[test]
fn waits_in_flight_delay_nothing_else() {
    let server = Owner::new()
        .argv("cat", &["/bin/cat"])
        .sh("echo", "echo hi")
        .set("max_sessions", 10)
        .serve();
    let silent: Vec<_> = (0..8).map(|_| server.start("cat")).collect();
    let waits: Vec<Call> = (0..64)
        .map(|n: usize| {
            server.send(
                "terminal_read",
                silent[n % 8].with_id(json!({"wait_ms": 2000})),
            )
        })
        .collect();
    let status = server.send("terminal_status", silent[0].with_id(json!({})));
    assert_eq!(status.ok()["status"], "RUNNING");
    assert_eq!(server.start("echo").read_all().stdout, "hi\n");
    for wait in &waits {
        assert_eq!(wait.ok()["records"], json!([]));
    }
    assert_eq!(server.first_answered(&status, &waits[0]), &status.id);
    server.finish();
}

#[test]
fn far_too_many_calls_in_flight_are_each_answered() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let session = server.start("cat");
    let calls: Vec<Call> = (0..1500)
        .map(|_| server.send("terminal_read", session.with_id(json!({"wait_ms": 300}))))
        .collect();
    let answers: Vec<Value> = calls.iter().map(Call::whole).collect();
    let refused = answers
        .iter()
        .filter(|answer| is_error(answer) || answer["result"]["isError"] == true)
        .count();
    assert!(refused < answers.len(), "some were served");
    server.ping();
    assert_eq!(session.status()["status"], "RUNNING");
    server.finish();
}

#[test]
fn a_cancelled_read_is_answered_at_most_once_and_moves_nothing() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let session = server.start("cat");
    let read = server.send("terminal_read", session.with_id(json!({"wait_ms": 2000})));
    read.cancel();
    server.ping();
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["next_cursor"]),
        (&json!("RUNNING"), &json!(0))
    );
    session.write("after\n");
    assert_eq!(session.wait_for_text("after\n"), "after\n");
    assert!(
        server
            .answer_within(&read.id, Duration::ZERO)
            .is_none_or(|answer| is_error(&answer))
    );
    assert_eq!(server.answers_left(&read.id), 0);
    // A cancellation of nothing is no fault.
    server.notify("notifications/cancelled", json!({"requestId": read.id}));
    server.notify(
        "notifications/cancelled",
        json!({"requestId": "never sent"}),
    );
    server.notify("notifications/cancelled", json!({}));
    server.ping();
    server.finish();
}

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
        common::session::stream_text(&page["structuredContent"], "stdout") == "hi\n"
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
