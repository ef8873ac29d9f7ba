//! `verify`: every promise is held to, and the evidence is there whatever came of it.

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{
    Owner, launch, owner,
    owner::binary,
    screen::{rows, run, run_on_terminal},
};

fn evidence(file: &Path) -> Value {
    let text = fs::read(file).expect("evidence");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn all_scenarios_pass_and_the_evidence_tells_each_call_and_assertion() {
    let owner = Owner::new();
    let file = owner.base().join("made/evidence.json");
    let places = owner.base().join("places");
    fs::create_dir(&places).expect("our own directory");
    let mut command = binary();
    command.args(["verify", "--output"]).arg(&file);
    command.env("TMPDIR", &places);
    if let Some(io) = owner::backend() {
        command.args(["--io", &io]);
    }
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains(['\u{1b}', '\r']), "{}", ran.stdout);
    let evidence = evidence(&file);
    assert_eq!(evidence["passed"], true);
    for field in [
        "version",
        "program",
        "kernel",
        "architecture",
        "client",
        "started_at",
    ] {
        assert!(
            evidence[field]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{field}"
        );
    }
    assert!(
        evidence["client"]
            .as_str()
            .is_some_and(|client| client.starts_with("rmcp "))
    );
    assert!(
        ["io_uring", "epoll"]
            .iter()
            .any(|used| evidence["io"]["used"] == *used)
    );
    let scenarios = evidence["scenarios"].as_array().expect("scenarios");
    assert!(scenarios.len() >= 16);
    for scenario in scenarios {
        let name = scenario["name"].as_str().expect("a name");
        assert!(ran.stdout.contains(name));
        assert!(scenario["protocol"].is_string() && scenario["duration_ms"].is_number());
        for call in scenario["calls"].as_array().expect("calls") {
            assert!(
                call["tool"].is_string() && !call["answer"].is_null(),
                "{name}"
            );
            assert!(call["duration_ms"].is_number());
        }
        let assertions = scenario["assertions"].as_array().expect("assertions");
        assert!(assertions.len() >= 2, "{name}");
        assert!(
            assertions
                .iter()
                .all(|one| one["holds"] == true && one["what"].is_string())
        );
    }
    let left = fs::read_dir(&places).expect("our own directory").count();
    assert_eq!(
        left, 0,
        "a place that was made for a scenario is still there"
    );
}

#[test]
fn chosen_scenarios_are_played_and_no_others() {
    let owner = Owner::new();
    let file = owner.file("evidence.json", b"from the last time");
    let ran = run(binary()
        .args([
            "verify",
            "--scenario",
            "exit-code",
            "--scenario",
            "empty",
            "--output",
        ])
        .arg(&file));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let evidence = evidence(&file);
    let names: Vec<&Value> = evidence["scenarios"]
        .as_array()
        .expect("scenarios")
        .iter()
        .map(|scenario| &scenario["name"])
        .collect();
    assert_eq!(names, ["exit-code", "empty"]);
}

#[test]
fn what_fails_is_told_and_the_evidence_is_written() {
    let owner = Owner::new();
    let file = owner.base().join("evidence.json");
    let mut command = binary();
    command
        .args(["verify", "--io", "uring", "--scenario", "empty", "--output"])
        .arg(&file);
    launch::refuse_syscall(&mut command, launch::IO_URING_SETUP, 1);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("FAIL") && ran.stdout.contains("0 of 1"),
        "{}",
        ran.stdout
    );
    let evidence = evidence(&file);
    assert_eq!(evidence["passed"], false);
    let scenario = &evidence["scenarios"][0];
    assert_eq!(scenario["passed"], false);
    let error = scenario["error"].as_str().expect("an error");
    assert!(
        error.contains("--io uring: io_uring_setup: EPERM"),
        "{error}"
    );
    assert!(ran.stdout.contains(error), "{}", ran.stdout);
}

#[test]
fn where_no_place_can_be_made_for_a_scenario_the_evidence_says_so() {
    let owner = Owner::new();
    let file = owner.base().join("evidence.json");
    let mut command = binary();
    command
        .args(["verify", "--scenario", "exit-code", "--output"])
        .arg(&file)
        .env("TMPDIR", owner.base().join("absent"));
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let error = evidence(&file)["scenarios"][0]["error"].clone();
    assert!(
        error.as_str().is_some_and(|error| error.contains("TMPDIR")),
        "{error}"
    );
}

#[test]
fn the_scenarios_are_listed_and_an_unknown_one_names_them() {
    let list = run(binary().args(["verify", "--list"]));
    assert_eq!(list.code, Some(0));
    let names: Vec<&str> = list
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() >= 16 && names.contains(&"flood"), "{names:?}");
    let ran = run(binary().args(["verify", "--scenario", "floods", "--output", "/dev/null"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("\"floods\"") || ran.stderr.contains("'floods'"));
    for name in names {
        assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
    }
    let ran = run(binary().arg("verify"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--output"), "{}", ran.stderr);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_played() {
    let owner = Owner::new();
    let plain = owner.file("plain", b"");
    for (target, word) in [
        (owner.base().to_owned(), "is a directory"),
        (plain.join("below"), "not a directory"),
        ("/dev/null".into(), "no regular file"),
        ("/proc/sluicegate/evidence".into(), "can't write"),
    ] {
        let ran = run(binary().args(["verify", "--output"]).arg(&target));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{word}");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn the_table_fits_a_narrow_terminal() {
    let owner = Owner::new();
    let file = owner.base().join("evidence.json");
    let mut command = binary();
    command
        .args(["verify", "--scenario", "exit-code", "--output"])
        .arg(&file)
        .env("TERM", "xterm");
    let ran = run_on_terminal(&mut command, 40);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let rows = rows(&ran.stdout, 40);
    // The name of the evidence's file is as long as it is.
    let own = rows.iter().take_while(|row| !row.starts_with("evidence"));
    for row in own {
        assert!(row.chars().count() <= 40, "{rows:#?}");
    }
    assert!(
        rows.iter().any(|row| row.contains("exit-code")),
        "{rows:#?}"
    );
}
