//! Cursors, pages and eviction: code points are counted, budgets are exact, gaps are announced.

use crate::common::{Owner, assert_shown, session::stream_text};
use serde_json::{Value, json};

/// Four bytes, a combining mark on a letter, a family joined from several code points, and plain letters.
const MIXED: &str =
    "a\u{1f600}e\u{301}\u{4e2d}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}z\u{10ffff}";

#[test]
fn a_cursor_counts_code_points() {
    let server = Owner::new().bytes("job", MIXED.as_bytes()).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    let characters: Vec<char> = MIXED.chars().collect();
    assert_eq!(end["next_cursor"], characters.len());
    for cursor in 0..=characters.len() {
        let page = session.read(json!({"cursor": cursor}));
        assert_eq!(
            stream_text(&page, "stdout"),
            characters[cursor..].iter().collect::<String>()
        );
        assert_eq!(page["next_cursor"], characters.len());
    }
    server.finish();
}

#[test]
fn pages_of_four_bytes_hold_whole_characters() {
    let server = Owner::new()
        .bytes("job", MIXED.as_bytes())
        .bytes("emoji", "\u{1f600}".repeat(3).as_bytes())
        .serve();
    let output = server.start("job").read_from(0, 4);
    assert_eq!(output.stdout, MIXED);
    let session = server.start("emoji");
    session.wait_settled();
    for cursor in 0..3 {
        let page = session.read(json!({"cursor": cursor, "max_bytes": 4}));
        assert_eq!(stream_text(&page, "stdout"), "\u{1f600}");
        assert_eq!(page["has_more"], cursor < 2);
        let same = session.read(json!({"cursor": cursor, "max_bytes": 7}));
        assert_eq!(stream_text(&same, "stdout"), "\u{1f600}");
    }
    server.finish();
}

#[test]
fn every_page_size_gives_the_same_text() {
    let text = format!("{}\n", "\u{4e2d}".repeat(40000));
    let server = Owner::new()
        .set("buffer_bytes", 131_072)
        .bytes("job", text.as_bytes())
        .serve();
    let session = server.start("job");
    session.wait_settled();
    for max_bytes in [1024, 4096, 65535, 65536] {
        let output = session.read_from(0, max_bytes);
        assert!(output.stdout == text, "max_bytes {max_bytes}");
        assert_eq!(output.next_cursor, 40001);
    }
    // Pages of one character, from where it isn't all the same: before the newline and before the end.
    for max_bytes in [4, 5] {
        for cursor in [0, 39_800] {
            let page = session.read(json!({"cursor": cursor, "max_bytes": max_bytes}));
            assert_eq!(stream_text(&page, "stdout"), "\u{4e2d}");
            assert_eq!(page["has_more"], true);
        }
        let tail = session.read_from(39_800, max_bytes);
        assert!(text.ends_with(&tail.stdout), "max_bytes {max_bytes}");
        assert_eq!(tail.next_cursor, 40001);
    }
    server.finish();
}

#[test]
fn a_full_page_of_runs_is_full() {
    let server = Owner::new()
        .set("buffer_records", Value::Null)
        .bytes("job", &[b'x'; 200_000])
        .serve();
    let session = server.start("job");
    session.wait_settled();
    let page = session.read(json!({"cursor": 0}));
    assert_eq!(
        page["records"].as_array().map(Vec::len),
        Some(1),
        "one stream, one run"
    );
    assert_eq!(stream_text(&page, "stdout").len(), 65536);
    assert_eq!(page["has_more"], true);
    server.finish();
}

#[test]
fn single_code_points_are_available_on_request() {
    let server = Owner::job("printf 'a\\342\\202\\254b'").serve();
    let session = server.start("job");
    session.wait_settled();
    let page = session.read(json!({"cursor": 0, "records": "code_points"}));
    let record =
        |cursor: u64, text: &str| json!({"cursor": cursor, "stream": "stdout", "text": text});
    assert_eq!(
        page["records"],
        json!([record(0, "a"), record(1, "\u{20ac}"), record(2, "b")])
    );
    let runs = session.read(json!({"cursor": 0, "records": "runs"}));
    assert_eq!(runs["records"], json!([record(0, "a\u{20ac}b")]));
    assert_eq!(runs, session.read(json!({"cursor": 0})));
    for bad in [
        json!("lines"),
        json!("RUNS"),
        json!(""),
        json!(true),
        json!(null),
    ] {
        let code = server.code("terminal_read", session.with_id(json!({"records": bad})));
        assert_eq!(code, "INVALID_ARGUMENT", "{bad}");
    }
    server.finish();
}

#[test]
fn a_page_holds_at_most_1024_records() {
    let server = Owner::new().bytes("job", &[b'x'; 2500]).serve();
    let session = server.start("job");
    session.wait_settled();
    let mut cursor = 0;
    for (length, more) in [(1024, true), (1024, true), (452, false)] {
        let page = session.read(json!({"cursor": cursor, "records": "code_points"}));
        assert_eq!(page["records"].as_array().map(Vec::len), Some(length));
        assert_eq!(page["has_more"], more);
        cursor += length;
        assert_eq!(page["next_cursor"], cursor);
    }
    server.finish();
}

#[test]
fn runs_that_alternate_are_limited_to_1024_as_well() {
    // Each line waits until the one before was read, so that no two writes of one stream come in a row.
    let script = "while read go; do printf o; printf e >&2; done";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    for round in 1..=600 {
        session.write("\n");
        crate::common::wait_until("both came", || session.status()["next_cursor"] == 2 * round);
    }
    session.close_stdin();
    let output = session.read_all();
    assert_eq!((output.stdout.len(), output.stderr.len()), (600, 600));
    let page = session.read(json!({"cursor": 0}));
    let records = page["records"].as_array().expect("records").len();
    assert!(records <= 1024, "{records} records");
    assert_eq!(page["has_more"], page["next_cursor"] != 1200);
    server.finish();
}

/// What is left in a session that keeps `bytes` bytes and `records` code points, after `text` was printed.
#[track_caller]
fn assert_retained(bytes: u64, records: Option<u64>, text: &str, retained: &str) {
    let owner = Owner::new()
        .set("buffer_bytes", bytes)
        .set("buffer_records", records);
    let owner = owner.set("max_records", 1).set("max_sessions", 1);
    let server = owner.bytes("job", text.as_bytes()).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    let next = text.chars().count() as u64;
    let base = next - retained.chars().count() as u64;
    assert_eq!(
        (&end["base_cursor"], &end["next_cursor"]),
        (&json!(base), &json!(next))
    );
    assert_eq!(end["truncated"], base > 0);
    let output = session.read_from(base, 65536);
    assert!(output.stdout == retained, "the retained text differs");
    assert_eq!((output.base_cursor, output.truncated), (base, base > 0));
    if base > 0 {
        for cursor in [0, base - 1] {
            let error = server.refused(
                "terminal_read",
                session.with_id(json!({"cursor": cursor, "wait_ms": 2000})),
            );
            assert_eq!(error["code"], "CURSOR_EXPIRED");
            assert_eq!(
                (&error["base_cursor"], &error["next_cursor"]),
                (&json!(base), &json!(next)),
                "{error}"
            );
        }
    }
    for cursor in [next + 1, u64::MAX >> 1] {
        let error = server.refused(
            "terminal_read",
            session.with_id(json!({"cursor": cursor, "wait_ms": 2000})),
        );
        assert_eq!(error["code"], "INVALID_CURSOR");
        assert_eq!(
            (&error["base_cursor"], &error["next_cursor"]),
            (&json!(base), &json!(next)),
            "{error}"
        );
    }
    server.finish();
}

#[test]
fn nothing_is_evicted_at_exactly_the_byte_limit() {
    assert_retained(
        12,
        Some(100),
        "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}",
        "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}",
    );
}

#[test]
fn one_byte_over_the_limit_evicts_one_character() {
    assert_retained(
        11,
        Some(100),
        "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}",
        "\u{4e2d}\u{4e2d}\u{4e2d}",
    );
    assert_retained(
        10,
        None,
        "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}",
        "\u{4e2d}\u{4e2d}\u{4e2d}",
    );
}

#[test]
fn the_smallest_buffer_keeps_the_last_character() {
    assert_retained(4, Some(100), "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}", "\u{4e2d}");
    assert_retained(4, Some(1), "ab\u{1f600}", "\u{1f600}");
    assert_retained(4, None, "ab\u{1f600}cd", "cd");
    assert_retained(4, None, "abcdefgh", "efgh");
}

#[test]
fn eviction_by_code_points_is_exact() {
    assert_retained(1000, Some(3), "a\u{4e2d}b\u{1f600}c", "b\u{1f600}c");
    assert_retained(1000, Some(5), "abcde", "abcde");
    assert_retained(1000, Some(5), "abcdef", "bcdef");
}

#[test]
fn the_tighter_budget_binds() {
    assert_retained(6, Some(3), "\u{4e2d}\u{4e2d}abc", "abc");
    assert_retained(6, Some(4), "\u{4e2d}\u{4e2d}abc", "\u{4e2d}abc");
    assert_retained(6, None, "\u{4e2d}\u{4e2d}abc", "\u{4e2d}abc");
}

#[test]
fn long_output_keeps_exactly_its_end() {
    let text = format!("{}END\n", "x".repeat(3_145_728));
    assert_retained(
        1_048_576,
        Some(1_048_576),
        &text,
        &text[text.len() - 1_048_576..],
    );
    assert_retained(1_000_003, None, &text, &text[text.len() - 1_000_003..]);
    assert_retained(1_048_576, Some(77_777), &text, &text[text.len() - 77_777..]);
}

#[test]
fn long_output_of_mixed_width_keeps_exactly_its_end() {
    let text: String = (0..200_000)
        .map(|n| ['a', '\u{e9}', '\u{4e2d}', '\u{1f600}'][n % 4])
        .collect();
    let tail = |records: usize| text.chars().skip(200_000 - records).collect::<String>();
    assert_retained(65536, Some(10_001), &text, &tail(10_001));
    // Ten bytes for each four characters; of the next group only a part fits.
    assert_retained(10_000, None, &text, &tail(4000));
    assert_retained(10_004, None, &text, &tail(4001));
    assert_retained(10_003, None, &text, &tail(4000));
    assert_retained(10_007, None, &text, &tail(4002));
}

#[test]
fn the_end_of_a_long_build_log_survives_on_both_streams() {
    let owner = Owner::job("seq 1 400000; echo 'error: LAST' >&2; exit 1");
    let owner = owner
        .set("buffer_records", 1_048_576)
        .set("max_records", 2)
        .set("max_sessions", 2);
    let server = owner.serve();
    let session = server.start("job");
    let end = session.wait_settled();
    assert_eq!(end["exit_code"], 1);
    assert_eq!(end["next_cursor"], 2_688_907);
    assert_eq!(end["base_cursor"], 1_640_331);
    let output = session.read_from(1_640_331, 65536);
    assert_eq!(output.stderr, "error: LAST\n");
    assert!(output.stdout.ends_with("\n399999\n400000\n"));
    assert!(output.truncated && output.complete);
    server.finish();
}

#[test]
fn a_cursor_beyond_the_end_of_a_running_session_is_no_reason_to_wait() {
    let server = Owner::job("printf abc; read go").serve();
    let session = server.start("job");
    session.wait_for_text("abc");
    assert_shown("it is refused at once", || {
        let hourglass = session.hourglass();
        for cursor in [4, u64::MAX >> 1] {
            let error = server.refused(
                "terminal_read",
                session.with_id(json!({"cursor": cursor, "wait_ms": 2000})),
            );
            assert_eq!(error["code"], "INVALID_CURSOR");
            assert_eq!(
                (&error["base_cursor"], &error["next_cursor"]),
                (&json!(0), &json!(3))
            );
        }
        !hourglass.is_answered()
    });
    server.finish();
}

#[test]
fn what_is_evicted_during_a_wait_is_announced() {
    let server = Owner::job("read go; printf abcdefgh; read go")
        .set("buffer_bytes", 4)
        .serve();
    let session = server.start("job");
    let mut waiting = server.send("terminal_read", session.with_id(json!({"wait_ms": 2000})));
    session.write("\n");
    let mut body = waiting.body();
    while body["ok"] == true {
        assert_eq!(
            (&body["records"], &body["base_cursor"]),
            (&json!([]), &json!(0)),
            "a silent gap"
        );
        waiting = server.send("terminal_read", session.with_id(json!({"wait_ms": 2000})));
        body = waiting.body();
    }
    assert_eq!(body["error"]["code"], "CURSOR_EXPIRED");
    assert_eq!(
        (&body["error"]["base_cursor"], &body["error"]["next_cursor"]),
        (&json!(4), &json!(8))
    );
    server.finish();
}

#[test]
fn a_reader_that_falls_behind_is_told_and_can_go_on() {
    // Each burst replaces all that is kept; between two bursts there is time to read.
    let script = "while read go; do head -c 70000 /dev/zero | tr '\\0' x; done";
    let server = Owner::job(script).set("buffer_bytes", 65536).serve();
    let session = server.start("job");
    let mut cursor = 0;
    for burst in 1..=5 {
        session.write("\n");
        crate::common::wait_until("the burst came", || {
            session.status()["next_cursor"] == burst * 70000
        });
        let read = |cursor: u64| session.with_id(json!({"cursor": cursor}));
        let told = server.refused("terminal_read", read(cursor));
        assert_eq!(told["code"], "CURSOR_EXPIRED");
        let base = told["base_cursor"].as_u64().expect("the way back");
        assert_eq!(
            (base, &told["next_cursor"]),
            (burst * 70000 - 65536, &json!(burst * 70000))
        );
        let page = session.read(json!({"cursor": base}));
        assert_eq!(stream_text(&page, "stdout"), "x".repeat(65536));
        cursor = page["next_cursor"].as_u64().expect("next_cursor");
    }
    server.finish();
}
