//! How time and memory of the real server grow: with sessions, with the text that a session keeps, with a page's size.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate::io::Backend;

mod common;

use common::{
    Bench, KIB, MIB, backends,
    client::{Client, command, config, tool},
    median, name, tables,
    writer::{Each, Text, Writes, is_writer},
};

fn main() {
    if is_writer() {
        return;
    }
    Bench::from_command_line("cost", 3).run(&[
        ("sessions", sessions),
        ("retained", retained),
        ("pages", pages),
    ]);
}

/// A server whose sessions keep `bytes` of text each.
fn start(folder: &Path, commands: Value, bytes: usize, backend: Backend) -> Client {
    let records = (64 * MIB / bytes).clamp(1, 64);
    let further = json!({
        "max_sessions": records, "max_records": records, "buffer_bytes": bytes, "buffer_records": null,
        "default_timeout_ms": 3_600_000, "max_timeout_ms": 3_600_000,
    });
    let mut client = Client::start(&config(folder, "cost", commands, further), backend);
    client.request("tools/list", json!({}));
    client
}

/// The command that writes `total` bytes of ASCII, 64 KiB at a time.
fn writer(total: usize) -> Value {
    let writes = Writes {
        text: Text::Ascii,
        each: Each::Bytes(64 * KIB),
        pipes: 1,
    };
    let argv = writes.argv(total);
    command(&argv.iter().map(String::as_str).collect::<Vec<_>>())
}

fn sessions(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "cat": command(&["/bin/cat"]), "flood": writer(usize::MAX) });
    for round in 0..bench.rounds {
        for sessions in bench.size(vec![1, 2, 4, 8, 16, 32, 64], vec![1, 2]) {
            for backend in backends() {
                let work = tables::growth("sessions", sessions);
                let add = |measure, unit, value| {
                    bench.add(&work, measure, unit, name(backend), round, value);
                };
                let mut client = start(folder.path(), commands.clone(), MIB, backend);
                let idle: Vec<String> =
                    (0..sessions).map(|_| client.start_session("cat")).collect();
                add("resident when idle", "MiB", client.resident());
                let call = tool("terminal_status", json!({ "session_id": idle[0] }));
                let us: Vec<f64> = (0..bench.size(500, 3))
                    .map(|_| client.timed(&call))
                    .collect();
                add("status p50 when idle", "µs", median(&us));

                let mut client = start(folder.path(), commands.clone(), MIB, backend);
                let floods: Vec<String> = (0..sessions)
                    .map(|_| client.start_session("flood"))
                    .collect();
                let window = Duration::from_millis(bench.size(700, 50));
                sleep(window / 2);
                let (cpu, bytes, began) =
                    (client.cpu(), read_by(&mut client, &floods), Instant::now());
                sleep(window);
                let bytes = (read_by(&mut client, &floods) - bytes) as f64 / 1e9;
                let seconds = began.elapsed().as_secs_f64();
                add("drained", "GB/s", bytes / seconds);
                add("CPU", "s/GB", (client.cpu() - cpu) / bytes);
                add("resident with 1 MiB kept by each", "MiB", client.resident());
            }
        }
    }
}

/// Bytes of all sessions so far; ASCII has one for each code point.
fn read_by(client: &mut Client, sessions: &[String]) -> u64 {
    let cursor = |session: &String| {
        let status = client.call("terminal_status", json!({ "session_id": session }));
        status["next_cursor"].as_u64().expect("a cursor")
    };
    sessions.iter().map(cursor).sum()
}

fn retained(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let total = bench.size(1024 * MIB, 32 * MIB);
    let commands = json!({ "flood": writer(total) });
    for round in 0..bench.rounds {
        for kib in bench.size(vec![1, 4, 16, 64, 256, 1024, 4096, 16384], vec![1, 1024]) {
            for backend in backends() {
                let work = tables::growth("KiB kept", kib);
                let add = |measure, unit, value| {
                    bench.add(&work, measure, unit, name(backend), round, value);
                };
                let mut client = start(folder.path(), commands.clone(), kib * KIB, backend);
                let began = Instant::now();
                let session = client.start_session("flood");
                client.wait_for_end(&session);
                let seconds = began.elapsed().as_secs_f64();
                add("drained", "GB/s", total as f64 / 1e9 / seconds);
                add("resident", "MiB", client.resident());
                let end = client.call("terminal_status", json!({ "session_id": session }));
                let base = end["base_cursor"].as_u64().expect("a cursor");
                let middle = base + (kib * KIB / 2) as u64;
                let page = json!({ "session_id": session, "cursor": middle, "max_bytes": 512 });
                let page = tool("terminal_read", page);
                let us: Vec<f64> = (0..bench.size(500, 3))
                    .map(|_| client.timed(&page))
                    .collect();
                add("512-byte page from the middle p50", "µs", median(&us));
            }
        }
    }
}

fn pages(bench: &Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = json!({ "flood": writer(8 * MIB) });
    for round in 0..bench.rounds {
        for kib in bench.size(vec![1, 2, 4, 8, 16, 32, 64], vec![1, 64]) {
            for backend in backends() {
                let work = tables::growth("KiB a page", kib);
                let mut client = start(folder.path(), commands.clone(), 4 * MIB, backend);
                let session = client.start_session("flood");
                client.wait_for_end(&session);
                let cursor = 6 * MIB;
                let page =
                    json!({ "session_id": session, "cursor": cursor, "max_bytes": kib * KIB });
                let page = tool("terminal_read", page);
                let calls = bench.size(500, 3);
                let before = client.cpu();
                let us: Vec<f64> = (0..calls).map(|_| client.timed(&page)).collect();
                let cpu = (client.cpu() - before) / calls as f64 * 1e6;
                bench.add(&work, "page p50", "µs", name(backend), round, median(&us));
                bench.add(&work, "page CPU", "µs", name(backend), round, cpu);
            }
        }
    }
}
