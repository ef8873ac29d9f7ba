//! The published schema, as an editor's validator understands it.

use std::{fs, path::Path};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::common::{Owner, owner::binary, screen::run};

fn schema() -> Value {
    let ran = run(binary().args(["config", "schema"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn validator() -> Validator {
    let schema = schema();
    assert!(
        jsonschema::meta::is_valid(&schema),
        "it is no schema of its own dialect"
    );
    jsonschema::validator_for(&schema).expect("a schema")
}

#[track_caller]
fn assert_valid(validator: &Validator, config: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(config)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, Vec::<String>::new());
}

fn written(arguments: &[&str]) -> Value {
    let owner = Owner::new();
    let file = owner.base().join("made.json");
    let mut command = binary();
    command.args(["config", "new", "--root"]).arg(owner.root());
    let ran = run(command.arg("--output").arg(&file).args(arguments));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_slice(&fs::read(&file).expect("it was written")).expect("JSON")
}

#[test]
fn it_accepts_the_configs_that_this_program_writes() {
    let validator = validator();
    assert_valid(&validator, &written(&[]));
    // The interpreter of the tests' own shell scripts is on every PATH, make may not be.
    if Path::new("/usr/bin/make").exists() {
        assert_valid(&validator, &written(&["--preset", "make"]));
    }
}

#[test]
fn it_accepts_every_good_config() {
    let validator = validator();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/config/good");
    for entry in fs::read_dir(fixtures).expect("fixtures") {
        let path = entry.expect("fixtures").path();
        let config: Value =
            serde_json::from_slice(&fs::read(&path).expect("a fixture")).expect("JSON");
        assert_valid(&validator, &config);
    }
}

#[test]
fn it_refuses_what_an_editor_should_underline() {
    let validator = validator();
    let good = Owner::job("true").json();
    assert_valid(&validator, &good);
    for (at, value) in [
        ("/allowed_roots", json!("/")),
        ("/allowed_roots", json!(["relative"])),
        ("/default_cwd", json!(5)),
        ("/commands", json!({})),
        ("/commands/job/argv", json!([])),
        ("/commands/job/argv", json!(["relative"])),
        ("/commands/job/allowed_env", json!(["A=B"])),
        ("/max_sessions", json!(65)),
        ("/max_sessions", json!(1.5)),
        ("/results", json!("all")),
        ("/surplus", json!(1)),
        ("/commands/job/surplus", json!(1)),
    ] {
        let mut bad = good.clone();
        let (parent, name) = at.rsplit_once('/').expect("a pointer");
        bad.pointer_mut(parent).expect("it is there")[name] = value;
        assert!(!validator.is_valid(&bad), "{at}: {bad}");
    }
}
