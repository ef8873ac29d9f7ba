//! What a client of the real server waits for and pays: start-up, round trips, pages, starts, over pipes.
//!
//! The client is a plain one that writes a line and reads a line, so that what is measured is the server's; the official
//! Python SDK takes its place in one row. The baseline of a round trip is the pipe itself: a loop that reads, computes for
//! about as long as the server does, and writes shows what two processes need to wake each other here and now.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate::io::Backend;

mod common;

use common::{
    Bench, MIB, backends,
    client::{Client, SERVER, command, config, server_arguments, tool},
    name, percentile,
};

/// Longest page.
const PAGE_BYTES: usize = 65_536;
/// What the server computes for a status, which the baseline's loop does, too.
const WORK: Duration = Duration::from_micros(12);
/// First argument of the process that is that loop.
const LOOP: &str = "--loop";
/// The SDK whose round trips are measured.
const SDK: &str = "2.3.0";

fn main() {
    if std::env::args().nth(1).is_some_and(|first| first == LOOP) {
        return answer_after_work();
    }
    Bench::from_command_line("mcp_roundtrip", 5).run(&[
        ("start-up", start_up),
        ("status", status),
        ("python", python),
        ("pages", pages),
        ("first-line", first_line),
        ("echoed-line", echoed_line),
    ]);
}

fn start_up(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "true": command(&["/bin/true"]) });
    let config = config(folder.path(), "start-up", commands, json!({}));
    for round in 0..bench.rounds {
        for backend in backends() {
            let mut bytes = 0;
            let ms: Vec<f64> = (0..bench.size(20, 1))
                .map(|_| {
                    let before = Instant::now();
                    let mut client = Client::start(&config, backend);
                    bytes = client.request("tools/list", json!({})).len();
                    before.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            let contender = name(backend);
            let work = "server start to tools/list answered";
            bench.add_p50_p99(work, "ms", contender, round, &ms);
            let kb = bytes as f64 / 1e3;
            bench.add("tools/list", "whole answer", "kB", contender, round, kb);
        }
    }
}

fn status(bench: &Bench) {
    const ROW: &str = "status round trip";
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "cat": command(&["/bin/cat"]) });
    let config = config(folder.path(), "status", commands, json!({}));
    let calls = bench.size(5_000, 10);
    for round in 0..bench.rounds {
        bench.add_p50_p99(ROW, "µs", "bare loop", round, &bare_round_trips(calls));
        for backend in backends() {
            let mut client = Client::start(&config, backend);
            let session = client.start_session("cat");
            let call = tool("terminal_status", json!({ "session_id": session }));
            for _ in 0..calls / 10 {
                client.timed(&call);
            }
            let before = client.cpu();
            let us: Vec<f64> = (0..calls).map(|_| client.timed(&call)).collect();
            let cpu = (client.cpu() - before) / calls as f64 * 1e6;
            bench.add_p50_p99(ROW, "µs", name(backend), round, &us);
            bench.add(ROW, "CPU", "µs", name(backend), round, cpu);
        }
    }
}

/// Reads, computes, writes what it read, until there is no more.
fn answer_after_work() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut request = [0; 4096];
    while let Ok(length @ 1..) = input.read(&mut request) {
        let began = Instant::now();
        while began.elapsed() < WORK {
            std::hint::spin_loop();
        }
        output
            .write_all(&request[..length])
            .and_then(|()| output.flush())
            .expect("the client reads");
    }
}

/// Microseconds that a line takes to the loop and back.
fn bare_round_trips(calls: usize) -> Vec<f64> {
    let mut answering = Command::new(common::this_program())
        .arg(LOOP)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program");
    let mut input = answering.stdin.take().expect("piped");
    let mut output = BufReader::new(answering.stdout.take().expect("piped"));
    let mut line = Vec::new();
    let us = (0..calls).map(|_| {
        let before = Instant::now();
        input
            .write_all(b"a line of about the length of a request, which comes back as it is\n")
            .expect("the loop reads");
        line.clear();
        output.read_until(b'\n', &mut line).expect("it answers");
        before.elapsed().as_secs_f64() * 1e6
    });
    let us = us.collect();
    drop(input);
    answering.wait().expect("it ends");
    us
}

/// The interpreter is `$BENCH_PYTHON`, or python3 as it is found.
fn python(bench: &Bench) {
    let python = std::env::var("BENCH_PYTHON").unwrap_or("python3".to_owned());
    let version = "import importlib.metadata; print(importlib.metadata.version('mcp'))";
    let found = Command::new(&python).args(["-c", version]).output();
    let found = found.map_or(String::new(), |answer| {
        String::from_utf8_lossy(&answer.stdout).trim().to_owned()
    });
    if found != SDK {
        eprintln!(
            "SKIPPED the Python SDK's row: {python} has no mcp {SDK} (BENCH_PYTHON names another)"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "cat": command(&["/bin/cat"]) });
    let config = config(folder.path(), "python", commands, json!({}));
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/python/status_round_trips.py"
    );
    for round in 0..bench.rounds {
        for backend in backends() {
            let answer = Command::new(&python)
                .args([script, &bench.size(2_000, 10).to_string(), SERVER])
                .args(server_arguments(&config, backend))
                .stderr(Stdio::inherit())
                .output()
                .expect("the interpreter starts");
            assert!(answer.status.success(), "the script ends well");
            let lines = String::from_utf8(answer.stdout).expect("numbers");
            let ms: Vec<f64> = lines
                .lines()
                .map(|us| us.parse::<f64>().expect("a number") / 1e3)
                .collect();
            let work = "status round trip from the Python SDK";
            bench.add_p50_p99(work, "ms", name(backend), round, &ms);
        }
    }
}

fn pages(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = bench.size(10_000_000, 4 * PAGE_BYTES);
    let script =
        format!("yes '   Compiling sluicegate v0.1.0 (/home/user/sluicegate)' | head -c {bytes}");
    let commands = json!({ "log": command(&["/bin/sh", "-c", &script]) });
    for results in ["both", "structured"] {
        let further = json!({ "results": results, "buffer_bytes": 16 * MIB, "buffer_records": null, "max_records": 4, "max_sessions": 2 });
        let config = config(folder.path(), results, commands.clone(), further);
        for round in 0..bench.rounds {
            for backend in backends() {
                let mut client = Client::start(&config, backend);
                let session = client.start_session("log");
                client.wait_for_end(&session);
                page(bench, results, &mut client, &session, round, backend);
                let before = Instant::now();
                let read = client.read_all(&session, bytes);
                let speed = bytes as f64 / 1e6 / before.elapsed().as_secs_f64();
                assert_eq!(read, bytes, "the whole log is read");
                let work = format!("reading 10 MB as {results}");
                bench.add(&work, "speed", "MB/s", name(backend), round, speed);
            }
        }
    }
}

fn page(
    bench: &Bench,
    results: &str,
    client: &mut Client,
    session: &str,
    round: usize,
    backend: Backend,
) {
    let calls = bench.size(1_000, 3);
    let arguments = json!({ "session_id": session, "cursor": PAGE_BYTES });
    let call = tool("terminal_read", arguments);
    for _ in 0..calls / 10 {
        client.timed(&call);
    }
    let before = client.cpu();
    let us: Vec<f64> = (0..calls).map(|_| client.timed(&call)).collect();
    let cpu = (client.cpu() - before) / calls as f64 * 1e6;
    let wire = client.request("tools/call", call).len() as f64 / PAGE_BYTES as f64;
    let work = format!("64 KiB page as {results}");
    let add = |measure, unit, value| bench.add(&work, measure, unit, name(backend), round, value);
    add("p50", "µs", percentile(&us, 50));
    add("CPU", "µs", cpu);
    add("wire bytes per byte of text", "", wire);
}

fn first_line(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "echo": command(&["/bin/echo", "hello"]) });
    let further = json!({ "max_records": 1024, "buffer_bytes": 65_536, "buffer_records": 2_048 });
    let config = config(folder.path(), "first-line", commands, further);
    for round in 0..bench.rounds {
        for backend in backends() {
            let mut client = Client::start(&config, backend);
            let (lines, ends): (Vec<f64>, Vec<f64>) = (0..bench.size(200, 2))
                .map(|_| client.start_to_first_line("echo"))
                .unzip();
            let contender = name(backend);
            bench.add_p50_p99(
                "/bin/echo: start to first line",
                "ms",
                contender,
                round,
                &lines,
            );
            bench.add_p50_p99(
                "/bin/echo: start to complete",
                "ms",
                contender,
                round,
                &ends,
            );
        }
    }
}

/// How soon a single line is there: a write to `cat`, and a read that waits for what comes back.
fn echoed_line(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "cat": command(&["/bin/cat"]) });
    let config = config(folder.path(), "echoed-line", commands, json!({}));
    for round in 0..bench.rounds {
        for backend in backends() {
            let mut client = Client::start(&config, backend);
            let session = client.start_session("cat");
            let mut cursor = 0;
            let us: Vec<f64> = (0..bench.size(1_000, 3))
                .map(|_| {
                    let write = json!({ "session_id": session, "text": "a line\n" });
                    let read = json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 });
                    let (write, read): (Value, Value) =
                        (tool("terminal_write", write), tool("terminal_read", read));
                    cursor += 7;
                    client.timed(&write) + client.timed(&read)
                })
                .collect();
            let work = "a line to cat and back: write and waiting read";
            bench.add_p50_p99(work, "µs", name(backend), round, &us);
        }
    }
}
