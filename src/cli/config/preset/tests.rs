//! Recipes in a directory of made-up tools.

use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;

/// Tools and a repository.
struct Place {
    dir: TempDir,
}

impl Place {
    fn with(tools: &[&str]) -> Place {
        let place = Place {
            dir: tempfile::tempdir().unwrap(),
        };
        for tool in tools {
            place.put(&format!("bin/{tool}"));
        }
        fs::create_dir_all(place.dir.path().join("bin")).unwrap();
        fs::create_dir_all(place.dir.path().join("root")).unwrap();
        place
    }

    /// A program that does nothing.
    fn put(&self, name: &str) {
        let path = self.file(name, "#!/bin/sh\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn commands(&self, presets: &[Preset]) -> Outcome {
        let tools = Tools::of(&self.dir.path().join("bin"));
        commands_with(&tools, presets, &self.dir.path().join("root"))
    }

    /// `ID: ARGUMENTS`, the program by its name below the directory.
    fn lines(&self, presets: &[Preset]) -> Vec<String> {
        let base = format!("{}/", self.dir.path().display());
        let outcome = self.commands(presets);
        let lines = outcome.commands.iter();
        lines
            .map(|command| format!("{}: {}", command.id, command.argv.join(" ")).replace(&base, ""))
            .collect()
    }
}

fn value<'a>(command: &'a Profile, name: &str) -> Option<&'a str> {
    let mut variables = command.env.iter();
    variables
        .find(|(variable, _)| variable == name)
        .map(|(_, value)| value.as_str())
}

#[test]
fn every_command_has_a_description_a_time_a_home_a_path_and_no_input() {
    let place = Place::with(&[
        "cargo",
        "cargo-clippy",
        "npm",
        "node",
        "python3",
        "make",
        "go",
        "watchexec",
    ]);
    let outcome = place.commands(Preset::value_variants());
    assert_eq!(
        outcome.notes,
        ["python: no \"lint\": neither ruff nor flake8 is there"]
    );
    let bin = place.dir.path().join("bin");
    for command in &outcome.commands {
        let description = command.description.as_deref().unwrap();
        assert!(description.ends_with('.') && !description.contains('\n'));
        assert!(command.timeout_ms.is_some_and(|ms| ms <= LONGEST_MS));
        assert_eq!(command.stdin, StdinKind::Null);
        assert_eq!(value(command, "HOME"), bin.to_str());
        let path = value(command, "PATH").unwrap();
        assert_eq!(
            path,
            format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())
        );
        assert!(Path::new(&command.argv[0]).is_absolute());
    }
    for preset in Preset::value_variants() {
        for kind in ["build", "test", "watch"] {
            let id = format!("{}-{kind}", preset.id());
            assert!(
                outcome.commands.iter().any(|command| command.id == id),
                "{id}"
            );
        }
    }
}

#[test]
fn a_missing_tool_is_said_in_one_line_and_the_others_are_approved() {
    let place = Place::with(&["make", "npm"]);
    let outcome = place.commands(&[Preset::Go, Preset::Node, Preset::Make]);
    assert_eq!(
        outcome.notes,
        [
            "go: go is not on PATH; install Go (go.dev), or leave this preset out",
            "node: node is not on PATH; install Node.js (nodejs.org), or leave this preset out",
            "make: no \"watch\": watchexec is not on PATH",
        ]
    );
    assert!(
        outcome
            .commands
            .iter()
            .all(|command| command.id.starts_with("make-"))
    );
    assert!(!outcome.commands.is_empty());
}

#[test]
fn rust_has_its_directories_where_they_are_and_lints_where_it_can() {
    let place = Place::with(&["cargo"]);
    fs::create_dir(place.dir.path().join("bin/.cargo")).unwrap();
    let outcome = place.commands(&[Preset::Rust, Preset::Rust]);
    let ids: Vec<&str> = outcome
        .commands
        .iter()
        .map(|command| command.id.as_str())
        .collect();
    assert_eq!(ids, ["build", "check", "test"]);
    let build = &outcome.commands[0];
    let home = place.dir.path().join("bin/.cargo");
    assert_eq!(value(build, "CARGO_HOME"), home.to_str());
    assert_eq!(value(build, "RUSTUP_HOME"), None);
    assert_eq!(outcome.notes.len(), 2, "{:?}", outcome.notes);
}

#[test]
fn node_offers_the_scripts_that_the_package_has_through_the_tool_of_its_lock_file() {
    let place = Place::with(&["npm", "node", "pnpm"]);
    place.file(
        "root/package.json",
        r#"{"scripts": {"test": "x", "dev": "y", "deploy": "z"}}"#,
    );
    assert_eq!(
        place.lines(&[Preset::Node]),
        [
            "test: bin/npm run test",
            "watch: bin/npm run dev",
            "install: bin/npm install"
        ]
    );
    place.file("root/pnpm-lock.yaml", "");
    assert_eq!(
        place.lines(&[Preset::Node])[2],
        "install: bin/pnpm install --frozen-lockfile"
    );
    place.file("root/yarn.lock", "");
    fs::remove_file(place.dir.path().join("root/pnpm-lock.yaml")).unwrap();
    let outcome = place.commands(&[Preset::Node]);
    assert!(outcome.commands.is_empty() && outcome.notes[0].contains("yarn is not on PATH"));
}

#[test]
fn python_takes_the_environment_of_the_project_and_its_tools() {
    let place = Place::with(&["python3", "pytest", "ruff"]);
    let lines = place.lines(&[Preset::Python]);
    assert_eq!(lines[0], "test: bin/pytest --color=no");
    place.put("root/.venv/bin/python");
    let lines = place.lines(&[Preset::Python]);
    // A pytest from elsewhere doesn't see what is installed in the environment; ruff only reads the sources.
    assert_eq!(
        lines[..2],
        [
            "test: root/.venv/bin/python -m unittest discover --verbose",
            "lint: bin/ruff check ."
        ]
    );
    place.put("root/.venv/bin/pytest");
    assert_eq!(
        place.lines(&[Preset::Python])[0],
        "test: root/.venv/bin/pytest --color=no"
    );
    let outcome = place.commands(&[Preset::Python]);
    let environment = place.dir.path().join("root/.venv");
    assert_eq!(
        value(&outcome.commands[0], "VIRTUAL_ENV"),
        environment.to_str()
    );
}

#[test]
fn make_offers_the_targets_that_the_makefile_has() {
    let place = Place::with(&["make"]);
    let ids = |place: &Place| -> Vec<String> {
        let outcome = place.commands(&[Preset::Make]);
        outcome
            .commands
            .into_iter()
            .map(|command| command.id)
            .collect()
    };
    assert_eq!(ids(&place), ["build", "test"]);
    place.file(
        "root/Makefile",
        ".PHONY: check\nall: x\ncheck:\n\ttrue\nrelease:\n",
    );
    assert_eq!(ids(&place), ["all", "check"]);
    place.file("root/Makefile", "deploy:\n\ttrue\n");
    assert_eq!(ids(&place), ["build"]);
}
