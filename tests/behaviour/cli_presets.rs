//! `config new --preset`: commands of the tools that are here, in a config that serves as it is.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::common::{
    Owner, Server, owner,
    owner::binary,
    screen::{Ran, run},
};

/// A repository with a user's tools: what this machine has of them, under one directory.
struct Repository {
    owner: Owner,
}

impl Repository {
    fn new() -> Repository {
        let owner = Owner::new();
        fs::create_dir(owner.base().join("bin")).expect("our own directory");
        Repository { owner }
    }

    fn tool(&self, name: &str, program: &str) {
        symlink(program, self.owner.base().join("bin").join(name)).expect("our own directory");
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.owner.root().join(name), text).expect("our own directory");
    }

    fn config(&self) -> PathBuf {
        self.owner.base().join("made.json")
    }

    fn new_config(&self, presets: &[&str]) -> Ran {
        let mut command = binary();
        command
            .args(["config", "new", "--root"])
            .arg(self.owner.root())
            .arg("--output")
            .arg(self.config())
            .env("HOME", self.owner.base())
            .env("PATH", self.owner.base().join("bin"));
        for preset in presets {
            command.args(["--preset", preset]);
        }
        run(&mut command)
    }

    fn serve(self) -> Server {
        let mut command: Command = owner::stdio();
        command.arg("--config").arg(self.config());
        let server = Server::spawn(self.owner, command);
        server.initialize();
        server
    }
}

/// Where this machine has a program, said loudly when it hasn't.
fn found(test: &str, name: &str) -> Option<String> {
    let places = ["/usr/bin", "/bin", "/usr/local/bin"].map(Path::new);
    let program = places
        .iter()
        .map(|place| place.join(name))
        .find(|program| program.is_file());
    if program.is_none() {
        eprintln!("SKIPPED {test}: there is no {name} here");
    }
    Some(program?.to_str().expect("UTF-8").to_owned())
}

#[test]
fn the_commands_of_a_makefile_run_as_they_were_written() {
    let test = "the_commands_of_a_makefile_run_as_they_were_written";
    let Some(make) = found(test, "make") else {
        return;
    };
    let repository = Repository::new();
    repository.tool("make", &make);
    repository.write(
        "Makefile",
        ".PHONY: build test\nbuild:\n\t@echo building in $(CURDIR) for $$HOME\ntest:\n\t@echo testing; exit 3\n",
    );
    let ran = repository.new_config(&["make"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mode = fs::metadata(repository.config()).expect("it was written");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let checked = run(binary().args(["config", "check"]).arg(repository.config()));
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
    let (root, home) = (repository.owner.root(), repository.owner.base().to_owned());
    let server = repository.serve();
    let build = server.start("build");
    let said = build.read_all();
    let expected = format!("building in {} for {}\n", root.display(), home.display());
    assert_eq!((said.stdout, said.stderr), (expected, String::new()));
    let test = server.start("test");
    assert_eq!(
        test.wait_final()["exit_code"],
        2,
        "make's own code for a target that failed"
    );
    server.finish();
}

#[test]
fn a_python_repository_is_tested_by_what_is_here() {
    let test = "a_python_repository_is_tested_by_what_is_here";
    let Some(python) = found(test, "python3") else {
        return;
    };
    let repository = Repository::new();
    repository.tool("python3", &python);
    repository.write(
        "test_it.py",
        "import unittest\n\nclass It(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 1)\n",
    );
    let ran = repository.new_config(&["python"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let server = repository.serve();
    let tested = server.start("test");
    let said = tested.read_all();
    assert!(said.stderr.contains("Ran 1 test"), "{}", said.stderr);
    assert_eq!(tested.wait_final()["exit_code"], 0);
    assert_eq!(server.start("build").wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn what_is_missing_is_said_in_a_line_each_and_the_rest_is_written() {
    let repository = Repository::new();
    repository.tool("make", "/bin/sh");
    let ran = repository.new_config(&["go", "make"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(
        lines[0].starts_with("go: go is not on PATH; install Go"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with("go: ") || line.starts_with("make: "))
    );
    let text = fs::read(repository.config()).expect("it was written");
    let config: Value = serde_json::from_slice(&text).expect("JSON");
    let ids: Vec<&String> = config["commands"]
        .as_object()
        .expect("commands")
        .keys()
        .collect();
    assert!(
        !ids.is_empty() && ids.iter().all(|id| id.starts_with("make-")),
        "{ids:?}"
    );
}

#[test]
fn without_any_of_the_tools_nothing_is_written() {
    let repository = Repository::new();
    let ran = repository.new_config(&["rust", "node", "python", "make", "go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(ran.stderr.lines().count(), 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was written"), "{}", ran.stderr);
    assert!(!repository.config().exists());
}

#[test]
fn a_tool_that_others_may_replace_is_not_approved() {
    let repository = Repository::new();
    let tool = repository.owner.file("bin/make", b"#!/bin/sh\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o757)).expect("our own file");
    let ran = repository.new_config(&["make"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("everyone may write"), "{}", ran.stderr);
    assert!(!repository.config().exists());
}

#[test]
fn an_unknown_kind_names_those_that_are_known() {
    let ran = Repository::new().new_config(&["cobol"]);
    assert_eq!(ran.code, Some(2));
    for known in ["rust", "node", "python", "make", "go"] {
        assert!(ran.stderr.contains(known), "{}", ran.stderr);
    }
}
