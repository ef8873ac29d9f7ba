//! Finding lines in a session's output.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::{Value, json};

use crate::common::{Owner, Session, wait_until};

/// Cursor and text of each line found, match and all.
fn found(body: &Value) -> Vec<(u64, String, u64, String)> {
    let matches = body["matches"].as_array().expect("matches");
    let word = |value: &Value| value.as_str().expect("a string").to_owned();
    let line = |line: &Value| {
        (
            line["cursor"].as_u64().expect("a cursor"),
            word(&line["text"]),
            line["match"]["cursor"].as_u64().expect("a cursor"),
            word(&line["match"]["text"]),
        )
    };
    matches.iter().map(line).collect()
}

fn row(cursor: u64, text: &str, at: u64, matched: &str) -> (u64, String, u64, String) {
    (cursor, text.to_owned(), at, matched.to_owned())
}

fn search(session: &Session<'_>, arguments: Value) -> Value {
    session
        .server
        .ok("terminal_read", session.with_id(arguments))
}

/// Bytes of text in an answer.
fn bytes(body: &Value) -> usize {
    let matches = body["matches"].as_array().expect("matches");
    let length = |value: &Value| value.as_str().expect("a string").len();
    let around = |line: &Value, side: &str| -> usize {
        line[side]
            .as_array()
            .expect("lines")
            .iter()
            .map(length)
            .sum()
    };
    matches
        .iter()
        .map(|line| {
            length(&line["text"])
                + length(&line["match"]["text"])
                + around(line, "before")
                + around(line, "after")
        })
        .sum()
}

#[test]
fn lines_come_with_their_match_and_those_around() {
    let server =
        Owner::job("printf 'one\\ntwo\\nan ERROR here\\r\\nthree\\nfour\\nerr'; exec sleep 1000")
            .serve();
    let session = server.start("job");
    wait_until("it has printed", || session.status()["next_cursor"] == 37);
    let body = search(
        &session,
        json!({
            "find": { "pattern": "err(or)?", "ignore_case": true, "context_lines": 1 }
        }),
    );
    assert_eq!(
        found(&body),
        [
            row(8, "an ERROR here", 11, "ERROR"),
            row(34, "err", 34, "err")
        ]
    );
    let first = &body["matches"][0];
    assert_eq!(
        (&first["stream"], &first["before"], &first["after"]),
        (&json!("stdout"), &json!(["two"]), &json!(["three"]))
    );
    assert_eq!(
        (&body["matches"][1]["before"], &body["matches"][1]["after"]),
        (&json!(["four"]), &json!([]))
    );
    assert_eq!(
        (
            &body["lines_scanned"],
            &body["next_cursor"],
            &body["has_more"]
        ),
        (&json!(6), &json!(37), &json!(false))
    );
    assert_eq!(
        (&body["status"], &body["output_complete"]),
        (&json!("RUNNING"), &json!(false))
    );
    assert!(body.get("records").is_none());
    // Case counts unless told otherwise, and so does the cursor.
    assert_eq!(
        found(&search(&session, json!({ "find": { "pattern": "error" } }))),
        []
    );
    let body = search(
        &session,
        json!({ "cursor": 12, "find": { "pattern": "[Ee]rr|h" } }),
    );
    assert_eq!(found(&body)[0], row(8, "an ERROR here", 17, "h"));
    session.terminate(0);
    server.finish();
}

/// Follows `next_cursor` to the end; returns cursors of lines, and checks each answer.
fn follow(session: &Session<'_>, find: &Value, max_bytes: usize) -> (Vec<u64>, u64) {
    let (mut cursor, mut lines, mut scanned) = (0, Vec::new(), 0);
    loop {
        let body = search(
            session,
            json!({ "cursor": cursor, "find": find, "max_bytes": max_bytes }),
        );
        assert!(bytes(&body) <= max_bytes, "{} bytes", bytes(&body));
        lines.extend(found(&body).iter().map(|line| line.0));
        scanned += body["lines_scanned"].as_u64().expect("a count");
        let next = body["next_cursor"].as_u64().expect("a cursor");
        if body["has_more"] == false {
            return (lines, scanned);
        }
        assert!(next > cursor, "{body}");
        cursor = next;
    }
}

#[test]
fn going_on_loses_and_repeats_nothing_with_both_streams_interleaved() {
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo \"out hit $i\"; printf 'err hi' >&2; echo noise; \
                  echo \"t $i\" >&2; done";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_settled();
    let find = json!({ "pattern": "hit" });
    for (max_matches, context, max_bytes) in
        [(200, 0, 65_536), (7, 2, 65_536), (200, 1, 300), (1, 0, 4)]
    {
        let mut find = find.clone();
        find["max_matches"] = json!(max_matches);
        find["context_lines"] = json!(context);
        let (lines, scanned) = follow(&session, &find, max_bytes);
        assert_eq!((lines.len(), scanned), (800, 1200), "{find} in {max_bytes}");
        assert_eq!(lines.into_iter().collect::<BTreeSet<_>>().len(), 800);
    }
    server.finish();
}

#[test]
fn sixteen_mebibytes_are_searched_and_a_giant_line_is_clipped_around_its_match() {
    let mut text = String::new();
    for number in 0..200_000 {
        writeln!(
            text,
            "2026-11-30T12:00:00Z INFO worker {number} finished its item"
        )
        .expect("a string");
    }
    let giant = text.len();
    let x = "x".repeat(2_000_000);
    writeln!(text, "{x}needle{x}").expect("a string");
    text.push_str("the last needle");
    let server = Owner::new()
        .bytes("log", text.as_bytes())
        .buffer(1 << 24)
        .set("max_sessions", 1)
        .set("max_records", 4)
        .serve();
    let session = server.start("log");
    session.wait_settled();
    let body = search(&session, json!({ "find": { "pattern": "needle" } }));
    let lines = found(&body);
    assert_eq!(lines.len(), 2);
    let (cursor, shown, at, _) = &lines[0];
    assert_eq!((*cursor, *at), (giant as u64, (giant + x.len()) as u64));
    assert!(shown.len() <= 4096 && shown.len() > 4000);
    assert!(shown.starts_with("…x") && shown.contains("needle") && shown.ends_with("x…"));
    assert_eq!(body["matches"][0]["match"]["clipped"], true);
    assert!(body["matches"][1]["match"].get("clipped").is_none());
    assert_eq!(body["lines_scanned"], 200_002);
    assert_eq!(body["next_cursor"], text.len());
    server.finish();
}

#[test]
fn its_cursors_expire_as_those_of_pages_do() {
    let server = Owner::job("seq 1 1000").buffer(1000).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    let refused = |arguments: Value| server.refused("terminal_read", session.with_id(arguments));
    let find = json!({ "pattern": "^99" });
    let error = refused(json!({ "find": find }));
    assert_eq!(error["code"], "CURSOR_EXPIRED");
    assert_eq!(error["base_cursor"], end["base_cursor"]);
    let body = search(
        &session,
        json!({ "cursor": end["base_cursor"], "find": find }),
    );
    assert_eq!(
        (body["matches"].as_array().map(Vec::len), &body["truncated"]),
        (Some(10), &json!(true))
    );
    let beyond = end["next_cursor"].as_u64().expect("a cursor") + 1;
    assert_eq!(
        refused(json!({ "cursor": beyond, "find": find }))["code"],
        "INVALID_CURSOR"
    );
    server.finish();
}

#[test]
fn what_contradicts_it_and_what_is_no_pattern_is_refused_by_name() {
    let server = Owner::job("exec sleep 1000").serve();
    let session = server.start("job");
    let refused = |arguments: Value, name: &str, what: &str| {
        let error = server.refused("terminal_read", session.with_id(arguments));
        assert_eq!(error["code"], "INVALID_ARGUMENT");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.contains(&format!("`{name}`")) && message.contains(what),
            "{message}"
        );
    };
    let find = json!({ "pattern": "a" });
    refused(json!({ "find": find, "until": "end" }), "find", "`until`");
    refused(json!({ "find": find, "from": "tail" }), "find", "`from`");
    refused(json!({ "find": find, "view": "plain" }), "find", "`view`");
    refused(
        json!({ "find": find, "records": "code_points" }),
        "find",
        "`records`",
    );
    refused(json!({ "find": find, "wait_ms": 1 }), "find", "`wait_ms`");
    refused(
        json!({ "find": { "pattern": "a(b" } }),
        "find.pattern",
        "at character 2",
    );
    refused(
        json!({ "find": { "pattern": "x".repeat(1_000_000) } }),
        "find.pattern",
        "1000000 bytes",
    );
    refused(
        json!({ "find": { "pattern": "(((a{100}){100}){100})" } }),
        "find.pattern",
        "too large",
    );
    refused(json!({ "find": {} }), "find", "pattern");
    refused(json!({ "find": "a" }), "find", "object");
    refused(json!({ "find": ["a"] }), "find", "object");
    refused(
        json!({ "find": { "pattern": "a", "lines": 1 } }),
        "find",
        "`lines`",
    );
    refused(
        json!({ "find": { "pattern": "a", "context_lines": 11 } }),
        "find.context_lines",
        "0 to 10",
    );
    refused(
        json!({ "find": { "pattern": "a", "max_matches": 0 } }),
        "find.max_matches",
        "1 to 200",
    );
    session.terminate(0);
    server.finish();
}
