//! What a client of the real server waits for and pays: round trips, pages, starts, a burst, and memory, over pipes.
//!
//! The client is a plain one that writes a line and reads a line, so that what is measured is the server's. There is no
//! baseline but the pipe itself: a server that does nothing answers in the time that two processes need to wake each
//! other, which the first row shows with `cat`.

#![allow(clippy::print_stdout)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate::io::probe;

mod common;

use common::{Options, Table, median, percentile};

const SERVER: &str = env!("CARGO_BIN_EXE_sluicegate");
const MIB: usize = 1 << 20;
/// Longest page.
const PAGE_BYTES: usize = 65_536;

fn main() {
    let options = Options::from_command_line("mcp_roundtrip");
    let mut backends = vec!["epoll"];
    if probe().is_ok() {
        backends.insert(0, "uring");
    }
    let bench = Bench {
        table: Table::new(&[
            ("work", 46),
            ("baseline", 9),
            ("uring", 9),
            ("epoll", 9),
            ("target", 8),
            ("unit", 6),
        ]),
        backends,
        options,
        folder: tempfile::tempdir().expect("a folder"),
    };
    let groups: [(&str, Group); 7] = [
        ("start-up", Bench::start_up),
        ("round-trips", Bench::round_trips),
        ("pages", Bench::pages),
        ("first-line", Bench::first_line),
        ("burst", Bench::burst),
        ("floods", Bench::under_floods),
        ("memory", Bench::memory),
    ];
    for (name, measure) in groups {
        if bench.options.wants(name) {
            measure(&bench);
        }
    }
}

struct Bench {
    table: Table,
    backends: Vec<&'static str>,
    options: Options,
    folder: tempfile::TempDir,
}

/// Rows that share a config.
type Group = fn(&Bench);

/// One row's samples for each backend, in the order of [`Bench::backends`].
type Samples = Vec<Vec<f64>>;

impl Bench {
    /// A config file of these commands, with further fields.
    fn config(&self, name: &str, commands: Value, further: Value) -> PathBuf {
        let root = self.folder.path();
        let mut config =
            json!({ "allowed_roots": [root], "default_cwd": root, "commands": commands });
        let fields = config.as_object_mut().expect("an object");
        fields.extend(further.as_object().expect("an object").clone());
        let path = root.join(format!("{name}.json"));
        fs::write(&path, config.to_string()).expect("a file");
        path
    }

    /// Runs `measure` for each backend in turn, round by round.
    fn samples(&self, mut measure: impl FnMut(&str) -> Vec<f64>) -> Samples {
        let mut samples: Samples = self.backends.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.options.rounds {
            for (index, backend) in self.backends.iter().enumerate() {
                samples[index].extend(measure(backend));
            }
        }
        samples
    }

    fn row(
        &self,
        work: &str,
        baseline: Option<f64>,
        samples: &Samples,
        sum_up: impl Fn(&[f64]) -> f64,
        target: f64,
        unit: &str,
    ) {
        let mut cells = vec![work.to_owned(), baseline.map_or("-".to_owned(), short)];
        for backend in ["uring", "epoll"] {
            let place = self.backends.iter().position(|known| *known == backend);
            cells.push(place.map_or("-".to_owned(), |place| short(sum_up(&samples[place]))));
        }
        cells.extend([short(target), unit.to_owned()]);
        self.table.row(&cells);
        for (backend, samples) in self.backends.iter().zip(samples) {
            self.options.record(work, backend, 0, unit, sum_up(samples));
        }
    }

    fn start_up(&self) {
        let config = self.config(
            "start-up",
            json!({ "true": command(&["/bin/true"]) }),
            json!({}),
        );
        let starts = self.options.size(20, 1);
        let samples = self.samples(|backend| {
            let ms = |_| {
                let before = Instant::now();
                let mut client = Client::start(&config, backend);
                client.request("tools/list", json!({}));
                before.elapsed().as_secs_f64() * 1e3
            };
            (0..starts).map(ms).collect()
        });
        self.row(
            "server start to tools/list answered, p50",
            None,
            &samples,
            median,
            10.0,
            "ms",
        );
        let mut client = Client::start(&config, self.backends[0]);
        let whole = client.request("tools/list", json!({})).len() as f64 / 1e3;
        self.row(
            "tools/list, whole answer",
            None,
            &vec![vec![whole]; self.backends.len()],
            median,
            14.0,
            "kB",
        );
    }

    fn round_trips(&self) {
        let config = self.config(
            "round-trips",
            json!({ "cat": command(&["/bin/cat"]) }),
            json!({}),
        );
        let calls = self.options.size(5_000, 10);
        let mut floor = Vec::new();
        let mut cpu = Vec::new();
        let samples = self.samples(|backend| {
            floor.extend(cat_round_trips(calls / 5 + 1));
            let mut client = Client::start(&config, backend);
            let session = client.start_session("cat");
            let call = tool("terminal_status", json!({ "session_id": session }));
            for _ in 0..calls / 10 {
                client.request("tools/call", call.clone());
            }
            let before = client.cpu();
            let us = (0..calls).map(|_| client.timed(&call)).collect();
            cpu.push((client.cpu() - before) / calls as f64 * 1e6);
            us
        });
        self.row(
            "status round trip, p50",
            Some(median(&floor)),
            &samples,
            median,
            25.0,
            "us",
        );
        self.row(
            "status round trip, p99",
            Some(percentile(&floor, 99)),
            &samples,
            |all| percentile(all, 99),
            400.0,
            "us",
        );
        let cpu: Samples = (0..self.backends.len())
            .map(|index| {
                cpu.iter()
                    .copied()
                    .skip(index)
                    .step_by(self.backends.len())
                    .collect()
            })
            .collect();
        self.row("status, CPU a call", None, &cpu, median, f64::NAN, "us");
    }

    fn pages(&self) {
        let further = |results: &str| json!({ "results": results, "buffer_bytes": 16 * MIB, "buffer_records": null, "max_records": 4, "max_sessions": 2 });
        let bytes = self.options.size(10_000_000, 4 * PAGE_BYTES);
        let commands = json!({ "log": command(&["/bin/sh", "-c", &format!("yes '   Compiling sluicegate v0.1.0 (/home/user/sluicegate)' | head -c {bytes}")]) });
        for results in ["both", "structured"] {
            let config = self.config(results, commands.clone(), further(results));
            let calls = self.options.size(1_000, 3);
            let (mut cpu, mut wire, mut speed) = (Vec::new(), Vec::new(), Vec::new());
            let samples = self.samples(|backend| {
                let mut client = Client::start(&config, backend);
                let session = client.start_session("log");
                client.wait_for_end(&session);
                let call = tool(
                    "terminal_read",
                    json!({ "session_id": session, "cursor": PAGE_BYTES }),
                );
                for _ in 0..calls / 10 {
                    client.timed(&call);
                }
                let before = client.cpu();
                let us = (0..calls).map(|_| client.timed(&call)).collect();
                cpu.push((client.cpu() - before) / calls as f64 * 1e6);
                wire.push(client.request("tools/call", call).len() as f64 / PAGE_BYTES as f64);
                let before = Instant::now();
                let read = client.read_all(&session, bytes);
                speed.push(bytes as f64 / 1e6 / before.elapsed().as_secs_f64());
                assert_eq!(read, bytes, "the whole log is read");
                us
            });
            let by_backend = |values: &[f64]| -> Samples {
                (0..self.backends.len())
                    .map(|index| {
                        values
                            .iter()
                            .copied()
                            .skip(index)
                            .step_by(self.backends.len())
                            .collect()
                    })
                    .collect()
            };
            let (target, bytes_target) = if results == "both" {
                (250.0, 2.1)
            } else {
                (f64::NAN, 1.1)
            };
            self.row(
                &format!("64 KiB page, {results}, p50"),
                None,
                &samples,
                median,
                target,
                "us",
            );
            self.row(
                &format!("64 KiB page, {results}, CPU"),
                None,
                &by_backend(&cpu),
                median,
                170.0,
                "us",
            );
            self.row(
                &format!("wire bytes per byte of text, {results}"),
                None,
                &by_backend(&wire),
                median,
                bytes_target,
                "",
            );
            self.row(
                &format!("reading 10 MB, {results}"),
                None,
                &by_backend(&speed),
                median,
                200.0,
                "MB/s",
            );
        }
    }

    fn first_line(&self) {
        let config = self.config(
            "first-line",
            json!({ "echo": command(&["/bin/echo", "hello"]) }),
            json!({ "max_records": 1024, "buffer_bytes": 65_536, "buffer_records": 2_048 }),
        );
        let starts = self.options.size(100, 2);
        let samples = self.samples(|backend| {
            let mut client = Client::start(&config, backend);
            (0..starts)
                .map(|_| client.start_to_first_line("echo").0)
                .collect()
        });
        self.row(
            "start of /bin/echo to its line, p50",
            None,
            &samples,
            median,
            2.0,
            "ms",
        );
        self.row(
            "start of /bin/echo to its line, p99",
            None,
            &samples,
            |all| percentile(all, 99),
            f64::NAN,
            "ms",
        );
    }

    fn burst(&self) {
        const SESSIONS: usize = 50;
        const LINES: usize = 1_000;
        let script = format!("i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done");
        let config = self.config(
            "burst",
            json!({ "lines": command(&["/bin/sh", "-c", &script]) }),
            json!({ "max_sessions": 64, "max_records": 64, "buffer_records": 32_768 }),
        );
        let expected: usize = (0..LINES).map(|line| format!("line {line}\n").len()).sum();
        let samples = self.samples(|backend| {
            let mut client = Client::start(&config, backend);
            let before = Instant::now();
            for _ in 0..SESSIONS {
                client.send(
                    "tools/call",
                    tool("terminal_start", json!({ "command_id": "lines" })),
                );
            }
            let started: Vec<String> = (0..SESSIONS)
                .map(|_| session_of(&client.receive()))
                .collect();
            for session in &started {
                assert_eq!(
                    client.read_all(session, expected),
                    expected,
                    "no line is lost"
                );
            }
            vec![before.elapsed().as_secs_f64()]
        });
        self.row(
            "50 sessions x 1,000 lines from a burst",
            None,
            &samples,
            median,
            0.35,
            "s",
        );
    }

    fn under_floods(&self) {
        const FLOODS: usize = 8;
        let commands = json!({
            "flood": command(&["/usr/bin/dd", "if=/dev/zero", "bs=64K", "status=none"]),
            "echo": command(&["/bin/echo", "hello"]),
        });
        let config = self.config("floods", commands, json!({ "max_sessions": 16, "max_records": 512, "buffer_bytes": 131_072, "buffer_records": 4_096 }));
        let (calls, starts) = (self.options.size(1_000, 3), self.options.size(40, 1));
        let mut echoes: Samples = self.backends.iter().map(|_| Vec::new()).collect();
        let mut next = 0;
        let samples = self.samples(|backend| {
            let mut client = Client::start(&config, backend);
            let floods: Vec<String> = (0..FLOODS).map(|_| client.start_session("flood")).collect();
            let call = tool("terminal_status", json!({ "session_id": floods[0] }));
            let ms: Vec<f64> = (0..calls).map(|_| client.timed(&call) / 1e3).collect();
            echoes[next % self.backends.len()]
                .extend((0..starts).map(|_| client.start_to_first_line("echo").1));
            next += 1;
            ms
        });
        self.row(
            "status under 8 floods, p50",
            None,
            &samples,
            median,
            f64::NAN,
            "ms",
        );
        self.row(
            "status under 8 floods, p99",
            None,
            &samples,
            |all| percentile(all, 99),
            2.0,
            "ms",
        );
        self.row(
            "echo, start to complete, under 8 floods, p50",
            None,
            &echoes,
            median,
            f64::NAN,
            "ms",
        );
        self.row(
            "echo, start to complete, under 8 floods, p99",
            None,
            &echoes,
            |all| percentile(all, 99),
            30.0,
            "ms",
        );
    }

    fn memory(&self) {
        let flood = self.options.size(20_000_000_000_u64, 20_000_000);
        let line = self.options.size(10_000_000_000_u64, 20_000_000);
        let commands = json!({
            "cat": command(&["/bin/cat"]),
            "flood": command(&["/bin/sh", "-c", &format!("yes 'a line of a flood that goes on for a long time' | head -c {flood}")]),
            "line": command(&["/usr/bin/head", "-c", &line.to_string(), "/dev/zero"]),
        });
        let config = self.config("memory", commands, json!({ "max_sessions": 64, "max_records": 64, "buffer_records": 32_768, "default_timeout_ms": 300_000 }));
        let mut rows: Vec<(String, f64, Samples)> = [
            ("resident, idle", 6.0),
            ("resident, 64 idle sessions", 20.0),
            ("resident, most during a flood", f64::NAN),
            ("resident, after it", f64::NAN),
            ("resident, most during a line without end", f64::NAN),
        ]
        .into_iter()
        .map(|(name, target)| {
            (
                name.to_owned(),
                target,
                self.backends.iter().map(|_| Vec::new()).collect(),
            )
        })
        .collect();
        for (index, backend) in self.backends.iter().enumerate() {
            let mut client = Client::start(&config, backend);
            client.request("tools/list", json!({}));
            rows[0].2[index].push(client.resident());
            let sessions: Vec<String> = (0..64).map(|_| client.start_session("cat")).collect();
            rows[1].2[index].push(client.resident());
            drop(sessions);

            let mut client = Client::start(&config, backend);
            let session = client.start_session("flood");
            rows[2].2[index].push(client.most_resident_until_end(&session));
            rows[3].2[index].push(client.resident());
            let session = client.start_session("line");
            rows[4].2[index].push(client.most_resident_until_end(&session));
        }
        for (name, target, samples) in &rows {
            self.row(name, None, samples, median, *target, "MiB");
        }
    }
}

fn short(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn command(argv: &[&str]) -> Value {
    json!({ "argv": argv, "allowed_env": [] })
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// Microseconds that a line takes to `cat` and back.
fn cat_round_trips(calls: usize) -> Vec<f64> {
    let mut cat = Command::new("/bin/cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    let mut input = cat.stdin.take().expect("piped");
    let mut output = BufReader::new(cat.stdout.take().expect("piped"));
    let mut line = Vec::new();
    let us = (0..calls).map(|_| {
        let before = Instant::now();
        input
            .write_all(b"a line of about the length of a request, which cat sends back\n")
            .expect("cat reads");
        line.clear();
        output.read_until(b'\n', &mut line).expect("cat writes");
        before.elapsed().as_secs_f64() * 1e6
    });
    let us = us.collect();
    drop(input);
    cat.wait().expect("cat ends");
    us
}

/// The session's name in an answer to a start.
fn session_of(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).expect("answers are JSON");
    let content = &answer["result"]["structuredContent"];
    assert_eq!(content["ok"], true, "{answer}");
    content["session_id"]
        .as_str()
        .expect("a started session has a name")
        .to_owned()
}

/// A server and the line that leads to it.
struct Client {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    line: Vec<u8>,
}

impl Client {
    fn start(config: &Path, backend: &str) -> Client {
        let mut server = Command::new(SERVER)
            .args(["stdio", "--io", backend, "--log-level", "error", "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let input = server.stdin.take();
        let output = BufReader::with_capacity(MIB, server.stdout.take().expect("piped"));
        let mut client = Client {
            server,
            input,
            output,
            next_id: 0,
            line: Vec::new(),
        };
        client.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "0" } }),
        );
        client.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn write(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        let input = self.input.as_mut().expect("open until dropped");
        input.write_all(line.as_bytes()).expect("the server reads");
    }

    fn send(&mut self, method: &str, params: Value) {
        self.next_id += 1;
        self.write(
            &json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }),
        );
    }

    fn receive(&mut self) -> Vec<u8> {
        self.line.clear();
        let count = self
            .output
            .read_until(b'\n', &mut self.line)
            .expect("the server writes");
        assert_ne!(count, 0, "the server is there");
        self.line.clone()
    }

    fn request(&mut self, method: &str, params: Value) -> Vec<u8> {
        self.send(method, params);
        self.receive()
    }

    /// Microseconds from the request's write to the last byte of its answer, which is not parsed.
    fn timed(&mut self, call: &Value) -> f64 {
        self.next_id += 1;
        let mut line =
            json!({ "jsonrpc": "2.0", "id": self.next_id, "method": "tools/call", "params": call })
                .to_string();
        line.push('\n');
        self.line.clear();
        let before = Instant::now();
        let input = self.input.as_mut().expect("open until dropped");
        input.write_all(line.as_bytes()).expect("the server reads");
        self.output
            .read_until(b'\n', &mut self.line)
            .expect("the server writes");
        let us = before.elapsed().as_secs_f64() * 1e6;
        assert!(
            self.line.ends_with(b"\"isError\":false}}\n"),
            "{}",
            String::from_utf8_lossy(&self.line)
        );
        us
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", tool(name, arguments));
        let mut answer: Value = serde_json::from_slice(&answer).expect("answers are JSON");
        answer["result"]["structuredContent"].take()
    }

    fn start_session(&mut self, command_id: &str) -> String {
        session_of(&self.request(
            "tools/call",
            tool("terminal_start", json!({ "command_id": command_id })),
        ))
    }

    /// Milliseconds from a start to its first line, and to its settled output.
    fn start_to_first_line(&mut self, command_id: &str) -> (f64, f64) {
        let before = Instant::now();
        let session = self.start_session(command_id);
        let mut cursor = 0;
        let mut first = None;
        loop {
            let page = self.call(
                "terminal_read",
                json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 }),
            );
            let next = page["next_cursor"]
                .as_u64()
                .expect("a page has a next cursor");
            let now = before.elapsed().as_secs_f64() * 1e3;
            if next > 0 {
                first.get_or_insert(now);
            }
            if page["output_complete"] == true {
                return (first.expect("it printed"), now);
            }
            cursor = next;
        }
    }

    fn wait_for_end(&mut self, session: &str) {
        while self.call("terminal_status", json!({ "session_id": session }))["output_complete"]
            != true
        {
            sleep(Duration::from_millis(2));
        }
    }

    /// Reads the session's text from its start to its end, and returns its length.
    fn read_all(&mut self, session: &str, most: usize) -> usize {
        let (mut cursor, mut read) = (0, 0);
        while read < most {
            let call = json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 });
            let answer = self.request("tools/call", tool("terminal_read", call));
            // The text isn't parsed: what is to be measured is the server. ASCII has a byte for each code point.
            let next = number_after(&answer, b"\"next_cursor\":");
            if next == cursor {
                break;
            }
            read += usize::try_from(next - cursor).expect("a page");
            cursor = next;
        }
        read
    }

    /// CPU seconds of the server so far.
    fn cpu(&self) -> f64 {
        let tasks =
            fs::read_dir(format!("/proc/{}/task", self.server.id())).expect("the server's threads");
        let ns = tasks.map(|task| {
            let times = fs::read_to_string(task.expect("a thread").path().join("schedstat"))
                .unwrap_or_default();
            times
                .split_whitespace()
                .next()
                .and_then(|ns| ns.parse::<f64>().ok())
                .unwrap_or(0.0)
        });
        ns.sum::<f64>() / 1e9
    }

    /// Resident memory of the server in MiB.
    fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id()))
            .expect("the server's status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("its memory");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<f64>()
            .expect("in kB")
            / 1024.0
    }

    fn most_resident_until_end(&mut self, session: &str) -> f64 {
        let mut most = self.resident();
        while self.call("terminal_status", json!({ "session_id": session }))["output_complete"]
            != true
        {
            sleep(Duration::from_millis(5));
            most = most.max(self.resident());
        }
        most
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        // Whatever it still says; its exit follows.
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).ok();
        self.server.wait().ok();
    }
}

/// The number behind the last occurrence of `name`, which stands in the structured content.
fn number_after(answer: &[u8], name: &[u8]) -> u64 {
    let at = memchr::memmem::rfind(answer, name).expect("the answer has the field");
    answer[at + name.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, byte| number * 10 + u64::from(byte - b'0'))
}
