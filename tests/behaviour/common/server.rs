//! The server as a child process, and a JSON-lines client around it.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::{Call, GUARD, Owner, Session, proc, wait_until};

/// What the server has said so far.
#[derive(Default)]
struct Said {
    /// Answers by the JSON text of their id; an id that was answered twice holds two.
    answers: HashMap<String, VecDeque<Value>>,
    /// The same ids in the order in which they were answered.
    order: Vec<String>,
    /// Messages without an id.
    notices: Vec<Value>,
    /// The first line that was no JSON-RPC message.
    foreign: Option<String>,
    /// The server closed its stdout.
    ended: bool,
}

#[derive(Default)]
struct Inbox {
    said: Mutex<Said>,
    changed: Condvar,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("no reader of the inbox panics")
    }
}

/// A running server. Dropping it kills what is left of it.
pub struct Server {
    pub owner: Owner,
    child: Child,
    /// Our end of the server's stdin, non-blocking so that a stuck server fails a test instead of hanging it.
    stdin: Mutex<Option<File>>,
    inbox: Arc<Inbox>,
    stderr: Arc<Mutex<Vec<u8>>>,
    next_id: AtomicU64,
}

impl Server {
    /// Starts the command with three pipes and reads its answers; sends nothing yet.
    pub fn spawn(owner: Owner, mut command: Command) -> Server {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut server = Server::spawn_as_is(owner, command);
        server.talk();
        server.listen();
        server
    }

    /// Starts the command with pipes that nobody reads: a client that has stopped listening.
    pub fn spawn_unheard(owner: Owner, mut command: Command) -> Server {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = Server::spawn_as_is(owner, command);
        server.talk();
        server
    }

    /// Starts the command with the standard streams that it says. Answers are read with [`Server::listen`].
    pub fn spawn_as_is(owner: Owner, mut command: Command) -> Server {
        let mut child = command.spawn().expect("the binary starts");
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                    kept.lock()
                        .expect("no reader panics")
                        .extend_from_slice(&chunk[..read]);
                }
            });
        }
        let inbox = Arc::new(Inbox::default());
        Server {
            owner,
            child,
            stdin: Mutex::new(None),
            inbox,
            stderr,
            next_id: AtomicU64::new(1),
        }
    }

    /// Talks through the pipe that the command was given as stdin.
    pub fn talk(&mut self) {
        let stdin: OwnedFd = self.child.stdin.take().expect("stdin is a pipe").into();
        self.talk_through(stdin);
    }

    /// Takes `fd` as the client's end of the server's stdin.
    pub fn talk_through(&mut self, fd: OwnedFd) {
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .expect("our own end of the server's stdin");
        *self.stdin.lock().expect("no writer panics") = Some(File::from(fd));
    }

    /// Reads the server's stdout from now on.
    pub fn listen(&mut self) {
        let stdout = self
            .child
            .stdout
            .take()
            .expect("stdout is a pipe that nobody reads yet");
        self.listen_to(stdout);
    }

    /// Reads the server's answers from `stdout`.
    pub fn listen_to(&self, stdout: impl Read + Send + 'static) {
        let inbox = Arc::clone(&self.inbox);
        thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, stdout);
            let mut line = Vec::new();
            while let Ok(1..) = lines.read_until(b'\n', &mut line) {
                file_away(&line, &inbox);
                line.clear();
            }
            inbox.lock().ended = true;
            inbox.changed.notify_all();
        });
    }

    /// The process that the client launched.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// The server's own processes: the launched one, its nursery and the keepers.
    pub fn processes(&self) -> Vec<i32> {
        let mut pids = vec![self.pid()];
        let mut looked_at = 0;
        while looked_at < pids.len() {
            let children = proc::children_of(&pids[looked_at..]);
            looked_at = pids.len();
            let own = children
                .iter()
                .filter(|child| child.name.starts_with("sluice-"));
            pids.extend(own.map(|child| child.pid));
        }
        pids
    }

    /// Open descriptors of the server's own processes.
    pub fn descriptor_count(&self) -> usize {
        self.processes()
            .into_iter()
            .map(|pid| proc::descriptors(pid).len())
            .sum()
    }

    /// Resident memory of the server's own processes, in bytes.
    pub fn resident(&self) -> u64 {
        self.processes()
            .into_iter()
            .filter_map(|pid| proc::memory(pid, "VmRSS"))
            .sum()
    }

    /// Children of the server that it has not reaped.
    pub fn zombies(&self) -> Vec<proc::Stat> {
        let children = proc::children_of(&self.processes());
        children.into_iter().filter(proc::Stat::is_zombie).collect()
    }

    /// Writes these bytes to the server, which must take them sooner or later.
    pub fn send_bytes(&self, mut bytes: &[u8]) {
        let mut stdin = self.stdin.lock().expect("no writer panics");
        let stdin = stdin.as_mut().expect("stdin is open");
        while !bytes.is_empty() {
            match stdin.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut wait = [PollFd::new(stdin.as_fd(), PollFlags::POLLOUT)];
                    let guard = PollTimeout::try_from(GUARD).expect("within 24 days");
                    assert_ne!(
                        poll(&mut wait, guard),
                        Ok(0),
                        "the server no longer reads its stdin"
                    );
                }
                Err(error) => panic!("the server's stdin: {error}; it said: {}", self.stderr()),
            }
        }
    }

    /// Writes as much of these bytes as the server takes at once, and says how much that was; one that has ended takes none.
    pub fn send_what_fits(&self, bytes: &[u8]) -> usize {
        let mut stdin = self.stdin.lock().expect("no writer panics");
        match stdin.as_mut().expect("stdin is open").write(bytes) {
            Ok(written) => written,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::BrokenPipe) => {
                0
            }
            Err(error) => panic!("the server's stdin: {error}"),
        }
    }

    /// Writes one line.
    pub fn send_line(&self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// The answer to whatever was sent under this id.
    pub fn answer_to(&self, id: &Value) -> Value {
        self.answer_within(id, GUARD)
            .unwrap_or_else(|| panic!("no answer to {id}; the server said: {}", self.stderr()))
    }

    /// The answer to `id`, when it comes within `time`.
    pub fn answer_within(&self, id: &Value, time: Duration) -> Option<Value> {
        let key = id.to_string();
        let until = Instant::now() + time;
        let mut said = self.inbox.lock();
        loop {
            assert_eq!(said.foreign, None, "stdout carries protocol lines only");
            if let Some(answer) = said.answers.get_mut(&key).and_then(VecDeque::pop_front) {
                return Some(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || said.ended {
                return None;
            }
            said = self
                .inbox
                .changed
                .wait_timeout(said, left)
                .expect("no reader of the inbox panics")
                .0;
        }
    }

    /// How many answers to `id` are there that nobody has taken.
    pub fn answers_left(&self, id: &Value) -> usize {
        self.inbox
            .lock()
            .answers
            .get(&id.to_string())
            .map_or(0, VecDeque::len)
    }

    /// Which of these two was answered first. Both must have been answered.
    pub fn first_answered<'c>(&self, one: &'c Call, other: &'c Call) -> &'c Value {
        let said = self.inbox.lock();
        let place = |call: &Call| {
            let key = call.id.to_string();
            said.order
                .iter()
                .position(|answered| *answered == key)
                .expect("answered")
        };
        if place(one) < place(other) {
            &one.id
        } else {
            &other.id
        }
    }

    /// Messages of the server that carried no id.
    pub fn notices(&self) -> Vec<Value> {
        self.inbox.lock().notices.clone()
    }

    fn fresh_id(&self) -> Value {
        json!(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request under a fresh id.
    pub fn request(&self, method: &str, params: Value) -> Call<'_> {
        let id = self.fresh_id();
        self.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        Call::new(self, id)
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// The handshake of the revisions before the stateless one; returns the server's answer.
    pub fn initialize_as(&self, version: &str) -> Value {
        let client = json!({"name": "behaviour-tests", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params).result();
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// The handshake in a version that is not under test.
    pub fn initialize(&self) -> Value {
        self.initialize_as("2025-06-18")
    }

    /// Sends a tool call without waiting for its answer.
    pub fn send(&self, tool: &str, arguments: Value) -> Call<'_> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the body of its result, be it a success or an error.
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.send(tool, arguments).body()
    }

    /// Calls a tool, which must succeed.
    pub fn ok(&self, tool: &str, arguments: Value) -> Value {
        self.send(tool, arguments).ok()
    }

    /// Calls a tool, which must be refused; returns the error.
    pub fn refused(&self, tool: &str, arguments: Value) -> Value {
        self.send(tool, arguments).refusal()
    }

    /// Calls a tool, which must be refused; returns the error's code.
    pub fn code(&self, tool: &str, arguments: Value) -> String {
        self.refused(tool, arguments)["code"]
            .as_str()
            .expect("a code")
            .to_owned()
    }

    /// Starts an approved command.
    pub fn start(&self, command_id: &str) -> Session<'_> {
        self.start_with(json!({"command_id": command_id}))
    }

    /// Starts what these arguments say.
    pub fn start_with(&self, arguments: Value) -> Session<'_> {
        Session::of(self, self.ok("terminal_start", arguments))
    }

    /// Asks for anything and waits for the answer: what was sent before it has been taken in by then.
    pub fn ping(&self) {
        let answer = self.request("ping", json!({})).whole();
        assert!(answer.get("result").is_some(), "{answer}");
    }

    /// What the server wrote to stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no reader panics")).into_owned()
    }

    /// Ends the client's side of the conversation.
    pub fn close_stdin(&self) {
        *self.stdin.lock().expect("no writer panics") = None;
    }

    /// Stops listening for good: the next line that the server writes finds no reader.
    pub fn close_unread_stdout(&mut self) {
        drop(
            self.child
                .stdout
                .take()
                .expect("stdout is a pipe that nobody reads"),
        );
    }

    /// Sends a signal to the launched process.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the launched process is there");
    }

    /// Waits for the launched process to end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let child = &mut self.child;
        wait_until("the server has ended", || {
            status = child.try_wait().expect("our own child");
            status.is_some()
        });
        status.expect("the loop ended because of it")
    }

    /// Whether the launched process still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_none()
    }

    /// Closes stdin; the server must end with code 0.
    pub fn finish(mut self) {
        self.close_stdin();
        self.assert_exits_cleanly();
    }

    /// The server must end with code 0, and not by a signal.
    pub fn assert_exits_cleanly(&mut self) {
        let status = self.wait();
        assert_eq!(
            (status.code(), status.signal()),
            (Some(0), None),
            "the server said: {}",
            self.stderr()
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let sessions: Vec<i32> = proc::children_of(&self.processes())
                .iter()
                .map(|child| child.group)
                .collect();
            let _sessions = proc::Doomed::groups(
                &sessions
                    .into_iter()
                    .filter(|&group| is_foreign(group))
                    .collect::<Vec<_>>(),
            );
            for pid in self.processes() {
                // Its error can only mean that the process went first.
                kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
            }
            drop(self.child.wait());
        }
        if thread::panicking() {
            eprintln!("the server's stderr:\n{}", self.stderr());
        }
    }
}

/// Whether this is not the group that the tests themselves run in.
fn is_foreign(group: i32) -> bool {
    group != nix::unistd::getpgrp().as_raw()
}

fn file_away(line: &[u8], inbox: &Inbox) {
    let mut said = inbox.lock();
    // serde_json is strict: a raw control character inside a string is an error.
    match serde_json::from_slice::<Value>(line) {
        Ok(message) if message["jsonrpc"] == "2.0" && line.ends_with(b"\n") => {
            match message.get("id") {
                Some(id) if message.get("method").is_none() => {
                    let key = id.to_string();
                    said.order.push(key.clone());
                    said.answers.entry(key).or_default().push_back(message);
                }
                _ => said.notices.push(message),
            }
        }
        _ => said.foreign = Some(String::from_utf8_lossy(line).into_owned()),
    }
    drop(said);
    inbox.changed.notify_all();
}
