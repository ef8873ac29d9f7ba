//! Owner configs: written by `config new`, examined by `config check`, refused by `stdio` by the field's name.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use crate::common::{Owner, Server, owner};
use serde_json::{Value, json};

fn config(arguments: &[&str]) -> Command {
    let mut command = owner::binary();
    command.arg("config").args(arguments);
    command
}

fn run(mut command: Command) -> (Output, String) {
    let output = command.output().expect("the binary starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, said)
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Serving this file must fail with one line on stderr that holds each of these words, and nothing on stdout.
#[track_caller]
fn assert_refused(file: &Path, words: &[&str]) {
    let mut command = owner::stdio();
    command.arg("--config").arg(file);
    let output = command.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(1..)),
        "{words:?}: {:?}: {stderr}",
        output.status
    );
    assert!(output.stdout.is_empty());
    assert_eq!(stderr.lines().count(), 1, "{words:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in {stderr}");
    }
    let (checked, _) = run(config(&["check", utf8(file)]));
    assert!(
        !checked.status.success(),
        "check accepts what stdio refuses: {words:?}"
    );
}

#[test]
fn every_field_is_bounded() {
    for (field, values) in [
        (
            "max_sessions",
            vec![
                json!(0),
                json!(65),
                json!(-1),
                json!(5.0),
                json!("5"),
                json!(true),
                json!(null),
            ],
        ),
        (
            "max_records",
            vec![json!(0), json!(1025), json!(7), json!(32.5)],
        ),
        (
            "buffer_bytes",
            vec![json!(3), json!(16_777_217), json!("1MiB")],
        ),
        (
            "buffer_records",
            vec![json!(0), json!(1_048_577), json!(false), json!("all")],
        ),
        (
            "default_timeout_ms",
            vec![json!(99), json!(3_600_001), json!(300_001), json!(1e3)],
        ),
        (
            "max_timeout_ms",
            vec![json!(99), json!(3_600_001), json!(29_999)],
        ),
        ("retention_seconds", vec![json!(0), json!(86401), json!(-5)]),
        (
            "max_input_bytes",
            vec![json!(0), json!(1_048_577), json!([])],
        ),
        ("results", vec![json!("all"), json!(null), json!(1)]),
        (
            "allowed_roots",
            vec![
                json!([]),
                json!("/tmp"),
                json!(["relative"]),
                json!(["/nonexistent-root"]),
                json!([5]),
            ],
        ),
        (
            "default_cwd",
            vec![
                json!("/"),
                json!("relative"),
                json!("/nonexistent-directory"),
                json!(5),
            ],
        ),
        (
            "commands",
            vec![json!({}), json!([]), json!("x"), json!(null)],
        ),
        ("surplus", vec![json!(1)]),
    ] {
        for value in values {
            let owner = Owner::job("true").set(field, value.clone());
            // A pair of fields is named by either of its names.
            let named = if field == "max_timeout_ms" && value == 29_999 {
                "timeout_ms"
            } else {
                field
            };
            assert_refused(&owner.config(), &[named]);
        }
    }
}

#[test]
fn the_bounds_themselves_are_allowed() {
    let small = [
        ("max_sessions", 1),
        ("max_records", 1),
        ("buffer_bytes", 4),
        ("buffer_records", 1),
    ];
    let short = [
        ("default_timeout_ms", 100),
        ("max_timeout_ms", 100),
        ("retention_seconds", 1),
        ("max_input_bytes", 1),
    ];
    let large = [
        ("max_sessions", 64),
        ("max_records", 64),
        ("buffer_bytes", 1_048_576),
        ("buffer_records", 32768),
    ];
    let wide = [
        ("buffer_bytes", 16_777_216),
        ("buffer_records", 1_048_576),
        ("max_records", 2),
        ("max_sessions", 2),
    ];
    let long = [
        ("default_timeout_ms", 3_600_000),
        ("max_timeout_ms", 3_600_000),
        ("retention_seconds", 86400),
        ("max_input_bytes", 1_048_576),
    ];
    for set in [small, short, large, wide, long] {
        let owner = set
            .into_iter()
            .fold(Owner::job("true"), |owner, (field, value)| {
                owner.set(field, value)
            });
        owner.serve().finish();
    }
}

#[test]
fn the_memory_plan_is_bounded() {
    let records = Owner::job("true").set("max_records", 33);
    assert_refused(
        &records.config(),
        &["max_records", "buffer_records", "2097152"],
    );
    let bytes = Owner::job("true")
        .set("max_records", 65)
        .set("buffer_records", Value::Null);
    assert_refused(
        &bytes.config(),
        &["max_records", "buffer_bytes", "67108864"],
    );
    Owner::job("true")
        .set("max_records", 64)
        .set("buffer_records", Value::Null)
        .serve()
        .finish();
}

#[test]
fn profiles_are_checked() {
    let job = |profile: Value| Owner::new().profile("job", profile);
    for (profile, word) in [
        (json!({"allowed_env": []}), "argv"),
        (json!({"argv": [], "allowed_env": []}), "argv"),
        (json!({"argv": "true", "allowed_env": []}), "argv"),
        (json!({"argv": ["true"], "allowed_env": []}), "argv"),
        (json!({"argv": ["/bin/echo", 5], "allowed_env": []}), "argv"),
        (
            json!({"argv": ["/bin/echo", "a\u{0}b"], "allowed_env": []}),
            "argv",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": "A"}),
            "allowed_env",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "shell": true}),
            "shell",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "stdin": "tty"}),
            "stdin",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "timeout_ms": 99}),
            "timeout_ms",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "timeout_ms": 300_001}),
            "timeout_ms",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "cwd": "/"}),
            "cwd",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "cwd": "sub"}),
            "cwd",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "env": {"A": 5}}),
            "env",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "env": {"A": "a\u{0}"}}),
            "env",
        ),
        (
            json!({"argv": ["/bin/true"], "allowed_env": [], "description": "two\nlines"}),
            "description",
        ),
        (json!([]), "job"),
    ] {
        assert_refused(&job(profile).config(), &[word]);
    }
    assert_refused(&Owner::new().sh("", "true").config(), &["commands"]);
    assert_refused(
        &Owner::new().sh(&"x".repeat(129), "true").config(),
        &["commands"],
    );
}

#[test]
fn at_most_128_profiles_are_approved() {
    let profiles = |count: usize| {
        (0..count).fold(Owner::new(), |owner, n| {
            owner.sh(&format!("job{n}"), "true")
        })
    };
    assert_refused(&profiles(129).config(), &["commands"]);
    profiles(128).serve().finish();
}

#[test]
fn repeated_fields_are_refused() {
    let owner = Owner::job("true");
    let text = owner.json().to_string();
    let twice = text.replacen('{', r#"{"max_sessions":3,"max_sessions":4,"#, 1);
    assert_refused(
        &owner.file("twice.json", twice.as_bytes()),
        &["max_sessions"],
    );
    let profile = text.replacen(r#""argv":"#, r#""argv":["/bin/false"],"argv":"#, 1);
    assert_refused(&owner.file("profile.json", profile.as_bytes()), &["argv"]);
    let root = utf8(&owner.root()).to_owned();
    let ids = format!(
        r#"{{"allowed_roots":["{root}"],"default_cwd":"{root}","commands":{{"a":{{"argv":["/bin/true"],"allowed_env":[]}},"a":{{"argv":["/bin/false"],"allowed_env":[]}}}}}}"#
    );
    assert_refused(&owner.file("ids.json", ids.as_bytes()), &["a"]);
}

#[test]
fn missing_fields_and_broken_files_are_refused() {
    let owner = Owner::job("true");
    for field in ["allowed_roots", "default_cwd", "commands"] {
        let Value::Object(mut fields) = owner.json() else {
            unreachable!("a config is an object")
        };
        fields.remove(field);
        assert_refused(
            &owner.file("missing.json", Value::Object(fields).to_string().as_bytes()),
            &[field],
        );
    }
    assert_refused(&owner.file("empty.json", b""), &[]);
    assert_refused(&owner.file("broken.json", b"{\"allowed_roots\": ["), &[]);
    assert_refused(&owner.file("list.json", b"[]"), &[]);
    assert_refused(&owner.file("bytes.json", b"\xff\xfe"), &[]);
    assert_refused(&owner.base().join("absent.json"), &["absent.json"]);
    assert_refused(&owner.root(), &[]);
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let owner = Owner::job("true");
    let file = owner.config();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).expect("our own file");
    assert_refused(&file, &["config.json"]);
}

#[test]
fn a_file_that_the_group_may_write_draws_a_warning() {
    let owner = Owner::job("echo hi");
    let command = owner.command();
    fs::set_permissions(
        owner.base().join("config.json"),
        fs::Permissions::from_mode(0o664),
    )
    .expect("our own file");
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "hi\n");
    assert!(server.stderr().contains("group"), "{}", server.stderr());
    server.finish();
}

#[test]
fn the_published_format_loads_unchanged() {
    let owner = Owner::new();
    let root = utf8(&owner.root()).to_owned();
    let text = format!(
        r#"{{
  "allowed_roots": ["{root}"],
  "default_cwd": "{root}",
  "commands": {{"approved-job": {{"argv": ["/bin/echo", "published"], "allowed_env": ["SAFE_LABEL"]}}}},
  "max_sessions": 8,
  "max_records": 32,
  "buffer_bytes": 1048576,
  "buffer_records": 65536,
  "default_timeout_ms": 30000,
  "max_timeout_ms": 300000,
  "retention_seconds": 300,
  "max_input_bytes": 65536
}}
"#
    );
    let file = owner.file("published.json", text.as_bytes());
    let mut command = owner::stdio();
    command.arg("--config").arg(file);
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(
        server.start("approved-job").read_all().stdout,
        "published\n"
    );
    server.finish();
}

#[test]
fn new_writes_a_private_config_that_serves() {
    let owner = Owner::new();
    let file = owner.base().join("made/on/the/way/owner.json");
    let root = utf8(&owner.root()).to_owned();
    let new = || config(&["new", "--root", &root, "--output", utf8(&file)]);
    let (output, said) = run(new());
    assert!(output.status.success(), "{said}");
    assert_eq!(
        fs::metadata(&file)
            .expect("it was written")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let written: Value =
        serde_json::from_slice(&fs::read(&file).expect("it was written")).expect("JSON");
    assert_eq!(written["allowed_roots"], json!([root]));
    for profile in written["commands"].as_object().expect("profiles").values() {
        assert!(
            profile["argv"][0]
                .as_str()
                .expect("a program")
                .starts_with('/'),
            "{profile}"
        );
    }
    let (checked, said) = run(config(&["check", utf8(&file)]));
    assert!(checked.status.success(), "{said}");

    fs::write(&file, "mine").expect("our own file");
    let (again, _) = run(new());
    assert!(!again.status.success());
    assert_eq!(
        fs::read_to_string(&file).expect("it is there"),
        "mine",
        "nothing is overwritten unasked"
    );
    let mut forced = new();
    forced.arg("--force");
    let (forced, said) = run(forced);
    assert!(forced.status.success(), "{said}");

    let mut command = owner::stdio();
    command.arg("--config").arg(&file);
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("exit7").wait_final()["exit_code"], 7);
    let unicode = server.start("split-utf8").read_all();
    assert!(!unicode.stdout.is_empty() && !unicode.stdout.contains('\u{fffd}'));
    assert!(
        server
            .start("invalid-utf8")
            .read_all()
            .stdout
            .contains('\u{fffd}')
    );
    let interactive = server.start("interactive");
    interactive.write("hello\n");
    interactive.wait_for_text("hello");
    interactive.close_stdin();
    assert_eq!(interactive.wait_final()["status"], "EXITED");
    server.finish();
}

#[test]
fn check_reports_all_findings_at_once() {
    let owner = Owner::job("true")
        .set("max_sessions", 99)
        .set("retention_seconds", 0)
        .set("buffer_bytes", 1);
    let (output, said) = run(config(&["check", utf8(&owner.config())]));
    assert!(!output.status.success());
    for field in ["max_sessions", "retention_seconds", "buffer_bytes"] {
        assert!(said.contains(field), "{field} is not in {said}");
    }
}

#[test]
fn check_looks_for_the_programs() {
    let owner = Owner::new()
        .argv("absent", &["/nonexistent/prog"])
        .argv("good", &["/bin/true"]);
    let plain = utf8(&owner.file("plain", b"#!/bin/sh\n")).to_owned();
    let owner = owner.argv("plain", &[&plain]);
    let (output, said) = run(config(&["check", utf8(&owner.config())]));
    assert!(!output.status.success(), "{said}");
    for id in ["absent", "plain"] {
        assert!(said.contains(id), "{id} is not in {said}");
    }
    // Serving such a config works: the programs may come later.
    owner.serve().finish();
}

#[test]
fn the_schema_is_json_and_names_every_field() {
    let (output, said) = run(config(&["schema"]));
    assert!(output.status.success(), "{said}");
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let fields = schema["properties"].as_object().expect("properties");
    for field in [
        "allowed_roots",
        "default_cwd",
        "commands",
        "max_sessions",
        "max_records",
        "buffer_bytes",
        "buffer_records",
        "default_timeout_ms",
        "max_timeout_ms",
        "retention_seconds",
        "max_input_bytes",
        "results",
    ] {
        assert!(fields.contains_key(field), "{field}");
    }
}
