//! Programs that draw on the whole screen, and pagers.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{HOUR, at_home, at_once, exit_code, key, screen, text, typed};
use crate::common::{Owner, Server, Terminal, installed::lacks, proc, wait_until};

fn numbered(lines: std::ops::RangeInclusive<u32>) -> String {
    lines.map(|number| format!("line {number}\n")).collect()
}

/// Diffs until one has a changed line, which a program that shows the time has soon.
fn next_change(terminal: &Terminal) -> Vec<u64> {
    let mut changed = Vec::new();
    wait_until("something changes", || {
        let read = terminal.ok("session_read", json!({"mode": "diff", "timeout": 0.1}));
        assert_eq!(read["is_first_read"], false, "{read}");
        let lines = read["changed_lines"].as_array().expect("lines").iter();
        changed = lines.filter_map(|line| line["line"].as_u64()).collect();
        !changed.is_empty()
    });
    changed
}

#[test]
fn vim_edits_a_file_by_its_keys() {
    if lacks("vim") {
        return;
    }
    let owner = Owner::new();
    let file = owner.file("root/note.txt", numbered(1..=100).as_bytes());
    let server = at_home(owner, &[]);
    let vim = Terminal::open(&server, "vim -u NONE -i NONE -N note.txt");
    screen(&vim, "the file is shown", |screen| {
        screen.starts_with("line 1\n") && screen.contains("line 22\n")
    });
    key(&vim, "page-down");
    screen(&vim, "a page further", |screen| {
        screen.starts_with("line 22\n")
    });
    key(&vim, "page-up");
    screen(&vim, "a page back", |screen| screen.starts_with("line 1\n"));
    // From the first line's beginning: its end, the next line, that line's end, and back.
    typed(&vim, "gg");
    for press in ["end", "down", "home", "delete", "delete"] {
        key(&vim, press);
    }
    screen(&vim, "two are deleted", |screen| {
        screen.starts_with("line 1\nne 2\nline 3\n")
    });
    key(&vim, "insert");
    typed(&vim, "wíd字");
    key(&vim, "backspace");
    typed(&vim, "漢e ");
    key(&vim, "enter");
    key(&vim, "escape");
    screen(&vim, "what was typed is shown", |screen| {
        screen.starts_with("line 1\nwíd漢e\nne 2\n")
            || screen.starts_with("line 1\nwíd漢e \nne 2\n")
    });
    // A larger window is filled.
    vim.ok("session_resize", json!({"rows": 50, "cols": 60}));
    screen(&vim, "more lines are shown", |screen| {
        screen.contains("\nline 46\n")
    });
    vim.ok("session_send", json!({"input": ":%s/line/row/ | wq"}));
    assert_eq!(exit_code(&vim), 0);
    let wanted = numbered(1..=100)
        .replacen("line 2\n", "wíd漢e \nne 2\n", 1)
        .replace("line", "row");
    assert_eq!(fs::read_to_string(file).expect("vim wrote it"), wanted);
}

/// A process to be watched.
fn watched(server: &Server) -> Terminal<'_> {
    Terminal::open(server, "cat")
}

#[test]
fn htop_shows_a_process_and_diffs_tell_what_changed() {
    if lacks("htop") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let cat = watched(&server);
    let pid = cat.pid().to_string();
    let htop = Terminal::open(&server, &format!("htop --delay=2 --pid={pid}"));
    let shown = screen(&htop, "the process is shown", |screen| {
        screen.contains(&pid) && screen.contains("F10")
    });
    assert!(shown.contains("Load average"), "{shown}");
    let auto = htop.ok("session_read", json!({"timeout": 0.1}));
    assert_eq!(
        (&auto["mode_used"], &auto["tui_active"]),
        (&json!("snapshot"), &json!(true))
    );
    let first = htop.ok("session_read", json!({"mode": "diff", "timeout": 0.1}));
    assert_eq!(first["is_first_read"], true, "{first}");
    let changed = next_change(&htop);
    assert!(!changed.contains(&24), "the keys stay: {changed:?}");
    assert!(!changed.contains(&22), "there is nothing: {changed:?}");
    key(&htop, "f10");
    assert_eq!(exit_code(&htop), 0);
}

#[test]
fn top_shows_a_process_and_diffs_tell_what_changed() {
    if lacks("top") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let cat = watched(&server);
    let pid = cat.pid().to_string();
    let top = Terminal::open(&server, &format!("top -d 0.2 -p {pid}"));
    screen(&top, "the process is shown", |screen| {
        screen.starts_with("top - ") && screen.contains(&format!("{pid} "))
    });
    top.ok("session_read", json!({"mode": "diff", "timeout": 0.1}));
    let changed = next_change(&top);
    assert!(!changed.contains(&24), "there is nothing: {changed:?}");
    typed(&top, "q");
    assert_eq!(exit_code(&top), 0);
}

#[test]
fn less_is_searched_and_leaves_the_terminal_as_it_was() {
    if lacks("less") {
        return;
    }
    let owner = Owner::new();
    owner.file("root/numbers", numbered(1..=500).as_bytes());
    let server = at_home(owner, &[("LESS", ""), ("LESSHISTFILE", "-"), ("PS1", "$ ")]);
    let shell = Terminal::shell(&server);
    let read = shell.ok(
        "session_interact",
        json!({"input": "less numbers", "read_mode": "auto", "timeout": HOUR}),
    );
    assert_eq!(
        (&read["mode_used"], &read["tui_active"]),
        (&json!("snapshot"), &json!(true)),
        "{read}"
    );
    assert!(text(&read).starts_with("line 1\n"), "{read}");
    shell.ok("session_send", json!({"input": "/line 25[0]"}));
    screen(&shell, "the line is found", |screen| {
        screen.starts_with("line 250\n")
    });
    typed(&shell, "G");
    let end = screen(&shell, "the end is shown", |screen| {
        screen.contains("(END)")
    });
    assert!(end.contains("line 500\n"), "{end}");
    let left = shell.ok(
        "session_interact",
        json!({"input": "q", "press_enter": false, "wait_for": r"\$ $"}),
    );
    assert_eq!(
        (&left["matched"], &left["tui_active"]),
        (&json!(true), &json!(false)),
        "{left}"
    );
    let read = at_once(&shell, "echo b'a'ck");
    assert_eq!(text(&read), "echo b'a'ck\r\n\rback\r\n$ ");
}

#[test]
fn fzf_finds_what_is_typed() {
    if lacks("fzf") {
        return;
    }
    let owner = Owner::new();
    owner.file("root/fruit", b"apple\nbanana\ncherry\norange\n");
    let server = at_home(owner, &[("FZF_DEFAULT_OPTS", "")]);
    let found = server.owner.root().join("found");
    let fzf = Terminal::open(&server, "sh -c 'fzf < fruit > found'");
    screen(&fzf, "all are shown", |screen| screen.contains("4/4"));
    typed(&fzf, "an");
    let shown = screen(&fzf, "two are left", |screen| screen.contains("2/4"));
    assert!(!shown.contains("apple"), "{shown}");
    key(&fzf, "up");
    screen(&fzf, "the other is chosen", |screen| {
        screen.contains("> orange")
    });
    key(&fzf, "enter");
    assert_eq!(exit_code(&fzf), 0);
    assert_eq!(
        fs::read_to_string(found).expect("it was written"),
        "orange\n"
    );
}

/// A repository of so many commits.
fn repository(server: &Server, commits: u32) {
    let root = server.owner.root();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&root).env("HOME", &root).args(arguments);
        git.stdin(Stdio::piped()).stdout(Stdio::null());
        git.spawn().expect("git starts")
    };
    let initialised = git(&["init", "--quiet"]).wait();
    assert!(initialised.expect("it ends").success());
    let mut import = git(&["fast-import", "--quiet"]);
    let mut stream = String::new();
    for number in 1..=commits {
        let message = format!("Change {number}");
        let length = message.len();
        stream +=
            &format!("commit HEAD\ncommitter A <a@b> {number} +0000\ndata {length}\n{message}\n");
    }
    let mut stdin = import.stdin.take().expect("it is a pipe");
    stdin.write_all(stream.as_bytes()).expect("git reads");
    drop(stdin);
    assert!(import.wait().expect("it ends").success());
}

#[test]
fn the_log_of_git_is_paged() {
    if lacks("git") || lacks("less") {
        return;
    }
    let server = at_home(
        Owner::new(),
        &[
            ("GIT_PAGER", "less"),
            ("LESS", "FRX"),
            ("LESSHISTFILE", "-"),
        ],
    );
    repository(&server, 200);
    let git = Terminal::open(&server, "git log --format=%s");
    let first = git.ok("session_read", json!({"timeout": HOUR}));
    assert!(text(&first).contains("Change 200\r\n"), "{first}");
    assert!(!text(&first).contains("Change 170\r\n"), "{first}");
    assert_eq!(first["prompt_detected"], true, "{first}");
    let arguments = json!({"input": " ", "press_enter": false, "wait_for": "Change 170\r\n"});
    let next = git.ok("session_interact", arguments);
    assert_eq!(next["matched"], true, "{next}");
    typed(&git, "G");
    let last = git.wait_for(r"\(END\)");
    assert!(text(&last).contains("Change 1\r\n"), "{last}");
    typed(&git, "q");
    assert_eq!(exit_code(&git), 0);
}

#[test]
fn tmux_has_windows_side_by_side_and_can_be_left() {
    if lacks("tmux") {
        return;
    }
    let owner = Owner::new();
    owner.file("root/rc", b"PS1='$ '\n");
    let shell = b"set -g default-command 'exec bash --noprofile --rcfile rc'\n";
    owner.file("root/tmux.conf", shell);
    let server = at_home(owner, &[("TMUX", "")]);
    let tmux = Terminal::open(&server, "tmux -f tmux.conf -S socket new-session -s work");
    screen(&tmux, "the prompt is shown", |screen| {
        screen.starts_with('$') && screen.contains("[work]")
    });
    tmux.ok("session_send", json!({"input": "echo l'ef't"}));
    screen(&tmux, "the answer is shown", |screen| {
        screen.contains("\nleft\n$")
    });
    tmux.ok("session_send", json!({"control_char": "b"}));
    typed(&tmux, "%");
    screen(&tmux, "there are two", |screen| {
        screen
            .lines()
            .next()
            .is_some_and(|line| line.contains("│$"))
    });
    tmux.ok("session_send", json!({"input": "echo r'igh't; tty"}));
    let both = screen(&tmux, "both answers are shown", |screen| {
        screen.contains("│right\n")
    });
    assert!(both.contains("\nleft "), "{both}");
    let inside = || {
        let mut processes = proc::descendants_of(server.pid());
        processes.retain(|process| process.name.starts_with("tmux"));
        processes
    };
    assert_eq!(
        inside().len(),
        2,
        "a client, and a server in the background"
    );
    tmux.ok("session_send", json!({"control_char": "b"}));
    typed(&tmux, "d");
    let read = tmux.ok("session_wait_for", json!({"pattern": r"\[detached"}));
    assert_eq!(read["matched"], true, "{read}");
    assert_eq!(exit_code(&tmux), 0);
    // What it has left in the background goes with it.
    wait_until("nothing of it is left", || inside().is_empty());
}
