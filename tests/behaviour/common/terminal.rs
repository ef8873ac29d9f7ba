//! The session tools as a test uses them: a server that has them, and one terminal.

use std::process::Command;

use serde_json::{Value, json};

use super::{Call, Owner, Server, owner::stdio};

/// The command line that needs no config: session tools only, and any command.
pub fn drop_in() -> Command {
    let mut command = stdio();
    command.args(["--tools", "session", "--allow-any-command"]);
    for setting in SETTINGS {
        command.env_remove(format!("SLUICEGATE_{setting}"));
        command.env_remove(format!("TERMINAL_MCP_{setting}"));
    }
    // Whatever shell the tests run in, the prompts are these.
    for (name, value) in [("PS1", "$ "), ("LC_ALL", "C.UTF-8"), ("HISTFILE", "")] {
        command.env(name, value);
    }
    command
}

const SETTINGS: [&str; 11] = [
    "CLEANUP_INTERVAL",
    "MAX_SESSIONS",
    "IDLE_TIMEOUT",
    "DEFAULT_ROWS",
    "DEFAULT_COLS",
    "READ_SETTLE_TIMEOUT",
    "MAX_OUTPUT_BYTES",
    "MAX_BUFFER_BYTES",
    "SAFETY_GATE",
    "DANGEROUS_PATTERNS",
    "TRUNCATION_MODE",
];

/// A server that starts anything, with these variables in its environment and its home in a temporary directory.
pub fn free(variables: &[(&str, &str)]) -> Server {
    let owner = Owner::new();
    let mut command = drop_in();
    command.current_dir(owner.root()).env("HOME", owner.base());
    command.envs(variables.iter().copied());
    let server = Server::spawn(owner, command);
    server.initialize();
    server
}

/// The body of a session tool's result, after checking that the result says the same in each place.
pub fn body(call: &Call<'_>) -> Value {
    let mut result = call.result();
    let text = result["content"][0]["text"].as_str().expect("a text block");
    let text: Value = serde_json::from_str(text).expect("the text is JSON");
    let body = result["structuredContent"].take();
    assert_eq!(text, body);
    let held_back = body["requires_confirmation"] == true;
    let failed = body["success"] == false && !held_back;
    assert_eq!(result["isError"] == true, failed, "{body}");
    if failed {
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(
            !message.is_empty() && !message.contains('\n'),
            "{message:?}"
        );
        assert!(!message.contains("os error"), "{message:?}");
    } else if held_back {
        assert_eq!(body["success"], false, "{body}");
        assert_eq!(body.get("error"), None, "{body}");
    } else {
        assert_eq!(body["success"], true, "{body}");
    }
    body
}

/// Calls a session tool.
pub fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    body(&server.send(tool, arguments))
}

/// Calls a session tool, which must succeed.
#[track_caller]
pub fn ok(server: &Server, tool: &str, arguments: Value) -> Value {
    let body = call(server, tool, arguments);
    assert_eq!(body["success"], true, "{body}");
    body
}

/// Calls a session tool, which must fail; the type of its error.
#[track_caller]
pub fn failure(server: &Server, tool: &str, arguments: Value) -> String {
    let body = call(server, tool, arguments);
    let kind = body["error"]["type"].as_str();
    kind.unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// An open session.
pub struct Terminal<'s> {
    pub server: &'s Server,
    pub id: String,
    /// What `session_create` answered.
    pub created: Value,
}

impl<'s> Terminal<'s> {
    /// Opens one with this command.
    #[track_caller]
    pub fn open(server: &'s Server, command: &str) -> Self {
        Self::open_with(server, json!({ "command": command }))
    }

    /// Opens one.
    #[track_caller]
    pub fn open_with(server: &'s Server, arguments: Value) -> Self {
        let created = ok(server, "session_create", arguments);
        let id = created["session_id"].as_str().expect("an id").to_owned();
        Self {
            server,
            id,
            created,
        }
    }

    /// A shell that has shown its first prompt, which is `$ `.
    #[track_caller]
    pub fn shell(server: &'s Server) -> Self {
        let terminal = Self::open(server, "bash --norc --noprofile");
        let read = terminal.ok(
            "session_wait_for",
            json!({"pattern": r"\$ $", "timeout": 30}),
        );
        assert_eq!(read["matched"], true, "{read}");
        terminal
    }

    /// The arguments, and the session's id.
    pub fn with_id(&self, mut arguments: Value) -> Value {
        arguments["session_id"] = json!(self.id);
        arguments
    }

    #[track_caller]
    pub fn ok(&self, tool: &str, arguments: Value) -> Value {
        ok(self.server, tool, self.with_id(arguments))
    }

    #[track_caller]
    pub fn failure(&self, tool: &str, arguments: Value) -> String {
        failure(self.server, tool, self.with_id(arguments))
    }

    /// Types a line and returns what is read then.
    #[track_caller]
    pub fn interact(&self, input: &str) -> Value {
        self.ok("session_interact", json!({ "input": input }))
    }

    /// Waits for a pattern; it must come.
    #[track_caller]
    pub fn wait_for(&self, pattern: &str) -> Value {
        let read = self.ok("session_wait_for", json!({ "pattern": pattern }));
        assert_eq!(read["matched"], true, "{pattern}: {read}");
        read
    }

    #[track_caller]
    pub fn close(&self) -> Value {
        self.ok("session_close", json!({}))
    }

    /// The process that runs on it.
    pub fn pid(&self) -> i32 {
        let pid = self.created["pid"].as_i64().expect("a pid");
        i32::try_from(pid).expect("pids are small")
    }
}
