//! `doctor`: what it finds on this machine, and on machines that lack something.

use serde_json::Value;

use crate::common::{
    launch,
    owner::binary,
    screen::{Ran, rows, run, run_on_terminal},
};
use nix::sys::resource::Resource;

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{} {}", ran.stdout, ran.stderr))
}

fn verdict<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let mut named = checks.iter().filter(|check| check["name"] == name);
    named.next().unwrap_or_else(|| panic!("no check {name}"))
}

#[test]
fn it_finds_that_the_server_works_where_the_tests_do() {
    let ran = run(binary().args(["doctor", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let report = report(&ran);
    assert_eq!(report["ok"], true);
    for name in [
        "kernel",
        "/proc",
        "io_uring",
        "pidfd",
        "subreaper",
        "open files",
        "processes",
        "locked memory",
        "pipes",
        "process ids",
        "Landlock",
        "seccomp",
        "tracing",
        "terminals",
        "one job",
    ] {
        let check = verdict(&report, name);
        assert!(check["found"].is_string(), "{check}");
        assert_ne!(check["verdict"], "broken", "{check}");
        assert_eq!(
            check["remedy"].is_null(),
            check["verdict"] == "ok",
            "{check}"
        );
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    assert_eq!(report["kernel"], release.trim());
    // The text says the same.
    let text = run(binary().arg("doctor"));
    assert_eq!(text.code, Some(0));
    assert!(text.stdout.contains("one job") && text.stdout.contains("The server works here"));
    assert!(!text.stdout.contains('\u{1b}'), "{}", text.stdout);
}

#[test]
fn without_io_uring_it_says_why_and_that_epoll_would_be_used() {
    let mut command = binary();
    command.args(["doctor", "--json"]);
    launch::refuse_syscall(&mut command, launch::IO_URING_SETUP, 1);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let report = report(&ran);
    assert_eq!(report["chosen"]["io"], "epoll");
    let because = report["chosen"]["because"].as_str().expect("a reason");
    assert!(because.contains("io_uring_setup: EPERM"), "{because}");
    let check = verdict(&report, "io_uring");
    assert_eq!(check["verdict"], "note");
    let remedy = check["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("seccomp"), "{remedy}");
}

#[test]
fn few_descriptors_are_a_note_and_too_few_a_fault() {
    for (limit, verdict_of_limit, code) in [(64, "note", Some(0)), (19, "broken", Some(1))] {
        let mut command = binary();
        command.args(["doctor", "--json"]);
        launch::limit(&mut command, Resource::RLIMIT_NOFILE, limit);
        let ran = run(&mut command);
        let report = report(&ran);
        assert_eq!(ran.code, code, "{}", ran.stdout);
        let check = verdict(&report, "open files");
        assert_eq!(check["verdict"], verdict_of_limit, "{check}");
        let remedy = check["remedy"].as_str().expect("a remedy");
        assert!(remedy.contains("ulimit -n"), "{remedy}");
        assert_eq!(report["ok"], code == Some(0));
    }
}

#[test]
fn its_lines_fit_a_narrow_terminal_and_have_no_colour_where_none_is_wanted() {
    let mut command = binary();
    command
        .arg("doctor")
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR");
    let coloured = run_on_terminal(&mut command, 40);
    assert_eq!(coloured.code, Some(0), "{}", coloured.stdout);
    assert!(coloured.stdout.contains("\u{1b}["));
    let rows = rows(&coloured.stdout, 40);
    assert!(
        rows.iter().all(|row| row.chars().count() <= 40),
        "{rows:#?}"
    );
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = binary();
        command.arg("doctor").env("TERM", "xterm").env(name, value);
        // Some take it as a sign that colours are shown.
        command.env("CI", "true");
        let plain = run_on_terminal(&mut command, 40);
        assert!(!plain.stdout.contains('\u{1b}'), "{name}: {}", plain.stdout);
    }
}
