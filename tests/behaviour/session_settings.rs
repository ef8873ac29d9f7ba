//! Which tools there are, what the session tools may start, and where their settings come from.

use serde_json::{Value, json};

use crate::common::{
    Owner, Server, Terminal,
    call::is_error,
    launch::refusal,
    owner::stdio,
    proc,
    terminal::{call, drop_in, failure, free, ok},
    wait_until,
};

const TERMINAL_TOOLS: [&str; 5] = [
    "terminal_start",
    "terminal_read",
    "terminal_write",
    "terminal_status",
    "terminal_terminate",
];

const SESSION_TOOLS: [&str; 9] = [
    "session_create",
    "session_send",
    "session_read",
    "session_resize",
    "session_close",
    "session_list",
    "session_exec",
    "session_wait_for",
    "session_interact",
];

fn listed(server: &Server) -> Vec<String> {
    let tools = server.request("tools/list", json!({})).result();
    let tools = tools["tools"].as_array().expect("tools").iter();
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.map(name).collect()
}

/// Serves a config with these arguments beside it.
fn serve_with(owner: Owner, arguments: &[&str]) -> Server {
    let mut command = owner.command();
    command.args(arguments);
    let server = Server::spawn(owner, command);
    server.initialize();
    server
}

/// Approves `cat`, which ends at the end of its input.
fn with_cat() -> Owner {
    Owner::new().argv("cat", &["/bin/cat"])
}

#[test]
fn a_client_sees_the_sets_of_tools_that_are_on() {
    let both = [TERMINAL_TOOLS.as_slice(), &SESSION_TOOLS].concat();
    let cases: [(Value, &[&str], &[&str]); 8] = [
        (Value::Null, &[], &TERMINAL_TOOLS),
        (json!(["terminal"]), &[], &TERMINAL_TOOLS),
        (json!(["session"]), &[], &SESSION_TOOLS),
        (json!(["session", "terminal"]), &[], &both),
        (Value::Null, &["--tools", "session"], &SESSION_TOOLS),
        (Value::Null, &["--tools", "all"], &both),
        (
            json!(["session"]),
            &["--tools", "terminal"],
            &TERMINAL_TOOLS,
        ),
        (json!(["session"]), &["--tools", "all"], &both),
    ];
    for (toolsets, arguments, expected) in cases {
        let mut owner = with_cat();
        if !toolsets.is_null() {
            owner = owner.set("toolsets", toolsets.clone());
        }
        let server = serve_with(owner, arguments);
        assert_eq!(listed(&server), expected, "{toolsets} {arguments:?}");
        for tool in both.iter().filter(|tool| !expected.contains(tool)) {
            let answer = server.send(tool, json!({})).whole();
            assert!(is_error(&answer), "{answer}");
            let message = answer["error"]["message"].as_str().expect("a message");
            assert_eq!(message, format!("unknown tool: {tool}"));
        }
    }
}

#[test]
fn a_client_is_told_how_to_use_the_tools_that_it_has() {
    let told = |arguments: &[&str]| {
        let owner = with_cat();
        let mut command = owner.command();
        command.args(arguments);
        let server = Server::spawn(owner, command);
        let answer = server.initialize();
        answer["instructions"]
            .as_str()
            .expect("instructions")
            .to_owned()
    };
    let (terminal, session, both) = (
        told(&["--tools", "terminal"]),
        told(&["--tools", "session"]),
        told(&["--tools", "all"]),
    );
    assert!(terminal.contains("terminal_start") && !terminal.contains("session_create"));
    assert!(session.contains("session_create") && !session.contains("terminal_start"));
    assert_eq!(both, format!("{terminal}\n{session}"));
}

#[test]
fn without_a_config_the_session_tools_start_any_command_and_nothing_else_does() {
    let server = free(&[]);
    assert_eq!(listed(&server), SESSION_TOOLS);
    let terminal = Terminal::open(&server, "printf 'a  b'\\''c'");
    assert_eq!(terminal.wait_for("c")["output"], "a  b'c");
    let cases: [(&[&str], &str); 6] = [
        (&["--tools", "session"], "--allow-any-command"),
        (&["--tools", "all"], "--config"),
        (&["--tools", "all", "--allow-any-command"], "--config"),
        (&["--allow-any-command"], "--tools session"),
        (
            &["--tools", "terminal", "--allow-any-command"],
            "--tools session",
        ),
        (
            &["--config", "/nonexistent", "--tools", "session"],
            "/nonexistent",
        ),
    ];
    for (arguments, named) in cases {
        let said = refusal(stdio().args(arguments));
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
}

#[test]
fn where_the_owner_allows_no_other_only_approved_commands_are_started() {
    let owner = with_cat().set("toolsets", json!(["session"]));
    let server = owner.serve();
    let terminal = Terminal::open(&server, "cat");
    assert_eq!(terminal.created["label"], "cat");
    for tool in ["session_create", "session_exec"] {
        for command in ["/bin/cat", "cat -u", "bash", "sh -c true", "dog"] {
            let arguments = match tool {
                "session_exec" => json!({"command": command, "exec": "true"}),
                _ => json!({ "command": command }),
            };
            assert_eq!(
                failure(&server, tool, arguments),
                "validation_error",
                "{command}"
            );
        }
    }
    let body = call(&server, "session_create", json!({"command": "ssh host"}));
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("command"), "{message}");
    let any = with_cat()
        .set("toolsets", json!(["session"]))
        .set("session_commands", "any");
    for server in [
        any.serve(),
        serve_with(with_cat(), &["--tools", "session", "--allow-any-command"]),
    ] {
        let terminal = Terminal::open(&server, "printf free");
        assert_eq!(terminal.wait_for("free")["output"], "free");
        Terminal::open(&server, "cat");
    }
}

#[test]
fn an_approved_command_has_its_profiles_environment_and_any_other_the_servers() {
    let approved = json!({"argv": ["/usr/bin/env"], "allowed_env": [], "env": {"MODE": "fixed"}});
    let owner = Owner::new()
        .profile("approved", approved)
        .set("toolsets", json!(["session"]))
        .set("session_commands", "any");
    let mut command = owner.command();
    command
        .env("SECRET_OF_THE_SERVER", "seen")
        .env("COLUMNS", "7")
        .env("TERM", "dumb");
    let server = Server::spawn(owner, command);
    server.initialize();
    let printed = |command: &str| -> Vec<String> {
        let terminal = Terminal::open(&server, command);
        let read = terminal.ok("session_read", json!({"timeout": 20}));
        let output = read["output"].as_str().expect("output");
        output.lines().map(str::to_owned).collect()
    };
    let has = |lines: &[String], line: &str| lines.iter().any(|one| one == line);
    let approved = printed("approved");
    assert!(
        has(&approved, "MODE=fixed") && has(&approved, "PATH=/usr/bin:/bin"),
        "{approved:?}"
    );
    assert!(!has(&approved, "SECRET_OF_THE_SERVER=seen"), "{approved:?}");
    let free = printed("/usr/bin/env");
    assert!(has(&free, "SECRET_OF_THE_SERVER=seen"), "{free:?}");
    for lines in [&approved, &free] {
        assert!(has(lines, "TERM=xterm-256color"), "{lines:?}");
        assert!(
            !lines.iter().any(|line| line.starts_with("COLUMNS=")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_variable_that_can_not_be_taken_is_named_with_its_value() {
    for (name, value, rule) in [
        (
            "TERMINAL_MCP_MAX_SESSIONS",
            "many",
            "a whole number from 1 to 64",
        ),
        (
            "SLUICEGATE_MAX_SESSIONS",
            "0",
            "a whole number from 1 to 64",
        ),
        (
            "TERMINAL_MCP_SAFETY_GATE",
            "maybe",
            "true or false, on or off, 1 or 0",
        ),
        (
            "SLUICEGATE_READ_SETTLE_TIMEOUT",
            "-2",
            "a number of seconds from 0 to 3600",
        ),
        (
            "TERMINAL_MCP_TRUNCATION_MODE",
            "middle",
            "tail, head_tail, tail_only or none",
        ),
        (
            "TERMINAL_MCP_DANGEROUS_PATTERNS",
            "fine;(?<!x)y",
            "look-around",
        ),
    ] {
        let said = refusal(drop_in().env(name, value));
        assert!(said.contains(&format!("{name} is \"{value}\"")), "{said}");
        assert!(said.contains(rule), "{said}");
        // Of tools that aren't there nothing is asked.
        let owner = with_cat();
        let mut command = owner.command();
        command.env(name, value);
        Server::spawn(owner, command).initialize();
    }
}

#[test]
fn settings_come_from_the_environment_before_the_config_and_are_the_defaults() {
    let owner = Owner::new()
        .argv("size", &["/usr/bin/stty", "size"])
        .set("toolsets", json!(["session"]))
        .set("session", json!({"default_rows": 30, "default_cols": 90}));
    let mut command = owner.command();
    command
        .env("TERMINAL_MCP_DEFAULT_ROWS", "31")
        .env("SLUICEGATE_DEFAULT_ROWS", "32");
    let server = Server::spawn(owner, command);
    server.initialize();
    let size = |arguments: Value| {
        let terminal = Terminal::open_with(&server, arguments);
        let read = terminal.wait_for("\n");
        read["output"].as_str().expect("output").trim().to_owned()
    };
    assert_eq!(size(json!({"command": "size"})), "32 90");
    assert_eq!(
        size(json!({"command": "size", "rows": 5, "cols": 500})),
        "5 500"
    );
    let tools = server.request("tools/list", json!({})).result();
    let create = &tools["tools"][0]["inputSchema"]["properties"];
    assert_eq!(
        (&create["rows"]["default"], &create["cols"]["default"]),
        (&json!(32), &json!(90))
    );
}

#[test]
fn no_more_sessions_are_open_than_may_be_and_a_closed_one_makes_room() {
    let server = free(&[("TERMINAL_MCP_MAX_SESSIONS", "2")]);
    let first = Terminal::open(&server, "cat");
    Terminal::open(&server, "cat");
    let create = json!({"command": "cat"});
    assert_eq!(
        failure(&server, "session_create", create.clone()),
        "session_limit_reached"
    );
    let exec = json!({"exec": "true"});
    assert_eq!(
        failure(&server, "session_exec", exec),
        "session_limit_reached"
    );
    first.close();
    ok(&server, "session_create", create);
}

#[test]
fn hundreds_of_sessions_one_after_the_other_leave_nothing() {
    let server = free(&[]);
    Terminal::open(&server, "true").close();
    let before = server.descriptor_count();
    for _ in 0..300 {
        Terminal::open(&server, "true").close();
    }
    assert_eq!(server.descriptor_count(), before);
    let list = ok(&server, "session_list", json!({}));
    assert_eq!((&list["count"], &list["sessions"]), (&json!(0), &json!([])));
}

#[test]
fn an_idle_session_is_closed_and_one_that_is_used_is_not() {
    let server = free(&[
        ("SLUICEGATE_CLEANUP_INTERVAL", "1"),
        ("SLUICEGATE_IDLE_TIMEOUT", "2"),
    ]);
    let idle = Terminal::open(&server, "cat");
    let kept = Terminal::open_with(&server, json!({"command": "cat", "idle_timeout": 3600}));
    let (idle_pid, kept_pid) = (idle.pid(), kept.pid());
    wait_until("the idle one is closed", || !proc::is_alive(idle_pid));
    assert!(proc::is_alive(kept_pid));
    wait_until("it is gone from the list", || {
        ok(&server, "session_list", json!({}))["count"] == 1
    });
    assert_eq!(idle.failure("session_read", json!({})), "not_found");
    assert_eq!(idle.close()["already_closed"], true);
    assert_eq!(kept.wait_for_echo(), "still here");
}

impl Terminal<'_> {
    /// What `cat` says to a line.
    fn wait_for_echo(&self) -> String {
        let arguments = json!({"input": "still here", "wait_for": "still here"});
        let read = self.ok("session_interact", arguments);
        assert_eq!(read["matched"], true, "{read}");
        read["output"]
            .as_str()
            .expect("output")
            .lines()
            .last()
            .expect("a line")
            .to_owned()
    }
}

#[test]
fn the_safety_gate_can_be_widened_and_turned_off() {
    let confirmed = |server: &Server, input: &str| {
        let terminal = Terminal::open(server, "cat");
        call(
            server,
            "session_send",
            terminal.with_id(json!({"input": input})),
        )["success"]
            == true
    };
    let wider = free(&[(
        "TERMINAL_MCP_DANGEROUS_PATTERNS",
        r"\bdeploy\s+prod\b; ^halt$",
    )]);
    for (input, passes) in [
        ("DEPLOY  prod", false),
        ("halt", false),
        ("rm -rf /tmp/x", false),
        ("deploy test", true),
        ("halt now", true),
    ] {
        assert_eq!(confirmed(&wider, input), passes, "{input}");
    }
    let off = free(&[
        ("TERMINAL_MCP_SAFETY_GATE", "off"),
        ("SLUICEGATE_DANGEROUS_PATTERNS", "x"),
    ]);
    assert!(confirmed(&off, "rm -rf x"));
}

#[test]
fn long_output_is_cut_as_the_settings_say_and_as_a_call_says() {
    let server = free(&[
        ("SLUICEGATE_MAX_OUTPUT_BYTES", "1000"),
        ("SLUICEGATE_TRUNCATION_MODE", "tail_only"),
    ]);
    let read = |truncation: Option<&str>| {
        let terminal = Terminal::open(&server, "seq 1 2000");
        let mut arguments = json!({"timeout": 20});
        if let Some(mode) = truncation {
            arguments["truncation"] = json!(mode);
        }
        let read = terminal.ok("session_read", arguments);
        assert_eq!(read["bytes_read"], 8_893 + 2_000, "{read}");
        assert_eq!(read["truncated"], truncation != Some("none"), "{read}");
        read["output"].as_str().expect("output").to_owned()
    };
    let end = read(None);
    assert!(
        end.trim_end().ends_with("\n2000") && !end.contains("\n1000\r"),
        "{end}"
    );
    let beginning = read(Some("tail"));
    assert!(
        beginning.starts_with("1\r\n2\r\n") && !beginning.contains("\n2000"),
        "{beginning}"
    );
    let both = read(Some("head_tail"));
    assert!(
        both.starts_with("1\r\n2\r\n") && both.trim_end().ends_with("\n2000"),
        "{both}"
    );
    assert!(both.contains("lines omitted"), "{both}");
    assert_eq!(read(Some("none")).len(), 8_893 + 2_000);
    for cut in [end, beginning, both] {
        assert!(cut.len() < 1_200, "{} bytes", cut.len());
    }
}
