//! README: its config reference is the schema's, its commands are those of the binary, and what it links to is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::common::{owner::binary, screen::run};

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md")
}

/// What stands below this heading, up to the next of its rank.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, after) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("README has no {heading}"));
    let rank = heading.split(' ').next().expect("a heading");
    after
        .split(&format!("\n{rank} "))
        .next()
        .expect("a first piece")
}

/// Each property with its path: those of a profile by their names, those of other objects after their object's.
fn properties(schema: &Value, inside: &str, found: &mut BTreeMap<String, (Value, bool)>) {
    let required = schema["required"].as_array();
    for (name, property) in schema["properties"].as_object().expect("properties") {
        let path = format!("{inside}{name}");
        let needed = required.is_some_and(|all| all.iter().any(|one| one == name.as_str()));
        if property["additionalProperties"]["properties"].is_object() {
            properties(&property["additionalProperties"], "", found);
        }
        if property["properties"].is_object() {
            properties(property, &format!("{path}."), found);
        }
        let before = found.insert(path.clone(), (property.clone(), needed));
        assert!(
            before.is_none(),
            "{path} is there twice; README can't tell them apart"
        );
    }
}

fn published() -> BTreeMap<String, (Value, bool)> {
    let ran = run(binary().args(["config", "schema"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let schema: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let mut found = BTreeMap::new();
    properties(&schema, "", &mut found);
    found
}

/// The rows of the reference's tables, by the field that they begin with.
fn rows(text: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for line in section(text, "## Config reference").lines() {
        let Some((field, row)) = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split_once("` |"))
        else {
            continue;
        };
        let before = rows.insert(field.to_owned(), row.to_owned());
        assert!(before.is_none(), "{field} has two rows");
    }
    rows
}

/// Whether it stands there by itself, so that 1 isn't found in 100.
fn says(row: &str, word: &str) -> bool {
    let inside = |character: char| character.is_alphanumeric() || "_[].".contains(character);
    row.split(|character: char| !inside(character))
        .any(|one| one.trim_end_matches('.') == word)
}

#[test]
fn the_reference_has_a_row_for_each_field_and_no_other() {
    let fields: BTreeSet<String> = published().into_keys().collect();
    let described: BTreeSet<String> = rows(&readme()).into_keys().collect();
    assert_eq!(described, fields);
}

#[test]
fn the_reference_tells_bounds_defaults_and_choices() {
    let rows = rows(&readme());
    for (field, (property, needed)) in published() {
        let row = rows
            .get(&field)
            .unwrap_or_else(|| panic!("{field} has no row"));
        if needed {
            assert!(says(row, "required"), "{field}: required isn't in {row}");
        }
        for key in ["minimum", "maximum", "default"] {
            match &property[key] {
                Value::Null => {}
                Value::String(text) => assert!(says(row, text), "{field}: {text} isn't in {row}"),
                Value::Array(words) if !words.is_empty() => {
                    let shown = format!("`{}`", property[key]);
                    assert!(
                        row.starts_with(&format!(" {shown} |")),
                        "{field}: {shown} isn't in {row}"
                    );
                }
                other => {
                    let word = other.to_string();
                    assert!(says(row, &word), "{field}: {key} {word} isn't in {row}");
                }
            }
        }
        let choices = [&property["enum"], &property["items"]["enum"]];
        for choice in choices.into_iter().filter_map(Value::as_array).flatten() {
            let word = choice.as_str().expect("a string");
            assert!(says(row, word), "{field}: {word} isn't in {row}");
        }
    }
}

/// The lines of README's shell blocks, without what a comment says.
fn commands(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            let command = line.split(" #").next().expect("a first piece").trim();
            lines.push(command.to_owned());
        }
    }
    lines
}

#[test]
fn the_commands_that_it_shows_are_known() {
    let mut seen = 0;
    for line in commands(&readme()) {
        let Some(arguments) = line.strip_prefix("sluicegate ") else {
            continue;
        };
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let depth = if words[0] == "config" { 2 } else { 1 };
        let help = run(binary().args(&words[..depth]).arg("--help"));
        assert_eq!(help.code, Some(0), "{line}: {}", help.stderr);
        for word in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.stdout.contains(*word), "{line}: {word} isn't known");
        }
        seen += 1;
    }
    assert!(seen > 0, "README shows none");
}

/// Those that install something need a release build or a registry, and those that reach another machine need one.
#[test]
fn the_commands_that_it_shows_work_one_after_the_other_in_an_empty_home() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let beside = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent();
    let mut path = beside
        .expect("it lies in a directory")
        .as_os_str()
        .to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").expect("PATH is set"));
    let mut ran = 0;
    for line in commands(&readme()) {
        let works_here = ["sluicegate ", "mkdir "]
            .iter()
            .any(|first| line.starts_with(first));
        if !works_here {
            continue;
        }
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &line])
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("PATH", &path);
        let output = shell.output().expect("sh is there");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        ran += 1;
    }
    assert!(ran > 10, "{ran} commands");
}

#[test]
fn what_it_links_to_is_there() {
    let text = readme();
    let mut seen = 0;
    for link in text.split("](").skip(1) {
        let target = link.split(')').next().expect("a first piece");
        if let Some(anchor) = target.strip_prefix('#') {
            // GitHub's anchors, as far as these headings go: lower case, blanks as hyphens.
            let there = text
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| {
                    line.trim_start_matches('#')
                        .trim()
                        .to_lowercase()
                        .replace(' ', "-")
                        == anchor
                });
            assert!(there, "no heading for #{anchor}");
        } else {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(target);
            assert!(path.exists(), "{target} isn't there");
        }
        seen += 1;
    }
    assert!(seen > 0, "README links to nothing");
}
