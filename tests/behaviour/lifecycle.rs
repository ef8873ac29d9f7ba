//! How sessions end: by themselves, by the client, by their timeout; and what is left then, which is nothing.

use std::time::{Duration, Instant};

use crate::common::{Owner, proc, session::is_final, wait_until};

use serde_json::{Value, json};

/// A leader that ignores TERM and says when it is ready to.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.1; done";

#[test]
fn exit_codes_and_signals_are_the_kernels() {
    let server = Owner::new()
        .sh("code", "exit 42")
        .sh("signal", "echo a; kill -9 $$")
        .sh("segv", "kill -SEGV $$")
        .sh("code137", "sh -c 'kill -9 $$'; exit $?")
        .serve();
    for (id, code, signal) in [
        ("code", json!(42), Value::Null),
        ("signal", Value::Null, json!(9)),
        ("segv", Value::Null, json!(11)),
        ("code137", json!(137), Value::Null),
    ] {
        let session = server.start(id);
        let end = session.wait_settled();
        assert_eq!(
            (&end["status"], &end["termination_reason"]),
            (&json!("EXITED"), &json!("natural")),
            "{id}"
        );
        let printed = if id == "signal" { "a\n" } else { "" };
        assert_eq!(session.read_all().stdout, printed, "{id}");
        assert_eq!(
            (&end["exit_code"], &end["exit_signal"]),
            (&code, &signal),
            "{id}"
        );
        assert!(end["cpu_ms"].is_u64(), "{end}");
    }
    server.finish();
}

#[test]
fn forty_exits_at_once_keep_their_codes() {
    let mut owner = Owner::new()
        .room_for_many()
        .sh("orphaned", "(sleep 0.2; exit 9) & exit 5");
    for code in 0..40 {
        owner = owner.sh(&format!("exit{code}"), &format!("exit {code}"));
    }
    let server = owner.serve();
    let sessions: Vec<_> = (0..40)
        .map(|code| (code, server.start(&format!("exit{code}"))))
        .chain((0..10).map(|_| (5, server.start("orphaned"))))
        .collect();
    for (code, session) in &sessions {
        assert_eq!(session.wait_final()["exit_code"], *code);
        session.assert_group_is_gone();
    }
    wait_until("no zombie is left", || server.zombies().is_empty());
    server.finish();
}

#[test]
fn a_silent_grandchild_does_not_hold_the_session() {
    let server = Owner::new()
        .sh("both", "sleep 60 & echo done")
        .sh("stderr-only", "sleep 60 >/dev/null & echo out")
        .serve();
    for (id, text) in [("both", "done\n"), ("stderr-only", "out\n")] {
        let session = server.start(id);
        let output = session.read_all();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (text, ""));
        assert!(output.complete && !output.incomplete);
        let end = session.wait_final();
        assert_eq!(
            (&end["status"], &end["exit_code"], &end["next_cursor"]),
            (&json!("EXITED"), &json!(0), &json!(text.len()))
        );
        session.assert_group_is_gone();
    }
    server.finish();
}

#[test]
fn a_grandchild_that_ignores_signals_goes_with_its_group() {
    let server =
        Owner::job("(trap '' TERM HUP INT; sleep 60) & (trap '' TERM; sleep 60 | cat) & echo up")
            .serve();
    let session = server.start("job");
    assert_eq!(session.wait_settled()["exit_code"], 0);
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn termination_does_not_wait_for_the_pipes() {
    let server = Owner::job("sh -c 'sleep 60; :'; :").serve();
    let session = server.start("job");
    wait_until("the pipeline stands", || {
        proc::group_members(session.pid).len() == 3
    });
    let end = session.terminate(0);
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("TERMINATED"), &json!("user"))
    );
    assert!(matches!(end["exit_signal"].as_i64(), Some(9 | 15)), "{end}");
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn a_leader_that_ignores_term_is_killed_after_its_grace() {
    let server = Owner::job(STUBBORN).serve();
    let session = server.start("job");
    session.wait_for_text("ready\n");
    let asked = Instant::now();
    let end = session.terminate(300);
    assert!(
        asked.elapsed() >= Duration::from_millis(300),
        "the grace was cut to {:?}",
        asked.elapsed()
    );
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("TERMINATED"), &json!("user"))
    );
    assert_eq!(
        (&end["exit_signal"], &end["exit_code"]),
        (&json!(9), &Value::Null)
    );
    assert_eq!(session.read_all().stdout, "ready\n");
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn a_graceful_exit_is_kept_and_ends_the_wait() {
    let server =
        Owner::job("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done").serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let asked = Instant::now();
    let end = session.terminate(2000);
    assert!(
        asked.elapsed() < Duration::from_millis(2000),
        "the whole grace was waited for"
    );
    assert_eq!(
        (&end["exit_code"], &end["exit_signal"]),
        (&json!(3), &Value::Null)
    );
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("TERMINATED"), &json!("user"))
    );
    let output = session.read_all();
    assert_eq!(
        (output.stdout.as_str(), output.complete),
        ("up\nbye\n", true)
    );
    server.finish();
}

#[test]
fn a_leader_that_dies_at_once_does_not_cost_the_others_their_grace() {
    // The member is told by TERM too, and needs a little longer for its last words.
    let script = "(trap 'sleep 0.4; echo survived; exit 0' TERM; echo up; while :; do sleep 0.02; done) & wait";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let end = session.terminate(2000);
    assert_eq!(
        end["exit_signal"], 15,
        "the leader itself died of TERM: {end}"
    );
    assert_eq!(session.read_all().stdout, "up\nsurvived\n");
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn a_member_that_ignores_term_is_killed_although_the_leader_is_gone() {
    let server = Owner::job("(trap '' TERM; echo up; while :; do sleep 0.1; done) & wait").serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let end = session.terminate(100);
    assert_eq!(
        (&end["status"], &end["exit_signal"]),
        (&json!("TERMINATED"), &json!(15))
    );
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn a_stopped_process_is_woken_to_hear_term() {
    let server = Owner::job(
        "trap 'echo woke; exit 5' TERM; echo up; kill -STOP $$; while :; do sleep 0.05; done",
    )
    .serve();
    let session = server.start("job");
    wait_until("it is stopped", || {
        proc::stat(session.pid).is_some_and(|leader| leader.state == 'T')
    });
    let end = session.terminate(2000);
    assert_eq!(
        (&end["exit_code"], &end["status"]),
        (&json!(5), &json!("TERMINATED"))
    );
    assert_eq!(session.read_all().stdout, "up\nwoke\n");
    server.finish();
}

#[test]
fn a_second_call_with_a_shorter_grace_shortens_it() {
    let server = Owner::job(STUBBORN).serve();
    let session = server.start("job");
    session.wait_for_text("ready\n");
    let asked = Instant::now();
    let gentle = server.send(
        "terminal_terminate",
        session.with_id(json!({"grace_ms": 2000})),
    );
    wait_until("it is terminating", || {
        session.status()["status"] == "TERMINATING"
    });
    let hard = session.terminate(0);
    let gentle = gentle.ok();
    assert!(
        asked.elapsed() < Duration::from_millis(2000),
        "the first grace was waited for"
    );
    for end in [hard, gentle] {
        assert_eq!(
            (&end["status"], &end["exit_signal"]),
            (&json!("TERMINATED"), &json!(9))
        );
    }
    server.finish();
}

#[test]
fn a_second_call_with_a_longer_grace_does_not_lengthen_it() {
    let server = Owner::job(STUBBORN).serve();
    let session = server.start("job");
    session.wait_for_text("ready\n");
    let short = server.send(
        "terminal_terminate",
        session.with_id(json!({"grace_ms": 100})),
    );
    let long = server.send(
        "terminal_terminate",
        session.with_id(json!({"grace_ms": 2000})),
    );
    let asked = Instant::now();
    for call in [short, long] {
        assert_eq!(call.ok()["exit_signal"], 9);
    }
    assert!(
        asked.elapsed() < Duration::from_millis(2000),
        "the second grace was waited for"
    );
    server.finish();
}

#[test]
fn termination_of_a_final_session_changes_nothing() {
    let server = Owner::job("exit 6").serve();
    let session = server.start("job");
    let end = session.wait_settled();
    for _ in 0..3 {
        assert_eq!(session.terminate(0), end);
    }
    assert_eq!(
        (&end["status"], &end["termination_reason"]),
        (&json!("EXITED"), &json!("natural"))
    );
    server.finish();
}

#[test]
fn writes_to_a_terminating_session_are_refused() {
    let server = Owner::job(STUBBORN).serve();
    let session = server.start("job");
    session.wait_for_text("ready\n");
    let ending = server.send(
        "terminal_terminate",
        session.with_id(json!({"grace_ms": 1000})),
    );
    wait_until("it is terminating", || {
        session.status()["status"] == "TERMINATING"
    });
    let code = session.write_code("x");
    assert!(
        matches!(&*code, "SESSION_NOT_RUNNING" | "STDIN_CLOSED"),
        "{code}"
    );
    assert_eq!(ending.ok()["status"], "TERMINATED");
    server.finish();
}

#[test]
fn a_timeout_ends_the_whole_pipeline() {
    let server = Owner::new()
        .sh("pipeline", "sleep 60 | cat")
        .sh("stubborn", STUBBORN)
        .serve();
    for id in ["pipeline", "stubborn"] {
        let began = Instant::now();
        let session = server.start_with(json!({"command_id": id, "timeout_ms": 300}));
        let end = session.wait_final();
        assert!(began.elapsed() >= Duration::from_millis(300));
        assert_eq!(
            (&end["status"], &end["termination_reason"]),
            (&json!("TERMINATED"), &json!("timeout"))
        );
        session.assert_group_is_gone();
    }
    server.finish();
}

#[test]
fn silence_is_no_hang_and_retention_ends_no_running_session() {
    let server = Owner::job("read go; echo built")
        .sh("short", "exit 0")
        .set("retention_seconds", 1)
        .serve();
    let session = server.start("job");
    // One that starts later, ends at once and is forgotten shows that more than the retention has passed in silence.
    let other = server.start("short");
    other.wait_final();
    wait_until("the ended session is forgotten", || {
        let body = server.call("terminal_status", other.with_id(json!({})));
        body["error"]["code"] == "SESSION_NOT_FOUND"
    });
    let status = session.status();
    assert_eq!(
        (&status["status"], &status["next_cursor"]),
        (&json!("RUNNING"), &json!(0))
    );
    session.write("\n");
    let output = session.read_all();
    assert_eq!((output.stdout.as_str(), output.complete), ("built\n", true));
    assert_eq!(session.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn a_final_session_is_readable_for_its_retention_and_then_gone() {
    let began = Instant::now();
    let server = Owner::job("echo compiled")
        .set("retention_seconds", 1)
        .set("max_records", 1)
        .set("max_sessions", 1)
        .serve();
    let session = server.start("job");
    assert_eq!(session.read_all().stdout, "compiled\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
    // Still whole after its end, and however often it was read.
    let page = session.read(json!({"cursor": 0}));
    assert_eq!(
        (&page["status"], &page["next_cursor"]),
        (&json!("EXITED"), &json!(9))
    );
    let gone = |tool: &str, arguments: Value| {
        let body = server.call(tool, session.with_id(arguments));
        body["error"]["code"] == "SESSION_NOT_FOUND"
    };
    wait_until("the session is gone", || gone("terminal_status", json!({})));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(gone("terminal_read", json!({})));
    assert!(gone("terminal_write", json!({"text": "x"})));
    assert!(gone("terminal_terminate", json!({})));
    // Its record is free again.
    server.start("job");
    server.finish();
}

#[test]
fn a_final_status_never_changes() {
    let server = Owner::job("exit 0")
        .set("max_records", 64)
        .set("buffer_records", 32768)
        .serve();
    for _ in 0..30 {
        // The leader may end by itself before the call, or because of it; but only one of the two.
        let session = server.start("job");
        let end = session.terminate(0);
        assert!(is_final(&end), "{end}");
        let later = session.wait_settled();
        for field in [
            "status",
            "exit_code",
            "exit_signal",
            "termination_reason",
            "ended_at",
        ] {
            assert_eq!(end[field], later[field], "{field}");
        }
    }
    server.finish();
}
