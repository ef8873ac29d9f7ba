//! What a child prints arrives: pages, cursors, waits, and where output ends.

use std::thread;

use crate::common::{
    Owner, assert_shown,
    session::{is_final, stream_text},
    wait_until,
};
use serde_json::{Value, json};

#[test]
fn a_child_without_output_settles_empty() {
    let server = Owner::new().argv("job", &["/bin/true"]).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("EXITED"), &json!(0))
    );
    let page = session.read(json!({"cursor": 0, "wait_ms": 2000}));
    assert_eq!(page["records"], json!([]));
    assert_eq!(
        (&page["base_cursor"], &page["next_cursor"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        (&page["has_more"], &page["truncated"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (&page["status"], &page["output_complete"]),
        (&json!("EXITED"), &json!(true))
    );
    server.finish();
}

#[test]
fn the_two_streams_are_told_apart() {
    let server = Owner::job("echo out; echo err >&2").serve();
    let output = server.start("job").read_all();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(output.next_cursor, 8);
    server.finish();
}

#[test]
fn a_lone_newline_is_output_and_ends_a_wait() {
    let server = Owner::job("read go; printf '\\n'; read go")
        .argv("cat", &["/bin/cat"])
        .serve();
    let silent = server.start("cat");
    assert_shown("the newline ends the wait before its time is up", || {
        let session = server.start("job");
        let hourglass = silent.hourglass();
        let waiting = server.send(
            "terminal_read",
            session.with_id(json!({"cursor": 0, "wait_ms": 2000})),
        );
        session.write("\n");
        let page = waiting.ok();
        let in_time = !hourglass.is_answered();
        if in_time {
            assert_eq!(
                page["records"],
                json!([{"cursor": 0, "stream": "stdout", "text": "\n"}])
            );
            assert_eq!(page["status"], "RUNNING");
        }
        session.terminate(0);
        in_time
    });
    server.finish();
}

#[test]
fn a_prompt_without_a_newline_is_visible() {
    let server = Owner::job("printf 'Password: '; read answer; printf '%s' \"$answer\"").serve();
    let session = server.start("job");
    assert_eq!(session.wait_for_text("Password: "), "Password: ");
    assert_eq!(session.status()["status"], "RUNNING");
    session.write("s3cret\n");
    assert_eq!(session.read_all().stdout, "Password: s3cret");
    server.finish();
}

/// Programs keep their output back while it goes to a pipe, unless they are told otherwise by their arguments.
#[test]
fn what_a_program_keeps_in_its_own_buffer_comes_when_it_lets_it_go() {
    let server = Owner::new()
        .argv("buffered", &["/bin/sed", "w /dev/stderr"])
        .argv("unbuffered", &["/bin/sed", "-u", "w /dev/stderr"])
        .serve();
    for (id, at_once) in [("buffered", ""), ("unbuffered", "one\n")] {
        let session = server.start(id);
        session.write("one\ntwo\n");
        let page = || session.read(json!({"cursor": 0}));
        // What sed copies to stderr is never kept back. With the second line there, the first is printed on stdout.
        wait_until("both lines were printed", || {
            stream_text(&page(), "stderr") == "one\ntwo\n"
        });
        wait_until("the unbuffered line came", || {
            stream_text(&page(), "stdout").starts_with(at_once)
        });
        assert_eq!(session.status()["status"], "RUNNING", "{id}");
        if at_once.is_empty() {
            assert_eq!(stream_text(&page(), "stdout"), "", "{id}");
        }
        session.close_stdin();
        let output = session.read_all();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("one\ntwo\n", "one\ntwo\n"),
            "{id}"
        );
    }
    server.finish();
}

#[test]
fn a_wait_returns_what_came_first_not_what_comes_later() {
    let server = Owner::job("read go; echo first; read go; echo second").serve();
    let session = server.start("job");
    session.write("\n");
    session.wait_for_text("first\n");
    let waiting = server.send(
        "terminal_read",
        session.with_id(json!({"cursor": 6, "wait_ms": 2000})),
    );
    session.write("\n");
    let page = waiting.ok();
    // Either the wait ended with the record, or the record came after a slow machine's 2 s.
    let text = if page["next_cursor"] == 6 {
        session.wait_for_text("second\n")
    } else {
        stream_text(&page, "stdout")
    };
    assert!(text.ends_with("second\n"), "{text:?}");
    server.finish();
}

#[test]
fn a_wait_ends_when_the_output_settles_and_never_starts_after() {
    let server = Owner::job("read go").argv("cat", &["/bin/cat"]).serve();
    let silent = server.start("cat");
    assert_shown("the exit ends the wait before its time is up", || {
        let session = server.start("job");
        let hourglass = silent.hourglass();
        let wait = session.with_id(json!({"cursor": 0, "wait_ms": 2000}));
        let waiting = server.send("terminal_read", wait);
        session.write("\n");
        let page = waiting.ok();
        assert_eq!(page["records"], json!([]));
        session.wait_settled();
        for _ in 0..10 {
            let page = session.read(json!({"cursor": 0, "wait_ms": 2000}));
            assert_eq!(
                (&page["records"], &page["output_complete"], &page["status"]),
                (&json!([]), &json!(true), &json!("EXITED"))
            );
        }
        !hourglass.is_answered()
    });
    server.finish();
}

#[test]
fn a_wait_on_a_silent_child_returns_empty_and_changes_nothing() {
    let server = Owner::job("read go").serve();
    let session = server.start("job");
    let page = session.read(json!({"cursor": 0, "wait_ms": 50}));
    assert_eq!(
        (&page["records"], &page["next_cursor"], &page["has_more"]),
        (&json!([]), &json!(0), &json!(false))
    );
    assert_eq!(
        (&page["status"], &page["output_complete"]),
        (&json!("RUNNING"), &json!(false))
    );
    server.finish();
}

#[test]
fn output_ends_before_the_process_when_the_child_closes_it() {
    let server = Owner::job("echo bye; exec >&- 2>&-; read go; exit 4").serve();
    let session = server.start("job");
    let output = session.read_all();
    assert_eq!((output.stdout.as_str(), output.complete), ("bye\n", true));
    assert_eq!(session.status()["status"], "RUNNING");
    session.write("\n");
    assert_eq!(session.wait_final()["exit_code"], 4);
    server.finish();
}

#[test]
fn one_closed_stream_is_not_the_end_of_the_output() {
    let server = Owner::job("exec >&-; echo half >&2; read go; echo late >&2").serve();
    let session = server.start("job");
    wait_until("the first line came", || {
        session.status()["next_cursor"] == 5
    });
    let page = session.read(json!({"cursor": 5, "wait_ms": 50}));
    assert_eq!(
        (&page["output_complete"], &page["status"]),
        (&json!(false), &json!("RUNNING"))
    );
    session.write("\n");
    let output = session.read_all();
    assert_eq!(
        (output.stderr.as_str(), output.complete),
        ("half\nlate\n", true)
    );
    server.finish();
}

#[test]
fn reading_consumes_nothing() {
    let server = Owner::job("printf abcdefghij").serve();
    let session = server.start("job");
    session.wait_settled();
    let read = |cursor: u64| session.read(json!({"cursor": cursor}));
    let first = read(0);
    assert_eq!(stream_text(&first, "stdout"), "abcdefghij");
    assert_eq!(first["next_cursor"], 10);
    for _ in 0..3 {
        assert_eq!(read(0), first);
    }
    let at_once =
        [(); 8].map(|()| server.send("terminal_read", session.with_id(json!({"cursor": 0}))));
    for call in at_once {
        assert_eq!(call.ok(), first);
    }
    assert_eq!(stream_text(&read(7), "stdout"), "hij");
    let end = read(10);
    assert_eq!(
        (&end["records"], &end["next_cursor"], &end["has_more"]),
        (&json!([]), &json!(10), &json!(false))
    );
    server.finish();
}

#[test]
fn two_pollers_see_the_same_text() {
    let server = Owner::job("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done").serve();
    let session = server.start("job");
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| session.read_from(0, 4096));
        let second = scope.spawn(|| session.read_from(0, 333));
        (
            first.join().expect("no panic"),
            second.join().expect("no panic"),
        )
    });
    let expected: String = (0..2000).map(|n| format!("{n}\n")).collect();
    assert_eq!(first.stdout, expected);
    assert_eq!(second.stdout, expected);
    server.finish();
}

#[test]
fn hammering_and_cancelled_reads_lose_nothing() {
    let script = "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); [ $((i % 100)) -ne 0 ] || sleep 0.01; done";
    let server = Owner::job(script).set("max_sessions", 20).serve();
    let sessions: Vec<_> = (0..20).map(|_| server.start("job")).collect();
    let mut cursors = [0_u64; 20];
    let mut round = 0;
    let mut next = || {
        round += 1;
        round
    };
    wait_until("the children are done", || {
        for (session, cursor) in sessions.iter().zip(&mut cursors) {
            // At the end, where a wait is under way while the next line comes.
            let arguments = json!({"cursor": *cursor, "max_bytes": 64, "wait_ms": 1});
            let call = server.send("terminal_read", session.with_id(arguments));
            if next() % 2 == 0 {
                call.cancel()
            } else {
                *cursor = call.ok()["next_cursor"].as_u64().expect("next_cursor");
            }
        }
        next() % 7 == 0 && sessions.iter().all(|session| is_final(&session.status()))
    });
    let expected: String = (0..2000).map(|n| format!("{n}\n")).collect();
    for session in sessions {
        let output = session.read_all();
        assert_eq!(output.stdout, expected);
        assert_eq!((output.next_cursor, output.complete), (8890, true));
    }
    server.finish();
}

#[test]
fn a_last_line_before_a_failing_exit_is_never_lost() {
    let server = Owner::job("echo boom >&2; exit 1").set("max_records", 1024);
    let server = server
        .set("buffer_bytes", 65536)
        .set("buffer_records", 2048)
        .serve();
    for round in 0..200 {
        let session = server.start("job");
        let output = session.read_all();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("", "boom\n"),
            "round {round}"
        );
        assert!(output.complete);
        assert_eq!(session.wait_final()["exit_code"], 1, "round {round}");
    }
    server.finish();
}

#[test]
fn sixty_thousand_bytes_before_an_immediate_exit_are_never_lost() {
    let server =
        Owner::job("head -c 60000 /dev/zero | tr '\\0' p; printf END").set("max_records", 256);
    let server = server
        .set("buffer_bytes", 131_072)
        .set("buffer_records", Value::Null)
        .serve();
    for round in 0..200 {
        let output = server.start("job").read_all();
        assert_eq!(output.stdout.len(), 60003, "round {round}");
        assert!(
            output.stdout.ends_with("ppEND") && output.complete,
            "round {round}"
        );
    }
    server.finish();
}

#[test]
fn one_write_larger_than_the_pipe_is_drained_while_the_child_lives() {
    // Readiness must be looked at again: 65,537 bytes fill the pipe once and leave one byte over.
    let owner = Owner::new().set("buffer_records", Value::Null);
    let file = owner.file("block", &[b'x'; 65537]);
    let block = file.to_str().expect("UTF-8").to_owned();
    let server = owner
        .sh(
            "job",
            &format!("dd if={block} bs=65537 2>/dev/null; read go; printf Z; read go"),
        )
        .serve();
    let session = server.start("job");
    wait_until("all of the block came", || {
        session.status()["next_cursor"] == 65537
    });
    session.write("\n");
    wait_until("the last byte came", || {
        session.status()["next_cursor"] == 65538
    });
    assert_eq!(session.status()["status"], "RUNNING");
    session.close_stdin();
    session.wait_final();
    server.finish();
}

#[test]
fn a_line_of_five_mebibytes_is_counted_before_the_child_ends() {
    let server = Owner::job("head -c 5242880 /dev/zero | tr '\\0' z; read go").serve();
    let session = server.start("job");
    wait_until("all of it came", || {
        session.status()["next_cursor"] == 5_242_880
    });
    assert_eq!(session.status()["status"], "RUNNING");
    session.write("\n");
    let end = session.wait_settled();
    assert_eq!(
        (&end["exit_code"], &end["next_cursor"]),
        (&json!(0), &json!(5_242_880))
    );
    server.finish();
}

#[test]
fn sixty_four_sessions_of_a_thousand_lines_lose_none() {
    let server = Owner::job("seq 1 1000; seq 1001 2000 >&2")
        .set("max_sessions", 64)
        .set("max_records", 64)
        .set("buffer_records", 32768)
        .set("buffer_bytes", 65536)
        .serve();
    let sessions: Vec<_> = (0..64).map(|_| server.start("job")).collect();
    let lines =
        |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
    let (out, err) = (lines(1..=1000), lines(1001..=2000));
    for session in sessions {
        let output = session.read_all();
        assert!(
            output.stdout == out && output.stderr == err && output.complete,
            "session {}",
            session.id
        );
    }
    server.finish();
}

#[test]
fn endless_output_does_not_eat_memory_or_the_other_calls() {
    let server = Owner::new()
        .argv("yes", &["/usr/bin/yes"])
        .argv("true", &["/bin/true"])
        .serve();
    server.start("true").wait_settled();
    let before = server.resident();
    let session = server.start("yes");
    let mut last = 0;
    let mut flow = |bytes: u64| {
        wait_until("many times the buffer went by", || {
            let status = session.status();
            let next = status["next_cursor"].as_u64().expect("next_cursor");
            let base = status["base_cursor"].as_u64().expect("base_cursor");
            assert!(next >= last && next - base <= 65536, "{base}..{next}");
            last = next;
            next > bytes
        });
        server.resident()
    };
    let filled = flow(64 << 20);
    let grown = filled.saturating_sub(before);
    assert!(
        grown < (1 << 20) + (32 << 20),
        "the server grew by {grown} bytes"
    );
    let crept = flow(192 << 20).saturating_sub(filled);
    assert!(crept < 4 << 20, "and by {crept} bytes more, for nothing");
    let end = session.terminate(0);
    assert!(matches!(end["exit_signal"].as_i64(), Some(9 | 15)), "{end}");
    server.finish();
}
