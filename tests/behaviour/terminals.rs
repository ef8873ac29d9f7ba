//! Commands on a terminal: the five tools on a profile with `tty`, and the sixth.

use serde_json::{Value, json};

use crate::common::{Owner, Server, Session, installed, proc, wait_until};

/// Approves an argument vector on a terminal of 24 lines and 80 columns.
fn on_tty(owner: Owner, id: &str, argv: &[&str]) -> Owner {
    let tty = json!({"rows": 24, "cols": 80});
    owner.profile(id, json!({"argv": argv, "allowed_env": [], "tty": tty}))
}

fn serve(script: &str) -> Server {
    on_tty(Owner::new(), "job", &["/bin/sh", "-c", script]).serve()
}

/// An interactive shell.
fn serve_bash() -> Server {
    let argv = ["/bin/bash", "--norc", "--noprofile", "-i"];
    on_tty(Owner::new(), "bash", &argv).serve()
}

fn resize(session: &Session, rows: u16, cols: u16) -> Value {
    let arguments = session.with_id(json!({"rows": rows, "cols": cols}));
    session.server.ok("terminal_resize", arguments)
}

#[test]
fn a_hung_up_terminal_is_the_end_of_output_and_no_fault() {
    let server = serve("echo bye; echo err >&2");
    let session = server.start("job");
    let output = session.read_all();
    assert_eq!(
        (output.stdout.as_str(), output.next_cursor),
        ("bye\r\nerr\r\n", 10)
    );
    assert!(output.complete && !output.incomplete);
    let end = session.wait_final();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("EXITED"), &json!(0))
    );
}

#[test]
fn what_is_printed_right_before_the_exit_is_never_lost() {
    let script = "import sys; sys.stdout.write('p'*60000+'END'); sys.stdout.flush()";
    let owner = Owner::new().set("max_records", 256).buffer(65_536);
    let server = on_tty(owner, "job", &["/usr/bin/python3", "-c", script]).serve();
    for run in 0..200 {
        let session = server.start("job");
        let output = session.read_all();
        assert!(output.complete, "run {run}");
        assert_eq!(output.next_cursor, 60_003, "run {run}");
        assert!(output.stdout.ends_with("pEND"), "run {run}");
        assert_eq!(session.wait_final()["exit_code"], 0);
    }
}

#[test]
fn the_size_is_there_from_the_first_instruction_on() {
    let size = |rows: u16, cols: u16| json!({"argv": ["/usr/bin/stty", "size"], "allowed_env": [], "tty": {"rows": rows, "cols": cols}});
    let usual = json!({"argv": ["/usr/bin/stty", "size"], "allowed_env": [], "tty": {}});
    let server = Owner::new()
        .room_for_many()
        .profile("usual", usual)
        .profile("small", size(1, 1))
        .profile("large", size(500, 499))
        .serve();
    for _ in 0..30 {
        for (id, printed) in [
            ("usual", "24 80\r\n"),
            ("small", "1 1\r\n"),
            ("large", "500 499\r\n"),
        ] {
            assert_eq!(server.start(id).read_all().stdout, printed);
        }
    }
}

#[test]
fn the_environment_names_the_terminal_and_not_its_size() {
    let server = on_tty(Owner::new(), "job", &["/usr/bin/env"]).serve();
    let printed = server.start("job").read_all().stdout;
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let expected = [
        "LANG=C.UTF-8",
        "LC_ALL=C.UTF-8",
        "PATH=/usr/bin:/bin",
        "TERM=xterm-256color",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn it_controls_the_session_of_its_own_that_the_command_leads() {
    let script = "import os\n\
        print(os.getsid(0) == os.getpid() == os.getpgrp() == os.tcgetpgrp(0), os.isatty(0), os.isatty(1), os.isatty(2))\n\
        print(os.ttyname(0) == os.ttyname(1) == os.ttyname(2), os.open('/dev/tty', os.O_RDWR) > 2, sorted(os.listdir('/proc/self/fd'))[:3])";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let printed = server.start("job").read_all().stdout;
    assert_eq!(
        printed,
        "True True True True\r\nTrue True ['0', '1', '2']\r\n"
    );
}

#[test]
fn a_new_size_reaches_the_program_once() {
    let script = "import os,signal,time\n\
        say = lambda text: os.write(1, text.encode())\n\
        signal.signal(signal.SIGWINCH, lambda *a: say('%d %d\\n' % os.get_terminal_size()))\n\
        say('up\\n')\nwhile True: time.sleep(0.02)";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let session = server.start("job");
    session.wait_for_text("up\r\n");
    let resized = resize(&session, 40, 120);
    assert_eq!(
        (&resized["rows"], &resized["cols"]),
        (&json!(40), &json!(120))
    );
    session.wait_for_text("120 40\r\n");
    resize(&session, 41, 121);
    session.wait_for_text("121 41\r\n");
    // The same again is no change, and so no signal.
    resize(&session, 41, 121);
    resize(&session, 42, 122);
    session.wait_for_text("122 42\r\n");
    session.terminate(0);
    assert_eq!(
        session.read_all().stdout,
        "up\r\n120 40\r\n121 41\r\n122 42\r\n"
    );
}

#[test]
fn what_can_not_be_resized_is_refused_by_name() {
    let owner = Owner::new().argv("piped", &["/bin/cat"]);
    let server = on_tty(owner, "job", &["/bin/true"]).serve();
    let piped = server.start("piped");
    let size = json!({"rows": 10, "cols": 10});
    let refused = server.refused("terminal_resize", piped.with_id(size.clone()));
    assert_eq!(refused["code"], "INVALID_ARGUMENT");
    assert!(
        refused["message"]
            .as_str()
            .is_some_and(|text| text.contains("`session_id`"))
    );
    let ended = server.start("job");
    ended.wait_settled();
    wait_until("the terminal of an ended session is closed", || {
        let answer = server
            .send("terminal_resize", ended.with_id(size.clone()))
            .body();
        answer["error"]["code"] == "SESSION_NOT_RUNNING"
    });
    for (rows, cols) in [(0, 80), (24, 0), (501, 80)] {
        let arguments = ended.with_id(json!({"rows": rows, "cols": cols}));
        assert_eq!(
            server.code("terminal_resize", arguments),
            "INVALID_ARGUMENT"
        );
    }
}

#[test]
fn the_tool_is_there_only_where_a_profile_has_a_terminal() {
    let names = |server: &Server| {
        let list = server.request("tools/list", json!({})).result();
        list["tools"].as_array().expect("tools").len()
    };
    assert_eq!(names(&serve("true")), 6);
    let server = Owner::job("true").serve();
    assert_eq!(names(&server), 5);
    let call = server.send(
        "terminal_resize",
        json!({"session_id": "x", "rows": 1, "cols": 1}),
    );
    assert_eq!(call.whole()["error"]["code"], -32602);
}

#[test]
fn what_is_typed_is_echoed_unless_the_program_says_otherwise() {
    let server = on_tty(Owner::new(), "job", &["/bin/cat"]).serve();
    let session = server.start("job");
    session.write("s3cret\n");
    session.wait_for_text("s3cret\r\ns3cret\r\n");
    session.close_stdin();
    assert_eq!(session.read_all().stdout, "s3cret\r\ns3cret\r\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
    assert!(!server.stderr().contains("s3cret"));
    let quiet = serve("stty -echo; echo ready; read line; echo got $line");
    let session = quiet.start("job");
    session.wait_for_text("ready\r\n");
    session.write("s3cret\n");
    assert_eq!(session.read_all().stdout, "ready\r\ngot s3cret\r\n");
}

#[test]
fn the_end_of_input_ends_the_reader_and_not_the_terminal() {
    let server = serve("stty -echo; echo ready; cat; echo first; cat; echo second");
    let session = server.start("job");
    session.wait_for_text("ready\r\n");
    // In the middle of a line, what there is of it is handed over first.
    let written = session.server.ok(
        "terminal_write",
        session.with_id(json!({"text": "half", "close_stdin": true})),
    );
    assert_eq!(written["stdin_closed"], false);
    session.wait_for_text("halffirst\r\n");
    session.write("line\n");
    session.wait_for_text("line\r\n");
    session.close_stdin();
    let output = session.read_all();
    assert_eq!(output.stdout, "ready\r\nhalffirst\r\nline\r\nsecond\r\n");
}

#[test]
fn a_line_that_the_kernel_would_cut_is_refused_whole() {
    let server = serve(
        "stty -echo; echo ready; head -n 2 | wc -c; stty raw; echo raw; head -c 5000 | wc -c",
    );
    let session = server.start("job");
    session.wait_for_text("ready\r\n");
    assert_eq!(session.write_code(&"x".repeat(4_096)), "INPUT_TOO_LARGE");
    session.write(&"x".repeat(4_000));
    // It goes on where the last write ended.
    let more = format!("{}\n", "y".repeat(96));
    assert_eq!(session.write_code(&more), "INPUT_TOO_LARGE");
    session.write(&format!("{}\n", "y".repeat(95)));
    // Many lines are no long line.
    session.write(&format!("{}\n", "z".repeat(100)));
    session.wait_for_text("4197\r\n");
    // Out of canonical mode nothing is cut.
    session.wait_for_text("raw\n");
    session.write(&"w".repeat(5_000));
    session.wait_for_text("5000");
}

#[test]
fn control_characters_are_keys() {
    let script = "import sys\ntry:\n print('ready', flush=True)\n sys.stdin.read()\n\
        except KeyboardInterrupt:\n print('interrupted')\n sys.exit(3)";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let session = server.start("job");
    session.wait_for_text("ready\r\n");
    session.write("\u{3}");
    let output = session.read_all();
    assert_eq!(output.stdout, "ready\r\n^Cinterrupted\r\n");
    assert_eq!(session.wait_final()["exit_code"], 3);
}

#[test]
fn a_pattern_after_a_write_sees_only_what_came_after_it() {
    let server = serve_bash();
    let session = server.start("bash");
    session.write("echo REA''DY\n");
    session.wait_for_text("READY");
    let next = session.write("sleep 1; echo REA''DY\n")["next_cursor"].clone();
    let asked = json!({"cursor": next, "until": {"pattern": "READY"}, "wait_ms": 20_000});
    let page = session.read(asked);
    assert_eq!(page["wait_result"], "pattern");
    assert!(page["match"]["cursor"].as_u64() >= next.as_u64());
    let status = session.status();
    session.terminate(0);
    assert_eq!(status["status"], "RUNNING");
}

#[test]
fn a_pager_waits_for_its_key() {
    let lines: String = (0..500).map(|line| format!("line {line}\n")).collect();
    let owner = Owner::new();
    let file = owner.file("long.txt", lines.as_bytes());
    let file = file.to_str().expect("UTF-8").to_owned();
    let Some(less) = installed::find("less") else {
        return installed::not_tested("there is no less here");
    };
    let less = less.to_str().expect("UTF-8");
    let server = on_tty(owner, "job", &[less, &file]).serve();
    let session = server.start("job");
    session.wait_for_text("line 22");
    assert_eq!(session.status()["status"], "RUNNING");
    session.write("q");
    let end = session.wait_final();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("EXITED"), &json!(0))
    );
}

#[test]
fn one_that_ignores_the_hang_up_goes_when_it_is_told_to() {
    let server = serve("trap '' HUP; echo up; exec sleep 30");
    let session = server.start("job");
    session.wait_for_text("up\r\n");
    let end = session.terminate(200);
    assert_eq!(end["status"], "TERMINATED");
    assert_eq!(end["exit_signal"], 15);
    session.assert_group_is_gone();
}

#[test]
fn jobs_of_a_shell_in_groups_of_their_own_go_with_the_session() {
    let server = serve_bash();
    let session = server.start("bash");
    session.write("sleep 4321 & (trap '' HUP TERM; exec sleep 4322) & echo jo''bs\n");
    session.wait_for_text("jobs");
    let job = |seconds: &str| {
        let jobs = proc::with_argument(seconds);
        jobs.into_iter().find(|pid| {
            let ancestors = proc::descendants_of(server.pid());
            ancestors.iter().any(|process| process.pid == *pid)
        })
    };
    wait_until("both jobs run", || {
        job("4321").is_some() && job("4322").is_some()
    });
    let jobs = [job("4321"), job("4322")].map(|pid| pid.expect("seen above"));
    session.terminate(100);
    wait_until("both jobs are gone", || {
        !jobs.iter().any(|pid| proc::is_alive(*pid))
    });
}

#[test]
fn terminals_come_back_whatever_ends_them() {
    fn ptys() -> u64 {
        let count = std::fs::read_to_string("/proc/sys/kernel/pty/nr").expect("the kernel's count");
        count.trim().parse().expect("a number")
    }
    fn held(server: &Server) -> usize {
        let descriptors = proc::descriptors(server.pid()).into_iter();
        descriptors
            .filter(|(_, target)| target.ends_with("ptmx"))
            .count()
    }
    let owner = Owner::new().room_for_many();
    let owner = on_tty(owner, "ends", &["/bin/true"]);
    let owner = on_tty(owner, "stays", &["/bin/cat"]);
    let server = on_tty(owner, "fails", &["/nonexistent/program"]).serve();
    server.start("ends").wait_settled();
    wait_until("the first terminal is closed", || held(&server) == 0);
    let mut most = 0;
    for round in 0..50 {
        server.start("ends").wait_settled();
        let session = server.start("stays");
        most = most.max(ptys());
        session.terminate(0);
        if round % 5 == 0 {
            assert_eq!(
                server.code("terminal_start", json!({"command_id": "fails"})),
                "START_FAILED"
            );
        }
    }
    assert!(most > 0);
    wait_until("no terminal is held", || held(&server) == 0);
}

#[test]
fn text_with_a_query_gets_its_answer_typed() {
    let script = "import os,sys,tty\ntty.setraw(0)\n\
        os.write(1, b'\\x1b[5;7H\\x1b[6n')\nanswer=b''\n\
        while not answer.endswith(b'R'): answer += os.read(0, 1)\n\
        os.write(1, repr(answer).encode())";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let session = server.start("job");
    let output = session.read_all();
    assert!(output.stdout.ends_with(r"b'\x1b[5;7R'"), "{output:?}");
}

#[test]
fn a_program_that_asks_and_does_not_read_can_still_be_interrupted() {
    let script = "import os\nos.write(1, b'begun')\nwhile True: os.write(1, b'\\x1b[6n' * 100)";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let session = server.start("job");
    session.wait_for_text("begun");
    wait_until("much was asked", || {
        session.status()["next_cursor"].as_u64() > Some(1 << 20)
    });
    session.write("\u{3}");
    let end = session.wait_final();
    assert_eq!(
        (&end["status"], &end["input_uncertain"]),
        (&json!("EXITED"), &json!(false))
    );
}

#[test]
fn a_terminal_that_nobody_reads_stays_open_and_can_be_interrupted() {
    let script = "import signal,sys,time\nprint('up', flush=True)\n\
        try:\n while True: time.sleep(0.02)\n\
        except KeyboardInterrupt: pass\nprint('reads', flush=True)\n\
        for line in sys.stdin:\n  if line == 'last\\n': break\nprint('through')";
    let server = on_tty(Owner::new(), "job", &["/usr/bin/python3", "-c", script]).serve();
    let session = server.start("job");
    session.wait_for_text("up\r\n");
    let error = server.refused(
        "terminal_write",
        session.with_id(json!({"text": "line\n".repeat(5_000)})),
    );
    assert_eq!(error["code"], "INPUT_BACKPRESSURE");
    assert!(error["accepted_bytes"].as_u64() > Some(1_000), "{error}");
    let status = session.status();
    assert_eq!(
        (&status["stdin_closed"], &status["input_uncertain"]),
        (&json!(false), &json!(false))
    );
    // There is no room for the key, and it is one all the same.
    session.write("\u{3}");
    session.wait_for_text("reads\r\n");
    session.write("\nlast\n");
    session.wait_for_text("through\r\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
}

#[test]
fn a_terminal_without_input_is_refused_in_the_config() {
    let profile = json!({"argv": ["/bin/cat"], "allowed_env": [], "tty": {}, "stdin": "null"});
    let owner = Owner::new().profile("job", profile);
    let said = crate::common::launch::refusal(&mut owner.command());
    assert!(
        said.contains("commands.job.tty") && said.contains("stdin"),
        "{said}"
    );
}

#[test]
fn a_killed_server_takes_the_terminal_and_all_on_it_along() {
    let mut server = serve("sleep 5432 & setsid sleep 5433 & echo up; wait");
    let session = server.start("job");
    session.wait_for_text("up\r\n");
    let descendants = proc::descendants_of(server.pid());
    assert!(descendants.len() >= 4, "{descendants:?}");
    let _left = proc::Doomed::groups(&[session.pid]);
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.wait();
    wait_until("nothing of it is left", || {
        !descendants
            .iter()
            .any(|process| proc::is_alive(process.pid))
    });
}
