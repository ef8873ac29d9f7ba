//! Sessions beside each other: listed, closed, one-off, and seen by the other tools.

use std::fs;

use serde_json::{Value, json};

use super::{keys, text, told_of};
use crate::common::{
    Owner, Server, Terminal, proc,
    terminal::{call, drop_in, failure, free, ok},
    wait_until,
};

#[test]
fn list_tells_of_every_open_session() {
    let server = free(&[]);
    let cat = Terminal::open_with(&server, json!({"command": "cat -u", "label": "first"}));
    let shell = Terminal::open(&server, "bash --norc --noprofile");
    let list = ok(&server, "session_list", json!({}));
    assert_eq!(list["count"], 2);
    let [first, second] = list["sessions"].as_array().expect("sessions").as_slice() else {
        panic!("{list}");
    };
    assert_eq!(
        keys(first),
        [
            "cols",
            "command",
            "created_at",
            "idle_seconds",
            "is_alive",
            "label",
            "last_activity",
            "pid",
            "rows",
            "session_id",
            "snapshot_available",
            "tui_active"
        ]
    );
    assert_eq!(
        (&first["session_id"], &first["label"], &first["command"]),
        (&json!(cat.id), &json!("first"), &json!("cat -u"))
    );
    assert_eq!(
        (&second["session_id"], &second["pid"]),
        (&json!(shell.id), &json!(shell.pid()))
    );
    assert_eq!(
        (&first["is_alive"], &first["tui_active"]),
        (&json!(true), &json!(false))
    );
    shell.close();
    assert_eq!(ok(&server, "session_list", json!({}))["count"], 1);
}

#[test]
fn close_ends_a_session_and_can_be_repeated() {
    let server = free(&[]);
    let cat = Terminal::open(&server, "cat");
    assert_eq!(
        cat.close(),
        json!({"success": true, "exit_status": 0}),
        "end of input"
    );
    assert_eq!(
        cat.close(),
        json!({"success": true, "already_closed": true})
    );
    assert_eq!(cat.failure("session_read", json!({})), "not_found");
    let unknown = ok(&server, "session_close", json!({"session_id": "nowhere"}));
    assert_eq!(unknown["already_closed"], true);
    let stubborn = Terminal::open(
        &server,
        "bash --norc -c \"trap '' HUP TERM; echo up; (trap '' HUP; exec sleep 9000) & while :; do sleep 9000; done\"",
    );
    stubborn.wait_for("up");
    let pid = stubborn.pid();
    let closed = stubborn.close();
    assert_eq!(
        (&closed["exit_status"], &closed["exit_signal"]),
        (&Value::Null, &json!(9))
    );
    wait_until("the whole session is gone", || {
        proc::group_members(pid).is_empty()
    });
}

#[test]
fn exec_runs_one_command_and_tells_its_exit_code() {
    let server = free(&[]);
    let ran = ok(&server, "session_exec", json!({"exec": "echo hi; exit 7"}));
    assert_eq!(
        keys(&ran),
        [
            "bytes_read",
            "exit_code",
            "output",
            "session_id",
            "success",
            "timed_out",
            "truncated"
        ]
    );
    assert_eq!(
        (text(&ran).trim_end(), &ran["exit_code"], &ran["timed_out"]),
        ("hi", &json!(7), &json!(false))
    );
    let ran = ok(
        &server,
        "session_exec",
        json!({"exec": "echo 'two\nlines'; false"}),
    );
    assert_eq!(
        (text(&ran), &ran["exit_code"]),
        ("two\r\nlines\r\n", &json!(1))
    );
    let ran = ok(
        &server,
        "session_exec",
        json!({"exec": "stty size", "rows": 7, "cols": 70}),
    );
    assert_eq!(text(&ran), "7 70\r\n");
    let ran = ok(
        &server,
        "session_exec",
        json!({"exec": "echo begun; sleep 9000", "timeout": 0.5}),
    );
    assert_eq!(
        (&ran["timed_out"], &ran["exit_code"]),
        (&json!(true), &Value::Null)
    );
    assert!(text(&ran).contains("begun"), "{ran}");
    assert_eq!(
        ok(&server, "session_list", json!({}))["count"],
        0,
        "each was closed"
    );
    assert!(proc::with_argument("9000").iter().all(|pid| {
        !proc::descendants_of(server.pid())
            .iter()
            .any(|child| child.pid == *pid)
    }));
    let python = json!({"exec": "print(6 * 7)", "command": "/usr/bin/python3 -q"});
    let ran = ok(&server, "session_exec", python);
    assert!(text(&ran).contains("42"), "{ran}");
    assert_eq!(
        failure(
            &server,
            "session_exec",
            json!({"exec": "x", "command": "no-such-shell"})
        ),
        "spawn_error"
    );
}

#[test]
fn the_audit_log_has_what_session_tools_do() {
    let owner = Owner::new();
    let log = owner.base().join("audit.jsonl");
    let owner = owner
        .argv("cat", &["/bin/cat"])
        .set("audit_log", log.to_str().expect("UTF-8"))
        .set("toolsets", json!(["session"]));
    let mut server = owner.serve();
    assert_eq!(
        failure(&server, "session_create", json!({"command": "ssh host"})),
        "validation_error"
    );
    let cat = Terminal::open(&server, "cat");
    cat.ok(
        "session_send",
        json!({"input": "hello", "press_enter": false}),
    );
    cat.close();
    let id = cat.id.clone();
    server.close_stdin();
    server.assert_exits_cleanly();
    let log = fs::read_to_string(log).expect("the log is there");
    let of = |event| told_of(&log, event);
    let refused = of("start_refused");
    assert_eq!(
        (refused.len(), &refused[0]["command_id"]),
        (1, &json!("ssh host")),
        "{log}"
    );
    let start = of("start");
    assert_eq!(
        (&start[0]["command_id"], &start[0]["session_id"]),
        (&json!("cat"), &json!(id)),
        "{log}"
    );
    // `printf hello | sha256sum`
    let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let write = &of("write")[0];
    assert_eq!(
        (&write["bytes"], &write["sha256"]),
        (&json!(5), &json!(hash)),
        "{log}"
    );
    assert!(!log.contains("hello"), "{log}");
    assert_eq!(of("end")[0]["exit_code"], 0, "{log}");
}

#[test]
fn terminal_tools_take_a_session_of_the_session_tools_and_read_by_themselves() {
    let owner = Owner::new()
        .argv("cat", &["/bin/cat"])
        .set("toolsets", json!(["terminal", "session"]));
    let server = owner.serve();
    let cat = Terminal::open(&server, "cat");
    cat.ok("session_send", json!({"input": "one"}));
    cat.wait_for("one\r\n");
    let id = json!({"session_id": cat.id});
    let status = server.ok("terminal_status", id.clone());
    assert_eq!(
        (&status["status"], &status["process_id"]),
        (&json!("RUNNING"), &json!(cat.pid()))
    );
    let page = server.ok("terminal_read", id.clone());
    assert_eq!(page["records"][0]["text"], "one\r\none\r\n");
    let mut write = id.clone();
    write["text"] = json!("two\r");
    server.ok("terminal_write", write);
    // Only what session tools type is known as an echo.
    cat.wait_for("two\r\ntwo\r\n");
    let page = server.ok("terminal_read", id.clone());
    assert_eq!(page["records"][0]["text"], "one\r\none\r\ntwo\r\ntwo\r\n");
    server.ok("terminal_terminate", id);
    let read = cat.ok("session_read", json!({}));
    assert_eq!(read["is_alive"], false);
}

#[test]
fn calls_on_one_session_do_not_hold_up_those_on_another() {
    let server = free(&[]);
    let (slow, quick) = (Terminal::open(&server, "cat"), Terminal::shell(&server));
    let waiting = server.send(
        "session_wait_for",
        slow.with_id(json!({"pattern": "never", "timeout": 3600})),
    );
    for _ in 0..5 {
        assert!(text(&quick.interact("echo quick")).contains("quick\r\n"));
    }
    assert!(!waiting.is_answered());
    waiting.cancel();
    slow.close();
}

#[test]
fn two_clients_have_sessions_of_their_own() {
    let (one, other) = (free(&[]), free(&[]));
    let cat = Terminal::open(&one, "cat");
    assert_eq!(
        failure(&other, "session_read", json!({"session_id": cat.id})),
        "not_found"
    );
    assert_eq!(ok(&other, "session_list", json!({}))["count"], 0);
    let pid = cat.pid();
    drop(cat);
    one.finish();
    wait_until("it ends with its server", || !proc::is_alive(pid));
    other.finish();
}

#[test]
fn the_answers_fit_the_schemas_that_are_published() {
    let owner = Owner::new();
    let mut command = drop_in();
    command.current_dir(owner.root());
    let server = Server::spawn(owner, command);
    server.initialize();
    let tools = server.request("tools/list", json!({})).result();
    let check = |tool: &str, body: &Value| {
        let tools = tools["tools"].as_array().expect("tools");
        let listed = tools
            .iter()
            .find(|listed| listed["name"] == tool)
            .expect("listed");
        let validator = jsonschema::validator_for(&listed["outputSchema"]).expect("a schema");
        let errors: Vec<String> = validator
            .iter_errors(body)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{tool}: {body}: {errors:?}");
    };
    let shell = Terminal::shell(&server);
    check("session_create", &shell.created);
    for (tool, arguments) in [
        ("session_send", json!({"input": "echo x"})),
        ("session_send", json!({"input": "rm -rf x"})),
        ("session_send", json!({"key": "none"})),
        ("session_read", json!({})),
        ("session_read", json!({"mode": "snapshot", "scrollback": 3})),
        ("session_read", json!({"mode": "diff"})),
        ("session_interact", json!({"input": "echo y"})),
        (
            "session_interact",
            json!({"input": "echo z", "wait_for": "z"}),
        ),
        ("session_interact", json!({"input": "rm -rf x"})),
        ("session_wait_for", json!({"pattern": "x", "timeout": 0})),
        ("session_resize", json!({"rows": 5, "cols": 5})),
        ("session_close", json!({})),
        ("session_close", json!({})),
        ("session_read", json!({})),
    ] {
        check(tool, &call(&server, tool, shell.with_id(arguments)));
    }
    check(
        "session_exec",
        &call(&server, "session_exec", json!({"exec": "exit 3"})),
    );
    check("session_list", &call(&server, "session_list", json!({})));
}
