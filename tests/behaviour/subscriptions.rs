//! Subscribers are told that a session printed something: not too often, and of the last output in any case.

use std::time::Instant;

use serde_json::{Value, json};

use crate::common::{Owner, Session, wait_until};

fn uri(session: &Session) -> String {
    format!("terminal://session/{}/output", session.id)
}

/// A request's params with what the stateless revision wants of each.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    params
}

fn subscribe(session: &Session) {
    let params = json!({"uri": uri(session)});
    session
        .server
        .request("resources/subscribe", params)
        .result();
}

/// What was told of this session so far.
fn told(session: &Session) -> Vec<Value> {
    let notices = session.server.notices().into_iter();
    let of_session = notices
        .filter(|notice| notice["method"] == "notifications/resources/updated")
        .map(|notice| notice["params"].clone())
        .filter(|params| params["uri"] == uri(session));
    of_session.collect()
}

/// Waits until `count` words came of this session.
fn wait_told(session: &Session, count: usize) {
    wait_until("it is told", || told(session).len() >= count);
}

#[test]
fn a_subscriber_is_told_of_output_until_it_unsubscribes() {
    let owner = Owner::new()
        .argv("cat", &["/bin/cat"])
        .argv("job", &["/bin/sleep", "600"]);
    let server = owner.serve();
    let (session, other) = (server.start("cat"), server.start("cat"));
    subscribe(&session);
    subscribe(&session);
    session.write("one\n");
    wait_told(&session, 1);
    session.write("two\n");
    wait_told(&session, 2);
    other.write("three\n");
    other.wait_for_text("three");
    let params = json!({"uri": uri(&session)});
    server.request("resources/unsubscribe", params).result();
    let count = told(&session).len();
    session.write("four\n");
    session.wait_for_text("four");
    // Two seconds by the server's own clock.
    server.start("job").hourglass().ok();
    assert_eq!(told(&session).len(), count);
    assert_eq!(server.notices().len(), count, "of the other nobody is told");
}

#[test]
fn a_late_subscriber_is_told_once_of_what_is_there() {
    let owner = Owner::new()
        .sh("echo", "echo here")
        .argv("job", &["/bin/sleep", "600"]);
    let server = owner.serve();
    let session = server.start("echo");
    session.wait_settled();
    subscribe(&session);
    wait_told(&session, 1);
    server.start("job").hourglass().ok();
    assert_eq!(told(&session), [json!({"uri": uri(&session)})]);
}

#[test]
fn a_flood_is_told_of_ten_times_a_second_at_most() {
    let owner = Owner::new()
        .sh("flood", "while :; do echo more; done")
        .argv("job", &["/bin/sleep", "600"]);
    let server = owner.serve();
    let session = server.start("flood");
    let began = Instant::now();
    subscribe(&session);
    server.start("job").hourglass().ok();
    wait_told(&session, 3);
    let count = told(&session).len();
    let tenths = began.elapsed().as_millis() / 100;
    assert!(count as u128 <= tenths + 1, "{count} in {tenths} tenths");
}

#[test]
fn the_stateless_revision_listens_until_it_cancels() {
    let owner = Owner::new()
        .argv("cat", &["/bin/cat"])
        .argv("job", &["/bin/sleep", "600"]);
    let server = owner.serve();
    let session = server.start("cat");
    let unknown = "terminal://session/none/output";
    let listen = server.request(
        "subscriptions/listen",
        stateless(json!({"notifications": {"resourceSubscriptions": [unknown, uri(&session), uri(&session)]}})),
    );
    wait_until("it is acknowledged", || !server.notices().is_empty());
    let acknowledged = server.notices()[0].clone();
    let accepted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert!(accepted.to_string().contains(&session.id), "{acknowledged}");
    assert!(!accepted.to_string().contains(unknown), "{acknowledged}");
    session.write("one\n");
    wait_told(&session, 1);
    let id = &told(&session)[0]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*id, listen.id);
    server.notify("notifications/cancelled", json!({"requestId": listen.id}));
    server.ping();
    let count = told(&session).len();
    session.write("two\n");
    session.wait_for_text("two");
    server.start("job").hourglass().ok();
    assert_eq!(told(&session).len(), count);
}

#[test]
fn listening_ends_with_the_input_and_holds_up_no_exit() {
    let mut server = Owner::job("exec sleep 600").serve();
    let session = server.start("job");
    let params = stateless(json!({"notifications": {"resourceSubscriptions": [uri(&session)]}}));
    let listen = server.request("subscriptions/listen", params).id;
    wait_until("it is acknowledged", || !server.notices().is_empty());
    drop(session);
    server.close_stdin();
    assert!(server.answer_to(&listen).get("result").is_some());
    server.assert_exits_cleanly();
}

#[test]
fn more_listeners_than_may_are_refused() {
    let server = Owner::job("exec sleep 600").serve();
    let session = server.start("job");
    let params = stateless(json!({"notifications": {"resourceSubscriptions": [uri(&session)]}}));
    let mut listens: Vec<Value> = (0..5)
        .map(|_| server.request("subscriptions/listen", params.clone()).id)
        .collect();
    let mut refused = None;
    wait_until("one is refused", || {
        refused = listens.iter().position(|id| server.answers_left(id) > 0);
        refused.is_some()
    });
    let refused = listens.remove(refused.expect("the loop ended because of it"));
    assert_eq!(server.answer_to(&refused)["error"]["code"], -32029);
    server.notify("notifications/cancelled", json!({"requestId": listens[0]}));
    server.ping();
    let again = server.request("subscriptions/listen", params);
    wait_until("it is acknowledged", || server.notices().len() == 6);
    server.ping();
    assert_eq!(server.answers_left(&again.id), 0, "it listens");
}

#[test]
fn nobody_subscribes_to_what_is_not_there() {
    let server = Owner::job("true").serve();
    let subscribe = |params: Value| server.request("resources/subscribe", params).whole();
    let answer = subscribe(json!({"uri": "terminal://session/none/output"}));
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    assert_eq!(subscribe(json!({}))["error"]["code"], -32602);
    let params = json!({"uri": "terminal://session/none/output"});
    server.request("resources/unsubscribe", params).result();
}
