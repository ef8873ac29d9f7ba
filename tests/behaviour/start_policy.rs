//! What a client may start: approved ids, limits, and starts that fail.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::{Command, Stdio},
    time::Duration,
};

use crate::common::{Owner, Server, Session, owner, wait_until};

use serde_json::{Value, json};

#[test]
fn an_approved_command_runs_with_exactly_its_arguments() {
    let argv = [
        "/usr/bin/printf",
        "[%s]",
        "a b",
        "$HOME",
        "*",
        "",
        "\"'`;|&",
    ];
    let server = Owner::new().argv("job", &argv).serve();
    let session = server.start("job");
    assert_eq!(session.started["command_id"], "job");
    assert_eq!(session.started["status"], "RUNNING");
    assert_eq!(session.read_all().stdout, "[a b][$HOME][*][][\"'`;|&]");
    server.finish();
}

#[test]
fn an_unknown_id_is_refused_and_nothing_is_started() {
    let server = Owner::job("echo ran")
        .set("max_records", 1)
        .set("max_sessions", 1)
        .serve();
    for id in [
        "echo; id",
        "../x",
        "JOB",
        "job ",
        "job\n",
        "approved-job\n",
        "job\u{0}",
    ] {
        assert_eq!(
            server.code("terminal_start", json!({"command_id": id})),
            "COMMAND_NOT_FOUND",
            "{id:?}"
        );
    }
    for id in [String::new(), "x".repeat(129)] {
        assert_eq!(
            server.code("terminal_start", json!({"command_id": id})),
            "INVALID_ARGUMENT",
            "{id:?}"
        );
    }
    // The only record is still free.
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    server.finish();
}

#[test]
fn the_longest_id_counts_characters() {
    let id = "\u{e9}".repeat(128);
    let server = Owner::new().sh(&id, "echo long").serve();
    assert_eq!(server.start(&id).read_all().stdout, "long\n");
    let too_long = "\u{e9}".repeat(129);
    assert_eq!(
        server.code("terminal_start", json!({"command_id": too_long})),
        "INVALID_ARGUMENT"
    );
    server.finish();
}

#[test]
fn arguments_of_the_client_never_reach_the_command_line() {
    let server = Owner::job("echo ran")
        .set("max_records", 1)
        .set("max_sessions", 1)
        .serve();
    for field in [
        "argv",
        "args",
        "command",
        "shell",
        "arguments",
        "input",
        "stdin",
    ] {
        let error = server.refused("terminal_start", json!({"command_id": "job", field: ["x"]}));
        assert_eq!(error["code"], "INVALID_ARGUMENT", "{field}");
        assert!(
            error["message"]
                .as_str()
                .expect("a message")
                .contains(field),
            "{error}"
        );
    }
    server.start("job");
    server.finish();
}

#[test]
fn a_start_returns_at_once_with_a_running_snapshot() {
    let server = Owner::job("sleep 60").serve();
    let session = server.start("job");
    assert_eq!(session.started["status"], "RUNNING");
    assert_eq!(session.started["stdin_closed"], false);
    assert_eq!(session.started["next_cursor"], 0);
    assert_eq!(
        crate::common::proc::stat(session.pid)
            .expect("it runs")
            .group,
        session.pid
    );
    assert_eq!(
        crate::common::proc::stat(session.pid)
            .expect("it runs")
            .session,
        session.pid
    );
    server.finish();
}

#[test]
fn session_ids_are_long_and_differ() {
    let server = Owner::job("true").room_for_many().serve();
    let ids: std::collections::HashSet<String> = (0..20).map(|_| server.start("job").id).collect();
    assert_eq!(ids.len(), 20);
    assert!(
        ids.iter().all(|id| id.len() >= 22),
        "128 random bits in any usual spelling: {ids:?}"
    );
    server.finish();
}

/// What is refused, for whatever reason, must not have run for a moment. The command leaves a trace if it does.
#[test]
fn a_refused_start_runs_nothing() {
    let owner = Owner::new();
    let trace = owner.base().join("trace");
    symlink("/etc", owner.root().join("out")).expect("a link");
    let server = owner
        .argv("job", &["/usr/bin/touch", trace.to_str().expect("UTF-8")])
        .serve();
    let root = server.owner.root().display().to_string();
    for arguments in [
        json!({"command_id": "job", "cwd": format!("{root}/out")}),
        json!({"command_id": "job", "cwd": format!("{root}/../")}),
        json!({"command_id": "job", "cwd": "root"}),
        json!({"command_id": "job", "cwd": format!("{root}\u{0}/etc")}),
        json!({"command_id": "job", "env": {"LD_PRELOAD": "x"}}),
        json!({"command_id": "job", "env": {"A=B": "x"}}),
        json!({"command_id": "job", "env": {"UNLISTED": "x"}}),
        json!({"command_id": "job", "argv": ["x"]}),
        json!({"command_id": "job", "shell": true}),
        json!({"command_id": "job", "timeout_ms": 99}),
        json!({"command_id": "job", "timeout_ms": "500"}),
        json!({"command_id": "job", "timeout_ms": null}),
        json!({"command_id": "job; touch"}),
        json!({"command_id": "job\n"}),
    ] {
        server.refused("terminal_start", arguments);
    }
    assert!(!trace.exists());
    assert_eq!(server.start("job").wait_final()["exit_code"], 0);
    assert!(trace.exists(), "it does leave a trace");
    server.finish();
}

#[test]
fn running_sessions_are_limited_and_ended_ones_free_their_place() {
    let server = Owner::job("read line").set("max_sessions", 2).serve();
    let first = server.start("job");
    let _second = server.start("job");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "job"})),
        "SESSION_LIMIT"
    );
    first.close_stdin();
    first.wait_final();
    let _third = server.start("job");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "job"})),
        "SESSION_LIMIT"
    );
    server.finish();
}

#[test]
fn parallel_starts_can_not_pass_the_limit() {
    let server = Owner::job("sleep 60").set("max_sessions", 5).serve();
    let calls: Vec<_> = (0..60)
        .map(|_| server.send("terminal_start", json!({"command_id": "job"})))
        .collect();
    let bodies: Vec<Value> = calls.iter().map(crate::common::Call::body).collect();
    let (started, refused): (Vec<_>, Vec<_>) = bodies.iter().partition(|body| body["ok"] == true);
    assert_eq!(started.len(), 5);
    assert!(
        refused
            .iter()
            .all(|body| body["error"]["code"] == "SESSION_LIMIT")
    );
    server.finish();
}

#[test]
fn retained_sessions_are_limited_and_nothing_promised_is_evicted() {
    let server = Owner::job("echo kept")
        .set("max_sessions", 1)
        .set("max_records", 3)
        .serve();
    let sessions: Vec<_> = (0..3)
        .map(|_| {
            let session = server.start("job");
            session.wait_settled();
            session
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(
            server.code("terminal_start", json!({"command_id": "job"})),
            "RECORD_LIMIT"
        );
    }
    for session in &sessions {
        assert_eq!(session.read_all().stdout, "kept\n");
    }
    server.finish();
}

#[test]
fn failed_starts_say_why_and_leave_nothing() {
    let owner = Owner::new();
    let script = |name: &str, text: &str| {
        let path = owner.file(name, text.as_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let no_interpreter = script("no-interpreter", "#!/nonexistent/interpreter\n");
    let not_executable = owner
        .file("plain", b"#!/bin/sh\n")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let garbage = script("garbage", "\u{1}\u{2}not a program\n");
    let server = owner
        .argv("missing", &["/nonexistent/prog"])
        .argv("no-interpreter", &[&no_interpreter])
        .argv("not-executable", &[&not_executable])
        .argv("directory", &["/etc"])
        .argv("garbage", &[&garbage])
        .argv("too-large", &["/bin/true", &"x".repeat(200_000)])
        .argv("good", &["/bin/echo", "good"])
        .set("max_sessions", 1)
        .set("max_records", 2)
        .serve();
    // The first start may set up what later ones reuse.
    server.start("good").wait_settled();
    let before = server.descriptor_count();
    let mut messages = std::collections::BTreeMap::new();
    for id in [
        "missing",
        "no-interpreter",
        "not-executable",
        "directory",
        "garbage",
        "too-large",
    ] {
        for _ in 0..20 {
            let error = server.refused("terminal_start", json!({"command_id": id}));
            assert_eq!(error["code"], "START_FAILED", "{id}");
            let message = error["message"].as_str().expect("a message").to_owned();
            assert!(!message.contains('/'), "no path of the machine: {message}");
            let same = messages.entry(id).or_insert_with(|| message.clone());
            assert_eq!(*same, message, "the same fault, the same words");
        }
    }
    assert!(messages["missing"].contains("not found"), "{messages:?}");
    assert!(
        messages["no-interpreter"].contains("interpreter"),
        "{messages:?}"
    );
    assert!(
        messages["not-executable"].contains("executable"),
        "{messages:?}"
    );
    assert!(messages["too-large"].contains("large"), "{messages:?}");
    wait_until("the failed starts' descriptors are closed", || {
        server.descriptor_count() <= before
    });
    assert_eq!(server.zombies().len(), 0);
    assert_eq!(server.start("good").read_all().stdout, "good\n");
    server.finish();
}

#[test]
fn a_program_that_is_open_for_writing_is_reported_as_busy() {
    let owner = Owner::new();
    let program = owner.base().join("busy");
    let copied = Command::new("/bin/cp")
        .arg("/bin/true")
        .arg(&program)
        .status();
    assert!(copied.expect("cp is there").success());
    // Written by processes of their own: what this one has open, the children of other tests have for a moment too.
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "exec 3>>\"$0\"; echo open; read go"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh is there");
    let said = writer.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(said, &mut [0; 5]).expect("it is open");
    let server = owner
        .argv("busy", &[program.to_str().expect("UTF-8")])
        .serve();
    let error = server.refused("terminal_start", json!({"command_id": "busy"}));
    assert_eq!(error["code"], "START_FAILED");
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains("busy"),
        "{error}"
    );
    drop(writer.stdin.take());
    writer.wait().expect("our own child");
    assert_eq!(server.start("busy").wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn a_program_that_is_replaced_after_loading_does_not_crash_the_server() {
    let owner = Owner::new();
    let tool = owner.base().join("tool");
    symlink("/bin/pwd", &tool).expect("a link");
    let server = owner.argv("tool", &[tool.to_str().expect("UTF-8")]).serve();
    fs::remove_file(&tool).expect("our own link");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "tool"})),
        "START_FAILED"
    );
    symlink("/bin/true", &tool).expect("a link");
    server.call("terminal_start", json!({"command_id": "tool"}));
    server.ping();
    server.finish();
}

#[test]
fn timeouts_are_bounded_by_the_config() {
    let profile = json!({"argv": ["/bin/sleep", "60"], "allowed_env": [], "timeout_ms": 150});
    let owner = Owner::job("sleep 60").profile("own", profile);
    let server = owner
        .set("default_timeout_ms", 100)
        .set("max_timeout_ms", 5000)
        .set("max_records", 1024);
    let server = server
        .set("buffer_records", 2048)
        .set("buffer_bytes", 65536)
        .serve();
    for timeout in [99, 5001, 3_600_000, 3_600_001] {
        let arguments = json!({"command_id": "job", "timeout_ms": timeout});
        assert_eq!(
            server.code("terminal_start", arguments),
            "INVALID_ARGUMENT",
            "{timeout}"
        );
    }
    for arguments in [
        json!({"command_id": "job"}),
        json!({"command_id": "own"}),
        json!({"command_id": "job", "timeout_ms": 100}),
    ] {
        let end = server.start_with(arguments).wait_final();
        assert_eq!(end["termination_reason"], "timeout", "{end}");
    }
    let patient = server.start_with(json!({"command_id": "job", "timeout_ms": 5000}));
    assert_eq!(patient.status()["status"], "RUNNING");
    server.finish();
}

#[test]
fn a_cancelled_start_leaves_nothing_running() {
    let server = Owner::job("sleep 60")
        .set("max_sessions", 1)
        .set("max_records", 1024);
    let server = server
        .set("buffer_records", 2048)
        .set("buffer_bytes", 65536)
        .serve();
    for _ in 0..50 {
        let cancelled = server.send("terminal_start", json!({"command_id": "job"}));
        cancelled.cancel();
        // The only place is free again, unless the start came through before its cancellation.
        wait_until("the only place is free", || {
            if let Some(answer) = server.answer_within(&cancelled.id, Duration::ZERO)
                && answer["result"]["structuredContent"]["ok"] == true
            {
                Session::of(&server, answer["result"]["structuredContent"].clone()).terminate(0);
            }
            let body = server.call("terminal_start", json!({"command_id": "job"}));
            if body["ok"] == true {
                Session::of(&server, body).terminate(0);
                return true;
            }
            assert_eq!(body["error"]["code"], "SESSION_LIMIT", "{body}");
            false
        });
    }
    server.finish();
}

#[test]
fn the_owner_may_serve_without_a_config() {
    let owner = Owner::new();
    let mut command = owner::stdio();
    command.current_dir(owner.root());
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("exit7").wait_final()["exit_code"], 7);
    let root = server.owner.root();
    let inside = server.call(
        "terminal_start",
        json!({"command_id": "empty", "cwd": root}),
    );
    assert_eq!(inside["ok"], true, "{inside}");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "empty", "cwd": "/"})),
        "CWD_NOT_ALLOWED"
    );
    server.finish();
}
