//! `connect`: what it prints is what a client can use, and it touches nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{
    Owner, Server,
    owner::binary,
    screen::{rows, run, run_on_terminal},
};

const CLIENTS: [&str; 7] = [
    "claude-code",
    "claude-desktop",
    "vscode",
    "cursor",
    "windsurf",
    "codex",
    "zed",
];

/// A user with an empty home, so that nothing of this machine's user shows.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> User {
        User {
            home: tempfile::tempdir().expect("a directory"),
        }
    }

    fn connect(&self) -> Command {
        let mut command = binary();
        command
            .arg("connect")
            .env("HOME", self.home.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CODEX_HOME");
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// The server's entry as the client would read it from its file.
fn entry(client: &str, snippet: &str) -> Value {
    let (file, section): (Value, &str) = match client {
        "codex" => (toml::from_str(snippet).expect("TOML"), "mcp_servers"),
        "vscode" => (serde_json::from_str(snippet).expect("JSON"), "servers"),
        "zed" => (
            serde_json::from_str(snippet).expect("JSON"),
            "context_servers",
        ),
        _ => (serde_json::from_str(snippet).expect("JSON"), "mcpServers"),
    };
    assert_eq!(file.as_object().expect("an object").len(), 1, "{snippet}");
    file[section]["sluicegate"].clone()
}

#[test]
fn every_clients_snippet_launches_a_server_that_serves_the_config() {
    let user = User::new();
    for client in CLIENTS {
        let owner = Owner::job("echo from the config");
        let config = owner.config();
        let ran = run(user
            .connect()
            .args([client, "--snippet", "--config"])
            .arg(&config));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{client}");
        let entry = entry(client, &ran.stdout);
        let words = entry["args"].as_array().expect("arguments").iter();
        let words: Vec<&str> = words.map(|word| word.as_str().expect("a text")).collect();
        assert_eq!(
            words,
            ["stdio", "--config", config.to_str().expect("UTF-8")]
        );
        let program = entry["command"].as_str().expect("a program");
        assert!(Path::new(program).is_absolute(), "{program}");
        let typed = ["claude-code", "vscode", "cursor"].contains(&client);
        assert_eq!(entry["type"] == "stdio", typed, "{client}");
        let mut command = Command::new(program);
        command.args(&words);
        let server = Server::spawn(owner, command);
        server.initialize();
        assert_eq!(server.start("job").read_all().stdout, "from the config\n");
        server.finish();
    }
}

#[test]
fn every_client_is_told_the_file_that_it_reads() {
    let user = User::new();
    for (client, file) in [
        ("claude-code", ".claude.json"),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
        ),
        ("vscode", ".config/Code/User/mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("windsurf", ".config/devin/mcp_config.json"),
        ("codex", ".codex/config.toml"),
        ("zed", ".config/zed/settings.json"),
    ] {
        let file = user.file(file);
        let file = file.to_str().expect("UTF-8");
        let text = run(user.connect().arg(client));
        assert_eq!(text.code, Some(0));
        assert!(text.stdout.contains(file), "{client}: {}", text.stdout);
        let report: Value =
            serde_json::from_str(&run(user.connect().args([client, "--json"])).stdout)
                .expect("JSON");
        assert_eq!(report["file"], file);
        let snippet = report["snippet"].as_str().expect("a snippet");
        assert!(text.stdout.contains(snippet), "{client}: {}", text.stdout);
        let list = run(&mut user.connect());
        assert!(
            list.stdout.contains(client) && list.stdout.contains(file),
            "{}",
            list.stdout
        );
    }
    let moved = run(user
        .connect()
        .args(["codex"])
        .env("CODEX_HOME", "/elsewhere"));
    assert!(moved.stdout.contains("/elsewhere/config.toml"));
    let moved = run(user
        .connect()
        .args(["zed"])
        .env("XDG_CONFIG_HOME", "/settings"));
    assert!(moved.stdout.contains("/settings/zed/settings.json"));
}

#[test]
fn a_clients_own_command_can_be_pasted_into_a_shell() {
    let user = User::new();
    let owner = Owner::job("true");
    let config = owner.file("it's odd.json", owner.json().to_string().as_bytes());
    for (client, own) in [
        ("claude-code", ["claude", "mcp", "add"]),
        ("codex", ["codex", "mcp", "add"]),
        ("vscode", ["code", "--add-mcp", "{"]),
    ] {
        let ran = run(user.connect().arg(client).arg("--config").arg(&config));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let line = ran.stdout.lines().find(|line| line.starts_with(own[0]));
        let line = line.unwrap_or_else(|| panic!("{client}: {}", ran.stdout));
        // The shell's own reading of it, with the client played by printf.
        let script = format!("{}() {{ printf '%s\\n' \"$@\"; }}; {line}", own[0]);
        let said = run(Command::new("/bin/sh").args(["-c", &script]));
        let words: Vec<&str> = said.stdout.lines().collect();
        assert!(
            words[0] == own[1] && words[1].starts_with(own[2]),
            "{words:?}"
        );
        let config = config.to_str().expect("UTF-8");
        assert!(words.iter().any(|word| word.contains(config)), "{words:?}");
    }
}

#[test]
fn nothing_is_written_anywhere() {
    let user = User::new();
    for client in CLIENTS {
        run(user.connect().arg(client).current_dir(user.home.path()));
    }
    let entries = fs::read_dir(user.home.path()).expect("our own directory");
    assert_eq!(entries.count(), 0);
}

#[test]
fn the_usual_config_is_filled_in_and_told_of_when_it_is_not_there_or_wrong() {
    let user = User::new();
    let usual = user.file(".config/sluicegate/config.json");
    let ran = run(user.connect().args(["cursor", "--snippet"]));
    assert_eq!(ran.code, Some(0));
    assert_eq!(entry("cursor", &ran.stdout)["args"][2], json!(usual));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("config new") && ran.stderr.contains("is not there yet"));
    fs::create_dir_all(usual.parent().expect("a directory")).expect("our own directory");
    fs::write(&usual, "{}").expect("our own file");
    let ran = run(user.connect().args(["cursor", "--snippet"]));
    assert!(ran.stderr.contains("will not start") && ran.stderr.contains("allowed_roots"));
    fs::write(&usual, Owner::job("true").json().to_string()).expect("our own file");
    let ran = run(user.connect().args(["cursor", "--snippet"]));
    // The root that it names is gone by now.
    assert!(ran.stderr.contains("allowed_roots[0]"), "{}", ran.stderr);
}

#[test]
fn a_named_config_that_cannot_be_served_is_refused_in_one_line() {
    let user = User::new();
    let owner = Owner::job("true");
    let missing = owner.base().join("absent.json");
    let wrong = owner.file("wrong.json", br#"{"allowed_roots": "/"}"#);
    let program = owner.argv("job", &["relative/program"]);
    let relative = program.config();
    for (config, word) in [
        (missing.as_path(), "absent.json"),
        (program.base(), "directory"),
        (wrong.as_path(), "wrong.json:1:"),
        (relative.as_path(), "commands.job.argv[0]"),
    ] {
        let ran = run(user.connect().args(["zed", "--config"]).arg(config));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{word}");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn a_name_that_some_client_would_not_take_is_refused() {
    let user = User::new();
    let ran = run(user
        .connect()
        .args(["codex", "--snippet", "--name", "build_2"]));
    assert!(
        ran.stdout.starts_with("[mcp_servers.build_2]\n"),
        "{}",
        ran.stdout
    );
    for name in ["", "two words", "a.b", "é"] {
        let ran = run(user.connect().args(["codex", "--name", name]));
        assert_eq!(ran.code, Some(2), "{name:?}");
        assert!(ran.stderr.contains("letters, digits"), "{}", ran.stderr);
    }
}

#[test]
fn its_own_words_fit_a_narrow_terminal() {
    let user = User::new();
    let mut command = user.connect();
    let ran = run_on_terminal(command.env("TERM", "xterm"), 40);
    assert_eq!(ran.code, Some(0));
    let rows = rows(&ran.stdout, 40);
    assert!(
        rows.iter().all(|row| row.chars().count() <= 40),
        "{rows:#?}"
    );
}
