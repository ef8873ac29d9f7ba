//! The wire: frames, malformed input, revisions, concurrency, and cancellation.

use std::time::Duration;

use crate::common::{Call, Owner, Server, call::is_error, ping_of, wait_until};
use serde_json::{Value, json};

/// The longest frame, newline included.
const FRAME: usize = 1_048_576;

fn unshaken(owner: Owner) -> Server {
    let command = owner.command();
    Server::spawn(owner, command)
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
        crate::common::session::stream_text(&page, "stdout") == "stateless\n"
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
    let server = Owner::job("echo hi")
        .set("max_sessions", 1)
        .set("max_records", 1)
        .serve();
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
        b"[{\"jsonrpc\":\"2.0\",\"id\":\"batch\",\"method\":\"tools/call\",\"params\":{\"name\":\"terminal_start\",\"arguments\":{\"command_id\":\"job\"}}}]",
        b"x{\"jsonrpc\":\"2.0\",\"id\":\"lead\",\"method\":\"tools/call\",\"params\":{\"name\":\"terminal_start\",\"arguments\":{\"command_id\":\"job\"}}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"cut\",\"method\":\"tools/call\",\"params\":{\"name\":\"terminal_start\",\"arguments\":{\"command_id\":\"job\"}}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"cr\",\"method\":\"ping\"}\r",
    ];
    for line in lines {
        server.send_bytes(line);
        server.send_bytes(b"\n");
        server.ping();
    }
    server.send_bytes("[".repeat(200_000).as_bytes());
    server.send_line("");
    server.ping();
    for id in ["bom", "cr"] {
        assert!(server.answer_to(&json!(id)).get("result").is_some(), "{id}");
    }
    // One rule: an error on the line's own id where one can be found in it, silence otherwise.
    assert_eq!(server.notices(), Vec::<Value>::new());
    for id in ["old", "m", "s", "batch", "lead", "cut"] {
        let answer = server.answer_within(&json!(id), Duration::ZERO);
        assert!(
            answer.is_none_or(|answer| is_error(&answer) || answer["result"]["isError"] == true),
            "{id}"
        );
        assert_eq!(server.answers_left(&json!(id)), 0, "{id}");
    }
    // None of them started anything: the only record is free.
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
    assert!(grown < 8 << 20, "the server grew by {grown} bytes");
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
        .map(|_| server.send("terminal_read", session.with_id(json!({"wait_ms": 2000}))))
        .collect();
    let answers: Vec<Value> = calls.iter().map(Call::whole).collect();
    let refused: Vec<&Value> = answers.iter().filter(|answer| is_error(answer)).collect();
    assert!(refused.len() < answers.len(), "some were served");
    assert!(!refused.is_empty(), "the bound holds");
    for answer in refused {
        assert_eq!(answer["error"]["code"], -32_029, "{answer}");
    }
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
    // As long as the cancelled wait would have been, and begun later.
    assert_eq!(session.hourglass().ok()["records"], json!([]));
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
