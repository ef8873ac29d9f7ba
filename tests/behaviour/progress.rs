//! Calls that wait tell how far they are, when their client asked for it.

use serde_json::{Value, json};

use crate::common::{Call, Owner, Server, wait_until};

/// A tool call that asks for progress under this token.
fn send<'a>(server: &'a Server, token: &Value, tool: &str, arguments: Value) -> Call<'a> {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}});
    server.request("tools/call", params)
}

/// The progress that was told under this token so far.
fn told(server: &Server, token: &Value) -> Vec<Value> {
    let notices = server.notices().into_iter();
    let of_token = notices
        .filter(|notice| notice["method"] == "notifications/progress")
        .map(|notice| notice["params"].clone())
        .filter(|params| params["progressToken"] == *token);
    of_token.collect()
}

fn numbers(told: &[Value]) -> Vec<f64> {
    let numbers = told.iter().map(|params| params["progress"].as_f64());
    numbers.map(|number| number.expect("a number")).collect()
}

#[test]
fn a_read_that_waits_tells_bytes_and_last_line_and_nothing_after_its_answer() {
    let server = Owner::job("printf 'one\\n10 %%\\r55 %%'; exec cat").serve();
    let session = server.start("job");
    session.wait_for_text("55 %");
    let token = json!("a token");
    let arguments = session.with_id(json!({"until": "end", "wait_ms": 55_000}));
    let call = send(&server, &token, "terminal_read", arguments.clone());
    let untold = server.send("terminal_read", arguments);
    wait_until("it is told more than once", || {
        told(&server, &token).len() >= 2
    });
    session.write(" done\n");
    wait_until("what was printed since is told", || {
        told(&server, &token)
            .last()
            .is_some_and(|params| params["message"] == "55 % done")
    });
    session.close_stdin();
    assert_eq!(call.ok()["wait_result"], "end");
    assert_eq!(untold.ok()["wait_result"], "end");
    let all = told(&server, &token);
    assert_eq!(all.len(), server.notices().len(), "nobody else asked");
    assert_eq!(all[0]["message"], "55 %");
    let numbers = numbers(&all);
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(numbers[0], 13.0);
    assert_eq!(numbers.last().map(|number| number.trunc()), Some(19.0));
    // Two seconds by the server's clock.
    let other = Owner::job("exec sleep 600").serve();
    other.start("job").hourglass().ok();
    assert_eq!(told(&server, &token).len(), all.len());
}

#[test]
fn a_start_that_waits_tells_of_the_session_that_nobody_knows_yet() {
    let server = Owner::job("echo working; read answer; echo \"$answer\"").serve();
    let token = json!(7);
    let arguments = json!({"command_id": "job", "wait_ms": 55_000});
    let call = send(&server, &token, "terminal_start", arguments);
    wait_until("its line is told", || {
        told(&server, &token)
            .last()
            .is_some_and(|params| params["message"] == "working")
    });
    let last = numbers(&told(&server, &token)).pop();
    assert_eq!(last.map(f64::trunc), Some(8.0));
    let listed = server.ok("terminal_status", json!({}));
    let id = &listed["sessions"][0]["session_id"];
    server.ok("terminal_write", json!({"session_id": id, "text": "go\n"}));
    assert_eq!(call.ok()["status"], "EXITED");
}

#[test]
fn a_call_that_is_cancelled_tells_no_more() {
    let server = Owner::job("echo working; exec sleep 600").serve();
    let session = server.start("job");
    let token = json!("cancelled");
    let arguments = session.with_id(json!({"until": "end", "wait_ms": 55_000}));
    let call = send(&server, &token, "terminal_read", arguments);
    wait_until("it is told", || !told(&server, &token).is_empty());
    server.notify("notifications/cancelled", json!({"requestId": call.id}));
    // What is answered now came after the cancellation.
    server.ping();
    let before = told(&server, &token).len();
    session.hourglass().ok();
    assert_eq!(told(&server, &token).len(), before);
    assert_eq!(server.answers_left(&call.id), 0);
}

#[test]
fn a_token_that_is_none_or_endless_costs_the_call_nothing() {
    let server = Owner::job("echo working; exec sleep 600").serve();
    let session = server.start("job");
    let other = json!(1);
    let arguments = session.with_id(json!({"until": "end", "wait_ms": 55_000}));
    let tokens = [json!({}), json!(1.5), json!(null), json!("x".repeat(1000))];
    let mut calls: Vec<Call> = tokens
        .iter()
        .map(|token| send(&server, token, "terminal_read", arguments.clone()))
        .collect();
    calls.push(send(&server, &other, "terminal_read", arguments));
    wait_until("the one that may is told", || {
        told(&server, &other).len() >= 2
    });
    for notice in server.notices() {
        assert_eq!(notice["params"]["progressToken"], other);
    }
    session.terminate(0);
    for call in calls {
        assert_eq!(call.ok()["wait_result"], "end");
    }
}
