//! One call instead of polling: a start that answers at the end, reads that wait for an end, a match or silence, the tail.

use serde_json::{Value, json};

use crate::common::{Owner, Server, Session};

/// The text of the records of `page`, both streams.
fn text(page: &Value) -> String {
    let records = page["records"].as_array().expect("records");
    let texts = records
        .iter()
        .map(|record| record["text"].as_str().expect("text"));
    texts.collect()
}

fn started(server: &Server, arguments: Value) -> Value {
    server.ok("terminal_start", arguments)
}

#[test]
fn a_start_that_waits_has_exit_code_and_output_in_one_answer() {
    let server = Owner::job("echo out; sleep 0.1; echo err >&2; exit 3").serve();
    let body = started(&server, json!({ "command_id": "job", "wait_ms": 55_000 }));
    assert_eq!(
        (&body["status"], &body["exit_code"]),
        (&json!("EXITED"), &json!(3))
    );
    assert_eq!(body["output_complete"], true);
    assert_eq!(body["output"]["omitted"], Value::Null);
    assert_eq!(text(&body["output"]), "out\nerr\n");
}

#[test]
fn without_a_wait_a_start_answers_as_ever() {
    let server = Owner::job("echo out").serve();
    let body = started(&server, json!({ "command_id": "job" }));
    assert_eq!(body["status"], "RUNNING");
    assert!(body.get("output").is_none());
}

#[test]
fn a_start_whose_time_is_over_answers_with_what_there_is() {
    let server = Owner::job("echo first; exec sleep 1000").serve();
    let body = started(&server, json!({ "command_id": "job", "wait_ms": 700 }));
    assert_eq!(body["status"], "RUNNING");
    assert_eq!(text(&body["output"]), "first\n");
}

#[test]
fn what_a_long_log_leaves_out_is_counted_and_can_be_read() {
    let server = Owner::job("seq 1 5000; echo 'error: LAST' >&2; exit 1").serve();
    let body = started(
        &server,
        json!({ "command_id": "job", "wait_ms": 55_000, "output_bytes": 1000 }),
    );
    let shown = text(&body["output"]);
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("error: LAST\n"));
    assert!(shown.len() <= 1000);
    let gap = &body["output"]["omitted"];
    let number = |name: &str| gap[name].as_u64().expect("a count");
    assert_eq!(number("to") - number("from"), number("code_points"));
    assert_eq!(
        shown.len() as u64 + number("bytes"),
        body["next_cursor"].as_u64().unwrap()
    );
    let lines = shown.matches('\n').count() as u64;
    assert_eq!(lines + number("lines"), 5_001);
    // All of it is still retained, so the gap can be filled.
    let session = Session::of(&server, body.clone());
    let (mut cursor, mut hidden) = (number("from"), String::new());
    while cursor < number("to") {
        let rest = number("to") - cursor;
        let page = session.read(json!({ "cursor": cursor, "max_bytes": rest.clamp(4, 65_536) }));
        hidden.push_str(&text(&page));
        cursor = page["next_cursor"].as_u64().unwrap();
    }
    assert_eq!(hidden.len() as u64, number("bytes"));
    assert_eq!(hidden.matches('\n').count() as u64, number("lines"));
}

#[test]
fn what_was_evicted_before_the_answer_counts_as_left_out() {
    let server = Owner::job("seq 1 100000; exit 0")
        .set("buffer_bytes", 4096)
        .serve();
    let body = started(&server, json!({ "command_id": "job", "wait_ms": 55_000 }));
    assert_eq!(body["truncated"], true);
    let shown = text(&body["output"]);
    assert!(shown.starts_with("1\n2\n3\n") && shown.ends_with("100000\n"));
    let gap = &body["output"]["omitted"];
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        gap["bytes"].as_u64().unwrap(),
        (whole.len() - shown.len()) as u64
    );
    assert_eq!(
        gap["lines"].as_u64().unwrap(),
        100_000 - shown.matches('\n').count() as u64
    );
}

#[test]
fn input_at_the_start_reaches_the_command_and_its_end_of_file() {
    let server = Owner::new().argv("cat", &["/bin/cat"]).serve();
    let body = started(
        &server,
        json!({ "command_id": "cat", "input": "one\ntwo\n", "close_stdin": true, "wait_ms": 55_000 }),
    );
    assert_eq!(
        (&body["status"], &body["stdin_closed"]),
        (&json!("EXITED"), &json!(true))
    );
    assert_eq!(text(&body["output"]), "one\ntwo\n");
}

#[test]
fn input_that_is_not_taken_makes_the_snapshot_uncertain() {
    let server = Owner::job("exec sleep 1000")
        .set("max_input_bytes", 1_000_000)
        .serve();
    let body = started(
        &server,
        json!({ "command_id": "job", "input": "x".repeat(500_000) }),
    );
    assert_eq!(
        (&body["status"], &body["input_uncertain"]),
        (&json!("RUNNING"), &json!(true))
    );
}

#[test]
fn a_read_until_the_end_has_the_final_status() {
    let server = Owner::job("read line; echo $line; exit 4").serve();
    let session = server.start("job");
    let wait = session.server.send(
        "terminal_read",
        json!({ "session_id": session.id, "until": "end", "wait_ms": 55_000 }),
    );
    session.write("done\n");
    let page = wait.ok();
    assert_eq!(
        (&page["wait_result"], &page["status"]),
        (&json!("end"), &json!("EXITED"))
    );
    assert_eq!(text(&page), "done\n");
}

#[test]
fn a_pattern_ends_the_page_and_the_next_read_finds_the_next_match() {
    let server =
        Owner::job("read go; printf 'ready 1\\nnoise\\nready 2\\n'; exec sleep 1000").serve();
    let session = server.start("job");
    let until = json!({ "pattern": "^ready \\d$" });
    let wait = session.server.send(
        "terminal_read",
        json!({ "session_id": session.id, "until": until, "wait_ms": 55_000 }),
    );
    session.write("go\n");
    let page = wait.ok();
    assert_eq!(page["wait_result"], "pattern");
    assert_eq!(page["match"], json!({ "cursor": 0, "text": "ready 1" }));
    assert_eq!(
        (text(&page).as_str(), &page["next_cursor"]),
        ("ready 1", &json!(7))
    );
    let page = session.read(json!({ "cursor": 7, "until": until, "wait_ms": 55_000 }));
    assert_eq!(page["match"], json!({ "cursor": 14, "text": "ready 2" }));
    assert_eq!(text(&page), "\nnoise\nready 2");
    let page = session.read(json!({ "cursor": 21, "until": until, "wait_ms": 50 }));
    assert_eq!(
        (&page["wait_result"], &page["match"]),
        (&json!("timeout"), &Value::Null)
    );
}

#[test]
fn a_match_far_behind_the_cursor_tells_what_has_no_room() {
    let server = Owner::job("seq 1 5000; echo READY; exec sleep 1000").serve();
    let session = server.start("job");
    let page = session
        .read(json!({ "until": { "pattern": "READY" }, "wait_ms": 55_000, "max_bytes": 100 }));
    assert!(text(&page).ends_with("5000\nREADY"));
    let whole: String = (1..=5000).map(|n| format!("{n}\n")).collect();
    let hidden = &whole[..whole.len() + "READY".len() - text(&page).len()];
    assert_eq!(page["omitted"]["bytes"], hidden.len());
    assert_eq!(page["omitted"]["lines"], hidden.matches('\n').count());
    assert_eq!(page["omitted"]["from"], 0);
}

#[test]
fn silence_ends_a_wait_for_it() {
    let server = Owner::job("echo prompt; exec sleep 1000").serve();
    let session = server.start("job");
    let page = session.read(json!({ "until": { "idle_ms": 500 }, "wait_ms": 55_000 }));
    assert_eq!(
        (&page["wait_result"], text(&page).as_str()),
        (&json!("idle"), "prompt\n")
    );
}

#[test]
fn the_tail_is_the_last_text_that_fits() {
    let server = Owner::job("seq 1 1000").serve();
    let session = server.start("job");
    session.wait_settled();
    let page = session.read(json!({ "from": "tail", "max_bytes": 9 }));
    assert_eq!(text(&page), "999\n1000\n"[..].to_owned());
    assert_eq!(
        (&page["has_more"], &page["next_cursor"]),
        (&json!(false), &json!(3893))
    );
    let plain = session.read(json!({ "from": "tail", "max_bytes": 9, "view": "plain" }));
    assert!(text(&plain).ends_with("1000\n"));
}

#[test]
fn arguments_that_contradict_each_other_are_refused_by_name() {
    let server = Owner::job("exec sleep 1000").serve();
    let session = server.start("job");
    let refused = |arguments: Value, name: &str| {
        let mut arguments = arguments;
        arguments["session_id"] = json!(session.id);
        let error = session.server.refused("terminal_read", arguments);
        assert_eq!(error["code"], "INVALID_ARGUMENT");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{name}")), "{message}");
    };
    refused(json!({ "from": "tail", "cursor": 0 }), "from");
    refused(json!({ "wait_ms": 2001 }), "wait_ms");
    refused(json!({ "wait_ms": 2001, "until": "record" }), "wait_ms");
    refused(json!({ "until": { "pattern": "(" } }), "until.pattern");
    refused(
        json!({ "until": { "pattern": "x".repeat(1 << 19) } }),
        "until.pattern",
    );
    refused(
        json!({ "until": { "pattern": "(((a{100}){100}){100})" } }),
        "until.pattern",
    );
    refused(json!({ "until": { "idle_ms": 49 } }), "until.idle_ms");
    refused(
        json!({ "until": { "pattern": "a", "idle_ms": 50 } }),
        "until",
    );
    refused(json!({ "until": {} }), "until");
    refused(json!({ "until": "exit" }), "until");
    refused(
        json!({ "until": { "pattern": "a" }, "view": "plain" }),
        "until",
    );
}
