//! The session tools on real programs: what each answers, by default and in each of its modes.

use serde_json::Value;

mod create;
mod read;
mod screens;
mod send;
mod sessions;
mod wait_for;

fn keys(body: &Value) -> Vec<&str> {
    let members = body.as_object().expect("an object");
    members.keys().map(String::as_str).collect()
}

fn text(body: &Value) -> &str {
    body["output"].as_str().expect("output")
}

/// The lines of an audit log that tell of such an event.
fn told_of(log: &str, event: &str) -> Vec<Value> {
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == event).collect()
}
