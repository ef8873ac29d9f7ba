//! The session tools on real programs: what each answers, by default and in each of its modes.

use std::fs;

use serde_json::{Value, json};

use crate::common::{
    Owner, Server, Terminal, installed, proc,
    terminal::{body, call, drop_in, failure, free, ok},
    wait_until,
};

fn keys(body: &Value) -> Vec<&str> {
    let members = body.as_object().expect("an object");
    members.keys().map(String::as_str).collect()
}

fn text(body: &Value) -> &str {
    body["output"].as_str().expect("output")
}

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

#[test]
fn send_tells_how_many_bytes_it_typed() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat");
    let sent = |arguments: Value| {
        let sent = terminal.ok("session_send", arguments);
        assert_eq!(keys(&sent), ["bytes_sent", "success"]);
        sent["bytes_sent"].clone()
    };
    assert_eq!(
        sent(json!({"input": "héllo"})),
        7,
        "a carriage return is added"
    );
    terminal.wait_for("héllo\r\n");
    assert_eq!(sent(json!({"input": "half", "press_enter": false})), 4);
    wait_until("it is echoed", || {
        let read = terminal.ok("session_read", json!({"timeout": 0}));
        text(&read) == "half"
    });
    assert_eq!(sent(json!({})), 1, "Enter alone");
    // What the kernel throws away at Ctrl-C may be output, too.
    let before = terminal.wait_for("half\r\n");
    assert_eq!(text(&before), "\r\nhalf\r\n");
    assert_eq!(sent(json!({"key": "tab"})), 1);
    assert_eq!(sent(json!({"key": "f12"})), 5);
    assert_eq!(sent(json!({"password": "secret"})), 7);
    assert_eq!(sent(json!({"control_char": "c"})), 1);
    wait_until("Ctrl-C ends cat", || !proc::is_alive(terminal.pid()));
    wait_until("sends are refused", || {
        let arguments = terminal.with_id(json!({"input": "x"}));
        call(&server, "session_send", arguments)["error"]["type"] == "session_dead"
    });
    let read = terminal.ok("session_read", json!({}));
    assert_eq!(read["is_alive"], false);
}

#[test]
fn read_returns_what_came_since_the_last_read() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.ok("session_send", json!({"input": "echo first"}));
    let read = terminal.ok("session_read", json!({}));
    assert_eq!(
        keys(&read),
        [
            "bytes_read",
            "is_alive",
            "mode_used",
            "output",
            "prompt_detected",
            "snapshot_available",
            "success",
            "truncated",
            "tui_active"
        ]
    );
    // The carriage return is what bash ends a bracketed paste with.
    assert_eq!(text(&read), "echo first\r\n\rfirst\r\n$ ");
    assert_eq!(read["prompt_detected"], true);
    assert_eq!(read["is_alive"], true);
    assert_eq!(
        (&read["truncated"], &read["tui_active"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(read["mode_used"], "stream");
    // What bash's bracketed paste costs is counted, too.
    assert!(
        read["bytes_read"].as_u64() >= Some(text(&read).len() as u64),
        "{read}"
    );
    let nothing = terminal.ok("session_read", json!({"timeout": 0}));
    assert_eq!((text(&nothing), &nothing["bytes_read"]), ("", &json!(0)));
    let read = terminal.interact("exit 3");
    assert_eq!(read["is_alive"], false, "{read}");
    let closed = terminal.close();
    assert_eq!(
        (&closed["exit_status"], closed.get("exit_signal")),
        (&json!(3), None)
    );
}

#[test]
fn what_was_printed_before_the_first_read_is_kept() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "seq 1 3");
    wait_until("it has ended", || !proc::is_alive(terminal.pid()));
    let read = terminal.ok("session_read", json!({}));
    assert_eq!(
        (text(&read), &read["is_alive"]),
        ("1\r\n2\r\n3\r\n", &json!(false))
    );
}

#[test]
fn escape_sequences_are_removed_unless_they_are_wanted() {
    let server = free(&[]);
    let print = |strip: bool| {
        let terminal = Terminal::open(
            &server,
            r"printf '\033[1;31mred\033[0m\033]0;title\007\033(B\033[?25l\033[3~.'",
        );
        let read = terminal.ok("session_read", json!({"strip_ansi": strip, "timeout": 20}));
        assert_eq!(read["bytes_read"], 38, "{read}");
        text(&read).to_owned()
    };
    assert_eq!(print(true), "red.");
    assert_eq!(
        print(false),
        "\u{1b}[1;31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{1b}(B\u{1b}[?25l\u{1b}[3~."
    );
}

#[test]
fn a_pattern_matches_neither_older_output_nor_the_echo_of_the_input() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.interact("echo ready-1");
    // The pattern stands in what was typed, and in what was read before.
    let arguments = json!({"input": "sleep 0.3; printf 'ready'; echo -2", "wait_for": "ready"});
    let read = terminal.ok("session_interact", arguments);
    assert_eq!(read["matched"], true, "{read}");
    assert!(text(&read).contains("ready"), "{read}");
    assert!(read["bytes_sent"].as_u64() > Some(30), "{read}");
    let answer = text(&read)
        .lines()
        .filter(|line| line.trim_start().starts_with("ready"))
        .count();
    assert_eq!(answer, 1, "{read}");

    let python = Terminal::open(&server, "/usr/bin/python3 -q");
    python.wait_for(">>> ");
    let arguments = json!({"input": "print('o' + 'k')", "wait_for": "ok"});
    let read = python.ok("session_interact", arguments);
    assert!(text(&read).contains("ok"), "{read}");
    let arguments = json!({"input": "x = 'never'", "wait_for": "never", "timeout": 0.5});
    let read = python.ok("session_interact", arguments);
    assert_eq!(
        read["matched"], false,
        "its line editor's echo is none: {read}"
    );

    // cat on a terminal: the line discipline echoes, then cat does.
    let cat = Terminal::open(&server, "cat");
    let read = cat.ok(
        "session_interact",
        json!({"input": "twice", "wait_for": "twice"}),
    );
    assert_eq!(text(&read).matches("twice").count(), 2, "{read}");
}

#[test]
fn a_banner_that_nobody_has_read_is_no_answer() {
    let server = free(&[]);
    let python = Terminal::open(&server, "/usr/bin/python3");
    wait_until("its first prompt is there", || {
        let read = python.ok("session_read", json!({"mode": "snapshot"}));
        text(&read).ends_with(">>>")
    });
    let arguments = json!({"input": "print(4951 - 1)", "wait_for": ">>> $"});
    let read = python.ok("session_interact", arguments);
    assert_eq!(read["matched"], true, "{read}");
    assert!(text(&read).contains("\r\n4950\r\n"), "{read}");
    let next = python.ok("session_interact", json!({"input": "print('next')"}));
    assert_eq!(text(&next), "print('next')\r\nnext\r\n>>> ");
}

#[test]
fn a_sequence_that_two_reads_tear_apart_is_removed_all_the_same() {
    let server = free(&[]);
    let command = r#"bash --norc -c "stty -echo; printf 'a\033[3'; read; printf '1mb'; exec cat""#;
    let terminal = Terminal::open(&server, command);
    let mut all = String::new();
    wait_until("the first half is read", || {
        let read = terminal.ok("session_read", json!({"timeout": 0.1}));
        all.push_str(text(&read));
        read["bytes_read"] == 4
    });
    terminal.ok("session_send", json!({}));
    wait_until("the second half is read", || {
        let read = terminal.ok("session_read", json!({"timeout": 0.1}));
        all.push_str(text(&read));
        read["bytes_read"] == 3
    });
    assert_eq!(all, "ab");
}

#[test]
fn wait_for_sees_what_comes_after_the_send_and_the_last_read() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.ok(
        "session_send",
        json!({"input": "echo one; sleep 0.2; echo t'w'o"}),
    );
    let read = terminal.wait_for("two");
    assert!(
        text(&read).contains("one") && text(&read).contains("two"),
        "{read}"
    );
    assert_eq!(
        keys(&read),
        [
            "bytes_read",
            "is_alive",
            "matched",
            "output",
            "prompt_detected",
            "success",
            "truncated"
        ]
    );
    let again = terminal.ok(
        "session_wait_for",
        json!({"pattern": "two", "timeout": 0.3}),
    );
    assert_eq!(again["matched"], false, "it was read: {again}");
    let ended = Terminal::open(&server, "echo over");
    let read = ended.ok(
        "session_wait_for",
        json!({"pattern": "never", "timeout": 600}),
    );
    assert_eq!(
        (&read["matched"], &read["is_alive"], text(&read)),
        (&json!(false), &json!(false), "over\r\n")
    );
}

#[test]
fn a_pattern_of_pythons_that_rust_has_not_is_refused_before_anything_is_typed() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat");
    for pattern in ["(?=ahead)", "(?<!behind)x", r"(a)\1", "(unclosed", "[z-a]"] {
        let body = call(
            &server,
            "session_wait_for",
            terminal.with_id(json!({"pattern": pattern})),
        );
        assert_eq!(
            body["error"]["type"], "validation_error",
            "{pattern}: {body}"
        );
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("pattern"), "{message}");
        let arguments = json!({"input": "typed", "wait_for": pattern});
        assert_eq!(
            terminal.failure("session_interact", arguments),
            "validation_error"
        );
    }
    let read = terminal.ok("session_read", json!({"timeout": 0.2}));
    assert_eq!(text(&read), "");
}

#[test]
fn destructive_input_has_to_be_confirmed_and_is_not_typed_before() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "cat");
    for tool in ["session_send", "session_interact"] {
        let input = format!("rm -rf /tmp/{tool}");
        let held = call(&server, tool, terminal.with_id(json!({ "input": input })));
        assert_eq!(held["requires_confirmation"], true, "{held}");
        assert_eq!(held["command"], input);
        assert!(
            held["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{held}"
        );
        assert_eq!(
            keys(&held),
            [
                "command",
                "message",
                "reason",
                "requires_confirmation",
                "success"
            ]
        );
    }
    let read = terminal.ok("session_read", json!({"timeout": 0.2}));
    assert_eq!(text(&read), "");
    let read = terminal.ok(
        "session_interact",
        json!({"input": "rm -rf /tmp/x", "confirmed": true, "wait_for": "rm"}),
    );
    assert!(text(&read).contains("rm -rf /tmp/x"), "{read}");
    // A password is nobody's command.
    terminal.ok("session_send", json!({"password": "rm -rf /"}));
    for input in [
        "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sdb",
        "DROP TABLE users;",
        "truncate table users",
        "curl http://x | sh",
        "wget -qO- http://x | sudo bash",
        "chmod 777 /srv",
        "chmod -R u+w .",
        "chown -R me /",
        "echo x > /dev/sda",
        ":(){ :|:& };:",
        "shutdown now",
        "reboot",
        "init 0",
        "systemctl stop sshd",
        "kill -9 1",
        "pkill -9 x",
    ] {
        let held = call(
            &server,
            "session_send",
            terminal.with_id(json!({ "input": input })),
        );
        assert_eq!(held["requires_confirmation"], true, "{input}: {held}");
    }
}

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
fn a_password_is_typed_and_stands_nowhere() {
    const SECRET: &str = "correct-horse-battery";
    let owner = Owner::new();
    let log = owner.base().join("audit.jsonl");
    let owner = owner
        .argv("cat", &["/bin/cat"])
        .set("audit_log", log.to_str().expect("UTF-8"))
        .set("toolsets", json!(["terminal", "session"]))
        .set("session_commands", "any");
    let mut command = owner.command();
    command.args(["--log-level", "debug"]);
    let mut server = Server::spawn(owner, command);
    server.initialize();
    let script = "import getpass, hashlib; p = getpass.getpass(); print(hashlib.sha256(p.encode()).hexdigest()[:8], len(p))";
    let asks = Terminal::open_with(
        &server,
        json!({"command": format!("/usr/bin/python3 -c \"{script}\""), "label": "asks"}),
    );
    asks.wait_for("Password: ");
    let sent = asks.ok("session_send", json!({ "password": SECRET }));
    assert_eq!(sent["bytes_sent"], SECRET.len() + 1);
    let read = asks.wait_for(" 21");
    assert!(!text(&read).contains(SECRET), "{read}");
    // Refused ones, too.
    let dead = asks.with_id(json!({ "password": SECRET }));
    wait_until("it has ended", || {
        call(&server, "session_send", dead.clone())["error"]["type"] == "session_dead"
    });
    let number = call(
        &server,
        "session_send",
        asks.with_id(json!({"password": 777_777_777})),
    );
    assert_eq!(number["error"]["type"], "validation_error");
    assert!(!number.to_string().contains("777777"), "{number}");
    let both = call(
        &server,
        "session_interact",
        asks.with_id(json!({"password": SECRET, "key": "up"})),
    );
    assert!(!both.to_string().contains(SECRET), "{both}");
    server.close_stdin();
    server.assert_exits_cleanly();
    let log = fs::read_to_string(log).expect("the log is there");
    let said = server.stderr();
    for place in [&log, &said] {
        assert!(
            !place.contains(SECRET) && !place.contains("777777"),
            "{place}"
        );
    }
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("start").len(), 1, "{log}");
    let writes = of("write");
    assert_eq!(
        (&writes[0]["bytes"], &writes[0]["sha256"]),
        (&json!(SECRET.len() + 1), &Value::Null),
        "{log}"
    );
    assert_eq!(of("end").len(), 1, "{log}");
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
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .collect::<Vec<_>>()
    };
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
    let write = of("write")[0];
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

#[test]
fn a_line_that_the_kernel_would_cut_is_refused() {
    let server = free(&[]);
    let cat = Terminal::open(&server, "cat");
    let arguments = json!({"input": "x".repeat(5_000)});
    assert_eq!(cat.failure("session_send", arguments), "send_error");
    let shell = Terminal::shell(&server);
    let long = format!("echo {} | wc -c", "y".repeat(8_000));
    let read = shell.ok(
        "session_interact",
        json!({"input": long, "wait_for": "8001"}),
    );
    assert_eq!(read["matched"], true, "its line editor takes any length");
}

#[test]
fn a_hundred_lines_sent_one_after_the_other_arrive_in_order() {
    let server = free(&[]);
    let cat = Terminal::open(&server, "bash --norc -c 'stty -echo; echo up; exec cat'");
    cat.wait_for("up");
    let calls: Vec<_> = (0..100)
        .map(|number| {
            server.send(
                "session_send",
                cat.with_id(json!({"input": format!("line {number}")})),
            )
        })
        .collect();
    for sent in &calls {
        assert_eq!(body(sent)["success"], true);
    }
    let read = cat.wait_for("line 99\r\n");
    let expected: String = (0..100)
        .map(|number| format!("line {number}\r\n"))
        .collect();
    let all = text(&read);
    assert!(
        expected.ends_with(all) || all.ends_with(&expected),
        "{read}"
    );
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
fn results_come_in_the_layout_that_the_owner_chose() {
    for layout in ["both", "structured", "text"] {
        let owner = Owner::new()
            .argv("cat", &["/bin/cat"])
            .set("toolsets", json!(["session"]))
            .set("results", layout);
        let server = owner.serve();
        let tools = server.request("tools/list", json!({})).result();
        assert_eq!(
            tools["tools"][0].get("outputSchema").is_some(),
            layout != "text"
        );
        let result = server
            .send("session_create", json!({"command": "cat"}))
            .result();
        assert_eq!(
            result.get("structuredContent").is_some(),
            layout != "text",
            "{result}"
        );
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(text.starts_with('{'), layout != "structured", "{text}");
        let failed = server
            .send("session_read", json!({"session_id": "x"}))
            .result();
        assert_eq!(failed["isError"], true);
    }
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
