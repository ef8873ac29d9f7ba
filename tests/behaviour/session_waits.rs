//! What the session tools wait for, on real programs: that a command is through, that a program asks for input, that a pattern
//! comes which isn't the echo of what was typed; and what becomes of a session that nobody waits for.
//!
//! A timeout of 60 s stands for "not by the timeout": a call that sat it out would not be answered in time.

use serde_json::{Value, json};

use crate::common::{
    GUARD, Owner, Terminal, installed, proc,
    terminal::{body, call, free, ok},
    wait_until,
};

fn text(body: &Value) -> &str {
    body["output"].as_str().expect("output")
}

/// Whether a line of the output is this text and nothing else.
fn has_line(read: &Value, line: &str) -> bool {
    text(read).lines().any(|other| other.trim() == line)
}

/// Programs that read commands: how they are started, what they ask with, and a command whose answer is in it.
fn readers() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let all = vec![
        (
            "/bin/bash --norc --noprofile",
            r"\$ $",
            "echo $((40+2))",
            "42",
        ),
        ("/bin/dash", r"\$ $", "echo $((40+2))", "42"),
        ("/usr/bin/python3 -q", ">>> $", "40+2", "42"),
        ("/usr/bin/sqlite3", "sqlite> $", "select 40+2;", "42"),
        ("/usr/bin/node", "> $", "40+2", "42"),
    ];
    let is_there = |command: &str| {
        let program = command.split(' ').next().expect("a program");
        !installed::lacks(program)
    };
    all.into_iter().filter(|one| is_there(one.0)).collect()
}

#[test]
fn a_read_returns_when_the_program_asks_for_input() {
    let server = free(&[]);
    for (command, _, input, answer) in readers() {
        let terminal = Terminal::open(&server, command);
        let read = terminal.ok("session_read", json!({"timeout": 60}));
        assert_eq!(read["prompt_detected"], true, "{command}: {read}");
        let read = terminal.ok("session_interact", json!({"input": input, "timeout": 60}));
        assert_eq!(read["prompt_detected"], true, "{command}: {read}");
        assert!(has_line(&read, answer), "{command}: {read}");
        let read = terminal.ok("session_read", json!({"timeout": 60}));
        assert_eq!(text(&read), "", "{command}: nothing comes while it waits");
    }
}

#[test]
fn a_prompt_does_not_end_the_read_of_what_was_typed_at_it() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    let input = "sleep 0.4; echo slept";
    let read = terminal.ok("session_interact", json!({"input": input, "timeout": 60}));
    assert!(has_line(&read, "slept"), "{read}");
    terminal.ok("session_send", json!({ "input": input }));
    let read = terminal.ok("session_read", json!({"timeout": 60}));
    assert!(has_line(&read, "slept"), "{read}");
}

#[test]
fn a_question_is_a_prompt_whoever_of_the_group_asks_it() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    for (input, question) in [
        ("read -p 'Password: ' x", "Password: "),
        ("read -sp 'Go on? (y/n) ' x", "Go on? (y/n) "),
        // The group's first process waits for the one that asks, or is gone.
        ("sh -c 'sh -c \"printf Name:; read -r x\"; true'", "Name:"),
        (
            "true | sh -c 'printf \"Sure? \"; read -r x < /dev/tty'",
            "Sure? ",
        ),
    ] {
        let read = terminal.ok("session_interact", json!({"input": input, "timeout": 60}));
        assert!(text(&read).ends_with(question), "{input}: {read}");
        terminal.ok("session_interact", json!({"input": "y", "timeout": 60}));
    }
}

#[test]
fn what_takes_the_screen_is_shown_when_it_waits_for_keys() {
    if installed::lacks("less") {
        return;
    }
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    let input = json!({"input": "seq 1 1000 | less", "read_mode": "auto", "timeout": 60});
    let read = terminal.ok("session_interact", input);
    assert_eq!(
        (&read["mode_used"], &read["tui_active"]),
        (&json!("snapshot"), &json!(true))
    );
    assert!(text(&read).starts_with("1\n2\n3\n"), "{read}");
    let quit = json!({"input": "q", "press_enter": false, "read_mode": "auto", "timeout": 60});
    let read = terminal.ok("session_interact", quit);
    assert_eq!(read["mode_used"], "stream", "{read}");
    // What was on the screen was shown already.
    assert!(
        !text(&read).contains("1000") && text(&read).ends_with("$ "),
        "{read}"
    );
}

#[test]
fn the_echo_of_a_line_editor_is_not_what_is_waited_for() {
    let server = free(&[]);
    for (command, prompt, input, answer) in readers() {
        let terminal = Terminal::open(&server, command);
        terminal.wait_for(prompt);
        let echoed = json!({"input": input, "wait_for": r"40\+2", "timeout": 0.5});
        let read = terminal.ok("session_interact", echoed);
        assert_eq!(read["matched"], false, "{command}: {read}");
        assert!(
            text(&read).contains("40+2"),
            "{command}: it was echoed: {read}"
        );
        let read = terminal.ok(
            "session_interact",
            json!({"input": input, "wait_for": answer}),
        );
        assert_eq!(read["matched"], true, "{command}: {read}");
        assert!(has_line(&read, answer), "{command}: {read}");
    }
}

#[test]
fn neither_of_a_busy_shells_two_echoes_is_what_is_waited_for() {
    let server = free(&[]);
    // It may not even have shown its first prompt.
    let terminal = Terminal::open(&server, "bash --norc --noprofile");
    for round in 0..3 {
        let input = format!("sleep 0.2; echo done-{round}");
        let arguments = json!({"input": input, "wait_for": format!("done-{round}"), "timeout": 60});
        let read = terminal.ok("session_interact", arguments);
        assert!(has_line(&read, &format!("done-{round}")), "{read}");
        // The next line is typed while this one runs.
        terminal.ok("session_send", json!({"input": "sleep 0.2"}));
    }
}

#[test]
fn an_echo_that_wraps_is_not_what_is_waited_for() {
    let server = free(&[]);
    let narrow = json!({"command": "bash --norc --noprofile", "cols": 20});
    let terminal = Terminal::open_with(&server, narrow);
    terminal.wait_for(r"\$ $");
    for length in [7, 13, 14, 33, 34, 70] {
        let word = "abcdefg".repeat(10)[..length].to_owned();
        let input = format!("sleep 0.1;echo {word}");
        let arguments = json!({"input": input, "wait_for": word, "timeout": 60});
        let read = terminal.ok("session_interact", arguments);
        assert_eq!(read["matched"], true, "{read}");
        // The word at the start of a line: in the echo it stands behind the command.
        assert!(text(&read).contains(&format!("\r{word}")), "{read}");
    }
}

#[test]
fn the_same_text_that_a_program_prints_itself_is_what_is_waited_for() {
    let server = free(&[]);
    let cat = Terminal::open(&server, "cat");
    let read = cat.ok(
        "session_interact",
        json!({"input": "twice", "wait_for": "^twice"}),
    );
    assert_eq!(text(&read), "twice\r\ntwice\r\n");
    let asks = Terminal::open(&server, "bash -c 'read -sp \"Word: \" x; echo got $x; cat'");
    asks.wait_for("Word: ");
    let read = asks.ok(
        "session_interact",
        json!({"input": "got", "wait_for": "^got got"}),
    );
    assert_eq!(read["matched"], true, "{read}");
    let says = Terminal::open(
        &server,
        "bash -c 'while read -r x; do echo \"it: $x\"; done'",
    );
    let read = says.ok(
        "session_interact",
        json!({"input": "this", "wait_for": "it: this"}),
    );
    assert_eq!(read["matched"], true, "{read}");
}

#[test]
fn a_pattern_may_go_over_lines_and_ends_as_in_python() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    for (input, pattern) in [
        ("echo one; echo two", r"one\s+two"),
        ("printf 'a\\nb\\n'", "(?m)^b$"),
        ("echo end", r"end\r?\n(.*\n)*\$ $"),
        ("(sleep 0.1; echo x)", r"\$\s*$"),
        ("echo Größe", r"\bGröße\b"),
    ] {
        let arguments = json!({"input": input, "wait_for": pattern, "timeout": 60});
        let read = terminal.ok("session_interact", arguments);
        assert_eq!(read["matched"], true, "{pattern}: {read}");
        terminal.ok("session_read", json!({"timeout": 60}));
    }
}

#[test]
fn a_wait_ends_with_the_process_and_tells_so() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "sh -c 'read -r x; echo last words'");
    let arguments = json!({"input": "go", "wait_for": "never", "timeout": 60});
    let read = terminal.ok("session_interact", arguments);
    assert_eq!(
        (&read["matched"], &read["is_alive"]),
        (&json!(false), &json!(false)),
        "{read}"
    );
    assert!(has_line(&read, "last words"), "{read}");
    let ended = Terminal::open(&server, "sh -c 'printf unended; exit 3'");
    let read = ended.ok(
        "session_wait_for",
        json!({"pattern": "unended$", "timeout": 60}),
    );
    assert_eq!(read["matched"], true, "{read}");
}

#[test]
fn what_a_cancelled_wait_would_have_read_is_left_for_the_next_read() {
    let server = free(&[]);
    let script = "echo first; read -r x; echo second; touch said; cat";
    let terminal = Terminal::open(&server, &format!("sh -c '{script}'"));
    terminal.wait_for("first");
    let arguments = terminal.with_id(json!({"input": "go", "wait_for": "never", "timeout": 60}));
    let wait = server.send("session_interact", arguments);
    wait_until("it has said its second word", || {
        server.owner.root().join("said").exists()
    });
    wait.cancel();
    let read = terminal.ok(
        "session_wait_for",
        json!({"pattern": "second", "timeout": 60}),
    );
    assert_eq!(read["matched"], true, "{read}");
}

#[test]
fn an_approved_shell_runs_a_command_that_is_typed_and_its_output_is_exact() {
    let owner = Owner::new()
        .argv("shell", &["/bin/bash", "--norc", "--noprofile"])
        .argv("plain", &["/bin/sh"])
        .set("toolsets", json!(["session"]));
    let server = owner.serve();
    for shell in ["shell", "plain"] {
        let exec = |command: &str| {
            let arguments = json!({"exec": command, "command": shell, "timeout": 60});
            ok(&server, "session_exec", arguments)
        };
        let ran = exec("printf '%s|' \"it's\" \"$((40+2))\"; exit 7");
        assert_eq!(
            (text(&ran), &ran["exit_code"]),
            ("it's|42|", &json!(7)),
            "{shell}"
        );
        let ran = exec("for i in 1 2; do\n\techo \"line $i\"\ndone\n(exit 3)");
        assert_eq!(
            (text(&ran), &ran["exit_code"]),
            ("line 1\r\nline 2\r\n", &json!(3)),
            "{shell}"
        );
        let ran = exec("cat <<'E'\nGröße `x` $y !z\nE");
        assert_eq!(text(&ran), "Größe `x` $y !z\r\n", "{shell}");
        let long = format!("printf %s {} | wc -c", "x".repeat(20_000));
        assert_eq!(text(&exec(&long)).trim(), "20000", "{shell}");
    }
    let ran = call(
        &server,
        "session_exec",
        json!({"exec": "true", "command": "/bin/bash"}),
    );
    assert_eq!(ran["error"]["type"], "validation_error", "{ran}");
    let ran = call(&server, "session_exec", json!({"exec": "true"}));
    assert_eq!(
        ran["error"]["type"], "validation_error",
        "bash is no approved id: {ran}"
    );
}

#[test]
fn any_number_of_commands_may_be_run_one_after_the_other() {
    let server = free(&[]);
    for round in 0..50 {
        let ran = ok(
            &server,
            "session_exec",
            json!({ "exec": format!("exit {round}") }),
        );
        assert_eq!(ran["exit_code"], round);
        let id = json!({ "session_id": ran["session_id"] });
        assert_eq!(
            call(&server, "session_read", id)["error"]["type"],
            "not_found"
        );
    }
    for _ in 0..50 {
        let terminal = Terminal::open(&server, "cat");
        assert_eq!(terminal.close()["exit_status"], 0);
        assert_eq!(terminal.close()["already_closed"], true);
    }
}

#[test]
fn a_session_that_nobody_uses_is_closed_and_one_that_has_ended_takes_no_place() {
    let server = free(&[
        ("SLUICEGATE_IDLE_TIMEOUT", "1"),
        ("SLUICEGATE_CLEANUP_INTERVAL", "1"),
        ("SLUICEGATE_MAX_SESSIONS", "2"),
    ]);
    let idle = Terminal::open(&server, "cat");
    let kept = Terminal::open_with(&server, json!({"command": "cat", "idle_timeout": 600}));
    let third = call(&server, "session_create", json!({"command": "cat"}));
    assert_eq!(third["error"]["type"], "session_limit_reached", "{third}");
    wait_until("the idle one is closed", || !proc::is_alive(idle.pid()));
    wait_until("it is listed no more", || {
        ok(&server, "session_list", json!({}))["count"] == 1
    });
    assert_eq!(idle.close()["already_closed"], true);
    assert!(proc::is_alive(kept.pid()));
    let ended = Terminal::open(&server, "true");
    wait_until("it has ended", || !proc::is_alive(ended.pid()));
    let read = ended.ok("session_read", json!({"timeout": 60}));
    assert_eq!(read["is_alive"], false, "{read}");
    Terminal::open(&server, "cat");
}

#[test]
fn two_waits_on_one_session_are_served_in_turn_and_another_sessions_in_between() {
    let server = free(&[]);
    let slow = Terminal::open(&server, "cat");
    let quick = Terminal::shell(&server);
    let wait = server.send(
        "session_wait_for",
        slow.with_id(json!({"pattern": "now", "timeout": GUARD.as_secs()})),
    );
    let read = quick.ok(
        "session_interact",
        json!({"input": "echo meanwhile", "timeout": 60}),
    );
    assert!(has_line(&read, "meanwhile"), "{read}");
    assert!(!wait.is_answered());
    // Typing waits for no read.
    slow.ok("session_send", json!({"input": "now"}));
    assert_eq!(body(&wait)["matched"], true);
}

#[test]
fn a_prompt_is_no_answer_while_what_was_typed_is_unread() {
    // It waits with a prompt on the screen, but not yet for the terminal.
    let script = "import select; print('> ', end='', flush=True); select.select([], [], [], 0.7); print('got', input()); input('> ')";
    let server = free(&[]);
    let terminal = Terminal::open(&server, &format!("/usr/bin/python3 -c \"{script}\""));
    let answer = terminal.interact("six");
    let output = answer["output"].as_str().expect("output");
    assert!(output.ends_with("got six\r\n> "), "{output:?}");
}

#[test]
fn calls_that_are_given_up_at_once_leave_nothing_and_break_nothing() {
    let server = free(&[]);
    for _ in 0..20 {
        server
            .send("session_exec", json!({"exec": "sleep 30"}))
            .cancel();
        server
            .send("session_create", json!({"command": "sleep 30"}))
            .cancel();
    }
    wait_until("what was cancelled is gone", || {
        ok(&server, "session_list", json!({}))["count"] == 0
    });
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    // They are killed, which takes a moment.
    wait_until("there is room again", || {
        let answer = call(&server, "session_exec", json!({"exec": "echo alive"}));
        answer["output"] == "alive\r\n"
    });
}
