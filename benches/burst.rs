//! Many sessions at once: bursts of starts, and calls while eight floods run.

use std::{collections::HashSet, time::Instant};

use serde_json::json;

mod common;

use common::{
    Bench, backends,
    client::{Client, command, config, session_of, tool},
    name,
};

const SESSIONS: usize = 50;

fn main() {
    Bench::from_command_line("burst", 5).run(&[
        ("lines", lines),
        ("bursts", bursts),
        ("floods", under_floods),
    ]);
}

/// Starts of all [`SESSIONS`] in one go; returns their names.
fn start_all(client: &mut Client, command_id: &str) -> Vec<String> {
    for _ in 0..SESSIONS {
        let call = tool("terminal_start", json!({ "command_id": command_id }));
        client.send("tools/call", call);
    }
    (0..SESSIONS)
        .map(|_| session_of(&client.receive()))
        .collect()
}

fn lines(bench: &Bench) {
    const LINES: usize = 1_000;
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done");
    let commands = json!({ "lines": command(&["/bin/sh", "-c", &script]) });
    let further = json!({ "max_sessions": 64, "max_records": 64, "buffer_records": 32_768 });
    let config = config(folder.path(), "lines", commands, further);
    let expected: usize = (0..LINES).map(|line| format!("line {line}\n").len()).sum();
    for round in 0..bench.rounds {
        for backend in backends() {
            let mut client = Client::start(&config, backend);
            let before = Instant::now();
            for session in &start_all(&mut client, "lines") {
                let read = client.read_all(session, expected);
                assert_eq!(read, expected, "no line is lost");
            }
            let seconds = before.elapsed().as_secs_f64();
            let work = "50 sessions of 1000 lines from a burst";
            bench.add(
                work,
                "read to their ends",
                "s",
                name(backend),
                round,
                seconds,
            );
        }
    }
}

/// A server for each burst: what a burst leaves behind can't help the next one.
fn bursts(bench: &Bench) {
    const WORK: &str = "200 bursts of 50 starts";
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "echo": command(&["/bin/echo", "hello"]) });
    let further = json!({ "max_sessions": 64, "max_records": 64, "buffer_records": 32_768 });
    let config = config(folder.path(), "bursts", commands, further);
    for backend in backends() {
        let mut answered = 0;
        let ms: Vec<f64> = (0..bench.size(200, 1))
            .map(|_| {
                let mut client = Client::start(&config, backend);
                let before = Instant::now();
                let started = start_all(&mut client, "echo");
                let ms = before.elapsed().as_secs_f64() * 1e3;
                answered += started.iter().collect::<HashSet<_>>().len();
                for session in &started {
                    assert_eq!(client.read_all(session, 6), 6, "no line is lost");
                }
                ms
            })
            .collect();
        let contender = name(backend);
        bench.add(
            WORK,
            "sessions started and read",
            "",
            contender,
            0,
            answered as f64,
        );
        bench.add_p50_p99(WORK, "ms", contender, 0, &ms);
    }
}

fn under_floods(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({
        "flood": command(&["/usr/bin/dd", "if=/dev/zero", "bs=64K", "status=none"]),
        "echo": command(&["/bin/echo", "hello"]),
    });
    let further = json!({ "max_sessions": 16, "max_records": 512, "buffer_bytes": 131_072, "buffer_records": 4_096 });
    let config = config(folder.path(), "floods", commands, further);
    for round in 0..bench.rounds {
        for backend in backends() {
            let (status, echo) = calls_under_floods(bench, Client::start(&config, backend));
            let contender = name(backend);
            bench.add_p50_p99("status under 8 floods", "ms", contender, round, &status);
            let work = "/bin/echo under 8 floods: start to complete";
            bench.add_p50_p99(work, "ms", contender, round, &echo);
        }
    }
}

fn calls_under_floods(bench: &Bench, mut client: Client) -> (Vec<f64>, Vec<f64>) {
    let floods: Vec<String> = (0..8).map(|_| client.start_session("flood")).collect();
    let call = tool("terminal_status", json!({ "session_id": floods[0] }));
    let status = (0..bench.size(1_000, 3)).map(|_| client.timed(&call) / 1e3);
    let status = status.collect();
    let echo = (0..bench.size(100, 1)).map(|_| client.start_to_first_line("echo").1);
    (status, echo.collect())
}
