//! `demo`: it shows, it counts, and its exit code says what came of it.

use serde_json::Value;

use crate::common::{
    Owner, launch,
    owner::{backend, binary},
    screen::{rows, run, run_on_terminal},
};

#[test]
fn machines_get_what_was_measured_over_each_backend() {
    let owner = Owner::new();
    let mut command = binary();
    command.args(["demo", "--json"]).env("TMPDIR", owner.root());
    if let Some(io) = backend() {
        command.args(["--io", &io]);
    }
    let ran = run(&mut command);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(0), ""),
        "{}",
        ran.stdout
    );
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["ok"], true);
    let rounds = report["rounds"].as_array().expect("rounds");
    let last = rounds.last().expect("a round");
    assert_eq!(last["io"], "epoll", "it ends with what works everywhere");
    if backend().is_some_and(|io| io == "epoll") {
        assert_eq!(rounds.len(), 1);
    }
    for round in rounds {
        let names: Vec<&Value> = round["scenes"]
            .as_array()
            .expect("scenes")
            .iter()
            .map(|scene| &scene["name"])
            .collect();
        let expected = [
            "flood",
            "interactive",
            "utf8",
            "terminate",
            "refusals",
            "leave",
        ];
        assert_eq!(names, expected);
        let flood = &round["scenes"][0]["found"];
        for measure in [
            "bytes_per_second",
            "bare_pipe_bytes_per_second",
            "resident_mib",
        ] {
            assert!(
                flood[measure].as_f64().is_some_and(|value| value > 0.0),
                "{flood}"
            );
        }
        assert!(flood["base_cursor"].as_u64() > Some(0), "{flood}");
        for scene in round["scenes"].as_array().expect("scenes") {
            assert_eq!(scene["ok"], true);
            assert!(!scene["checks"].as_array().expect("checks").is_empty());
        }
    }
    let left = std::fs::read_dir(owner.root()).expect("our own directory");
    assert_eq!(left.count(), 0, "the place that it made is gone");
}

#[test]
fn a_terminal_of_forty_columns_shows_it_in_colour_and_moving() {
    let mut command = binary();
    command
        .args(["demo", "--io", "epoll"])
        .env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR");
    let ran = run_on_terminal(&mut command, 40);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    // A line that is drawn over, and a colour.
    assert!(ran.stdout.contains("\r\u{1b}[2K") && ran.stdout.contains("\u{1b}[32m"));
    let rows = rows(&ran.stdout, 40);
    assert!(
        rows.iter().all(|row| row.chars().count() <= 40),
        "{rows:#?}"
    );
    let text = rows.join("\n");
    for shown in [
        "followed",
        "bare pipe",
        "kept",
        "evicted",
        "memory",
        "Everything went right",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains("FAIL"), "{text}");
}

#[test]
fn a_dumb_terminal_gets_plain_lines_and_a_pipe_too() {
    let mut command = binary();
    command.args(["demo", "--io", "epoll"]).env("TERM", "dumb");
    let dumb = run_on_terminal(&mut command, 80);
    assert_eq!(dumb.code, Some(0), "{}", dumb.stdout);
    assert!(!dumb.stdout.contains('\u{1b}'), "{}", dumb.stdout);
    assert!(
        !dumb.stdout.replace("\r\n", "\n").contains('\r'),
        "{}",
        dumb.stdout
    );
    command.env("TERM", "xterm");
    let piped = run(&mut command);
    assert_eq!((piped.code, piped.stderr.as_str()), (Some(0), ""));
    assert!(!piped.stdout.contains(['\u{1b}', '\r']), "{}", piped.stdout);
}

#[test]
fn where_the_server_cannot_do_as_told_it_says_why_and_fails() {
    let mut command = binary();
    command.args(["demo", "--io", "uring"]);
    launch::refuse_syscall(&mut command, launch::IO_URING_SETUP, 1);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("--io uring: io_uring_setup: EPERM"),
        "{}",
        ran.stderr
    );
    let mut command = binary();
    command.arg("demo").env("TMPDIR", "/nonexistent");
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/nonexistent/sluicegate-") && ran.stderr.contains("TMPDIR"));
}
