//! What real tools print: recorded build logs through the host, each byte compared, and sessions in bursts.

use std::collections::HashSet;

use crate::common::Owner;
use serde_json::json;

/// `cargo build -v`, in colour.
const CARGO: &str = include_str!("../../fixtures/logs/cargo-build.log");
/// `make -j4` with gcc's warnings, in colour and with quotes that aren't ASCII.
const MAKE: &str = include_str!("../../fixtures/logs/make.log");

/// The most text that a session keeps.
const BUFFER: u64 = 16 << 20;

/// A host for few sessions that keep all of a log.
fn owner() -> Owner {
    Owner::new()
        .buffer(BUFFER)
        .set("max_sessions", 2)
        .set("max_records", 4)
}

#[test]
fn recorded_build_logs_come_through_byte_by_byte() {
    assert!(MAKE.contains(['\u{2018}', '\u{2019}']) && CARGO.contains("\u{1b}["));
    for log in [CARGO, MAKE] {
        let server = owner().bytes("log", log.as_bytes()).serve();
        let output = server.start("log").read_all();
        assert!(output.stdout == log && output.stderr.is_empty());
        assert!(output.complete && !output.truncated);
        server.finish();
    }
}

#[test]
fn a_log_of_a_line_at_a_time_on_both_streams_comes_through_byte_by_byte() {
    // awk flushes each line, as build tools do; which stream it goes to changes from line to line.
    let script = r#"exec awk '{ if (NR % 2) { print; fflush() } else { print > "/dev/stderr"; fflush("/dev/stderr") } }' "$0""#;
    for log in [CARGO, MAKE] {
        let owner = owner();
        let file = owner.file("log", log.as_bytes());
        let file = file.to_str().expect("a UTF-8 path").to_owned();
        let server = owner.argv("log", &["/bin/sh", "-c", script, &file]).serve();
        let output = server.start("log").read_all();
        let of = |odd: bool| -> String {
            let lines = log.split_inclusive('\n').enumerate();
            lines
                .filter(|(index, _)| (index % 2 == 0) == odd)
                .map(|(_, line)| line)
                .collect()
        };
        assert!(output.stdout == of(true) && output.stderr == of(false));
        assert!(output.complete && !output.truncated);
        server.finish();
    }
}

#[test]
fn a_log_over_its_budget_keeps_its_end_exactly() {
    for log in [CARGO, MAKE] {
        let budget = 65_536;
        let server = Owner::new()
            .buffer(budget)
            .bytes("log", log.as_bytes())
            .serve();
        let session = server.start("log");
        let end = session.wait_settled();
        assert_eq!(end["next_cursor"], log.chars().count());
        let base = end["base_cursor"].as_u64().expect("a cursor");
        let output = session.read_from(base, 65_536);
        let kept: String = log.chars().skip(base as usize).collect();
        assert!(output.stdout == kept, "the end of the log from {base} on");
        // One character more would have been too much.
        let before = log
            .chars()
            .nth(base as usize - 1)
            .expect("the log is longer");
        assert!(kept.len() as u64 <= budget && (kept.len() + before.len_utf8()) as u64 > budget);
        server.finish();
    }
}

#[test]
fn every_start_of_a_burst_is_answered() {
    const STARTS: usize = 50;
    for _ in 0..5 {
        let server = Owner::job("echo hello").room_for_many().serve();
        let calls: Vec<_> = (0..STARTS)
            .map(|_| server.send("terminal_start", json!({"command_id": "job"})))
            .collect();
        let started: HashSet<String> = calls
            .iter()
            .map(|call| call.ok()["session_id"].as_str().expect("an id").to_owned())
            .collect();
        assert_eq!(started.len(), STARTS);
        for id in &started {
            let read = json!({"session_id": id, "wait_ms": 2000});
            let page = server.call("terminal_read", read);
            assert_eq!(page["records"][0]["text"], "hello\n", "{page}");
        }
        server.finish();
    }
}
