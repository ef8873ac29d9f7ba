//! A client of the real server that writes a line and reads a line, so that what is measured is the server's.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate::io::Backend;

use super::{MIB, engine::cpu_of, name};

pub const SERVER: &str = env!("CARGO_BIN_EXE_sluicegate");

/// A config file in `folder` of these commands, with further fields.
pub fn config(folder: &Path, name: &str, commands: Value, further: Value) -> PathBuf {
    let mut config =
        json!({ "allowed_roots": [folder], "default_cwd": folder, "commands": commands });
    let fields = config.as_object_mut().expect("an object");
    fields.extend(further.as_object().expect("an object").clone());
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, config.to_string()).expect("a file");
    path
}

/// What the server is started with.
pub fn server_arguments(config: &Path, backend: Backend) -> Vec<String> {
    let fixed = [
        "stdio",
        "--log-level",
        "error",
        "--io",
        name(backend),
        "--config",
    ];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    arguments.push(config.to_str().expect("a path in UTF-8").to_owned());
    arguments
}

pub fn command(argv: &[&str]) -> Value {
    json!({ "argv": argv, "allowed_env": [] })
}

pub fn tool(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// The session's name in an answer to a start.
pub fn session_of(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).expect("answers are JSON");
    let content = &answer["result"]["structuredContent"];
    assert_eq!(content["ok"], true, "{answer}");
    content["session_id"]
        .as_str()
        .expect("a started session has a name")
        .to_owned()
}

/// A server and the line that leads to it.
pub struct Client {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    line: Vec<u8>,
}

impl Client {
    pub fn start(config: &Path, backend: Backend) -> Client {
        let mut server = Command::new(SERVER)
            .args(server_arguments(config, backend))
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

    pub fn send(&mut self, method: &str, params: Value) {
        self.next_id += 1;
        self.write(
            &json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }),
        );
    }

    pub fn receive(&mut self) -> Vec<u8> {
        self.line.clear();
        let count = self
            .output
            .read_until(b'\n', &mut self.line)
            .expect("the server writes");
        assert_ne!(count, 0, "the server is there");
        self.line.clone()
    }

    pub fn request(&mut self, method: &str, params: Value) -> Vec<u8> {
        self.send(method, params);
        self.receive()
    }

    /// Microseconds from the request's write to the last byte of its answer, which is not parsed.
    pub fn timed(&mut self, call: &Value) -> f64 {
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

    pub fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", tool(name, arguments));
        let mut answer: Value = serde_json::from_slice(&answer).expect("answers are JSON");
        answer["result"]["structuredContent"].take()
    }

    pub fn start_session(&mut self, command_id: &str) -> String {
        session_of(&self.request(
            "tools/call",
            tool("terminal_start", json!({ "command_id": command_id })),
        ))
    }

    /// Milliseconds from a start to its first line, and to its settled output.
    pub fn start_to_first_line(&mut self, command_id: &str) -> (f64, f64) {
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

    pub fn wait_for_end(&mut self, session: &str) {
        while self.call("terminal_status", json!({ "session_id": session }))["output_complete"]
            != true
        {
            sleep(Duration::from_millis(2));
        }
    }

    /// Reads the session's text from its start to its end, and returns its length.
    pub fn read_all(&mut self, session: &str, most: usize) -> usize {
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
    pub fn cpu(&self) -> f64 {
        let tasks =
            fs::read_dir(format!("/proc/{}/task", self.server.id())).expect("the server's threads");
        tasks
            .map(|task| cpu_of(&task.expect("a thread").path()))
            .sum()
    }

    /// Resident memory of the server in MiB.
    pub fn resident(&self) -> f64 {
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
