//! Waits that don't end as they were meant to: cancelled, cut short by the end of input, overtaken by the output, refused.

use std::fs;

use serde_json::{Value, json};

use crate::common::{
    GUARD, Owner, Server, call::is_error, session::is_final, session::stream_text, wait_until,
};

/// The only session.
fn listed(server: &Server) -> Value {
    server.ok("terminal_status", json!({}))["sessions"][0].clone()
}

#[test]
fn cancelling_a_start_that_waits_ends_its_session() {
    let server = Owner::job("exec sleep 1000").serve();
    let start = server.send(
        "terminal_start",
        json!({ "command_id": "job", "wait_ms": 55_000 }),
    );
    wait_until("it runs", || listed(&server)["status"] == "RUNNING");
    start.cancel();
    wait_until("it has ended", || is_final(&listed(&server)));
    let end = listed(&server);
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("TERMINATED"), &json!("user"))
    );
    assert!(!start.is_answered());
    server.finish();
}

#[test]
fn the_end_of_input_cuts_waits_short_and_they_are_answered() {
    let mut server = Owner::job("echo first; exec sleep 1000").serve();
    let session = server.start("job");
    session.wait_for_text("first\n");
    let read = |until: Value| {
        let arguments = json!({ "until": until, "wait_ms": 55_000 });
        let call = server.send("terminal_read", session.with_id(arguments));
        call.id.clone()
    };
    let waits = [
        json!("end"),
        json!({ "pattern": "never" }),
        json!({ "idle_ms": 50_000 }),
    ];
    let reads = waits.map(read);
    let start = json!({ "command_id": "job", "wait_ms": 55_000 });
    let start = server.send("terminal_start", start).id.clone();
    wait_until("both run", || {
        let sessions = server.ok("terminal_status", json!({}))["sessions"].clone();
        let printed = |session: &Value| session["next_cursor"] == 6;
        let sessions = sessions.as_array().expect("a list");
        sessions.len() == 2 && sessions.iter().all(printed)
    });
    server.close_stdin();
    let body = |server: &Server, id: &Value| {
        let answer = server.answer_within(id, GUARD).expect("an answer");
        answer["result"]["structuredContent"].clone()
    };
    for id in &reads {
        let page = body(&server, id);
        assert_eq!(
            (&page["wait_result"], stream_text(&page, "stdout").as_str()),
            (&json!("timeout"), "first\n")
        );
    }
    let started = body(&server, &start);
    assert_eq!(started["status"], "RUNNING");
    assert_eq!(stream_text(&started["output"], "stdout"), "first\n");
    server.assert_exits_cleanly();
}

#[test]
fn a_cursor_that_expires_during_a_wait_gives_the_match_and_what_is_left() {
    let script = "read go; dd if=/dev/zero bs=1M count=1 status=none | tr '\\0' x; echo; echo READY; exec sleep 1000";
    let server = Owner::job(script).buffer(4096).serve();
    let session = server.start("job");
    let arguments = json!({ "until": { "pattern": "^READY$" }, "wait_ms": 55_000 });
    let wait = server.send("terminal_read", session.with_id(arguments));
    session.write("go\n");
    let page = wait.ok();
    assert_eq!(page["wait_result"], "pattern");
    assert_eq!(
        page["match"],
        json!({ "cursor": 1_048_577, "text": "READY" })
    );
    assert_eq!(page["truncated"], true);
    assert_eq!(page["records"][0]["cursor"], page["base_cursor"]);
    assert!(stream_text(&page, "stdout").ends_with("x\nREADY"));
    // A mebibyte came in reads that are larger than what is kept.
    assert!(page["unsearched"].as_u64().expect("a count") > 0, "{page}");
    session.terminate(0);
    server.finish();
}

#[test]
fn more_waits_for_a_pattern_than_may_be_are_refused_and_others_are_served() {
    let server = Owner::job("exec sleep 1000").serve();
    let session = server.start("job");
    let arguments = session.with_id(json!({ "until": { "pattern": "x" }, "wait_ms": 55_000 }));
    let waits: Vec<_> = (0..32)
        .map(|_| server.send("terminal_read", arguments.clone()))
        .collect();
    let answer = server.send("terminal_read", arguments.clone()).whole();
    assert!(is_error(&answer), "{answer}");
    assert_eq!(answer["error"]["code"], -32_029);
    assert_eq!(
        server.ok(
            "terminal_read",
            session.with_id(json!({ "find": { "pattern": "x" } }))
        )["matches"],
        json!([])
    );
    assert_eq!(session.status()["status"], "RUNNING");
    waits[0].cancel();
    // Its place is free again.
    wait_until("another wait is taken", || {
        let one = server.send(
            "terminal_read",
            session.with_id(json!({ "until": { "pattern": "x" } })),
        );
        one.whole().get("result").is_some()
    });
    session.terminate(0);
    server.finish();
}

#[test]
fn other_calls_are_answered_while_a_slow_pattern_is_searched_for() {
    let server =
        Owner::job("head -c 4000000 /dev/zero | tr '\\0' a | fold -w 1000; exec sleep 1000")
            .buffer(1 << 23)
            .set("max_sessions", 1)
            .set("max_records", 4)
            .serve();
    let session = server.start("job");
    wait_until("it has printed", || {
        session.status()["next_cursor"] == 4_003_999
    });
    // Linear, but some ten microseconds a byte.
    let pattern = "(?:a{0,100}b?){10}[cd]";
    let slow = [
        json!({ "until": { "pattern": pattern } }),
        json!({ "find": { "pattern": pattern } }),
    ]
    .map(|arguments| server.send("terminal_read", session.with_id(arguments)));
    for _ in 0..100 {
        assert_eq!(session.status()["status"], "RUNNING");
    }
    for call in &slow {
        assert!(!call.is_answered(), "it isn't slow enough to show anything");
        call.cancel();
    }
    session.terminate(0);
    server.finish();
}

#[test]
fn input_at_the_start_has_its_line_in_the_audit_log() {
    let owner = Owner::new().argv("cat", &["/bin/cat"]);
    let log = owner.base().join("audit.jsonl");
    let mut server = owner
        .set("audit_log", log.to_str().expect("a UTF-8 path"))
        .serve();
    let arguments =
        json!({ "command_id": "cat", "input": "hello\n", "close_stdin": true, "wait_ms": 55_000 });
    let id = server.ok("terminal_start", arguments)["session_id"].clone();
    server.close_stdin();
    server.assert_exits_cleanly();
    let text = fs::read_to_string(log).expect("the log is there");
    assert!(!text.contains("hello"));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        (&lines[1]["event"], &lines[1]["session_id"]),
        (&json!("start"), &id)
    );
    let write = lines
        .iter()
        .find(|line| line["event"] == "write")
        .expect("a write");
    let expected = json!([id, "cat", 6, true, 6, "ok"]);
    let members = [
        "session_id",
        "command_id",
        "bytes",
        "close_stdin",
        "accepted_bytes",
        "outcome",
    ];
    assert_eq!(json!(members.map(|name| &write[name])), expected);
    // `printf 'hello\n' | sha256sum`
    let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert_eq!(write["sha256"], sha256);
}
