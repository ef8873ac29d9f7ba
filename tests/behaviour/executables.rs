//! Executables and configs that others could change: refused where everyone could, warned of where somebody could.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, lchown, symlink},
    path::Path,
};

use serde_json::json;

use crate::common::{Owner, Server, launch::refusal, owner, wait_until};

fn utf8(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

/// An Owner whose `job` is a copy of echo in `tools/bin`, beside the root.
fn with_tool() -> Owner {
    let owner = Owner::new();
    fs::create_dir_all(owner.base().join("tools/bin")).expect("new directories");
    let tool = owner.base().join("tools/bin/tool");
    fs::copy("/bin/echo", &tool).expect("echo is there");
    for place in ["tools", "tools/bin", "tools/bin/tool"] {
        set_mode(&owner.base().join(place), 0o755);
    }
    let tool = utf8(&tool).to_owned();
    owner.argv("job", &[&tool, "ran"])
}

/// Whether `config check` is content, and what it printed.
fn check(owner: &Owner) -> (bool, String) {
    let mut command = owner::binary();
    command.args(["config", "check", utf8(&owner.config())]);
    let output = command.output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said)
}

#[test]
fn an_executable_that_everyone_may_write_is_refused_and_so_is_a_directory_above_it() {
    for place in ["tools", "tools/bin", "tools/bin/tool"] {
        let owner = with_tool();
        let place = owner.base().join(place);
        set_mode(&place, 0o777);
        let (content, said) = check(&owner);
        assert!(!content, "{said}");
        let line = said.lines().next().expect("a finding");
        // Line and column of the path in the file.
        assert!(line.contains("config.json:1:"), "{line}");
        for words in [
            "commands.job.argv[0]: is ",
            utf8(&place),
            "mode 0777",
            "chmod o-w",
        ] {
            assert!(line.contains(words), "{words:?} is not in {line}");
            assert!(refusal(&mut owner.command()).contains(words), "{words}");
        }
    }
}

#[test]
fn one_that_its_group_may_write_draws_a_warning_and_runs() {
    for place in ["tools", "tools/bin", "tools/bin/tool"] {
        let owner = with_tool();
        let place = owner.base().join(place);
        set_mode(&place, 0o775);
        let (content, said) = check(&owner);
        assert!(content, "{said}");
        let line = said.lines().next().expect("a finding");
        assert!(
            line.contains("warning: commands.job.argv[0]") && line.contains(utf8(&place)),
            "{line}"
        );
        let server = owner.serve();
        assert_eq!(server.start("job").read_all().stdout, "ran\n");
        assert!(
            server.stderr().contains("its group may write"),
            "{}",
            server.stderr()
        );
        server.finish();
    }
}

#[test]
fn the_directories_of_links_count_like_those_of_the_executable() {
    let owner = with_tool();
    let links = owner.base().join("links");
    fs::create_dir(&links).expect("a new directory");
    symlink("../tools/bin/tool", links.join("tool")).expect("a new link");
    let link = utf8(&links.join("tool")).to_owned();
    let owner = owner.argv("linked", &[&link, "ran"]);
    assert!(check(&owner).0);
    set_mode(&links, 0o757);
    let line = refusal(&mut owner.command());
    assert!(
        line.contains("commands.linked.argv[0]") && line.contains(utf8(&links)),
        "{line}"
    );
    set_mode(&links, 0o755);
    set_mode(&owner.base().join("tools"), 0o757);
    let (_, said) = check(&owner);
    assert!(
        said.contains("commands.job.argv[0]") && said.contains("commands.linked.argv[0]"),
        "{said}"
    );
    assert!(said.ends_with("2 errors, 0 warnings\n"), "{said}");
}

#[test]
fn in_a_sticky_directory_ones_own_executable_is_good_and_a_strangers_is_not() {
    let owner = with_tool();
    set_mode(&owner.base().join("tools"), 0o1777);
    assert!(check(&owner).0);
    let bin = owner.base().join("tools/bin");
    if lchown(&bin, Some(4_242), Some(4_242)).is_err() {
        eprintln!("SKIPPED the half about strangers: files of others can't be made here");
        return;
    }
    let line = refusal(&mut owner.command());
    assert!(
        line.contains("belongs to user 4242") && line.contains("everyone may put files"),
        "{line}"
    );
    set_mode(&owner.base().join("tools"), 0o755);
    let (content, said) = check(&owner);
    assert!(
        content && said.contains("warning: ") && said.contains("belongs to user 4242"),
        "{said}"
    );
}

#[test]
fn a_check_lists_every_executable_with_its_line() {
    let owner = with_tool();
    set_mode(&owner.base().join("tools/bin/tool"), 0o757);
    let tool = utf8(&owner.base().join("tools/bin/tool")).to_owned();
    let root = utf8(&owner.root()).to_owned();
    let text = format!(
        "{{\"allowed_roots\": [\"{root}\"], \"default_cwd\": \"{root}\", \"max_sessions\": 0, \"commands\": {{\n\
         \"one\": {{\"argv\": [\"{tool}\"]}},\n\"two\": {{\"argv\": [\"/nonexistent\"]}},\n\"three\": {{\"argv\": [\"{tool}\"]}}}}}}"
    );
    let file = owner.file("lines.json", text.as_bytes());
    let mut command = owner::binary();
    command.args(["config", "check", utf8(&file)]);
    let said = String::from_utf8(command.output().expect("it starts").stdout).expect("text");
    let lines: Vec<&str> = said.lines().collect();
    for (line, place) in lines.iter().zip([
        ":1:",
        ":2:18: commands.one.argv[0]",
        ":3:18: commands.two.argv[0]",
        ":4:20: commands.three.argv[0]",
        "4 errors",
    ]) {
        assert!(line.contains(place), "{place} is not in {line}");
    }
    assert_eq!(lines.len(), 5, "{said}");
}

#[test]
fn an_executable_that_came_to_be_writable_is_not_started() {
    let server = with_tool().serve();
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    let tool = server.owner.base().join("tools/bin/tool");
    set_mode(&tool, 0o757);
    let refused = server.refused("terminal_start", json!({"command_id": "job"}));
    assert_eq!(refused["code"], "START_FAILED");
    let message = refused["message"].as_str().expect("a message");
    assert!(
        message.contains("everyone may write") && !message.contains('/'),
        "{message}"
    );
    wait_until("the Owner is told which", || {
        server.stderr().contains(utf8(&tool))
    });
    set_mode(&tool, 0o755);
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    server.finish();
}

#[test]
fn a_config_below_a_directory_that_everyone_may_write_is_refused() {
    let owner = Owner::job("echo ran");
    let mut command = owner.command();
    set_mode(owner.base(), 0o757);
    let line = refusal(&mut command);
    assert!(
        line.contains(utf8(owner.base())) && line.contains("everyone may write"),
        "{line}"
    );
    let command = owner.command();
    set_mode(owner.base(), 0o770);
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    assert!(
        server.stderr().contains("its group may write"),
        "{}",
        server.stderr()
    );
    server.finish();
}

#[test]
fn a_directory_with_many_programs_is_warned_of_once() {
    let owner = with_tool();
    set_mode(&owner.base().join("tools"), 0o775);
    let tool = utf8(&owner.base().join("tools/bin/tool")).to_owned();
    let owner = (0..20).fold(owner, |owner, n| {
        owner.profile(&format!("job{n}"), json!({"argv": [tool]}))
    });
    let (_, said) = check(&owner);
    assert_eq!(said.matches("warning").count(), 1, "{said}");
}
