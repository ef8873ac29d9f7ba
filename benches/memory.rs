//! Resident memory of the real server: idle, with many sessions, and over a flood of 100 GB.

use std::{path::Path, thread::sleep, time::Duration};

use serde_json::{Value, json};
use sluicegate::io::Backend;

mod common;

use common::{
    Bench, GIB, KIB, backends,
    client::{Client, command, config},
    name,
    writer::{Each, Text, Writes, is_writer},
};

fn main() {
    if is_writer() {
        return;
    }
    Bench::from_command_line("memory", 1).run(&[
        ("idle", idle),
        ("flood", flood),
        ("endless-line", endless_line),
    ]);
}

fn start(folder: &Path, commands: Value, backend: Backend) -> Client {
    let further = json!({ "max_sessions": 64, "max_records": 64, "buffer_records": 32_768, "default_timeout_ms": 3_600_000, "max_timeout_ms": 3_600_000 });
    let mut client = Client::start(&config(folder, "memory", commands, further), backend);
    client.request("tools/list", json!({}));
    client
}

fn idle(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..bench.rounds {
        for backend in backends() {
            let mut client = start(
                folder.path(),
                json!({ "cat": command(&["/bin/cat"]) }),
                backend,
            );
            let add = |work, value| bench.add(work, "resident", "MiB", name(backend), round, value);
            add("idle", client.resident());
            for _ in 0..64 {
                client.start_session("cat");
            }
            add("64 idle sessions", client.resident());
        }
    }
}

/// What 100 GB leave behind: looked at as they pass, every 2 GB, and when they are through.
fn flood(bench: &Bench) {
    const WORK: &str = "100 GB of flood";
    let total = bench.size(100_000_000_000_usize, 20_000_000);
    let step = total / 50;
    let writes = Writes {
        text: Text::Ascii,
        each: Each::Bytes(64 * KIB),
        pipes: 1,
    };
    let argv = writes.argv(total);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().expect("a folder");
    for backend in backends() {
        let mut client = start(folder.path(), json!({ "flood": command(&argv) }), backend);
        let session = client.start_session("flood");
        let (mut most, mut steps) = (client.resident(), 0);
        let add =
            |measure, step, value| bench.add(WORK, measure, "MiB", name(backend), step, value);
        loop {
            let now = client.call("terminal_status", json!({ "session_id": session }));
            let resident = client.resident();
            most = most.max(resident);
            let read = now["next_cursor"].as_u64().expect("a cursor") as usize;
            while steps * step <= read && steps < 50 {
                add("resident at each 2 GB", steps, resident);
                steps += 1;
            }
            if now["output_complete"] == true {
                assert_eq!(read, total, "every byte was read");
                break;
            }
            sleep(Duration::from_millis(5));
        }
        add("most resident", 0, most);
        add("resident after it", 0, client.resident());
    }
}

fn endless_line(bench: &Bench) {
    let bytes = bench.size(10 * GIB, 20_000_000).to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "line": command(&["/usr/bin/head", "-c", &bytes, "/dev/zero"]) });
    for backend in backends() {
        let mut client = start(folder.path(), commands.clone(), backend);
        let session = client.start_session("line");
        let mut most = client.resident();
        while client.call("terminal_status", json!({ "session_id": session }))["output_complete"]
            != true
        {
            sleep(Duration::from_millis(5));
            most = most.max(client.resident());
        }
        bench.add(
            "a line of 10 GiB",
            "most resident",
            "MiB",
            name(backend),
            0,
            most,
        );
    }
}
