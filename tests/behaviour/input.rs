//! What a client types: order, exact bytes, back-pressure, cancellation, and the end of stdin.

use crate::common::{Call, Owner, session::is_final, wait_until};
use serde_json::{Value, json};

/// Bytes that an empty pipe of the default size takes: its 16 pages.
const PIPE: usize = 65536;

/// A child that never reads, until the gate is opened; then it counts its input.
pub fn deaf(owner: Owner) -> Owner {
    let gate = owner
        .base()
        .join("gate")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    owner.sh(
        "deaf",
        &format!("echo up; while ! [ -e {gate} ]; do sleep 0.02; done; wc -c"),
    )
}

pub fn open_gate(owner: &Owner) {
    owner.file("gate", b"");
}

#[test]
fn exactly_these_bytes_arrive() {
    let server = Owner::new()
        .argv("od", &["/usr/bin/od", "-An", "-tx1"])
        .serve();
    let session = server.start("od");
    let text = "a\r\n\u{4e2d}\u{0}";
    let written = server.ok(
        "terminal_write",
        session.with_id(json!({"text": text, "close_stdin": true})),
    );
    assert_eq!(
        (&written["accepted_bytes"], &written["stdin_closed"]),
        (&json!(7), &json!(true))
    );
    assert_eq!(session.read_all().stdout, " 61 0d 0a e4 b8 ad 00\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn an_empty_write_only_closes() {
    let server = Owner::new().argv("wc", &["/usr/bin/wc", "-c"]).serve();
    let session = server.start("wc");
    let nothing = session.write("");
    assert_eq!(
        (&nothing["accepted_bytes"], &nothing["stdin_closed"]),
        (&json!(0), &json!(false))
    );
    let closed = session.close_stdin();
    assert_eq!(
        (&closed["accepted_bytes"], &closed["stdin_closed"]),
        (&json!(0), &json!(true))
    );
    assert_eq!(session.read_all().stdout, "0\n");
    server.finish();
}

#[test]
fn a_write_after_close_is_refused_while_the_child_runs() {
    let server = Owner::job("cat; echo eof; while :; do sleep 60; done").serve();
    let session = server.start("job");
    let written = server.ok(
        "terminal_write",
        session.with_id(json!({"text": "k", "close_stdin": true})),
    );
    assert_eq!(written["accepted_bytes"], 1);
    assert_eq!(session.wait_for_text("eof\n"), "keof\n");
    assert_eq!(session.write_code("x"), "STDIN_CLOSED");
    let again = server.call(
        "terminal_write",
        session.with_id(json!({"text": "", "close_stdin": true})),
    );
    assert!(
        again["ok"] == true || again["error"]["code"] == "STDIN_CLOSED",
        "{again}"
    );
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["stdin_closed"]),
        (&json!("RUNNING"), &json!(true))
    );
    assert_eq!(status["input_uncertain"], false);
    server.finish();
}

#[test]
fn an_open_stdin_keeps_a_reader_waiting() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let waiting = server.start_with(json!({"command_id": "cat", "timeout_ms": 300}));
    assert_eq!(waiting.status()["stdin_closed"], false);
    let end = waiting.wait_final();
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("TERMINATED"), &json!("timeout"))
    );
    let ended = server.start("cat");
    ended.close_stdin();
    assert_eq!(ended.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn a_hundred_writes_at_once_arrive_whole_and_in_order() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let session = server.start("cat");
    let text = |n: usize| format!("{}\n", format!("{n:03}.").repeat(120));
    let write = |n: usize| server.send("terminal_write", session.with_id(json!({"text": text(n)})));
    let calls: Vec<Call> = (0..100).map(write).collect();
    for call in &calls {
        assert_eq!(call.ok()["accepted_bytes"], 481);
    }
    session.close_stdin();
    let expected: String = (0..100).map(text).collect();
    assert!(
        session.read_all().stdout == expected,
        "the writes were shredded or reordered"
    );
    server.finish();
}

#[test]
fn large_writes_at_once_are_not_shredded() {
    // The reader starts late, so that the second write has to wait for room in the middle.
    let server = Owner::job("sleep 0.05; exec cat").buffer(1 << 20).serve();
    let session = server.start("job");
    let texts = ["A".repeat(40000), "B".repeat(40000)];
    let calls = texts
        .each_ref()
        .map(|text| server.send("terminal_write", session.with_id(json!({"text": text}))));
    for call in &calls {
        assert_eq!(call.ok()["accepted_bytes"], 40000);
    }
    session.close_stdin();
    assert!(
        session.read_all().stdout == texts.concat(),
        "the writes were shredded or reordered"
    );
    server.finish();
}

#[test]
fn sixteen_full_writes_to_an_echo_need_no_read() {
    let server = Owner::new()
        .buffer(1 << 20)
        .argv("cat", &["/bin/cat"])
        .serve();
    let session = server.start("cat");
    let block = "q".repeat(65536);
    for _ in 0..16 {
        assert_eq!(session.write(&block)["accepted_bytes"], 65536);
    }
    session.close_stdin();
    let end = session.wait_settled();
    assert_eq!(
        (&end["exit_code"], &end["next_cursor"]),
        (&json!(0), &json!(1_048_576))
    );
    assert_eq!(end["truncated"], false);
    server.finish();
}

#[test]
fn a_write_over_the_limit_writes_nothing() {
    let server = Owner::new()
        .set("max_input_bytes", 9)
        .argv("cat", &["/bin/cat"])
        .serve();
    let session = server.start("cat");
    for text in ["0123456789", "\u{4e2d}\u{4e2d}\u{4e2d}a"] {
        assert_eq!(session.write_code(text), "INPUT_TOO_LARGE");
    }
    let refused = server.code(
        "terminal_write",
        session.with_id(json!({"text": "0123456789", "close_stdin": true})),
    );
    assert_eq!(refused, "INPUT_TOO_LARGE");
    assert_eq!(
        session.write("\u{4e2d}\u{4e2d}\u{4e2d}")["accepted_bytes"],
        9
    );
    session.close_stdin();
    assert_eq!(session.read_all().stdout, "\u{4e2d}\u{4e2d}\u{4e2d}");
    server.finish();
}

#[test]
fn a_child_that_does_not_read_meets_back_pressure() {
    let server = deaf(Owner::new()).serve();
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    assert_eq!(session.write(&"x".repeat(PIPE))["accepted_bytes"], PIPE);
    let error = server.refused(
        "terminal_write",
        session.with_id(json!({"text": "y".repeat(100)})),
    );
    assert_eq!(
        (&error["code"], &error["accepted_bytes"]),
        (&json!("INPUT_BACKPRESSURE"), &json!(0))
    );
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["stdin_closed"]),
        (&json!("RUNNING"), &json!(true))
    );
    assert_eq!(status["input_uncertain"], true);
    let later = session.write_code("z");
    assert!(
        matches!(&*later, "INPUT_UNCERTAIN" | "STDIN_CLOSED"),
        "{later}"
    );
    open_gate(&server.owner);
    assert_eq!(session.read_all().stdout, format!("up\n{PIPE}\n"));
    server.finish();
}

#[test]
fn back_pressure_tells_how_many_bytes_the_pipe_took() {
    let server = deaf(Owner::new().set("max_input_bytes", 1_048_576)).serve();
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    let error = server.refused(
        "terminal_write",
        session.with_id(json!({"text": "x".repeat(1_000_000)})),
    );
    assert_eq!(error["code"], "INPUT_BACKPRESSURE");
    let accepted = error["accepted_bytes"].as_u64().expect("a count");
    assert!(accepted > 0 && accepted < 1_000_000, "{accepted}");
    open_gate(&server.owner);
    assert_eq!(session.read_all().stdout, format!("up\n{accepted}\n"));
    server.finish();
}

#[test]
fn a_slow_reader_in_time_gets_everything() {
    let server = Owner::new()
        .set("max_input_bytes", 1_048_576)
        .sh("late", "sleep 0.05; wc -c")
        .serve();
    let session = server.start("late");
    let written = server.ok(
        "terminal_write",
        session.with_id(json!({"text": "x".repeat(1_000_000), "close_stdin": true})),
    );
    assert_eq!(written["accepted_bytes"], 1_000_000);
    assert_eq!(session.read_all().stdout, "1000000\n");
    server.finish();
}

#[test]
fn a_cancelled_write_makes_the_input_uncertain() {
    let server = deaf(Owner::new()).serve();
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    session.write(&"x".repeat(PIPE));
    let blocked = server.send(
        "terminal_write",
        session.with_id(json!({"text": "y".repeat(100)})),
    );
    blocked.cancel();
    wait_until("the input is uncertain", || {
        session.status()["input_uncertain"] == true
    });
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["stdin_closed"]),
        (&json!("RUNNING"), &json!(true))
    );
    let later = session.write_code("z");
    assert_eq!(later, "INPUT_UNCERTAIN");
    open_gate(&server.owner);
    assert_eq!(session.read_all().stdout, format!("up\n{PIPE}\n"));
    assert!(server.answers_left(&blocked.id) <= 1);
    server.finish();
}

#[test]
fn cancelling_a_queued_write_closes_stdin_as_well() {
    let server = deaf(Owner::new()).serve();
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    session.write(&"x".repeat(PIPE));
    let running = server.send("terminal_write", session.with_id(json!({"text": "y"})));
    let queued = server.send("terminal_write", session.with_id(json!({"text": "z"})));
    queued.cancel();
    wait_until("the input is uncertain", || {
        session.status()["input_uncertain"] == true
    });
    let code = running.refusal()["code"].clone();
    assert!(
        matches!(
            code.as_str(),
            Some("INPUT_UNCERTAIN" | "STDIN_CLOSED" | "INPUT_BACKPRESSURE")
        ),
        "{code}"
    );
    open_gate(&server.owner);
    assert_eq!(session.read_all().stdout, format!("up\n{PIPE}\n"));
    server.finish();
}

#[test]
fn a_blocked_write_delays_no_other_session() {
    let server = deaf(Owner::new()).argv("cat", &["/bin/cat"]).serve();
    let (blocked, free) = (server.start("deaf"), server.start("cat"));
    blocked.wait_for_text("up\n");
    blocked.write(&"x".repeat(PIPE));
    let stuck = server.send("terminal_write", blocked.with_id(json!({"text": "y"})));
    let other = server.send("terminal_write", free.with_id(json!({"text": "through\n"})));
    assert_eq!(other.ok()["accepted_bytes"], 8);
    assert_eq!(free.wait_for_text("through\n"), "through\n");
    assert_eq!(stuck.refusal()["code"], "INPUT_BACKPRESSURE");
    assert_eq!(server.first_answered(&stuck, &other), &other.id);
    server.finish();
}

#[test]
fn a_child_that_closed_its_stdin_says_so() {
    let owner = Owner::new();
    let gate = owner.base().join("gate");
    let script = format!(
        "exec <&-; echo closed; while ! [ -e {} ]; do sleep 0.02; done",
        gate.display()
    );
    let server = owner.sh("job", &script).serve();
    let session = server.start("job");
    session.wait_for_text("closed\n");
    assert_eq!(session.write_code("x"), "STDIN_CLOSED");
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["stdin_closed"]),
        (&json!("RUNNING"), &json!(true))
    );
    open_gate(&server.owner);
    assert_eq!(session.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn a_child_that_closes_stdin_during_a_write_does_not_kill_the_server() {
    let server = Owner::new()
        .set("max_input_bytes", 1_048_576)
        .sh("job", "head -c 3; exec <&-; sleep 60")
        .serve();
    let session = server.start("job");
    let error = server.refused(
        "terminal_write",
        session.with_id(json!({"text": "abc".repeat(300_000)})),
    );
    assert_eq!(error["code"], "STDIN_CLOSED");
    assert_eq!(session.status()["status"], "RUNNING");
    server.finish();
}

#[test]
fn accepted_is_not_processed() {
    let owner = Owner::new();
    let gate = owner.base().join("gate");
    let script = format!(
        "head -c 3; echo; while ! [ -e {} ]; do sleep 0.02; done",
        gate.display()
    );
    let server = owner.sh("job", &script).serve();
    let session = server.start("job");
    assert_eq!(session.write("abcdef")["accepted_bytes"], 6);
    assert_eq!(session.wait_for_text("\n"), "abc\n");
    // The shell still holds the read end.
    assert_eq!(session.write("g")["accepted_bytes"], 1);
    open_gate(&server.owner);
    assert_eq!(session.wait_final()["exit_code"], 0);
    assert_eq!(session.write_code("h"), "SESSION_NOT_RUNNING");
    server.finish();
}

#[test]
fn a_final_session_takes_no_input() {
    let server = Owner::job("exit 0").serve();
    let session = server.start("job");
    session.wait_final();
    assert_eq!(session.write_code("x"), "SESSION_NOT_RUNNING");
    let close = server.code(
        "terminal_write",
        session.with_id(json!({"text": "", "close_stdin": true})),
    );
    assert_eq!(close, "SESSION_NOT_RUNNING");
    server.finish();
}

#[test]
fn a_write_that_races_with_the_exit_has_one_of_three_outcomes() {
    let server = Owner::job("exit 0")
        .set("max_records", 1024)
        .set("buffer_records", 2048);
    let server = server.set("buffer_bytes", 65536).serve();
    for _ in 0..200 {
        let session = server.start("job");
        let body = server.call("terminal_write", session.with_id(json!({"text": "x"})));
        let code = body["error"]["code"].as_str();
        assert!(
            body["ok"] == true || matches!(code, Some("STDIN_CLOSED" | "SESSION_NOT_RUNNING")),
            "{body}"
        );
        assert_eq!(session.wait_final()["status"], "EXITED");
    }
    server.finish();
}

#[test]
fn termination_ends_a_blocked_write() {
    let server = deaf(Owner::new()).serve();
    let session = server.start("deaf");
    session.wait_for_text("up\n");
    session.write(&"x".repeat(PIPE));
    let blocked = server.send("terminal_write", session.with_id(json!({"text": "y"})));
    let end = session.terminate(0);
    assert!(is_final(&end), "{end}");
    let code = blocked.refusal()["code"].clone();
    assert!(
        matches!(
            code.as_str(),
            Some("SESSION_NOT_RUNNING" | "STDIN_CLOSED" | "INPUT_BACKPRESSURE")
        ),
        "{code}"
    );
    server.finish();
}

#[test]
fn a_profile_with_null_stdin_reads_the_end_at_once() {
    let profile = json!({"argv": ["/usr/bin/wc", "-c"], "allowed_env": [], "stdin": "null"});
    let quiet = json!({"argv": ["/bin/sleep", "60"], "allowed_env": [], "stdin": "null"});
    let server = Owner::new()
        .profile("wc", profile)
        .profile("quiet", quiet)
        .serve();
    assert_eq!(server.start("wc").read_all().stdout, "0\n");
    let session = server.start("quiet");
    assert_eq!(session.status()["stdin_closed"], true);
    assert_eq!(session.write_code("x"), "STDIN_CLOSED");
    server.finish();
}

#[test]
fn one_sessions_input_reaches_only_that_session() {
    let server = Owner::new()
        .argv("cat", &["/bin/cat"])
        .set("max_sessions", 8)
        .serve();
    let sessions: Vec<_> = (0..8).map(|_| server.start("cat")).collect();
    let calls: Vec<Call> = (0..400)
        .map(|n: usize| {
            server.send(
                "terminal_write",
                sessions[n % 8].with_id(json!({"text": format!("{n}\n")})),
            )
        })
        .collect();
    for call in &calls {
        call.ok();
    }
    for (number, session) in sessions.iter().enumerate() {
        session.close_stdin();
        let expected: String = (number..400).step_by(8).map(|n| format!("{n}\n")).collect();
        assert_eq!(session.read_all().stdout, expected);
    }
    server.finish();
}

#[test]
fn another_child_does_not_hold_the_stdin_of_this_one_open() {
    let server = Owner::new()
        .argv("wc", &["/usr/bin/wc", "-c"])
        .argv("sleep", &["/bin/sleep", "60"])
        .serve();
    let counting = server.start("wc");
    let bystanders: Vec<_> = (0..4).map(|_| server.start("sleep")).collect();
    counting.close_stdin();
    assert_eq!(counting.read_all().stdout, "0\n");
    let states: Vec<Value> = bystanders
        .iter()
        .map(|session| session.status()["status"].clone())
        .collect();
    assert!(
        states.iter().all(|status| status == "RUNNING"),
        "{states:?}"
    );
    server.finish();
}
