//! The Owner's side: a config file and the directories that it names, in a temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::Server;

/// The `--io` value that the whole suite is run with, when it is run with one.
pub fn backend() -> Option<String> {
    std::env::var("SLUICEGATE_TEST_IO")
        .ok()
        .filter(|io| !io.is_empty())
}

/// A config under construction. Its directory lives as long as it does.
pub struct Owner {
    #[allow(dead_code, reason = "its drop removes the directory")]
    dir: TempDir,
    base: PathBuf,
    fields: Map<String, Value>,
}

impl Owner {
    /// A config with one empty root, no commands, and the format's defaults.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("sluicegate-test-")
            .tempdir()
            .expect("a temporary directory");
        let base = dir.path().canonicalize().expect("it exists");
        let root = base.join("root");
        fs::create_dir(&root).expect("an empty root");
        let fields = json!({"allowed_roots": [root], "default_cwd": root, "commands": {}});
        let Value::Object(fields) = fields else {
            unreachable!("a literal object")
        };
        Owner { dir, base, fields }
    }

    /// A config that approves one script for `/bin/sh`, under the name `job`.
    pub fn job(script: &str) -> Self {
        Owner::new().sh("job", script)
    }

    /// Sets a top-level field.
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// Approves a profile, given as in the file.
    pub fn profile(mut self, id: &str, profile: Value) -> Self {
        let commands = self.fields["commands"]
            .as_object_mut()
            .expect("commands is an object");
        commands.insert(id.to_owned(), profile);
        self
    }

    /// Approves an argument vector.
    pub fn argv(self, id: &str, argv: &[&str]) -> Self {
        self.profile(id, json!({"argv": argv, "allowed_env": []}))
    }

    /// Approves a script for `/bin/sh`.
    pub fn sh(self, id: &str, script: &str) -> Self {
        self.argv(id, &["/bin/sh", "-c", script])
    }

    /// Approves a program that prints exactly these bytes, as fast as it can.
    pub fn bytes(self, id: &str, bytes: &[u8]) -> Self {
        let file = self.file(&format!("{id}.bytes"), bytes);
        let file = file.to_str().expect("a UTF-8 path").to_owned();
        self.argv(id, &["/bin/cat", &file])
    }

    /// Room for `bytes` of text per session, and no bound on code points.
    pub fn buffer(self, bytes: u64) -> Self {
        self.set("buffer_bytes", bytes)
            .set("buffer_records", Value::Null)
    }

    /// Room for many short sessions.
    pub fn room_for_many(self) -> Self {
        self.set("max_sessions", 64)
            .set("max_records", 1024)
            .set("buffer_bytes", 65536)
            .set("buffer_records", 2048)
    }

    /// The temporary directory: everything of this test lies in it, the root too.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The only allowed root, unless the test says otherwise.
    pub fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// Writes a file beside the root and returns its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.base.join(name);
        fs::write(&path, bytes).expect("the temporary directory takes files");
        path
    }

    /// The config as JSON.
    pub fn json(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// Writes the config and returns its path.
    pub fn config(&self) -> PathBuf {
        self.file("config.json", self.json().to_string().as_bytes())
    }

    /// The command that serves this config; nothing of its standard streams is decided yet.
    pub fn command(&self) -> Command {
        let mut command = stdio();
        command.arg("--config").arg(self.config());
        command
    }

    /// The same, in what a shell has made of itself with this command line first.
    pub fn command_after(&self, line: &str) -> Command {
        let served = self.command();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{line}; exec \"$0\" \"$@\"")]);
        command.arg(served.get_program()).args(served.get_args());
        command
    }

    /// Serves this config to a client that has shaken hands.
    pub fn serve(self) -> Server {
        let command = self.command();
        let server = Server::spawn(self, command);
        server.initialize();
        server
    }
}

/// The command that serves over stdio, with the I/O choice that the suite is run with.
pub fn stdio() -> Command {
    let mut command = binary();
    command.arg("stdio");
    if let Some(io) = backend() {
        command.arg("--io").arg(io);
    }
    command
}

/// The binary under test, without arguments.
pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sluicegate"))
}
