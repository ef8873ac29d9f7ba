//! Sessions as resources: a list, a template, and the end of each one's output as a terminal would show it.

use serde_json::{Value, json};

use crate::common::{Owner, Server, Session};

/// Most text of one resource.
const MOST: usize = 256 << 10;

fn uri(session: &Session) -> String {
    format!("terminal://session/{}/output", session.id)
}

fn list(server: &Server) -> Vec<Value> {
    let listed = server.request("resources/list", json!({})).result();
    listed["resources"].as_array().expect("a list").clone()
}

/// What a read of the session's resource gives.
fn text(session: &Session) -> String {
    let params = json!({"uri": uri(session)});
    let read = session.server.request("resources/read", params).result();
    let contents = read["contents"].as_array().expect("contents");
    assert_eq!(contents.len(), 1);
    assert_eq!(contents[0]["uri"], json!(uri(session)));
    assert_eq!(contents[0]["mimeType"], "text/plain");
    contents[0]["text"].as_str().expect("text").to_owned()
}

/// A server that keeps more of a session than is read of it.
fn roomy(script: &str) -> Server {
    Owner::job(script)
        .set("buffer_records", 1_048_576)
        .set("max_sessions", 2)
        .set("max_records", 2)
        .serve()
}

#[test]
fn every_session_is_listed_newest_first() {
    let owner = Owner::new()
        .profile(
            "build",
            json!({"argv": ["/bin/sh", "-c", "exit 2"], "allowed_env": [], "description": "Builds it."}),
        )
        .argv("cat", &["/bin/cat"]);
    let command = owner.command();
    let server = Server::spawn(owner, command);
    let answer = server.initialize();
    assert!(answer["capabilities"]["resources"].is_object(), "{answer}");
    assert!(list(&server).is_empty());
    let sessions = [server.start("build"), server.start("cat")];
    sessions[0].wait_settled();
    let listed = list(&server);
    assert_eq!(
        listed[1],
        json!({
            "uri": uri(&sessions[0]),
            "name": "build",
            "title": "Output of build (EXITED)",
            "description": "Builds it.",
            "mimeType": "text/plain",
        })
    );
    assert_eq!(listed[0]["uri"], json!(uri(&sessions[1])));
    assert_eq!(listed[0]["title"], "Output of cat (RUNNING)");
    assert_eq!(listed.len(), 2);
}

#[test]
fn the_template_makes_the_uris_that_are_listed() {
    let server = Owner::job("true").serve();
    let session = server.start("job");
    let answer = server
        .request("resources/templates/list", json!({}))
        .result();
    let templates = answer["resourceTemplates"].as_array().expect("a list");
    assert_eq!(templates.len(), 1);
    let template = templates[0]["uriTemplate"].as_str().expect("a template");
    assert_eq!(
        template.replace("{session_id}", &session.id),
        list(&server)[0]["uri"]
    );
}

#[test]
fn a_read_shows_both_streams_as_a_terminal_would() {
    let script = "printf '\\033[1mbold\\033[0m\\n10 %%\\r55 %%\\rdone\\n'; exec cat >&2";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_for_text("done\n");
    assert_eq!(text(&session), "bold\ndone\n");
    session.write("on stderr, unfinished");
    session.close_stdin();
    session.wait_settled();
    assert_eq!(text(&session), "bold\ndone\non stderr, unfinished");
}

#[test]
fn a_session_that_printed_nothing_reads_as_nothing() {
    let server = Owner::job("exec sleep 600").serve();
    assert_eq!(text(&server.start("job")), "");
}

#[test]
fn of_a_long_log_the_last_lines_are_read() {
    let server = roomy("seq 1 200000");
    let session = server.start("job");
    session.wait_settled();
    let whole: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let read = text(&session);
    assert!(
        read.len() <= MOST && read.len() > MOST - 8,
        "{}",
        read.len()
    );
    assert!(whole.ends_with(&read));
    assert!(
        whole[..whole.len() - read.len()].ends_with('\n'),
        "whole lines"
    );
}

/// Of a line that is longer than may be shown, the end of the log is no less there.
#[test]
fn a_giant_line_hides_nothing_behind_it() {
    let script = "head -c 700000 /dev/zero | tr '\\000' x; echo; echo last";
    let server = roomy(script);
    let session = server.start("job");
    session.wait_settled();
    let read = text(&session);
    assert!(read.len() <= MOST, "{}", read.len());
    assert!(
        read.ends_with("x\nlast\n"),
        "{:?}",
        &read[read.len() - 10..]
    );
}

#[test]
fn what_was_evicted_is_no_part_of_it() {
    let server = Owner::job("seq 1 20000").set("buffer_bytes", 4096).serve();
    let session = server.start("job");
    session.wait_settled();
    let read = text(&session);
    assert!(read.len() <= 4096 && read.ends_with("19999\n20000\n"));
}

#[test]
fn a_uri_of_no_session_is_not_found() {
    let server = Owner::job("true").serve();
    let unknown = "terminal://session/none/output";
    for uri in [unknown, "file:///etc/passwd", "", &"x".repeat(10_000)] {
        let answer = server
            .request("resources/read", json!({"uri": uri}))
            .whole();
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert!(answer.to_string().len() < 1_000, "{answer}");
    }
    for params in [json!({}), json!({"uri": 7}), json!([])] {
        let answer = server.request("resources/read", params).whole();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    // Where the revision says so.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({"uri": unknown, "_meta": meta});
    let answer = server.request("resources/read", params).whole();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn a_resource_goes_with_its_session() {
    let server = Owner::job("echo here").set("retention_seconds", 1).serve();
    let session = server.start("job");
    session.wait_settled();
    crate::common::wait_until("the session is gone", || list(&server).is_empty());
    let params = json!({"uri": uri(&session)});
    let answer = server.request("resources/read", params).whole();
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
}
