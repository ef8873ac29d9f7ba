//! Waiting for a pattern in what comes.

use serde_json::json;

use super::{keys, text};
use crate::common::{
    Terminal,
    terminal::{call, free},
    wait_until,
};

#[test]
fn a_pattern_matches_neither_older_output_nor_the_echo_of_the_input() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.interact("echo ready-1");
    // The pattern stands in what was typed, and in what was read before.
    let arguments = json!({"input": "sleep 0.3; printf 'ready'; echo -2", "wait_for": "ready"});
    let read = terminal.ok("session_interact", arguments);
    assert_eq!(read["matched"], true, "{read}");
    assert!(text(&read).contains("ready"), "{read}");
    assert!(read["bytes_sent"].as_u64() > Some(30), "{read}");
    let answer = text(&read)
        .lines()
        .filter(|line| line.trim_start().starts_with("ready"))
        .count();
    assert_eq!(answer, 1, "{read}");

    let python = Terminal::open(&server, "/usr/bin/python3 -q");
    python.wait_for(">>> ");
    let arguments = json!({"input": "print('o' + 'k')", "wait_for": "ok"});
    let read = python.ok("session_interact", arguments);
    assert!(text(&read).contains("ok"), "{read}");
    let arguments = json!({"input": "x = 'never'", "wait_for": "never", "timeout": 0.5});
    let read = python.ok("session_interact", arguments);
    assert_eq!(
        read["matched"], false,
        "its line editor's echo is none: {read}"
    );

    // cat on a terminal: the line discipline echoes, then cat does.
    let cat = Terminal::open(&server, "cat");
    let read = cat.ok(
        "session_interact",
        json!({"input": "twice", "wait_for": "twice"}),
    );
    assert_eq!(text(&read).matches("twice").count(), 2, "{read}");
}

#[test]
fn a_banner_that_nobody_has_read_is_no_answer() {
    let server = free(&[]);
    let python = Terminal::open(&server, "/usr/bin/python3");
    wait_until("its first prompt is there", || {
        let read = python.ok("session_read", json!({"mode": "snapshot"}));
        text(&read).ends_with(">>>")
    });
    let arguments = json!({"input": "print(4951 - 1)", "wait_for": ">>> $"});
    let read = python.ok("session_interact", arguments);
    assert_eq!(read["matched"], true, "{read}");
    assert!(text(&read).contains("\r\n4950\r\n"), "{read}");
    let next = python.ok("session_interact", json!({"input": "print('next')"}));
    assert_eq!(text(&next), "print('next')\r\nnext\r\n>>> ");
}

#[test]
fn wait_for_sees_what_comes_after_the_send_and_the_last_read() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.ok(
        "session_send",
        json!({"input": "echo one; sleep 0.2; echo t'w'o"}),
    );
    let read = terminal.wait_for("two");
    assert!(
        text(&read).contains("one") && text(&read).contains("two"),
        "{read}"
    );
    assert_eq!(
        keys(&read),
        [
            "bytes_read",
            "is_alive",
            "matched",
            "output",
            "prompt_detected",
            "success",
            "truncated"
        ]
    );
    let again = terminal.ok(
        "session_wait_for",
        json!({"pattern": "two", "timeout": 0.3}),
    );
    assert_eq!(again["matched"], false, "it was read: {again}");
    let ended = Terminal::open(&server, "echo over");
    let read = ended.ok(
        "session_wait_for",
        json!({"pattern": "never", "timeout": 600}),
    );
    assert_eq!(
        (&read["matched"], &read["is_alive"], text(&read)),
        (&json!(false), &json!(false), "over\r\n")
    );
}

#[test]
fn a_pattern_of_pythons_that_rust_has_not_is_refused_before_anything_is_typed() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat");
    for pattern in ["(?=ahead)", "(?<!behind)x", r"(a)\1", "(unclosed", "[z-a]"] {
        let body = call(
            &server,
            "session_wait_for",
            terminal.with_id(json!({"pattern": pattern})),
        );
        assert_eq!(
            body["error"]["type"], "validation_error",
            "{pattern}: {body}"
        );
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("pattern"), "{message}");
        let arguments = json!({"input": "typed", "wait_for": pattern});
        assert_eq!(
            terminal.failure("session_interact", arguments),
            "validation_error"
        );
    }
    let read = terminal.ok("session_read", json!({"timeout": 0.2}));
    assert_eq!(text(&read), "");
}
