//! `terminal_status` without a session: all of them, the newest first.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::common::{Owner, Server, session::check_snapshot, wait_until};

fn list(server: &Server) -> Vec<Value> {
    let body = server.ok("terminal_status", json!({}));
    let sessions = body["sessions"].as_array().expect("a list").clone();
    assert_eq!(
        body.as_object().expect("an object").len(),
        2,
        "ok and sessions"
    );
    for session in &sessions {
        check_snapshot(session);
        let output = [&session["last_output_at"], &session["output_bytes"]];
        assert_eq!(output[0].is_string(), *output[1] != 0, "{session}");
    }
    sessions
}

fn ids(sessions: &[Value]) -> Vec<&str> {
    let ids = sessions
        .iter()
        .map(|session| session["session_id"].as_str().expect("an id"));
    ids.collect()
}

#[test]
fn a_server_without_sessions_lists_none() {
    let server = Owner::job("true").serve();
    assert_eq!(list(&server), [json!(null); 0]);
    let unnamed = server.request("tools/call", json!({"name": "terminal_status"}));
    assert_eq!(unnamed.ok()["sessions"], json!([]));
    server.finish();
}

#[test]
fn every_session_is_listed_newest_first_with_its_snapshot() {
    let owner = Owner::new()
        .profile(
            "build",
            json!({"argv": ["/bin/sh", "-c", "printf 'h\\303\\251'; printf '\\377' >&2; exit 2"], "allowed_env": [], "description": "Builds it."}),
        )
        .argv("cat", &["/bin/cat"])
        .argv("quiet", &["/bin/sleep", "600"])
        .set("max_sessions", 16);
    let server = owner.serve();
    // Several in one millisecond: their order is that of the starts all the same.
    let mut started = vec![server.start("build"), server.start("quiet")];
    started.extend((0..8).map(|_| server.start("cat")));
    started[0].wait_settled();
    started[9].write("hello\n");
    started[9].wait_for_text("hello");
    let sessions = list(&server);
    let newest_first: Vec<&str> = started
        .iter()
        .rev()
        .map(|session| session.id.as_str())
        .collect();
    assert_eq!(ids(&sessions), newest_first);
    for (session, listed) in started.iter().rev().zip(&sessions) {
        let snapshot = session.status();
        for (field, value) in snapshot.as_object().expect("an object") {
            if field != "ok" {
                assert_eq!(listed[field], *value, "{field} of {}", session.id);
            }
        }
        assert_eq!(
            listed.as_object().expect("an object").len(),
            snapshot.as_object().expect("an object").len() - 1 + 3
        );
    }
    let (build, quiet, typed) = (&sessions[9], &sessions[8], &sessions[0]);
    assert_eq!(build["description"], "Builds it.");
    assert_eq!(quiet["description"], Value::Null);
    // Bytes as they were printed: three of text, one that is none.
    assert_eq!(
        (&build["output_bytes"], &build["next_cursor"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(
        (&quiet["output_bytes"], &quiet["last_output_at"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(typed["output_bytes"], 6);
    assert!(typed["created_at"].as_str() <= typed["last_output_at"].as_str());
    server.finish();
}

#[test]
fn output_is_counted_whole_when_old_text_is_evicted_and_characters_are_split() {
    let owner = Owner::new()
        .sh("flood", "head -c 3000000 /dev/zero | tr '\\0' x")
        .sh(
            "split",
            "printf '\\303'; sleep 0.1; printf '\\251'; printf '\\342\\202'",
        )
        .buffer(4_096);
    let server = owner.serve();
    for id in ["flood", "split"] {
        server.start(id).wait_settled();
    }
    let sessions = list(&server);
    assert_eq!(
        (&sessions[1]["output_bytes"], &sessions[1]["truncated"]),
        (&json!(3_000_000), &json!(true))
    );
    assert_eq!(
        (&sessions[0]["output_bytes"], &sessions[0]["next_cursor"]),
        (&json!(4), &json!(2))
    );
    server.finish();
}

#[test]
fn a_session_is_listed_for_as_long_as_it_is_retained() {
    let owner = Owner::new()
        .argv("true", &["/bin/true"])
        .argv("quiet", &["/bin/sleep", "600"])
        .set("retention_seconds", 1);
    let server = owner.serve();
    let quiet = server.start("quiet");
    server.start("true");
    wait_until("it has expired", || {
        ids(&list(&server)) == [quiet.id.as_str()]
    });
    server.finish();
}

#[test]
fn each_layout_of_results_carries_the_list() {
    for (results, structured) in [("structured", true), ("text", false)] {
        let server = Owner::job("exit 0").set("results", results).serve();
        server
            .send("terminal_start", json!({"command_id": "job"}))
            .result();
        let result = server.send("terminal_status", json!({})).result();
        let text = result["content"][0]["text"].as_str().expect("a text block");
        if structured {
            assert_eq!(
                result["structuredContent"]["sessions"][0]["command_id"],
                "job"
            );
            assert!(text.starts_with("1 sessions, "), "{text}");
        } else {
            assert_eq!(result.get("structuredContent"), None);
            let body: HashMap<String, Value> = serde_json::from_str(text).expect("JSON");
            assert_eq!(body["sessions"][0]["command_id"], "job");
        }
        server.finish();
    }
}
