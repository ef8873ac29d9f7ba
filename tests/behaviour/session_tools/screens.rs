//! Programs that draw, and shells that mark their prompts.

use std::fs;

use serde_json::json;

use super::text;
use crate::common::{
    Terminal, installed, proc,
    terminal::{free, ok},
    wait_until,
};

#[test]
fn resize_reaches_the_program() {
    let server = free(&[]);
    let terminal = Terminal::open(
        &server,
        "bash --norc -c 'trap \"stty size\" WINCH; echo up; while :; do sleep 0.05; done'",
    );
    terminal.wait_for("up");
    let resized = terminal.ok("session_resize", json!({"rows": 33, "cols": 101}));
    assert_eq!(resized, json!({"success": true, "rows": 33, "cols": 101}));
    terminal.wait_for("33 101");
    let list = ok(&server, "session_list", json!({}));
    let listed = &list["sessions"][0];
    assert_eq!(
        (&listed["rows"], &listed["cols"]),
        (&json!(33), &json!(101))
    );
}

#[test]
fn keys_drive_an_editor_and_the_screen_shows_it() {
    if installed::lacks("vim") {
        return;
    }
    let server = free(&[]);
    let file = server.owner.root().join("note.txt");
    let vim = Terminal::open(&server, "vim -u NONE -i NONE note.txt");
    let read = |mode: &str| vim.ok("session_read", json!({"mode": mode, "timeout": 1}));
    wait_until("vim has drawn its screen", || {
        let screen = read("snapshot");
        // It draws its name first and the lines after that.
        text(&screen).contains("note.txt") && text(&screen).lines().nth(20) == Some("~")
    });
    let auto = read("auto");
    assert_eq!(
        (&auto["mode_used"], &auto["tui_active"]),
        (&json!("snapshot"), &json!(true))
    );
    let first = read("diff");
    assert_eq!(
        (&first["is_first_read"], &first["mode_used"]),
        (&json!(true), &json!("diff"))
    );
    vim.ok(
        "session_send",
        json!({"input": "ihello", "press_enter": false}),
    );
    vim.ok("session_send", json!({"key": "enter"}));
    vim.ok(
        "session_send",
        json!({"input": "world", "press_enter": false}),
    );
    wait_until("what was typed is on the screen", || {
        let screen = text(&read("snapshot")).to_owned();
        screen.starts_with("hello\nworld")
    });
    let diff = read("diff");
    assert_eq!(diff["is_first_read"], false);
    let lines = diff["changed_lines"].as_array().expect("lines");
    assert_eq!(
        (&lines[0]["line"], &lines[0]["content"]),
        (&json!(1), &json!("hello")),
        "{diff}"
    );
    assert!(
        lines.iter().all(|line| line["line"] != 5),
        "an untouched line: {diff}"
    );
    vim.ok("session_send", json!({"key": "escape"}));
    vim.ok("session_send", json!({"key": "up"}));
    vim.ok("session_send", json!({"input": "dd:wq"}));
    wait_until("vim has ended", || !proc::is_alive(vim.pid()));
    assert_eq!(fs::read_to_string(file).expect("vim wrote it"), "world\n");
    let after = vim.ok("session_read", json!({}));
    assert_eq!(
        (&after["tui_active"], &after["mode_used"]),
        (&json!(false), &json!("stream"))
    );
    assert!(!text(&after).contains('\u{1b}'), "{after}");
}

#[test]
fn cursor_keys_are_those_that_a_pager_asked_for() {
    if installed::lacks("less") {
        return;
    }
    let server = free(&[("LESS", "")]);
    let numbers: String = (1..=200).map(|number| format!("line {number}\n")).collect();
    server.owner.file("root/numbers", numbers.as_bytes());
    let less = Terminal::open_with(&server, json!({"command": "less numbers", "rows": 10}));
    let top = |wanted: &str| {
        wait_until(&format!("{wanted} is at the top"), || {
            let read = less.ok("session_read", json!({"mode": "snapshot"}));
            text(&read).lines().next() == Some(wanted)
        });
    };
    top("line 1");
    less.ok("session_send", json!({"key": "down"}));
    top("line 2");
    less.ok("session_send", json!({"key": "page-down"}));
    top("line 11");
    less.ok("session_send", json!({"key": "up"}));
    top("line 10");
    less.ok("session_send", json!({"input": "q", "press_enter": false}));
    wait_until("less has ended", || !proc::is_alive(less.pid()));
}

#[test]
fn a_snapshot_can_reach_above_the_screen() {
    let server = free(&[]);
    let terminal = Terminal::open_with(
        &server,
        json!({"command": "bash --norc -c 'seq 1 100; exec cat'", "rows": 10}),
    );
    terminal.wait_for("100\r\n");
    let screen = terminal.ok("session_read", json!({"mode": "snapshot"}));
    assert!(text(&screen).starts_with("92\n93\n"), "{screen}");
    assert_eq!(screen.get("total_lines"), None);
    let more = terminal.ok("session_read", json!({"mode": "snapshot", "scrollback": 5}));
    assert!(text(&more).starts_with("87\n88\n"), "{more}");
    assert_eq!(more["total_lines"], 14, "{more}");
}

#[test]
fn a_shell_that_marks_its_prompts_is_understood() {
    let server = free(&[]);
    let rc = r#"PS1='\[\e]133;A\a\]> \[\e]133;B\a\]'; PS0='\e]133;C\a'; PROMPT_COMMAND='printf "\e]133;D;%s\a" $?'"#;
    server.owner.file("root/rc", rc.as_bytes());
    let shell = Terminal::open(&server, "bash --noprofile --rcfile rc");
    shell.wait_for("> ");
    let read = shell.ok(
        "session_interact",
        json!({"input": "echo out; (exit 4)", "timeout": 30}),
    );
    assert_eq!(read["osc133"], true, "{read}");
    assert_eq!(
        (&read["exit_code"], &read["command_complete"]),
        (&json!(4), &json!(true)),
        "{read}"
    );
    assert!(read["command_state"].is_string(), "{read}");
    assert!(text(&read).contains("out\r\n"), "{read}");
}
