//! A hosted session, as the client sees it.

use serde_json::{Value, json};

use super::{Call, Server, proc, wait_until};

/// A session of a server.
pub struct Session<'a> {
    pub server: &'a Server,
    pub id: String,
    /// The leader, and its group.
    pub pid: i32,
    /// The snapshot that the start returned.
    pub started: Value,
}

/// What following the cursor to the end gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    /// Where the reading began.
    pub from: u64,
    pub next_cursor: u64,
    pub base_cursor: u64,
    pub pages: usize,
    pub complete: bool,
    pub incomplete: bool,
    pub truncated: bool,
}

impl Session<'_> {
    pub fn of(server: &Server, started: Value) -> Session<'_> {
        check_snapshot(&started);
        let id = started["session_id"].as_str().expect("an id").to_owned();
        let pid = started["process_id"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok())
            .expect("a process id");
        Session {
            server,
            id,
            pid,
            started,
        }
    }

    /// These arguments with the session's id among them.
    pub fn with_id(&self, mut arguments: Value) -> Value {
        arguments["session_id"] = json!(self.id);
        arguments
    }

    pub fn status(&self) -> Value {
        let snapshot = self.server.ok("terminal_status", self.with_id(json!({})));
        check_snapshot(&snapshot);
        snapshot
    }

    /// One page.
    pub fn read(&self, arguments: Value) -> Value {
        let page = self.server.ok("terminal_read", self.with_id(arguments));
        check_page(&page);
        page
    }

    pub fn write(&self, text: &str) -> Value {
        self.server
            .ok("terminal_write", self.with_id(json!({"text": text})))
    }

    /// The code that a write is refused with.
    pub fn write_code(&self, text: &str) -> String {
        self.server
            .code("terminal_write", self.with_id(json!({"text": text})))
    }

    pub fn close_stdin(&self) -> Value {
        self.server.ok(
            "terminal_write",
            self.with_id(json!({"text": "", "close_stdin": true})),
        )
    }

    pub fn terminate(&self, grace_ms: u64) -> Value {
        let snapshot = self.server.ok(
            "terminal_terminate",
            self.with_id(json!({"grace_ms": grace_ms})),
        );
        check_snapshot(&snapshot);
        snapshot
    }

    /// Waits until the status is final and returns the snapshot.
    pub fn wait_final(&self) -> Value {
        let mut snapshot = Value::Null;
        wait_until("the session is final", || {
            snapshot = self.status();
            is_final(&snapshot)
        });
        snapshot
    }

    /// Waits until the status is final and no more output can come.
    pub fn wait_settled(&self) -> Value {
        let mut snapshot = Value::Null;
        wait_until("the session is final and its output settled", || {
            snapshot = self.status();
            is_final(&snapshot) && is_settled(&snapshot)
        });
        snapshot
    }

    /// Everything from cursor 0 on, until no more can come.
    pub fn read_all(&self) -> Output {
        self.read_from(0, 65536)
    }

    /// Everything from `cursor` on in pages of at most `max_bytes`, until no more can come.
    pub fn read_from(&self, cursor: u64, max_bytes: usize) -> Output {
        let mut output = Output {
            from: cursor,
            next_cursor: cursor,
            ..Output::default()
        };
        loop {
            let at = output.next_cursor;
            let page = self.read(json!({"cursor": at, "max_bytes": max_bytes, "wait_ms": 2000}));
            output.pages += 1;
            let mut bytes = 0;
            let mut expected = at;
            for record in page["records"].as_array().expect("records") {
                assert_eq!(record["cursor"], expected, "no gap between records");
                let text = record["text"].as_str().expect("text");
                expected += text.chars().count() as u64;
                bytes += text.len();
                match record["stream"].as_str() {
                    Some("stdout") => output.stdout.push_str(text),
                    Some("stderr") => output.stderr.push_str(text),
                    other => panic!("no such stream: {other:?}"),
                }
            }
            assert!(bytes <= max_bytes, "{bytes} bytes on a page of {max_bytes}");
            assert_eq!(page["next_cursor"], expected);
            let has_more = page["has_more"].as_bool().expect("has_more");
            assert!(
                !has_more || expected > at,
                "more was promised and nothing given at {at}"
            );
            output.next_cursor = expected;
            output.base_cursor = page["base_cursor"].as_u64().expect("base_cursor");
            output.truncated = page["truncated"].as_bool().expect("truncated");
            if is_settled(&page) && !has_more {
                output.complete = page["output_complete"] == true;
                output.incomplete = page["output_incomplete"] == true;
                return output;
            }
        }
    }

    /// Follows the output until stdout holds `needle`; returns stdout so far.
    pub fn wait_for_text(&self, needle: &str) -> String {
        let mut cursor = 0;
        let mut text = String::new();
        wait_until(&format!("stdout holds {needle:?}"), || {
            let page = self.read(json!({"cursor": cursor, "wait_ms": 1000}));
            cursor = page["next_cursor"].as_u64().expect("next_cursor");
            text.push_str(&stream_text(&page, "stdout"));
            text.contains(needle)
        });
        text
    }

    /// A wait of two seconds at the end of this session, which prints nothing. What is answered before it is, though asked
    /// for later, took less than that by the server's own clock.
    pub fn hourglass(&self) -> Call<'_> {
        let end = self.status()["next_cursor"].clone();
        self.server.send(
            "terminal_read",
            self.with_id(json!({"cursor": end, "wait_ms": 2000})),
        )
    }

    /// Whether any process of the session's group is alive.
    pub fn group_lives(&self) -> bool {
        !proc::group_members(self.pid).is_empty()
    }

    /// The session is over, so every member of its group was killed and dies as soon as the kernel gets to it.
    pub fn assert_group_is_gone(&self) {
        wait_until(&format!("group {} is gone", self.pid), || {
            !self.group_lives()
        });
    }
}

/// The text of one stream on a page.
pub fn stream_text(page: &Value, stream: &str) -> String {
    let records = page["records"].as_array().expect("records");
    let texts = records.iter().filter(|record| record["stream"] == stream);
    texts
        .map(|record| record["text"].as_str().expect("text"))
        .collect()
}

pub fn is_final(body: &Value) -> bool {
    matches!(
        body["status"].as_str(),
        Some("EXITED" | "TERMINATED" | "FAILED")
    )
}

pub fn is_settled(body: &Value) -> bool {
    body["output_complete"] == true || body["output_incomplete"] == true
}

/// What holds for any snapshot.
pub fn check_snapshot(snapshot: &Value) {
    for field in [
        "session_id",
        "command_id",
        "process_id",
        "status",
        "exit_code",
        "exit_signal",
        "termination_reason",
        "stdin_closed",
        "input_uncertain",
        "base_cursor",
        "next_cursor",
        "created_at",
        "last_activity_at",
        "output_complete",
        "output_incomplete",
        "ended_at",
        "cpu_ms",
        "max_rss_bytes",
        "truncated",
        "spool_state",
    ] {
        assert!(
            snapshot.get(field).is_some(),
            "{field} is missing in {snapshot}"
        );
    }
    for field in [
        "stdin_closed",
        "input_uncertain",
        "output_complete",
        "output_incomplete",
        "truncated",
    ] {
        assert!(snapshot[field].is_boolean(), "{field} in {snapshot}");
    }
    assert!(
        !(snapshot["output_complete"] == true && snapshot["output_incomplete"] == true),
        "{snapshot}"
    );
    assert!(
        snapshot["base_cursor"].as_u64() <= snapshot["next_cursor"].as_u64(),
        "{snapshot}"
    );
    assert_eq!(
        snapshot["truncated"],
        snapshot["base_cursor"] != 0,
        "{snapshot}"
    );
    let ended = match snapshot["status"].as_str().expect("a status") {
        "RUNNING" => {
            assert!(snapshot["termination_reason"].is_null(), "{snapshot}");
            false
        }
        "TERMINATING" => false,
        "EXITED" => {
            assert_eq!(snapshot["termination_reason"], "natural", "{snapshot}");
            true
        }
        "TERMINATED" => {
            let reason = snapshot["termination_reason"].as_str();
            assert!(
                matches!(reason, Some("user" | "timeout" | "shutdown")),
                "{snapshot}"
            );
            true
        }
        other => panic!("unexpected status {other}: {snapshot}"),
    };
    assert_eq!(
        ended,
        snapshot["exit_code"].is_number() != snapshot["exit_signal"].is_number(),
        "{snapshot}"
    );
    assert_eq!(ended, snapshot["ended_at"].is_string(), "{snapshot}");
    for field in ["created_at", "last_activity_at", "ended_at"] {
        if let Some(time) = snapshot[field].as_str() {
            assert!(is_timestamp(time), "{field}: {time}");
        }
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-07-28T09:30:00.125Z`.
fn is_timestamp(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00.000Z"
}

/// What holds for any page of runs.
fn check_page(page: &Value) {
    for field in [
        "records",
        "base_cursor",
        "next_cursor",
        "truncated",
        "has_more",
        "status",
        "output_complete",
        "output_incomplete",
    ] {
        assert!(page.get(field).is_some(), "{field} is missing in a page");
    }
    let records = page["records"].as_array().expect("records");
    assert!(records.len() <= 1024, "{} records on a page", records.len());
    assert!(!(page["output_complete"] == true && page["output_incomplete"] == true));
}
