//! Starting a session, and what is refused before anything happens.

use serde_json::json;

use super::{keys, text};
use crate::common::{
    Terminal, proc,
    terminal::{call, failure, free, ok},
};

#[test]
fn create_answers_with_the_session_and_its_process() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat -u");
    let created = &terminal.created;
    assert_eq!(
        keys(created),
        [
            "created_at",
            "label",
            "pid",
            "session_id",
            "snapshot_available",
            "success"
        ]
    );
    assert_eq!(
        (&created["label"], &created["snapshot_available"]),
        (&json!("cat"), &json!(true))
    );
    assert!(proc::is_alive(terminal.pid()));
    let created_at = created["created_at"].as_f64().expect("seconds");
    assert!(created_at > 1.7e9, "{created_at}");
    let named = Terminal::open_with(
        &server,
        json!({"command": "cat", "label": "my own", "enable_snapshot": true, "scrollback_lines": 0, "idle_timeout": 60}),
    );
    assert_eq!(named.created["label"], "my own");
    assert_ne!(named.id, terminal.id);
    for command in [
        "no-such-program-here",
        "/etc/hostname",
        "/nonexistent/program",
    ] {
        let arguments = json!({ "command": command });
        assert_eq!(
            failure(&server, "session_create", arguments),
            "spawn_error",
            "{command}"
        );
    }
    for command in ["", "  ", "echo 'unterminated"] {
        let arguments = json!({ "command": command });
        assert_eq!(
            failure(&server, "session_create", arguments),
            "validation_error",
            "{command:?}"
        );
    }
}

#[test]
fn a_command_line_is_split_into_words_and_no_shell_sees_it() {
    let server = free(&[]);
    let command = r#"printf '[%s]' a\ b "c $HOME" 'd;e' $(id) *"#;
    let terminal = Terminal::open(&server, command);
    let read = terminal.ok("session_read", json!({"timeout": 20}));
    assert_eq!(text(&read), "[a b][c $HOME][d;e][$(id)][*]");
}

#[test]
fn wrong_arguments_are_refused_by_name_before_anything_happens() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat");
    let refused = [
        ("session_create", json!({}), "`command`"),
        (
            "session_create",
            json!({"command": "cat", "shell": true}),
            "`shell`",
        ),
        (
            "session_create",
            json!({"command": "cat", "rows": 0}),
            "`rows`",
        ),
        (
            "session_create",
            json!({"command": "cat", "cols": 501}),
            "`cols`",
        ),
        (
            "session_create",
            json!({"command": "cat", "rows": "24"}),
            "`rows`",
        ),
        (
            "session_send",
            json!({"session_id": terminal.id, "input": 5}),
            "`input`",
        ),
        (
            "session_send",
            json!({"session_id": terminal.id, "key": "return"}),
            "`key`",
        ),
        (
            "session_send",
            json!({"session_id": terminal.id, "control_char": "1"}),
            "`control_char`",
        ),
        (
            "session_send",
            json!({"session_id": terminal.id, "input": "a", "key": "up"}),
            "`key`",
        ),
        (
            "session_read",
            json!({"session_id": terminal.id, "mode": "screen"}),
            "`mode`",
        ),
        (
            "session_read",
            json!({"session_id": terminal.id, "timeout": -1}),
            "`timeout`",
        ),
        ("session_read", json!({}), "`session_id`"),
        (
            "session_resize",
            json!({"session_id": terminal.id, "rows": 5}),
            "`cols`",
        ),
        ("session_exec", json!({"command": "bash"}), "`exec`"),
        (
            "session_wait_for",
            json!({"session_id": terminal.id}),
            "`pattern`",
        ),
        ("session_list", json!({"all": true}), "`all`"),
    ];
    for (tool, arguments, named) in refused {
        let told = format!("{tool} {arguments}");
        let body = call(&server, tool, arguments);
        assert_eq!(body["error"]["type"], "validation_error", "{told}: {body}");
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains(named), "{told}: {message}");
    }
    for tool in [
        "session_send",
        "session_read",
        "session_resize",
        "session_wait_for",
        "session_interact",
    ] {
        let mut arguments = json!({"session_id": "nowhere"});
        match tool {
            "session_resize" => arguments["rows"] = json!(5),
            "session_wait_for" => arguments["pattern"] = json!("x"),
            _ => {}
        }
        if tool == "session_resize" {
            arguments["cols"] = json!(5);
        }
        assert_eq!(failure(&server, tool, arguments), "not_found", "{tool}");
    }
    assert_eq!(ok(&server, "session_list", json!({}))["count"], 1);
}
