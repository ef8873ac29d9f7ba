//! Completions and manual pages, which name what the command line has.

use std::fs;

use crate::common::{Owner, owner::binary, screen::run};

const COMMANDS: [&str; 8] = [
    "stdio",
    "config",
    "connect",
    "verify",
    "doctor",
    "demo",
    "completions",
    "man",
];

#[test]
fn every_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(binary().args(["completions", shell]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for command in COMMANDS {
            assert!(ran.stdout.contains(command), "{shell} knows no {command}");
        }
        assert!(ran.stdout.contains("preset"), "{shell}");
    }
    let ran = run(binary().args(["completions", "csh"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("bash"), "{}", ran.stderr);
}

#[test]
fn bash_takes_its_script() {
    let script = run(binary().args(["completions", "bash"])).stdout;
    let checked = run(std::process::Command::new("/bin/bash").args(["-n", "-c", &script]));
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
}

#[test]
fn there_is_a_page_for_each_command() {
    let main = run(binary().arg("man"));
    assert_eq!(main.code, Some(0));
    assert!(main.stdout.contains(".TH sluicegate 1"), "{}", main.stdout);
    let owner = Owner::new();
    let ran = run(binary().args(["man", "--output"]).arg(owner.root()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut pages = COMMANDS
        .map(|command| format!("sluicegate-{command}.1"))
        .to_vec();
    pages
        .extend(["new", "check", "schema"].map(|command| format!("sluicegate-config-{command}.1")));
    pages.push("sluicegate.1".to_owned());
    for page in &pages {
        let text = fs::read_to_string(owner.root().join(page));
        let text = text.unwrap_or_else(|_| panic!("there is no {page}"));
        assert!(text.contains(".TH "), "{page}: {text}");
    }
    let verify = fs::read_to_string(owner.root().join("sluicegate-verify.1")).expect("a page");
    assert!(
        verify.contains("scenario") && verify.contains("FILE"),
        "{verify}"
    );
    assert!(!owner.root().join("sluicegate-demo-program.1").exists());
}

#[test]
fn pages_go_into_a_directory_that_is_there() {
    let owner = Owner::new();
    let plain = owner.file("plain", b"");
    for place in [owner.base().join("absent"), plain] {
        let ran = run(binary().args(["man", "--output"]).arg(&place));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(!ran.stderr.contains("os error"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("name an existing directory"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn the_help_of_a_command_begins_with_what_it_does() {
    let all = run(binary().arg("--help")).stdout;
    for command in COMMANDS {
        let told = all
            .lines()
            .find_map(|line| line.trim().strip_prefix(command)?.strip_prefix(' '));
        let told = told
            .unwrap_or_else(|| panic!("--help has no {command}: {all}"))
            .trim();
        let help = run(binary().args([command, "--help"])).stdout;
        // Either may be wrapped.
        let first: Vec<&str> = help.split_whitespace().take(4).collect();
        let words: Vec<&str> = told.split_whitespace().take(4).collect();
        assert_eq!(first, words, "{command}");
    }
}
